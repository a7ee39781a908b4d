//! What leaves next: asks a gate's strategy, checks the answer, makes the packet and posts it.

use std::sync::Arc;

use marcel::trace::When;
use pioman::Manager;

use crate::gate::Gate;
use crate::memory::span::Span;
use crate::net::{Driver, GATHER_MAX};
use crate::proto::core::Core;
use crate::proto::wrap::{Limits, eager, wrap};
use crate::request::tag::is_collective;
use crate::request::{Outcome, Place, Ref};
use crate::strategy::packet::COPIED;
use crate::strategy::selection::Selection;
use crate::strategy::{
    Chunks, Large, Message, PATIENCE, Packet, Rail, Strategy, WINDOW, Waiting, by_name, default,
};
use crate::wire::entries::{self, ANNOUNCED};
use crate::wire::{Header, Kind, MAX_RAILS};
use crate::{sys, trace};

/// The messages that a strategy is shown.
struct Window {
    requests: [Option<Ref>; WINDOW],
    messages: [Message; WINDOW],
    len: usize,
}

impl Window {
    fn of(gate: &Gate, threshold: usize) -> Window {
        let nothing = Message { tag: 0, len: 0, priority: 0, announced: false, named: false };
        let mut window = Window { requests: [None; WINDOW], messages: [nothing; WINDOW], len: 0 };
        // A scattered message leaves alone, when it is the oldest.
        let shown = gate.sends.iter().take_while(|request| !request.is_scattered());
        for request in shown.take(WINDOW) {
            window.requests[window.len] = Some(request);
            window.messages[window.len] = message(request, threshold);
            window.len += 1;
        }
        window
    }
}

/// What was set for a session.
pub(crate) struct Tuning {
    /// Whether messages with different tags may overtake each other.
    pub(crate) reorder: bool,
    /// What the number of parts of a large message depends on.
    pub(crate) chunks: Chunks,
    /// The strategy for all peers; `None`: the usual one for the rails.
    pub(crate) strategy: Option<Arc<dyn Strategy>>,
}

/// A request as strategies see it.
fn message(request: Ref, threshold: usize) -> Message {
    let len = request.capacity;
    let announced = request.is_announced(threshold);
    let named = request.envelope().ends.are_named();
    Message { tag: request.tag, len, priority: request.priority, announced, named }
}

impl<D: Driver> Core<D> {
    /// Takes over what was set for the session.
    pub(crate) fn tune(&mut self, tuning: Tuning, manager: &Arc<Manager>) {
        self.reorder = tuning.reorder;
        self.patient = manager.mode() == marcel::Mode::Smp && manager.points().block;
        let usual = match &self.gates.rails[..] {
            [_, _, ..] => "split_balance",
            [rail] if rail.driver.calls_the_kernel() => "aggreg",
            _ => default::NAME,
        };
        self.chunks = tuning.chunks;
        if self.gates.rails.len() > 1 {
            // Not the manager itself: it has the engine. As long as large messages move, the session or the source's
            // handle has it, so the last owner, which would end it, is never this one.
            let manager = Arc::downgrade(manager);
            let idle = move || manager.upgrade().map_or(0, |manager| manager.idle_cores());
            self.idle = Some(Box::new(idle));
        }
        if let Some(strategy) = tuning.strategy.or_else(|| by_name(usual)) {
            for gate in self.gates.iter_mut() {
                gate.strategy = Selection::new(strategy.clone());
            }
        }
    }

    /// Whether this message, for which the track is free, stays until the next look. One of a collective does not: a peer
    /// waits for it already, and often the next one depends on the answer.
    pub(crate) fn holds(&mut self, to: u32, request: Ref) -> bool {
        let (threshold, looks) = (self.gates.threshold, self.looks);
        let chosen = &mut self.gates[to as usize].strategy;
        if !chosen.holds || !self.patient || request.is_waiting() || to == self.process {
            return false;
        }
        if is_collective(request.tag) {
            return false;
        }
        let message = message(request, threshold);
        let now = sys::now_ns();
        let lone = chosen.lone(message, now, looks);
        let holds = chosen.ask(|strategy| strategy.hold(&lone)).unwrap_or(false);
        if holds {
            chosen.last_ns = now;
        }
        holds
    }

    /// How many bytes of a large message go over each rail. Only open links have a share; a link that breaks loses its
    /// share to whichever link has nothing to send. Progress path.
    pub(crate) fn shares(&mut self, peer: u32, len: usize) -> [usize; MAX_RAILS] {
        let gate = &self.gates[peer as usize];
        let mut shares = [0; MAX_RAILS];
        if gate.open.count_ones() < 2 {
            if let Some(share) = shares.get_mut(gate.small) {
                *share = len;
            }
            return shares;
        }
        let now = sys::now_ns();
        let mut connected = self.gates.connected.iter();
        let quiet = connected.all(|&to| self.gates[to as usize].fragments.is_empty());
        let (shown, count) = self.gates.view(peer, now, quiet);
        let shown = &shown[..count];
        let idle = self.idle.as_ref().map_or(0, |idle| idle());
        let large = Large { len, idle, chunks: self.chunks };
        let mut answer = [0; MAX_RAILS];
        let selection = &mut self.gates[peer as usize].strategy;
        let _ = selection.ask(|strategy| strategy.share(&large, shown, &mut answer[..count]));
        let sum = answer.iter().try_fold(0usize, |sum, &share| sum.checked_add(share));
        if sum != Some(len) {
            answer = [0; MAX_RAILS];
            let alone = |rail: &Rail| Rail { busy_ns: 0, ..*rail }.end_ns(len);
            let fastest = (0..count).min_by_key(|&index| alone(&shown[index]));
            answer[fastest.unwrap_or(0)] = len;
        }
        for (rail, &share) in shown.iter().zip(&answer) {
            shares[rail.number] = share;
            if share > 0 {
                // Its latency is no work: the next message's may run meanwhile.
                let work = Rail { latency_ns: 0, ..*rail };
                self.gates.rails[rail.number].free_ns = now.saturating_add(work.end_ns(share));
            }
        }
        shares
    }

