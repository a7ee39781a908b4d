//! All gates of a session and the rails under them: packets that arrive once and in order, over links that may break.
//!
//! The layer between the protocol, which knows messages, and the drivers, which know links. It numbers packets, keeps
//! what a reliable rail may lose until it is acknowledged, counts credit, leases the sending ends, and chooses the
//! link of each gate's small track. It ends no request: what a broken link or a dead peer means for messages is told to
//! the caller.

use core::ops::{Index, IndexMut};
use std::sync::Arc;

use crate::error::Cause;
use crate::gate::config::Config;
use crate::gate::credit::EACH;
use crate::gate::lease::InlineLease;
use crate::gate::rail::Rail;
use crate::gate::ranks::Ranks;
use crate::gate::signals::Signals;
use crate::gate::{Arrival, Gate, Life, NO_RAIL, rails};
use crate::memory::span::Span;
use crate::net::reliable::{ACK, PATIENCE_MS, PROBE, Retransmit};
use crate::net::virtual_rails::VirtualRails;
use crate::net::{Driver, Rings};
use crate::request::{ANY_SOURCE, Place, Ref};
use crate::strategy::Rail as RailView;
use crate::strategy::selection::Selection;
use crate::wire::{Envelope, Header, Kind, LONG, MAX_RAILS, Malformed};
use crate::{sys, trace};

/// What a packet of a reliable gate is to its receiver.
pub(crate) enum Admitted {
    /// The next one: the protocol takes it, without its checksum.
    Next(Header, Span),
    /// A word between the gates, or here already. Nothing is left to be done with it.
    Done,
    /// It shows that its link has lost something.
    Broken(Cause),
}

/// What time has brought for a gate.
pub(crate) enum Verdict {
    /// Nothing is to be done.
    Rest,
    /// The peer is asked for news.
    Ask,
    /// No news came over this rail for too long.
    Broken(usize, Cause),
    /// No link could be made again in time.
    Dead(Cause),
}

/// See the module.
pub(crate) struct Gates<D> {
    pub(crate) process: u32,
    pub(crate) ranks: Arc<Ranks>,
    pub(crate) rails: Box<[Rail<D>]>,
    all: Box<[Gate]>,
    /// Processes with an open link: those that a round looks at. As long as the number of processes from the start.
    pub(crate) connected: Vec<u32>,
    pub(crate) config: Config,
    /// Longer messages use rendezvous.
    pub(crate) threshold: usize,
    /// Whether a link of any rail can break although the peer lives.
    pub(crate) fragile: bool,
    /// Whatever waits to be sent: requests in the gates' queues, and words that are due.
    pub(crate) backlog: usize,
    /// Processes that are neither dead nor gone, this one included.
    pub(crate) living: usize,
    /// No short message is sent beside the protocol any more.
    pub(crate) ending: bool,
    /// The process that failed last, if any did.
    pub(crate) last_failed: Option<(u32, Cause)>,
    /// Ranks that have failed or left, in the order in which this process has learnt it; one that has left before its process
    /// is there twice. Room for all of them is there from the start.
    pub(crate) ended: Vec<(u32, Cause)>,
    /// The layer above looks after receives from any rank when ranks fail.
    pub(crate) tolerant: bool,
    signals: Arc<Signals>,
    /// `None`: no rail is virtual.
    pub(crate) routes: Option<Arc<VirtualRails>>,
}

impl<D> Index<usize> for Gates<D> {
    type Output = Gate;
    #[inline(always)]
    fn index(&self, peer: usize) -> &Gate {
        &self.all[peer]
    }
}

impl<D> IndexMut<usize> for Gates<D> {
    #[inline(always)]
    fn index_mut(&mut self, peer: usize) -> &mut Gate {
        &mut self.all[peer]
    }
}

