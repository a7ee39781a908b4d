//! Which links there are, and which of them carry what: a gate's small track, the rails that reach a peer's memory, the
//! routes over which each side receives.

use crate::error::Cause;
use crate::gate::gates::Gates;
use crate::gate::{Life, NO_RAIL, rails};
use crate::net::Driver;
use crate::net::reliable::{ACK, PROBE, Retransmit};
use crate::request::ANY_SOURCE;
use crate::wire::{Header, Malformed};

impl<D: Driver> Gates<D> {
    /// Asks the connection manager for links to `peer`. Progress path.
    #[cold]
    pub(crate) fn want(&mut self, peer: u32) {
        let gate = &mut self.all[peer as usize];
        if peer == self.process
            || !gate.life.is_listening()
            || core::mem::replace(&mut gate.wanted, true)
        {
            return;
        }
        for rail in 0..self.rails.len() {
            self.signals.want(rail, peer);
        }
    }

    /// A probe waits for a message from that rank.
    #[inline]
    pub(crate) fn want_source(&mut self, from: u32) {
        if from == ANY_SOURCE {
            return;
        }
        let process = self.ranks.home(from);
        if self.all[process as usize].open == 0 {
            self.want(process);
        }
    }

    /// A receive waits for a message from that rank. `by_caller`: the calling thread is the one that has made it.
    pub(crate) fn note_receive(&mut self, from: u32, by_caller: bool) {
        if from == ANY_SOURCE {
            return;
        }
        let process = self.ranks.home(from);
        if self.all[process as usize].open == 0 {
            self.want(process);
        } else if by_caller {
            self.count_receive(process);
        }
    }

    /// Whether a receive from there is of interest: see [`Gates::note_receive`] and [`Gates::hopeless`]. One look for both,
    /// since most are not.
    #[inline(always)]
    pub(crate) fn notes_receives(&self, from: u32) -> bool {
        from == ANY_SOURCE || self.all[self.ranks.home(from) as usize].notes_receives
    }

    /// The calling thread receives from that process.
    #[cold]
    pub(crate) fn count_receive(&mut self, process: u32) {
        if let Some(route) = self.routes.as_ref().and_then(|rails| rails.here()) {
            self.receive_on(process, route);
        }
    }

    /// A thread receives from that process, on the nodes of this route.
    pub(crate) fn receive_on(&mut self, process: u32, route: usize) {
        let Some(rails) = &self.routes else { return };
        let gate = &mut self.all[process as usize];
        let is_peer = process != self.process && gate.is_open();
        if is_peer && gate.route.receive(route, rails.window) {
            rails.asked();
            self.owe_word(process, ACK);
            self.flush_words(process);
        }
    }

    /// `Ack` or `Probe`: the credit that the peer returns, and the route over which it receives.
    ///
    /// # Errors
    /// It says more than can be.
    pub(crate) fn hear(&mut self, from: u32, header: &Header) -> Result<(), Malformed> {
        let routes = self.routes.as_ref().map_or(1, |rails| rails.count());
        let gate = &mut self.all[from as usize];
        gate.credit.hear(header)?;
        if gate.route.hear(header.id, routes)? {
            if let Some(rails) = &self.routes {
                rails.changed();
            }
            self.choose_small(from);
        }
        Ok(())
    }

    /// The rail that a route means beside `rail`, if there is a link over it; else `rail`.
    #[inline]
    pub(super) fn on_route(&self, open: u8, rail: usize, route: usize) -> usize {
        let Some(rails) = &self.routes else { return rail };
        let meant = rails.on_route(rail, route);
        if meant < self.rails.len() && open & 1 << meant != 0 { meant } else { rail }
    }

    /// The rail over which the peer's small packets come, as far as this process knows.
    #[inline]
    pub(crate) fn incoming(&self, peer: u32) -> usize {
        let gate = &self.all[peer as usize];
        self.on_route(gate.open, gate.small, gate.route.own())
    }

    /// The links of a gate that are open are these.
    fn set_open(&mut self, peer: u32, open: u8) {
        let gate = &mut self.all[peer as usize];
        gate.open = open;
        gate.notes_receives = open == 0 || self.routes.is_some() || gate.life != Life::Alive;
    }

