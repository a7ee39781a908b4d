//! Sends: how a message begins, waits and leaves, and the control packets that requests owe.

use std::sync::atomic::Ordering;

use crate::gate::{NO_RAIL, rails};
use crate::matching::pool::NONE;
use crate::memory::span::Span;
use crate::net::Driver;
use crate::proto::choose::{Known, Protocol, choose};
use crate::proto::core::Core;
use crate::proto::wrap::{Limits, wrap};
use crate::request::{Op, Outcome, Owes, Place, Ref};
use crate::strategy::WINDOW;
use crate::trace;
use crate::wire::{Header, Kind, MAX_RAILS, PUT, REFUSED, TO_RECEIVER};

impl<D: Driver> Core<D> {
    #[inline]
    fn limits(&self, to: u32) -> Limits {
        let waits = self.signals.absence.is_there();
        Limits { mtu: self.gates[to as usize].mtu, threshold: self.gates.threshold, waits }
    }

    /// Begins a send. A short one goes straight to the driver when nothing is before it.
    #[inline]
    pub(crate) fn start_send(&mut self, request: Ref) {
        let (to, theirs) = self.gates.ranks.place(request.peer);
        request.gate.set(to);
        request.theirs.set(theirs);
        if request.capacity > self.away && self.leaves_later(request) {
            request.announce();
        }
        if request.is_whole() && self.send_to(to, request.envelope(), request.span()) {
            return self.finish(request, Outcome::Done);
        }
        self.start_slowly(request);
    }

    /// Whether the program is expected to compute while this long message leaves, rather than to wait.
    #[cold]
    fn leaves_later(&self, request: Ref) -> bool {
        !request.is_waiting() && !self.signals.absence.is_there()
    }

    fn start_slowly(&mut self, request: Ref) {
        let to = request.gate.get();
        // First of all, so that no thread overtakes this message by its lease: see `gate/lease.rs`.
        self.gates.recall(to);
        let threshold = self.gates.threshold;
        let announced = request.is_announced(threshold);
        if !announced && self.gates.lacks_credit(to, request.capacity) {
            self.look_for_credit(to);
        }
        if self.has_bans && announced && self.is_revoked(request) {
            return self.finish(request, Outcome::Revoked);
        }
        if let Some(cause) = self.refusal(to, request.peer) {
            return self.finish(request, Outcome::Died(request.peer, cause));
        }
        let limits = self.limits(to);
        let (len, synchronous) = (request.capacity, request.is_synchronous());
        let credit = announced || self.gates.spend_credit(to, len);
        let (protocol, why) =
            choose(Known::Submitted { len, threshold, synchronous, credit, free: false });
        let names = || (self.gates.own(request.mine.get()), request.peer);
        trace::chosen(names, (request.tag, len), why);
        if !credit {
            request.announce();
        }
        let gate = &self.gates[to as usize];
        if protocol == Protocol::Eager
            && !request.is_scattered()
            && request.capacity <= limits.mtu
            && gate.sends.is_empty()
        {
            if !gate.strategy.plain
                && gate.small != NO_RAIL
                && (self.gathering || self.holds(to, request))
            {
                return self.hold(request);
            }
            let (mut header, payload) = wrap(request, &limits);
            if self.post_message(request, &mut header, &[payload]) {
                return self.finish(request, Outcome::Done);
            }
        }
        self.queue_send(request);
    }

    /// Looks whether the peer has returned credit. Its gate may be dead afterwards.
    #[cold]
    fn look_for_credit(&mut self, to: u32) {
        for rail in rails(self.gates[to as usize].open) {
            self.gates.rails[rail].driver.begin();
            // Unless it was closed by what came before.
            if self.gates[to as usize].open & 1 << rail != 0 {
                self.take_from(rail, to);
            }
        }
    }

    fn queue_send(&mut self, request: Ref) {
        trace::queued(|| self.gates.own(request.mine.get()), request);
        if request.is_announced(self.gates.threshold) {
            self.table.insert(request);
            self.note_crossing(request);
        }
        let to = request.gate.get();
        self.gates.enqueue(to, request, Place::Sends);
        let gate = &self.gates[to as usize];
        let (held, linked) = (gate.held, gate.small != NO_RAIL);
        if held > 0 && (held as usize) < WINDOW && self.holds(to, request) {
            self.gates[to as usize].held += 1;
        } else if !(self.gathering && linked) {
            self.flush(to);
        }
    }

    /// It is the first message that stays until the next look.
    fn hold(&mut self, request: Ref) {
        trace::queued(|| self.gates.own(request.mine.get()), request);
        let to = request.gate.get();
        self.gates.enqueue(to, request, Place::Sends);
        self.gates[to as usize].held = 1;
        self.signals.held.store(true, Ordering::Relaxed);
    }

    /// Sends one packet on the small track. False: there is no room now.
    #[inline]
    pub(crate) fn post(&mut self, to: u32, header: &mut Header, parts: &[Span]) -> bool {
        self.post_or_loop_back(to, header, parts, false)
    }

    #[inline]
    fn post_or_loop_back(
        &mut self,
        to: u32,
        header: &mut Header,
        parts: &[Span],
        later: bool,
    ) -> bool {
        if to == self.process {
            self.loop_back(header, parts)
        } else {
            self.gates.post(to, header, parts, later)
        }
    }