impl<D: Driver> Gates<D> {
    /// Gates of process `process` without any link, over at most [`MAX_RAILS`] drivers.
    pub(crate) fn new(
        process: u32,
        ranks: Arc<Ranks>,
        drivers: Vec<D>,
        config: Config,
        signals: Arc<Signals>,
    ) -> Gates<D> {
        let rail = |driver| Rail::new(driver, &config);
        let room = 2 * ranks.all() as usize;
        Gates {
            process,
            fragile: config.repairs && drivers.iter().any(|driver| driver.can_break()),
            rails: drivers.into_iter().take(MAX_RAILS).map(rail).collect(),
            all: (0..ranks.processes()).map(|process| Gate::new(ranks.of(process))).collect(),
            connected: Vec::with_capacity(ranks.processes() as usize),
            config,
            threshold: config.threshold,
            backlog: 0,
            living: ranks.processes() as usize,
            ending: false,
            ranks,
            last_failed: None,
            ended: Vec::with_capacity(room),
            tolerant: false,
            signals,
            routes: None,
        }
    }

    /// Some of the rails are virtual. Before there is any link.
    pub(crate) fn are_virtual(&mut self, rails: Arc<VirtualRails>) {
        self.routes = Some(rails);
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn iter(&self) -> core::slice::Iter<'_, Gate> {
        self.all.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> core::slice::IterMut<'_, Gate> {
        self.all.iter_mut()
    }

    #[inline]
    pub(crate) fn get(&self, peer: usize) -> Option<&Gate> {
        self.all.get(peer)
    }

    /// A rail and a gate.
    #[inline(always)]
    pub(crate) fn pair(&mut self, rail: usize, peer: u32) -> Option<(&mut Rail<D>, &mut Gate)> {
        Some((self.rails.get_mut(rail)?, &mut self.all[peer as usize]))
    }

    // Links.