    /// Sends the next packet of what waits for a peer. False: nothing waits, or the track has no room.
    pub(crate) fn send_next(&mut self, to: u32, limits: &Limits) -> bool {
        let gate = &mut self.gates[to as usize];
        let Some(oldest) = gate.sends.front() else { return false };
        let decided = gate.strategy.plain
            || gate.sends.has_one()
            || oldest.moved.get() > 0
            || oldest.is_scattered()
            || gate.strategy.overtaken >= PATIENCE
            || to == self.process;
        if decided {
            return self.send_one(to, oldest, limits);
        }
        let window = Window::of(gate, limits.threshold);
        if window.len < 2 {
            return self.send_one(to, oldest, limits);
        }
        let waiting = Waiting::new(&window.messages[..window.len]);
        let mut packet = Packet::new(&waiting, limits.mtu, self.reorder);
        let _ = gate.strategy.ask(|strategy| strategy.fill(&waiting, &mut packet));
        let mut order =
            packet.order().iter().filter_map(|&index| window.requests[usize::from(index)]);
        match packet.len() {
            0 => self.send_one(to, oldest, limits),
            1 => order.next_back().is_some_and(|request| self.send_one(to, request, limits)),
            _ => self.send_pack(to, order, limits),
        }
    }

    /// Sends one message, or the next part of it.
    fn send_one(&mut self, to: u32, request: Ref, limits: &Limits) -> bool {
        let announced = request.is_announced(limits.threshold);
        let bytes = if request.is_scattered() && !announced {
            self.send_gathered(to, request, limits)
        } else {
            let (mut header, payload) = wrap(request, limits);
            self.post_message(request, &mut header, &[payload]).then_some(payload.len())
        };
        let Some(bytes) = bytes else { return false };
        self.gates[to as usize].overtaken_by(request);
        request.moved.set(request.moved.get() + bytes);
        if announced || request.moved.get() == request.capacity {
            self.gone(to, request, announced);
        } else {
            // It has begun: it goes on before all others.
            let sends = &mut self.gates[to as usize].sends;
            sends.remove(request);
            sends.push_front(request, Place::Sends);
        }
        true
    }

    /// Sends the next part of a message that is gathered from several pieces: as many of them as a packet may have.
    /// The number of bytes; `None`: there is no room now.
    pub(crate) fn send_gathered(
        &mut self,
        to: u32,
        request: Ref,
        limits: &Limits,
    ) -> Option<usize> {
        let mut parts = [Span::EMPTY; GATHER_MAX];
        // A packet to oneself arrives from where it is.
        let places = if to == self.process { &mut parts[..1] } else { &mut parts[..] };
        let moved = request.moved.get();
        let (count, bytes) = request.gather(moved, limits.part(request.capacity), places);
        self.post_message(request, &mut eager(request, bytes), &parts[..count]).then_some(bytes)
    }

    /// Sends several messages in one packet.
    fn send_pack(
        &mut self,
        to: u32,
        order: impl Iterator<Item = Ref> + Clone,
        limits: &Limits,
    ) -> bool {
        let mut parts = [Span::EMPTY; GATHER_MAX];
        let (mut count, mut begin, mut end, mut bytes) = (0, 0, 0, 0);
        for request in order.clone() {
            let (header, payload) = wrap(request, limits);
            let mut head = [0; ANNOUNCED];
            let len = entries::encode(&header, &mut head);
            // SAFETY: a local.
            end = self.stage.add(end, unsafe { Span::new(head.as_ptr(), len) });
            bytes += len + payload.len();
            if payload.len() <= COPIED {
                end = self.stage.add(end, payload);
            } else {
                parts[count] = self.stage.span(begin, end);
                parts[count + 1] = payload;
                (count, begin) = (count + 2, end);
            }
        }
        if begin < end {
            parts[count] = self.stage.span(begin, end);
            count += 1;
        }
        let header = Header::new(Kind::Pack);
        let mut header = Header { len: bytes as u64, payload: bytes as u32, ..header };
        let moment = trace::moment();
        if !self.post(to, &mut header, &parts[..count]) {
            return false;
        }
        if moment.is_some() {
            self.trace_pack(moment, header.seq, order.clone());
        }
        let oldest = self.gates[to as usize].sends.front();
        let mut overtaken = true;
        for request in order {
            overtaken &= Some(request) != oldest;
            self.gone(to, request, request.is_announced(limits.threshold));
        }
        let chosen = &mut self.gates[to as usize].strategy;
        chosen.overtaken = if overtaken { chosen.overtaken + 1 } else { 0 };
        true
    }

    /// Tells the trace of each message of a packet.
    #[cold]
    fn trace_pack(&self, moment: Option<When>, seq: u32, order: impl Iterator<Item = Ref>) {
        let mut at = 0;
        for request in order {
            let announced = request.is_announced(self.gates.threshold);
            let (number, len) = match announced {
                true => (trace::announced(request.id.get()), 0),
                false => (trace::packed(seq, at), request.capacity),
            };
            let names = || (self.gates.own(request.mine.get()), request.peer);
            trace::left(moment, names, number, (request.tag, request.capacity));
            at += entries::head(request.envelope().ends.are_named(), announced) + len;
        }
    }

    /// This message has left, whole or announced.
    fn gone(&mut self, to: u32, request: Ref, announced: bool) {
        self.gates.dequeue(to, request);
        if !announced {
            self.finish(request, Outcome::Done);
        }
    }
}