    /// A link to `peer` is there: `install` gives its connection to the rail's driver. False: its gate is over
    /// (`closed`: the session is), and the connection is closed again. Callers' context: allocates.
    pub(crate) fn open_link(
        &mut self,
        rail: usize,
        peer: u32,
        install: impl FnOnce(&mut D),
        closed: bool,
    ) -> bool {
        let Some(way) = self.rails.get_mut(rail) else { return false };
        install(&mut way.driver);
        let gate = &mut self.all[peer as usize];
        if closed || !gate.is_open() {
            way.driver.close(peer);
            return false;
        }
        if way.breaks && gate.reliability.retransmit.is_none() {
            gate.reliability.retransmit = Some(Box::new(Retransmit::new(self.config.retransmit)));
        }
        if gate.open == 0 {
            self.connected.push(peer);
        }
        gate.reliability.broken &= !(1 << rail);
        gate.reliability.carried &= !(1 << rail);
        // Time without news is the new link's own.
        gate.reliability.news = None;
        if !way.breaks {
            gate.reliability.heard();
        }
        let (open, has_asked) = (gate.open | 1 << rail, gate.route.has_asked());
        self.set_open(peer, open);
        if has_asked {
            // The word may have got lost with the link that there was.
            self.owe_word(peer, ACK);
        }
        self.choose_small(peer);
        let gate = &mut self.all[peer as usize];
        if gate.reliability.late && self.rails.get(gate.small).is_some_and(|way| way.breaks) {
            gate.reliability.unheard = true;
            self.signals.unrest();
            self.owe_word(peer, PROBE);
        }
        true
    }

    /// Closes a link; false if it is closed. The small track goes over another, if there is one. The caller sees to
    /// what went over this one.
    pub(crate) fn close_link(&mut self, rail: usize, peer: u32) -> bool {
        let gate = &mut self.all[peer as usize];
        if gate.open & 1 << rail == 0 {
            return false;
        }
        self.rails[rail].driver.close(peer);
        let open = gate.open & !(1 << rail);
        self.set_open(peer, open);
        let gate = &mut self.all[peer as usize];
        gate.reliability.broken |= 1 << rail;
        gate.reliability.late = true;
        if gate.small == rail {
            gate.small = NO_RAIL;
        }
        if gate.open == 0 {
            self.disconnected(peer);
        }
        self.choose_small(peer);
        true
    }

    /// Closes every link to `peer`.
    pub(crate) fn hang_up(&mut self, peer: u32) {
        self.fetch(peer);
        for rail in rails(self.all[peer as usize].open) {
            self.rails[rail].driver.close(peer);
        }
        self.set_open(peer, 0);
        let gate = &mut self.all[peer as usize];
        gate.small = NO_RAIL;
        gate.inline = 0;
        gate.reliability.broken = 0;
        self.disconnected(peer);
    }

    /// The ranks of a process have failed or left. Progress path.
    pub(crate) fn note_end(&mut self, process: u32, cause: Cause) {
        self.ended.extend(self.ranks.of(process).map(|rank| (rank, cause)));
    }

    /// The peer has failed: its gate ends, and every link to it. The cause; `None`: it had ended before.
    pub(crate) fn fail(&mut self, peer: u32, cause: Cause) -> Option<Cause> {
        let cause = match &self.all[peer as usize].life {
            Life::Dead(_) => return None,
            Life::Left => Cause::Left,
            Life::Quiet => cause,
            Life::Alive => {
                self.living -= 1;
                self.last_failed = Some((peer, cause));
                self.note_end(peer, cause);
                cause
            }
        };
        self.all[peer as usize].end(Life::Dead(cause));
        self.hang_up(peer);
        Some(cause)
    }

    /// Whether a word for the peer waits for room on the small track.
    pub(crate) fn wait_for_room(&mut self, peer: u32, waits: bool) {
        let waited = core::mem::replace(&mut self.all[peer as usize].untold, waits);
        self.backlog = self.backlog + usize::from(waits) - usize::from(waited);
    }

