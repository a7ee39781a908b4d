//! How links, gates and the session live and end, as messages see it: what needs a peer that has failed ends, what was
//! on a broken link goes over another, and a session that closes sends everything first.

use crate::error::Cause;
use crate::gate::signals::TICK_MS;
use crate::gate::{Assembly, Life, rails};
use crate::matching::pool::{Content, NONE};
use crate::net::Driver;
use crate::proto::bans::serves_all;
use crate::proto::core::Core;
use crate::proto::reads::Fate;
use crate::request::tag::is_control;
use crate::request::{ANY_SOURCE, Op, Outcome, Owes, Place, Ref};
use crate::wire::{Header, Kind, MAX_RAILS};

impl<D: Driver> Core<D> {
    /// A link to `peer` is there: `install` gives its connection to the rail's driver. What waited for it is sent.
    /// Callers' context: allocates. After the gate's or the session's end the connection is closed again.
    pub(crate) fn attach(&mut self, rail: usize, peer: u32, install: impl FnOnce(&mut D)) {
        self.detach(rail, peer);
        if self.gates.open_link(rail, peer, install, self.closed) {
            self.flush(peer);
            self.tell_departures(peer);
        }
    }

    /// A link ended, or what came over it shows that it lost something. Progress path.
    #[cold]
    pub(crate) fn broke(&mut self, rail: usize, peer: u32, cause: Cause) {
        let gate = &self.gates[peer as usize];
        if !self.gates.rails[rail].breaks
            || (gate.life == Life::Left && gate.bye_sent && gate.reliability.is_settled())
        {
            return self.fail_peer(peer, cause);
        }
        self.detach(rail, peer);
        self.gates[peer as usize].reliability.cause = cause;
        // Before the connection manager is woken, which reads it.
        self.signals.call_again_in(TICK_MS);
        self.signals.want(rail, peer);
        self.flush(peer);
    }

    /// Closes a link, if it is open. What went over it goes over others, or waits.
    fn detach(&mut self, rail: usize, peer: u32) {
        if !self.gates.close_link(rail, peer) {
            return;
        }
        let gate = &mut self.gates[peer as usize];
        gate.note_arrival(rail);
        gate.arrivals[rail] = None;
        self.drop_half(rail, peer);
        // The parts that went over it.
        while let Some(request) = self.table.find(|request| {
            request.op == Op::Send
                && request.gate.get() == peer
                && request.parts.went_by(rail as u8)
        }) {
            self.gates.lose(request, rail);
        }
        if !self.reads.is_empty() {
            self.stop_reads(peer, Some(rail), |_| Fate::Fragments);
        }
    }

    /// Leases the sending end to this process, if nothing is before the next short message.
    pub(crate) fn lend(&mut self, to: u32) {
        if !self.is_closing() {
            self.gates.lend(to);
        }
    }

    /// A sending end that was wanted is back: what waited for it goes on.
    #[cold]
    pub(crate) fn lease_is_back(&mut self) {
        if self.gates.backlog > 0 {
            self.flush_all();
        }
        if self.ends {
            self.try_leave();
        }
        if self.is_closing() {
            self.try_close();
        }
    }

    /// `peer` said goodbye: ends what it will never take part in.
    pub(crate) fn on_bye(&mut self, peer: u32) {
        self.on_quiet(peer);
        if self.gates[peer as usize].life != Life::Quiet {
            return;
        }
        self.gates[peer as usize].end(Life::Left);
        // Whatever it reads of our memory, it has read.
        self.fail_sends(peer, |_| true, |_| true);
    }

    /// A peer has failed or left: what looks after failures (`tolerance`) is told, if it listens; else it begins to when a peer
    /// fails.
    #[cold]
    pub(super) fn tell_of_end(&mut self, cause: Cause) {
        if self.listens {
            let is_control =
                |request: Ref| matches!(request.op, Op::Probe { .. }) && is_control(request.tag);
            self.fail_posted(is_control, Why::Died(cause));
        }
        if cause != Cause::Left {
            self.signals.ring_alarm();
        }
    }

    /// Ends the gate and everything that needs it.
    pub(crate) fn fail_peer(&mut self, peer: u32, cause: Cause) {
        let Some(cause) = self.gates.fail(peer, cause) else { return };
        self.clear(peer, Why::Died(cause));
        self.fail_any_if_alone();
        self.tell_of_end(cause);
        self.note_failure(peer);
        if self.is_closing() {
            self.try_close();
        }
    }