    /// Asks the connection manager for links to `peer`. Progress path.
    #[cold]
    pub(crate) fn want(&mut self, peer: u32) {
        let gate = &mut self.all[peer as usize];
        if peer == self.process
            || gate.life != Life::Alive
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
    #[inline]
    pub(crate) fn note_receive(&mut self, from: u32, by_caller: bool) {
        if from == ANY_SOURCE {
            return;
        }
        let process = self.ranks.home(from);
        // One look for both, since most receives are of no interest.
        if self.all[process as usize].notes_receives {
            self.treat_receive(process, by_caller);
        }
    }

    #[cold]
    fn treat_receive(&mut self, process: u32, by_caller: bool) {
        if self.all[process as usize].open == 0 {
            self.want(process);
        } else if by_caller {
            self.count_receive(process);
        }
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
    fn on_route(&self, open: u8, rail: usize, route: usize) -> usize {
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
        gate.notes_receives = open == 0 || self.routes.is_some();
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
            Life::Alive => {
                self.living -= 1;
                self.last_failed = Some((peer, cause));
                self.note_end(peer, cause);
                cause
            }
        };
        self.all[peer as usize].life = Life::Dead(cause);
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
            is_own && !rail.checked && rail.driver.reads_from(peer).is_some_and(|from| len >= from)
        })
    }

    /// Whether nothing can come from that rank any more: which rank has failed, and why.
    #[inline(always)]
    pub(crate) fn hopeless(&self, from: u32) -> Option<(u32, Cause)> {
        if from == ANY_SOURCE {
            // Another thread of this process could still send, but when every peer is gone and one of them
            // crashed, an error serves better than a wait that only this process could end.
            let (process, cause) =
                self.last_failed.filter(|_| self.living == 1 && !self.tolerant)?;
            return Some((self.ranks.of(process).start, cause));
        }
        self.all[self.ranks.home(from) as usize].refusal().map(|cause| (from, cause))
    }

    /// The rank at this place of this process.
    #[inline]
    pub(crate) fn own(&self, mine: u16) -> u32 {
        self.all[self.process as usize].first + u32::from(mine)
    }

    /// The two ranks of a message, by their places here and at the peer.
    #[inline]
    fn names(&self, mine: u16, peer: u32, theirs: u16) -> (u32, u32) {
        (self.own(mine), self.all[peer as usize].first + u32::from(theirs))
    }

    /// What strategies are shown of the open rails, at `now`: so many, and their numbers. `quiet`: no large message is
    /// on its way.
    pub(crate) fn view(
        &mut self,
        peer: u32,
        now: u64,
        quiet: bool,
    ) -> ([RailView; MAX_RAILS], usize) {
        let nothing = RailView { number: 0, latency_ns: 0, mib_ns: 0, busy_ns: 0, copies: false };
        let (mut shown, mut count) = ([nothing; MAX_RAILS], 0);
        let (open, route) = (self.all[peer as usize].open, self.all[peer as usize].route.theirs());
        for number in rails(open) {
            if self.on_route(open, number, route) != number {
                continue;
            }
            let rail = &mut self.rails[number];
            if quiet {
                rail.free_ns = now;
            }
            shown[count] = RailView {
                number,
                latency_ns: rail.pace.latency_ns,
                mib_ns: rail.pace.mib_ns,
                busy_ns: rail.free_ns.saturating_sub(now),
                copies: rail.copies,
            };
            count += 1;
        }
        (shown, count)
    }

    /// Changes the strategy for this peer. The one that there was is given back, to be dropped without the lock.
    pub(crate) fn set_strategy(&mut self, peer: u32, chosen: Selection) -> Option<Selection> {
        let gate = self.all.get_mut(peer as usize)?;
        let before = core::mem::replace(&mut gate.strategy, chosen);
        self.consider(peer);
        Some(before)
    }

    /// Takes over what is known of the rails: the pace of each by its name, where it was sampled.
    pub(crate) fn learn(&mut self, pace: impl Fn(&str) -> Option<crate::sampling::Pace>) {
        let names = crate::sampling::rail_names(self.rails.iter().map(|rail| rail.driver.name()));
        for (rail, name) in self.rails.iter_mut().zip(names) {
            if let Some(pace) = pace(&name) {
                rail.pace = pace;
                rail.copies =
                    !rail.driver.calls_the_kernel() || pace.mib_ns < crate::sampling::FED_NS;
            }
        }
    }

    // What waits to be sent.

    /// A request waits to be sent.
    #[inline]
    pub(crate) fn enqueue(&mut self, to: u32, request: Ref, place: Place) {
        self.all[to as usize].queue(place).push(request, place);
        self.backlog += 1;
    }

    /// Takes out a request that waits to be sent.
    #[inline]
    pub(crate) fn dequeue(&mut self, to: u32, request: Ref) {
        self.all[to as usize].queue(request.place.get()).remove(request);
        self.backlog -= 1;
    }

    /// Parts of a message went over a link that is closed. Whether they arrived, the peer is to be asked.
    pub(crate) fn lose(&mut self, request: Ref, rail: usize) {
        let peer = request.gate.get();
        self.all[peer as usize].reliability.asks |= request.parts.mark_lost(rail as u8);
        if request.place.get() == Place::Nowhere {
            self.enqueue(peer, request, Place::Fragments);
        }
    }

    // Pieces in.

    /// The link that has to go before this piece, which comes over `rail`, can be read.
    pub(crate) fn in_the_way(&self, rail: usize, from: u32, new: &Arrival) -> Option<usize> {
        let arrivals = &self.all[from as usize].arrivals;
        let stale = (0..self.rails.len()).find(|&other| {
            arrivals[other].is_some_and(|old| {
                new.request.is_some()
                    && old.request == new.request
                    && old.start < new.start + new.len
                    && new.start < old.start + old.len
                    && (old.sums.is_some() || new.sums.is_some())
            })
        })?;
        // What cannot break cannot have been given up.
        Some(if self.rails[stale].breaks { stale } else { rail })
    }

    // Packets out.

    /// Gives a short message to the driver, if nothing is before it and nothing else is to be done. False: it is still
    /// to be sent. This is the path of most messages: everything that can be decided beforehand is in `Gate::inline`.
    #[inline(always)]
    pub(crate) fn post_inline(&mut self, to: u32, envelope: Envelope, data: Span) -> bool {
        let gate = &mut self.all[to as usize];
        let len = data.len();
        if len >= gate.inline
            || len > self.threshold
            || !gate.sends.is_empty()
            || !gate.credit.spend_of_plenty(len)
        {
            return false;
        }
        let numbers = (gate.tx_seq, gate.rx_seq);
        let moment = trace::moment();
        let posted = match self.rails.get_mut(gate.small) {
            Some(rail) => rail.driver.post_eager(to, numbers, envelope, data),
            None => false,
        };
        if posted {
            gate.tx_seq = gate.tx_seq.wrapping_add(1);
            let Envelope { tag, ends } = envelope;
            trace::left(
                moment,
                || self.names(ends.from(), to, ends.to()),
                numbers.0.into(),
                (tag, len),
            );
        } else {
            gate.credit.take_back(len);
        }
        posted
    }

    /// Whether packets to that process are no system calls.
    #[inline]
    pub(crate) fn is_light(&self, to: u32) -> bool {
        let rail = self.all.get(to as usize).and_then(|gate| self.rails.get(gate.small));
        rail.is_some_and(|rail| !rail.driver.calls_the_kernel())
    }

    /// Sends one packet to another process on the small track. False: there is no room now.
    #[inline]
    pub(crate) fn post(&mut self, to: u32, header: &mut Header, parts: &[Span]) -> bool {
        if !self.recall(to) {
            return false;
        }
        let gate = &self.all[to as usize];
        header.seq = gate.tx_seq;
        header.ack = gate.rx_seq;
        let clocked = gate.strategy.holds;
        let before = if clocked { sys::now_ns() } else { 0 };
        let posted = if gate.reliable {
            self.post_reliable(to, header, parts)
        } else {
            match self.rails.get_mut(gate.small) {
                Some(rail) => rail.driver.post_small(to, header, parts),
                None => false,
            }
        };
        if posted {
            let gate = &mut self.all[to as usize];
            gate.tx_seq = gate.tx_seq.wrapping_add(1);
            if clocked {
                gate.strategy.posted(before, sys::now_ns());
            }
        }
        posted
    }

    /// As `post`, where more is to be done than to post.
    #[cold]
    fn post_reliable(&mut self, to: u32, header: &Header, parts: &[Span]) -> bool {
        if !self.resend(to) {
            return false;
        }
        let gate = &mut self.all[to as usize];
        let Some(rail) = self.rails.get_mut(gate.small) else { return false };
        let buffer = gate.reliability.retransmit.as_ref();
        let fits = buffer.is_some_and(|buffer| buffer.fits(header.payload as usize));
        if (rail.breaks && !fits) || !rail.give(to, header, parts) {
            return false;
        }
        gate.reliability.unacknowledged = 0;
        if rail.breaks
            && let Some(buffer) = &mut gate.reliability.retransmit
        {
            buffer.push(header, parts);
            self.signals.unrest();
        }
        if let Some(rails) = &self.routes {
            rails.sent(self.all[to as usize].small);
        }
        true
    }

    /// Sends again what is not acknowledged and not yet given to the link in use. True: nothing of that is left.
    fn resend(&mut self, to: u32) -> bool {
        let gate = &mut self.all[to as usize];
        if !gate.reliability.resending {
            return true;
        }
        let Some(rail) = self.rails.get_mut(gate.small) else { return false };
        if let Some(buffer) = &mut gate.reliability.retransmit {
            while let Some((header, parts)) = buffer.unsent() {
                if !rail.give(to, &Header { ack: gate.rx_seq, ..header }, &parts) {
                    return false;
                }
                buffer.taken(!rail.breaks);
                if let Some(rails) = &self.routes {
                    rails.sent_again();
                }
            }
        }
        gate.reliability.resending = false;
        self.backlog -= 1;
        self.consider(to);
        true
    }

    /// A word is owed to the peer; it goes with the next flush.
    pub(crate) fn owe_word(&mut self, peer: u32, word: u8) {
        let reliability = &mut self.all[peer as usize].reliability;
        self.backlog += usize::from(reliability.due == 0);
        reliability.due |= word;
    }

    /// Sends what is to be sent again, and the word that is owed.
    pub(crate) fn flush_words(&mut self, to: u32) {
        let due = self.all[to as usize].reliability.due;
        // The word needs the small track: a thread that uses its lease leaves it soon, and has the engine look.
        if !self.recall(to) || !self.resend(to) || due == 0 {
            return;
        }
        let gate = &mut self.all[to as usize];
        let Some(rail) = self.rails.get_mut(gate.small) else { return };
        let kind = if due & PROBE != 0 { Kind::Probe } else { Kind::Ack };
        let tag = gate.credit.received();
        let (seq, ack, id) = (gate.tx_seq, gate.rx_seq, gate.route.word());
        let header = Header { seq, ack, tag, id, ..Header::new(kind) };
        if rail.give(to, &header, &[]) {
            gate.credit.told(tag);
            gate.reliability.due = 0;
            gate.reliability.unacknowledged = 0;
            self.backlog -= 1;
        }
    }

    // Packets in.

    /// Looks at a packet that came over a rail that can break, or to a gate where something is unacknowledged.
    pub(crate) fn admit(
        &mut self,
        rail: usize,
        from: u32,
        header: &Header,
        payload: Span,
    ) -> Result<Admitted, Malformed> {
        let Some((header, payload)) = self.rails[rail].check(header, payload) else {
            return Ok(Admitted::Broken(Cause::Broken(libc::EBADMSG)));
        };
        if let Some(buffer) = &mut self.all[from as usize].reliability.retransmit
            && buffer.acknowledged(header.ack)?
        {
            self.consider(from);
        }
        let gate = &mut self.all[from as usize];
        gate.reliability.heard();
        let ahead = header.seq.wrapping_sub(gate.rx_seq) as i32;
        if ahead > 0 {
            if !self.rails[rail].breaks {
                return Err(Malformed);
            }
            return Ok(Admitted::Broken(Cause::Broken(libc::EPROTO)));
        }
        if matches!(header.kind, Kind::Ack | Kind::Probe) {
            self.hear(from, &header)?;
        }
        if header.kind == Kind::Ack {
            return Ok(Admitted::Done);
        }
        if ahead < 0 || header.kind == Kind::Probe {
            // Its sender may not know what is here.
            self.owe_word(from, ACK);
            return Ok(Admitted::Done);
        }
        Ok(Admitted::Next(header, payload))
    }

    /// The protocol has taken an admitted packet: acknowledges it if it is time to.
    pub(crate) fn acknowledge(&mut self, rail: usize, from: u32, kind: Kind, payload: usize) {
        if !self.rails[rail].breaks {
            return;
        }
        if let Some(rails) = &self.routes {
            rails.received(rail);
        }
        let reliability = &mut self.all[from as usize].reliability;
        reliability.unacknowledged += LONG + payload;
        if kind == Kind::Bye || reliability.unacknowledged >= self.config.retransmit / 4 {
            self.owe_word(from, ACK);
        }
    }

    // Credit.

    /// Whether the peer may have returned credit that is needed for a message of that length: there is not plenty.
    pub(crate) fn lacks_credit(&mut self, to: u32, len: usize) -> bool {
        !self.all[to as usize].credit.has_plenty(len, self.config.credit)
    }

    /// Counts an eager message to the peer. False: it goes beyond the credit, and is to be announced.
    pub(crate) fn spend_credit(&mut self, to: u32, len: usize) -> bool {
        self.all[to as usize].credit.spend(len, self.config.credit)
    }

    /// A receive has got an eager message of that length.
    #[inline(always)]
    pub(crate) fn count_received(&mut self, from: u32, len: usize) {
        if self.all[from as usize].credit.count_received(len) {
            self.return_credit(from);
        }
    }

    #[cold]
    fn return_credit(&mut self, from: u32) {
        let gate = &mut self.all[from as usize];
        let longest = self.threshold as u64 + EACH;
        if !gate.credit.owes_word(self.config.credit, longest) {
            return;
        }
        if from == self.process {
            gate.credit.return_to_oneself();
        } else if gate.is_open() {
            self.owe_word(from, ACK);
            self.flush_words(from);
        }
    }

    // Leases.

    /// Leases the sending end to this rank, if nothing is before the next short message.
    pub(crate) fn lend(&mut self, to: u32) {
        let firsts = self.names(0, to, 0);
        let gate = &mut self.all[to as usize];
        let free = gate.inline > 0
            && gate.sends.is_empty()
            && gate.control.is_empty()
            && !gate.bye_sent
            && !gate.lease.is_lent();
        if !free || self.rails.iter().any(|rail| rail.reliable) {
            return;
        }
        let rail = gate.small;
        let Some(driver) = self.rails.get_mut(rail).map(|rail| &mut rail.driver) else { return };
        let Some(send) = driver.lend(to) else { return };
        gate.lease.lend(InlineLease {
            send,
            firsts,
            rail,
            numbers: (gate.tx_seq, gate.rx_seq),
            credit: gate.credit.lend(),
            bound: gate.inline.min(self.threshold.saturating_add(1)),
        });
        gate.inline = 0;
    }

    /// The sending end to this rank is here, or is fetched. False: a thread uses its lease, and will have the engine
    /// look.
    #[inline]
    pub(crate) fn recall(&mut self, to: u32) -> bool {
        if self.all[to as usize].lease.is_lent() {
            self.consider(to);
        }
        !self.all[to as usize].lease.is_lent()
    }

    /// As `recall`, for a caller that then says whether messages can go inline.
    fn fetch(&mut self, to: u32) -> bool {
        let gate = &mut self.all[to as usize];
        if let Some(lease) = gate.lease.claim() {
            gate.tx_seq = lease.numbers.0;
            gate.credit.take_back_lent(lease.credit);
            if let Some(rail) = self.rails.get_mut(lease.rail) {
                rail.driver.take_back(to, lease.send);
            }
        }
        !gate.lease.is_lent()
    }

    // Time.

    /// What is to be done for a gate as time goes on (`now` in milliseconds), and whether time is to go on for it.
    pub(crate) fn tick(&mut self, peer: u32, now: u64) -> (bool, Verdict) {
        let gate = &mut self.all[peer as usize];
        let broken = gate.reliability.broken != 0;
        if gate.open == 0 && broken {
            let since = *gate.reliability.alone_since.get_or_insert(now);
            return match now.saturating_sub(since) >= self.config.repair_ms {
                true => (broken, Verdict::Dead(gate.reliability.cause)),
                false => (broken, Verdict::Rest),
            };
        }
        let buffer = gate.reliability.retransmit.as_ref().filter(|buffer| !buffer.is_empty());
        // After a repair, too, something has to come back: so both sides ask, and look for the other's word.
        let asked = gate.reliability.unheard.then_some(gate.tx_seq);
        let Some(oldest) = buffer.map(|buffer| buffer.first()).or(asked) else {
            gate.reliability.news = None;
            return (broken, Verdict::Rest);
        };
        match gate.reliability.news {
            Some((before, since)) if before == oldest => {
                if now.saturating_sub(since) >= PATIENCE_MS && gate.small != NO_RAIL {
                    gate.reliability.news = None;
                    return (true, Verdict::Broken(gate.small, Cause::Broken(libc::ETIMEDOUT)));
                }
            }
            _ => gate.reliability.wait_for_news(oldest, now),
        }
        if !gate.reliability.asks_at(now) {
            return (true, Verdict::Rest);
        }
        self.owe_word(peer, PROBE);
        (true, Verdict::Ask)
    }

    // Sleep.

    /// Asks the peers to ring for these packets. True: the caller must look for packets that came before.
    pub(crate) fn arm(&mut self, rings: Rings) -> bool {
        self.rails.iter_mut().fold(false, |looks, rail| rail.driver.arm(rings) | looks)
    }
}
