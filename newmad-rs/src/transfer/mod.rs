//! Transfer: gives packets to the driver while its tracks have room.

pub(crate) mod careful;
pub(crate) mod gaps;
pub(crate) mod incoming;
pub(crate) mod lane;
pub(crate) mod rendezvous;
pub(crate) mod straight;
pub(crate) mod stream;

use std::sync::atomic::Ordering;

use crate::engine::core::Core;
use crate::gate::NO_RAIL;
use crate::memory::span::Span;
use crate::net::{Driver, MAX_PARTS, Post};
use crate::request::{Op, Outcome, Owes, Place, Ref};
use crate::strategy::{Limits, WINDOW, wrap};
use crate::wire::MAX_RAILS;
use crate::wire::{Header, Kind, PUSH, TO_RECEIVER};
use crate::{sys, trace};

impl<D: Driver> Core<D> {
    #[inline]
    fn limits(&self, to: u32) -> Limits {
        Limits { mtu: self.gates[to as usize].mtu, threshold: self.threshold }
    }

    /// Gives a short message to the driver, if nothing is before it and nothing else is to be done. False: it is still to
    /// be sent. This is the path of most messages: everything that can be decided beforehand is in `Gate::straight`.
    #[inline(always)]
    pub(crate) fn send_straight(&mut self, to: u32, tag: u64, data: Span) -> bool {
        let gate = &mut self.gates[to as usize];
        let len = data.len();
        if len >= gate.straight
            || len > self.threshold
            || !gate.sends.is_empty()
            || !gate.credit.spend_of_plenty(len)
        {
            return false;
        }
        let numbers = (gate.tx_seq, gate.rx_seq);
        let moment = trace::moment();
        let posted = match self.rails.get_mut(gate.small) {
            Some(rail) => rail.driver.post_eager(to, numbers, tag, data) == Post::Posted,
            None => false,
        };
        if posted {
            gate.tx_seq = gate.tx_seq.wrapping_add(1);
            trace::left(moment, (self.rank, to), numbers.0.into(), (tag, len));
        } else {
            gate.credit.take_back(len);
        }
        posted
    }

    /// Begins a send. A short one goes straight to the driver when nothing is before it.
    #[inline]
    pub(crate) fn start_send(&mut self, request: Ref) {
        let to = request.peer;
        if request.is_whole() && self.send_straight(to, request.tag, request.span()) {
            return self.finish(request, Outcome::Done);
        }
        self.start_slowly(request);
    }

    fn start_slowly(&mut self, request: Ref) {
        let to = request.peer;
        if self.gates[to as usize].lane.is_lent()
            && self.recall(to)
            && request.is_whole()
            && self.send_straight(to, request.tag, request.span())
        {
            return self.finish(request, Outcome::Done);
        }
        let mut announced = request.is_announced(self.threshold);
        if !announced {
            self.seek_credit(to, request.capacity);
        }
        let gate = &self.gates[to as usize];
        if let Some(cause) = gate.refusal() {
            return self.finish(request, Outcome::Died(to, cause));
        }
        let limits = self.limits(to);
        if !announced && !self.spend_credit(to, request.capacity) {
            request.announce();
            announced = true;
        }
        let gate = &self.gates[to as usize];
        if !announced
            && !request.is_scattered()
            && request.capacity <= limits.mtu
            && gate.sends.is_empty()
        {
            if !gate.chosen.plain
                && gate.small != NO_RAIL
                && (self.gathering || self.holds(to, request))
            {
                return self.hold(request);
            }
            let mut packet = wrap(request, &limits);
            let moment = trace::moment();
            if self.post(to, &mut packet.header, &[packet.payload]) {
                let number = packet.header.seq.into();
                trace::left(moment, (self.rank, to), number, (request.tag, request.capacity));
                return self.finish(request, Outcome::Done);
            }
        }
        self.queue_send(request);
    }

    fn queue_send(&mut self, request: Ref) {
        trace::queued(self.rank, request);
        if request.is_announced(self.threshold) {
            self.table.insert(request);
        }
        let to = request.peer;
        self.gates[to as usize].sends.push(request, Place::Sends);
        self.backlog += 1;
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
        trace::queued(self.rank, request);
        let gate = &mut self.gates[request.peer as usize];
        gate.sends.push(request, Place::Sends);
        gate.held = 1;
        self.backlog += 1;
        self.signals.held.store(true, Ordering::Relaxed);
    }