    /// Ends everything that needs `peer`.
    fn clear(&mut self, peer: u32, why: Why) {
        let gate = &mut self.gates[peer as usize];
        gate.arrivals = [None; MAX_RAILS];
        // The links are closed: nothing is read from these buffers any more.
        for rail in 0..MAX_RAILS {
            self.drop_half(rail, peer);
        }
        self.gates.forget_packets(peer);
        let gate = &mut self.gates[peer as usize];
        gate.large_expected = 0;
        match core::mem::replace(&mut gate.assembly, Assembly::Nothing) {
            Assembly::Nothing => {}
            Assembly::Request { request, .. } => self.fail(request, why),
            Assembly::Cell(cell) => {
                if let Some(request) = self.matching.pool.get_mut(cell).claimed.take() {
                    self.matching.pool.put(cell);
                    self.fail(request, why);
                }
            }
        }
        self.forget_backs(peer);
        self.matching.drop_unexpected(|cell| {
            cell.gate == peer && (cell.content != Content::Eager || cell.got < cell.len)
        });
        while let Some(request) = self.gates[peer as usize].waiting() {
            self.gates.dequeue(peer, request);
            if request.op == Op::Recv && request.owes.get() == Owes::FinToSender {
                // Everything is here; only the sender was not told.
                self.end_rendezvous(request);
            } else {
                self.fail(request, why);
            }
        }
        let mut copies = core::mem::take(&mut self.copies);
        while let Some(request) = copies.pop() {
            if request.gate.get() == peer {
                self.fail(request, why);
            } else {
                self.copies.push(request, Place::Copies);
            }
        }
        while let Some(request) = self.reads.waiting.find(|request| request.gate.get() == peer) {
            self.reads.waiting.remove(request);
            self.fail(request, why);
        }
        // Those into whose memory an adapter may write end when it has given that up.
        self.stop_reads(peer, None, |request| Fate::Ends(why.of(request)));
        let is_over =
            |request: Ref| request.gate.get() == peer && request.place.get() != Place::Reads;
        self.fail_numbered(is_over, why);
        let ranks = self.gates[peer as usize].ranks();
        self.fail_posted(|request| ranks.contains(&request.peer), why);
    }

    /// A link is closed: what is left of the piece that it held is not sent any more.
    fn drop_half(&mut self, rail: usize, peer: u32) {
        if let Some(request) = self.gates[peer as usize].mid_pieces[rail].take()
            && request.over.get()
        {
            self.end_if_whole(peer, request);
        }
    }

    /// Ends a request that is in no queue.
    pub(super) fn fail(&mut self, request: Ref, why: Why) {
        self.conceal(request);
        self.table.remove(request);
        self.finish(request, why.of(request));
    }

    pub(super) fn fail_posted(&mut self, which: impl Fn(Ref) -> bool, why: Why) {
        while let Some(request) = self.matching.find_posted(&which) {
            self.matching.unpost(request);
            self.finish(request, why.of(request));
        }
    }

    /// Ends sends to `peer` that it has not asked for: those that `queued` points at of the ones that wait to leave, and
    /// those that `announced` points at of the ones that have been announced.
    pub(super) fn fail_sends(
        &mut self,
        peer: u32,
        queued: impl Fn(Ref) -> bool,
        announced: impl Fn(Ref) -> bool,
    ) {
        let left = Why::Died(Cause::Left);
        while let Some(request) = self.gates[peer as usize].sends.find(&queued) {
            self.gates.dequeue(peer, request);
            self.fail(request, left);
        }
        let ours = |request: Ref| request.op == Op::Send && request.gate.get() == peer;
        while let Some(request) = self.table.find(|request| {
            ours(request)
                && request.place.get() == Place::Control
                && request.owes.get() == Owes::Back
                && announced(request)
        }) {
            self.gates.dequeue(peer, request);
            self.fail(request, left);
        }
        self.fail_numbered(
            |request| ours(request) && request.place.get() == Place::Nowhere && announced(request),
            left,
        );
    }

    fn fail_numbered(&mut self, which: impl Fn(Ref) -> bool, why: Why) {
        while let Some(request) = self.table.find(&which) {
            debug_assert_eq!(request.place.get(), Place::Nowhere);
            self.fail(request, why);
        }
    }

    pub(super) fn fail_any_if_alone(&mut self) {
        let Some((rank, cause)) = self.gates.hopeless(ANY_SOURCE) else { return };
        let neighbours = self.has_neighbours();
        let any = |request: Ref| {
            request.peer == ANY_SOURCE
                && !is_control(request.tag)
                && !serves_all(request, neighbours)
        };
        while let Some(request) = self.matching.find_posted(any) {
            self.matching.unpost(request);
            self.finish(request, Outcome::Died(rank, cause));
        }
    }

    /// The connection manager knows that every other rank has left or is dead. Callers' context.
    pub(crate) fn part(&mut self) {
        if !core::mem::replace(&mut self.parted, true) && self.is_closing() {
            self.try_close();
        }
    }

    /// A rank closes. The process leaves when its last rank does.
    pub(crate) fn start_close(&mut self, request: Ref) {
        self.closing.push(request, Place::Closing);
        self.departures.closes(request.mine.get());
        self.open_ranks -= 1;
        self.ends = true;
        self.try_leave();
        if self.is_closing() {
            self.try_close();
        }
    }