    /// Sends a packet of a message: whole, a part, or its announcement. False: there is no room now.
    #[inline]
    pub(crate) fn post_message(
        &mut self,
        request: Ref,
        header: &mut Header,
        parts: &[Span],
    ) -> bool {
        let (to, moment) = (request.gate.get(), trace::moment());
        let posted = self.post_or_loop_back(to, header, parts, request.attended.get());
        if posted && request.moved.get() == 0 {
            let announced = header.kind == Kind::Rts;
            let number = if announced { trace::announced(header.id) } else { header.seq.into() };
            let names = || (self.gates.own(request.mine.get()), request.peer);
            trace::left(moment, names, number, (request.tag, request.capacity));
        }
        posted
    }

    /// A packet to a rank of this process arrives at once; it is as if the track were full when no cell is left for it.
    fn loop_back(&mut self, header: &mut Header, parts: &[Span]) -> bool {
        let gate = &self.gates[self.process as usize];
        header.seq = gate.tx_seq;
        header.ack = gate.rx_seq;
        let payload = parts.first().copied().unwrap_or(Span::EMPTY);
        let taken = self.on_packet(self.process, header, payload);
        debug_assert!(taken.is_ok(), "a packet of our own was malformed: {header:?}");
        if taken == Ok(false) {
            self.starve();
            return false;
        }
        let gate = &mut self.gates[self.process as usize];
        gate.tx_seq = gate.tx_seq.wrapping_add(1);
        true
    }

    /// The request owes its peer a control packet.
    pub(crate) fn owe(&mut self, request: Ref, owes: Owes) {
        let peer = request.gate.get();
        request.owes.set(owes);
        self.gates.enqueue(peer, request, Place::Control);
        if peer != self.process {
            // To oneself it waits for the next round: this may run inside another packet's arrival.
            self.flush(peer);
        }
    }

    /// Flushes every gate.
    pub(crate) fn flush_all(&mut self) -> bool {
        let mut any = false;
        self.hold_nothing();
        for at in 0..self.gates.connected.len() {
            if let Some(&peer) = self.gates.connected.get(at) {
                any |= self.flush(peer);
            }
        }
        any | self.flush(self.process)
    }

    /// Sends what waits for a peer, as far as its tracks have room.
    pub(crate) fn flush(&mut self, to: u32) -> bool {
        let mut any = false;
        let gate = &self.gates[to as usize];
        if !gate.is_open() {
            return false;
        }
        if gate.small == NO_RAIL && to != self.process {
            self.gates.want(to);
            return false;
        }
        if gate.reliability.due != 0 || gate.reliability.resending {
            self.gates.flush_words(to);
        }
        self.gates[to as usize].held = 0;
        let limits = self.limits(to);
        loop {
            if let Some(request) = self.gates[to as usize].control.front() {
                if !self.post_control(to, request) {
                    break;
                }
            } else if self.gates[to as usize].taken_back != NONE {
                if !self.post_back(to) {
                    break;
                }
            } else if !self.send_next(to, &limits) {
                break;
            }
            any = true;
        }
        if self.exposures.untold > 0 {
            any |= self.tell_keys(to);
        }
        if self.reads.unasked > 0 {
            any |= self.ask_for_keys(to);
        }
        let gate = &self.gates[to as usize];
        if gate.reliability.asks {
            self.ask_for_missing(to);
        }
        let gate = &self.gates[to as usize];
        if !gate.fragments.is_empty() || gate.mid_pieces != [None; MAX_RAILS] {
            any |= self.flush_fragments(to);
        }
        if self.gates.backlog == 0 {
            self.hold_nothing();
        }
        any
    }

    /// No message is held any more. A sleep that is to end for one still does, unless there is a look: who armed has not looked.
    pub(crate) fn hold_nothing(&mut self) {
        if self.signals.held.load(Ordering::Relaxed) {
            self.signals.held.store(false, Ordering::Relaxed);
        }
    }

    /// Sends the control packet that a request owes. False: there is no room now.
    pub(crate) fn post_control(&mut self, to: u32, request: Ref) -> bool {
        if request.owes.get() == Owes::Have {
            return self.send_have(to, request);
        }
        let mut header = control(request);
        if !self.post(to, &mut header, &[]) {
            return false;
        }
        self.gates.dequeue(to, request);
        if header.kind == Kind::Fin {
            self.end_rendezvous(request);
        }
        true
    }
}

/// The control packet that a request owes.
fn control(request: Ref) -> Header {
    let fin = Header { id: request.remote_id.get(), ..Header::new(Kind::Fin) };
    match request.owes.get() {
        Owes::FinToSender => fin,
        Owes::FinToReceiver => Header { flags: TO_RECEIVER, ..fin },
        Owes::Refusal => {
            Header { id: request.remote_id.get(), flags: REFUSED, ..Header::new(Kind::Key) }
        }
        Owes::Back => Header { id: request.id.get(), ..Header::new(Kind::Back) },
        owes => {
            debug_assert_eq!(request.op, Op::Recv);
            Header {
                flags: if owes == Owes::CtsPut { PUT } else { 0 },
                tag: request.id.get(),
                len: request.total.get() as u64,
                id: request.remote_id.get(),
                addr: request.at(0) as u64,
                ..Header::new(Kind::Cts)
            }
        }
    }
}