    /// Sends the next part of a message that is gathered from several pieces: as many of them as a packet may have.
    /// The number of bytes; `None`: there is no room now.
    pub(crate) fn send_gathered(
        &mut self,
        to: u32,
        request: Ref,
        limits: &Limits,
    ) -> Option<usize> {
        let mut parts = [Span::EMPTY; MAX_PARTS];
        // A packet to oneself arrives from where it is.
        let places = if to == self.rank { &mut parts[..1] } else { &mut parts[..] };
        let moved = request.moved.get();
        let (count, bytes) = request.gather(moved, limits.mtu, places);
        let whole = Header { tag: request.tag, payload: bytes as u32, ..Header::new(Kind::Eager) };
        let len = request.capacity as u64;
        let mut header = match moved {
            0 if bytes == request.capacity => Header { len, ..whole },
            0 => Header { kind: Kind::First, len, ..whole },
            moved => Header { kind: Kind::Next, len: moved as u64, ..whole },
        };
        let moment = trace::moment();
        let posted = self.post(to, &mut header, &parts[..count]);
        if posted && moved == 0 {
            trace::left(
                moment,
                (self.rank, to),
                header.seq.into(),
                (request.tag, request.capacity),
            );
        }
        posted.then_some(bytes)
    }

    /// Sends one packet on the small track. False: there is no room now.
    #[inline]
    pub(crate) fn post(&mut self, to: u32, header: &mut Header, parts: &[Span]) -> bool {
        if !self.recall(to) {
            return false;
        }
        let gate = &self.gates[to as usize];
        header.seq = gate.tx_seq;
        header.ack = gate.rx_seq;
        let clocked = gate.chosen.holds;
        let before = if clocked { sys::now_ns() } else { 0 };
        let posted = if to == self.rank {
            self.loop_back(header, parts.first().copied().unwrap_or(Span::EMPTY))
        } else if self.gates[to as usize].careful {
            self.post_careful(to, header, parts)
        } else {
            match self.rails.get_mut(self.gates[to as usize].small) {
                Some(rail) => rail.driver.post_small(to, header, parts) == Post::Posted,
                None => false,
            }
        };
        if posted {
            let gate = &mut self.gates[to as usize];
            gate.tx_seq = gate.tx_seq.wrapping_add(1);
            if clocked {
                gate.chosen.posted(before, sys::now_ns());
            }
        }
        posted
    }

    /// A packet to oneself arrives at once; it is as if the track were full when no cell is left for it.
    fn loop_back(&mut self, header: &Header, payload: Span) -> bool {
        let taken = self.incoming(self.rank, header, payload);
        debug_assert!(taken.is_ok(), "a packet of our own was malformed: {header:?}");
        if taken == Ok(false) {
            self.starve();
        }
        taken != Ok(false)
    }

    /// The request owes its peer a control packet.
    pub(crate) fn owe(&mut self, request: Ref, owes: Owes) {
        let peer = request.source.get();
        request.owes.set(owes);
        self.gates[peer as usize].control.push(request, Place::Control);
        self.backlog += 1;
        if peer != self.rank {
            // To oneself it waits for the next round: this may run inside another packet's arrival.
            self.flush(peer);
        }
    }

    /// Flushes every gate.
    pub(crate) fn flush_all(&mut self) -> bool {
        let mut any = false;
        self.signals.held.store(false, Ordering::Relaxed);
        for at in 0..self.connected.len() {
            if let Some(&peer) = self.connected.get(at) {
                any |= self.flush(peer);
            }
        }
        any | self.flush(self.rank)
    }

    /// Sends what waits for a peer, as far as its tracks have room.
    pub(crate) fn flush(&mut self, to: u32) -> bool {
        let mut any = false;
        let gate = &self.gates[to as usize];
        if !gate.is_open() {
            return false;
        }
        if gate.small == NO_RAIL && to != self.rank {
            self.want(to);
            return false;
        }
        if gate.care.due != 0 || gate.care.resending {
            self.flush_care(to);
        }
        self.gates[to as usize].held = 0;
        let limits = self.limits(to);
        loop {
            if let Some(request) = self.gates[to as usize].control.front() {
                if !self.post_control(to, request) {
                    break;
                }
            } else if !self.send_next(to, &limits) {
                break;
            }
            any = true;
        }
        let gate = &self.gates[to as usize];
        if gate.care.asks {
            self.ask_for_gaps(to);
        }
        let gate = &self.gates[to as usize];
        if !gate.streams.is_empty() || gate.halves != [None; MAX_RAILS] {
            any |= self.flush_streams(to);
        }
        any
    }
}

impl<D: Driver> Core<D> {
    /// Sends the control packet that a request owes. False: there is no room now.
    pub(crate) fn post_control(&mut self, to: u32, request: Ref) -> bool {
        if request.owes.get() == Owes::Have {
            return self.answer(to, request);
        }
        let mut header = control(request);
        if !self.post(to, &mut header, &[]) {
            return false;
        }
        self.gates[to as usize].control.remove(request);
        self.backlog -= 1;
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
        owes => {
            debug_assert_eq!(request.op, Op::Recv);
            Header {
                flags: if owes == Owes::CtsPush { PUSH } else { 0 },
                tag: request.id.get(),
                len: request.total.get() as u64,
                id: request.remote_id.get(),
                addr: request.at(0) as u64,
                ..Header::new(Kind::Cts)
            }
        }
    }
}