    /// A rank of this process has failed, and with it the process: what its ranks wait for ends, what they begin from now
    /// on fails, and the other processes are told that this one leaves. Messages that are on their way go on.
    #[cold]
    pub(crate) fn fall(&mut self, mine: u16, cause: Cause) {
        if self.deaf {
            return;
        }
        let rank = self.gates.own(mine);
        self.fallen = Some((rank, cause));
        (self.deaf, self.ends) = (true, true);
        self.gates.ending = true;
        for peer in 0..self.gates.len() as u32 {
            self.gates.consider(peer);
        }
        self.clear(self.process, Why::Fell(rank, cause));
        self.fail_posted(|_| true, Why::Fell(rank, cause));
        self.try_close();
    }

    /// How requests end that are begun after the end.
    #[cold]
    pub(crate) fn end(&self) -> Outcome {
        match self.fallen {
            Some((rank, cause)) => Outcome::Died(rank, cause),
            None => Outcome::Closed,
        }
    }

    /// Whether the process leaves: all its ranks close, or one has failed.
    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        (self.open_ranks == 0 || self.fallen.is_some()) && !self.closed
    }

    /// Says goodbye where everything has been sent; ends the session when every peer has.
    pub(crate) fn try_close(&mut self) {
        let mut open = !self.parted || !self.reads.is_empty();
        let mut silent = true;
        let awaits = self.has_requests();
        for peer in 0..self.gates.len() as u32 {
            let gate = &self.gates[peer as usize];
            if peer == self.process || !gate.is_open() {
                continue;
            }
            let idle = gate.sends.is_empty()
                && gate.control.is_empty()
                && gate.taken_back == NONE
                && gate.fragments.is_empty()
                && gate.mid_pieces == [None; MAX_RAILS]
                // The peer ends what waits for our word when it hears goodbye.
                && !(self.gates.fragile && gate.large_expected > 0);
            silent &= idle && !self.copies_with(peer);
            let left = gate.life == Life::Left;
            if gate.open == 0 {
                // Nothing was ever sent here, or a link is being repaired. What waits to be sent waits for the link.
                let over = left && gate.bye_sent && gate.reliability.is_settled();
                open |= !idle || (gate.reliability.broken != 0 && !over);
                continue;
            }
            if !gate.bye_sent && idle && !self.copies_with(peer) {
                let waits = |rail: usize| self.gates.rails[rail].driver.waits_for_goodbye();
                let hears = rails(gate.open).any(waits);
                match awaits && hears && self.may_come_from(peer) {
                    true => self.say_quiet(peer),
                    false => {
                        let sent = self.post(peer, &mut Header::new(Kind::Bye), &[]);
                        self.gates[peer as usize].bye_sent = sent;
                        if sent {
                            // What is left of the news needs no room any more.
                            self.gates.wait_for_room(peer, false);
                        }
                    }
                }
            }
            let mut heard = true;
            let mut flushed = true;
            for rail in rails(self.gates[peer as usize].open) {
                let driver = &self.gates.rails[rail].driver;
                heard &= left || !driver.waits_for_goodbye();
                flushed &= driver.is_flushed(peer);
            }
            // A peer that was given the address of a buffer may be writing to it: the buffer is returned after the
            // peer's `Fin`, or after the peer's connection is closed.
            let lent = self.gates[peer as usize].large_expected > 0;
            let care = &self.gates[peer as usize].reliability;
            let settled = care.is_settled() && care.due == 0;
            let said = self.gates[peer as usize].bye_sent;
            open |= lent || !settled || !(said && heard && flushed);
            // What the peer has asked for since then goes.
            open |= !idle || self.copies_with(peer);
        }
        if silent {
            self.signals.leave();
        }
        if open {
            return;
        }
        let mut alone = true;
        for rail in &mut self.gates.rails {
            alone &= rail.driver.withdraw();
        }
        if !alone {
            return;
        }
        (self.closed, self.deaf) = (true, true);
        let why = match self.fallen {
            Some((rank, cause)) => Why::Fell(rank, cause),
            None => Why::Closed,
        };
        for peer in 0..self.gates.len() as u32 {
            if peer != self.process && self.gates[peer as usize].is_open() {
                self.gates[peer as usize].end(Life::Dead(Cause::Left));
                self.gates.hang_up(peer);
            }
            self.clear(peer, why);
        }
        self.fail_posted(|_| true, why);
        while let Some(request) = self.closing.pop() {
            self.finish(request, Outcome::Done);
        }
    }

    fn copies_with(&self, peer: u32) -> bool {
        self.copies.find(|request| request.gate.get() == peer).is_some()
            || self.reads.are_any(peer, |_| true)
    }
}

/// Why requests end without having been done.
#[derive(Clone, Copy)]
pub(super) enum Why {
    Died(Cause),
    /// This rank of the process has failed.
    Fell(u32, Cause),
    Closed,
    /// Its sender has taken it back.
    Cancelled,
    /// The messages of its tag were revoked.
    Revoked,
}

impl Why {
    pub(super) fn of(self, request: Ref) -> Outcome {
        match self {
            Why::Died(cause) => Outcome::Died(request.partner(), cause),
            Why::Fell(rank, cause) => Outcome::Died(rank, cause),
            Why::Closed => Outcome::Closed,
            Why::Cancelled => Outcome::Cancelled,
            Why::Revoked => Outcome::Revoked,
        }
    }
}