    /// Nothing is sent to the peer again, and no word.
    pub(crate) fn forget_packets(&mut self, peer: u32) {
        self.wait_for_room(peer, false);
        let reliability = &mut self.all[peer as usize].reliability;
        self.backlog -= usize::from(core::mem::replace(&mut reliability.due, 0) != 0);
        self.backlog -= usize::from(core::mem::replace(&mut reliability.resending, false));
        if let Some(buffer) = &mut reliability.retransmit {
            buffer.clear();
        }
    }

    /// Takes a gate without links from those that rounds look at.
    fn disconnected(&mut self, peer: u32) {
        if let Some(at) = self.connected.iter().position(|&other| other == peer) {
            self.connected.swap_remove(at);
        }
    }

    /// Moves the small track to the best link: of an adapter's virtual rails to the one that the peer has asked for. What is not
    /// acknowledged is sent again over it.
    fn choose_small(&mut self, peer: u32) {
        let gate = &self.all[peer as usize];
        let mtu = |rail: usize| {
            self.rails.get(rail).map_or(0, |way| way.driver.mtu(peer) - way.trailer())
        };
        // What leaves over one link may have to be sent again over another that breaks and comes back.
        let breaking = |rail: &usize| gate.open & 1 << rail != 0 || self.rails[*rail].breaks;
        let ways = (0..self.rails.len()).filter(|rail| gate.open != 0 && breaking(rail));
        let least = ways.map(mtu).min().unwrap_or(usize::MAX);
        let unacknowledged =
            gate.reliability.retransmit.as_ref().filter(|buffer| !buffer.is_empty());
        let longest = unacknowledged.map_or(0, |buffer| buffer.longest());
        let stays = self.rails.get(gate.small).is_some_and(|way| !way.breaks);
        let fits = |rail: usize| mtu(rail) >= longest;
        let best = rails(gate.open).find(|&rail| fits(rail)).unwrap_or(NO_RAIL);
        let asked = self.on_route(gate.open, best, gate.route.theirs());
        let best = if fits(asked) { asked } else { best };
        let gate = &mut self.all[peer as usize];
        gate.mtu = least;
        if !stays && best != gate.small {
            gate.small = best;
            let buffer = gate.reliability.retransmit.as_mut();
            if let Some(buffer) = buffer.filter(|buffer| !buffer.is_empty()) {
                buffer.rewind();
                if !core::mem::replace(&mut gate.reliability.resending, true) {
                    self.backlog += 1;
                }
            }
        }
        self.consider(peer);
    }

    /// Decides whether the gate's packets, and its messages, need more than to be posted.
    pub(crate) fn consider(&mut self, peer: u32) {
        let here = self.fetch(peer);
        let gate = &mut self.all[peer as usize];
        let plain = self.rails.get(gate.small).is_some_and(|way| !way.reliable);
        gate.reliable = !(plain && gate.reliability.is_settled());
        let inline = here
            && !self.ending
            && !gate.reliable
            && gate.life == Life::Alive
            && gate.strategy.is_simple();
        gate.inline = if inline { gate.mtu.saturating_add(1) } else { 0 };
    }

    /// The rail over which the memory of `peer` can be reached, if there is one.
    pub(crate) fn reach(&self, peer: u32) -> Option<usize> {
        rails(self.all[peer as usize].open).find(|&rail| self.rails[rail].driver.can_copy(peer))
    }

    /// The rails whose adapters read messages of that length from the memory of `peer`. (No checksum is made of them.) Of an
    /// adapter's virtual rails the one over which this process receives, where it finds the reads' ends.
    pub(crate) fn readers(&self, peer: u32, len: usize) -> impl Iterator<Item = usize> {
        let (open, route) = (self.all[peer as usize].open, self.all[peer as usize].route.own());
        rails(open).filter(move |&rail| {
            let is_own = self.on_route(open, rail, route) == rail;
            let rail = &self.rails[rail];
            is_own && !rail.checked && len >= self.reads_from && rail.driver.can_read(peer)
        })
    }
}
