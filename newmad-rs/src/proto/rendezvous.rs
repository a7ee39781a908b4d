//! Rendezvous: large messages wait for their receiver, then move without passing through small packets.
//!
//! The sender announces (`Rts`). When a receive matches, its side chooses ([`choose`](super::choose)):
//! - *get*: the receiver copies from the sender's memory, then tells the sender (`Fin`);
//! - *put*: the receiver tells its buffer's address (`Cts` with `PUT`), the sender copies, then tells the receiver
//!   (`Fin`);
//! - *read*: the receiver's adapter reads from the sender's memory ([`reading`](super::reading)), then the sender is told
//!   (`Fin`);
//! - *fragments*: the receiver asks (`Cts`), and the sender sends `Data` over the large tracks
//!   ([`fragments`](super::fragments)).
//!
//! Copies go on piece by piece, one per round, in turn. A refused copy falls back to fragments. In a window of messages
//! most are announced, and matched, before their owners come to wait for the first. So a copy that a thread waits for
//! lets a few rounds pass before it begins, and one that is not far yet becomes fragments once both sides wait. Where messages
//! cross, each side makes one copy, as the announcements say: of what it sends, if senders wait, after a few rounds in which the
//! other announces, too.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::error::Cause;
use crate::gate::pace::{Kind, Way};
use crate::gate::rail::Rail;
use crate::matching::Source;
use crate::memory::span::Span;
use crate::net::{Driver, Refused};
use crate::proto::choose::{Choice, Known, Protocol, REFUSED, choose};
use crate::proto::core::Core;
use crate::proto::events::EventKind;
use crate::proto::life::Why;
use crate::request::{LONG, Op, Outcome, Owes, Place, Ref};
use crate::sys::now_ns;
use crate::trace;
use crate::wire::{Header, Malformed, PUT, READ, TO_RECEIVER};

/// Bytes copied in the first round, or while another thread waits for the engine, and the most that are copied in a later one:
/// what there is to be announced in the meantime is announced soon, and few calls of the kernel are made.
pub(crate) const PIECE: usize = 256 * 1024;
pub(crate) const LARGEST_PIECE: usize = 4 * PIECE;
/// Rounds that a copy lets pass for the other side to come to wait, too: less than a microsecond.
const GRACE: u32 = 16;
/// The same, where messages cross, for the other side to announce its own.
const GRACE_CROSSING: u32 = 24;

impl<D: Driver> Core<D> {
    /// Whether a thread of this side copies while this message moves: waits for it, or for another long one, or is expected
    /// to in a moment.
    fn is_waited_for(&self, request: Ref) -> bool {
        request.is_waiting()
            || self.signals.waiters.load(Ordering::Relaxed) > 0
            || self.signals.absence.is_there()
    }

    /// The rail over which a large message could be copied from or to a peer's memory.
    fn copying_rail(&self, peer: u32) -> Option<&Rail<D>> {
        self.gates.reach(peer).and_then(|rail| self.gates.rails.get(rail))
    }

    /// Whether fragments are faster for a message that is being copied, if both sides wait.
    fn fragments_are_faster(&self, request: Ref, peer: u32) -> bool {
        let pace = &self.gates[peer as usize].pace;
        let usual =
            || Kind::of(request.total.get()).is_none_or(|kind| pace.usual(kind) == Way::Fragments);
        // The receive may have matched before this side announced its own message.
        let crosses =
            self.crossing.is_expected() || request.op == Op::Recv && self.table.has_long_sends();
        // What is measured goes the way that was chosen.
        !crosses && !pace.measures(request.id.get()) && usual()
    }

    /// A receive begins or ends, or a send is announced: notes whether messages cross. (A send alone says nothing: what it
    /// crosses may still begin.)
    pub(super) fn note_crossing(&mut self, request: Ref) {
        if request.op == Op::Send {
            if request.capacity >= LONG && self.table.has_long_receives() {
                self.crossing.meets(true);
            }
        } else if request.total.get() >= LONG {
            self.crossing.meets(self.table.has_long_sends());
        }
    }

    /// Whether a thread waits for the message already, which is not only expected to.
    fn waits_already(&self, request: Ref) -> bool {
        request.is_waiting() || self.signals.absence.is_in_call()
    }

    /// For how long peers that wait, too, may be copying messages of this side's, by the pace of the rail.
    pub(crate) fn peers_copy_for(&self) -> Duration {
        let copied = self.table.iter().filter(|request| request.place.get() == Place::Nowhere);
        let time = copied.map(|request| {
            let peer = request.gate.get();
            let rail = self.copying_rail(peer).filter(|rail| rail.driver.copies_too(peer, false));
            let receives = request.op == Op::Recv;
            let len = if receives { request.total.get() } else { request.capacity };
            rail.map_or(0, |rail| rail.pace.copies_ns(len as u64))
        });
        Duration::from_nanos(time.sum())
    }

    /// By which way a message comes faster from that peer, if both sides wait, or are expected to at once. It is measured if
    /// this side `waits` already: a program that is only expected would have its own posts in the times.
    fn faster(&mut self, request: Ref, peer: u32, waits: bool) -> Way {
        let len = request.total.get();
        let Some(kind) = Kind::of(len).filter(|_| waits) else { return Way::Fragments };
        let now = now_ns();
        let pace = &mut self.gates[peer as usize].pace;
        let way = pace.choose(kind, now);
        pace.begins(request.id.get(), kind, way, len, now);
        way
    }

    /// What is known of a copy that is about to begin, or to go on.
    fn copying(&self, request: Ref, peer: u32) -> Known {
        let both_copy = self.is_waited_for(request)
            && self.copying_rail(peer).is_some_and(|rail| rail.driver.copies_too(peer, false))
            && self.fragments_are_faster(request, peer);
        let by = if request.op == Op::Recv { Protocol::Get } else { Protocol::Put };
        Known::Copying { by, moved: request.moved.get(), total: request.total.get(), both_copy }
    }

    /// A receive matched an announced message.
    pub(crate) fn begin_rendezvous(
        &mut self,
        request: Ref,
        source: Source,
        len: usize,
        id: u64,
        addr: u64,
        sender_waits: bool,
    ) {
        let from = source.gate;
        if self.gates[from as usize].bye_sent {
            // Lent memory (`gate`): on our goodbye the sender takes it back.
            return self.finish(request, Outcome::Closed);
        }
        request.gate.set(from);
        request.source.set(source.rank);
        request.message.set(len);
        request.total.set(len.min(request.capacity));
        request.moved.set(0);
        request.remote.set(addr);
        request.remote_id.set(id);
        self.table.insert(request);
        self.pending.is_announced(request);
        let message = (request.matched.get(), len);
        self.note(EventKind::Rendezvous, request.mine.get(), source.rank, message);
        if request.total.get() == 0 {
            self.owe(request, Owes::FinToSender);
            return;
        }
        let rail = self.copying_rail(from);
        let receiver_copies = self.is_waited_for(request);
        let sender_copies = rail.is_some_and(|rail| rail.driver.copies_too(from, sender_waits));
        // A scattered sender has no address.
        let readable = addr != 0 && request.has_long_runs();
        let both = from != self.process && receiver_copies && sender_copies && readable;
        let reachable = rail.is_some();
        let waits = self.waits_already(request);
        self.note_crossing(request);
        let crosses = both && self.crossing.is_expected();
        let measures = both && !crosses;
        let faster = if measures { self.faster(request, from, waits) } else { Way::Fragments };
        let (protocol, why) = choose(Known::Matched {
            same_process: from == self.process,
            reachable,
            adapter_reads: !reachable && self.reading_rail(from, request.total.get()).is_some(),
            readable,
            scattered: request.is_scattered(),
            receiver_waits: request.is_waiting(),
            receiver_copies,
            sender_waits,
            sender_copies,
            faster,
            crosses,
        });
        let names = || (self.gates.own(request.mine.get()), source.rank);
        trace::chosen(names, (request.matched.get(), len), why);
        match protocol {
            Protocol::Get => {
                self.copies.push(request, Place::Copies);
                // The call that posts has more to post, and must not copy before that.
                if from != self.process && receiver_copies && !(both && waits) {
                    self.grace = GRACE;
                }
            }
            Protocol::Put => {
                // What this side copies need not wait for it any more.
                self.grace = 0;
                // The sender may find that it cannot, and send fragments instead.
                request.parts.clear();
                self.gates[from as usize].large_expected += 1;
                self.owe(request, Owes::CtsPut);
            }
            Protocol::Read => self.read_message(request),
            _ => self.ask_for_data(request),
        }
    }

    fn ask_for_data(&mut self, request: Ref) {
        request.moved.set(0);
        request.parts.clear();
        self.gates[request.gate.get() as usize].large_expected += 1;
        self.owe(request, Owes::CtsFragments);
    }

    /// `Cts`: a receiver asks for a message that was announced.
    pub(crate) fn on_cts(&mut self, from: u32, header: &Header) -> Result<(), Malformed> {
        let request = self.table.get(header.id, Op::Send, from)?;
        self.keep_going(from, request);
        if header.flags & READ != 0 {
            return self.expose(from, request, header);
        }
        self.conceal(request);
        if request.place.get() != Place::Nowhere
            || header.len == 0
            || header.len > request.capacity as u64
        {
            return Err(Malformed);
        }
        request.total.set(header.len as usize);
        request.moved.set(0);
        request.remote.set(header.addr);
        request.remote_id.set(header.tag);
        if header.flags & PUT != 0 && self.gates.reach(from).is_some() {
            self.copies.push(request, Place::Copies);
            let gate = &self.gates[from as usize];
            if self.crossing.is_expected() && gate.large_expected == 0 {
                self.grace = GRACE_CROSSING;
            }
        } else {
            self.send_fragments(from, request);
        }
        Ok(())
    }

    /// `Fin`: the other side has copied everything.
    pub(crate) fn on_fin(&mut self, from: u32, header: &Header) -> Result<(), Malformed> {
        let op = if header.flags & TO_RECEIVER != 0 { Op::Recv } else { Op::Send };
        let request = self.table.get(header.id, op, from)?;
        self.keep_going(from, request);
        let place = request.place.get();
        if place != Place::Nowhere && !(self.gates.fragile && place == Place::Fragments) {
            return Err(Malformed);
        }
        // A sender that was asked to put may send fragments instead, but not both.
        if op == Op::Recv && (request.owes.get() != Owes::CtsPut || request.moved.get() > 0) {
            return Err(Malformed);
        }
        let mut arrivals = self.gates[from as usize].arrivals.iter().flatten();
        if arrivals.any(|arrival| arrival.request == Some(request)) {
            return Err(Malformed);
        }
        if op == Op::Send {
            self.fragments_received(from, request);
        } else {
            self.end_rendezvous(request);
        }
        Ok(())
    }

    /// Ends a rendezvous, in order, on this side.
    pub(crate) fn end_rendezvous(&mut self, request: Ref) {
        if request.op == Op::Send {
            self.conceal(request);
            trace::sent(|| self.gates.own(request.mine.get()), request);
        }
        let id = request.id.get();
        self.table.remove(request);
        match request.op {
            Op::Recv => {
                self.note_crossing(request);
                let gate = &mut self.gates[request.gate.get() as usize];
                gate.unexpect_data(request);
                gate.ignore_arrivals(request);
                gate.pace.ends(id, now_ns);
                let number = trace::announced(request.remote_id.get());
                self.received(request, request.source.get(), request.message.get(), number);
            }
            _ => self.finish(request, Outcome::Done),
        }
    }

    /// Copies a piece of the oldest copy, then lets the next one have its turn. False: nothing has changed, or it lets
    /// a round pass first.
    pub(crate) fn copy_some(&mut self) -> bool {
        let Some(request) = self.copies.pop() else { return false };
        let peer = request.gate.get();
        if peer != self.process {
            let choice = choose(self.copying(request, peer));
            if choice.0 == Protocol::Fragments {
                self.send_fragments_instead(peer, request, choice);
                return true;
            }
        }
        if self.grace > 0 && request.moved.get() == 0 {
            self.grace -= 1;
            self.copies.push_front(request, Place::Copies);
            return false;
        }
        let moved = request.moved.get();
        let most = if self.is_asked_for() { PIECE } else { LARGEST_PIECE };
        let piece = moved.saturating_mul(4).clamp(PIECE, most);
        let (at, piece) = request.run(moved, piece.min(request.total.get() - moved));
        let remote = request.remote.get().wrapping_add(moved as u64);
        let result = match request.op {
            Op::Recv if peer == self.process => {
                let sender = self.table.get(request.remote_id.get(), Op::Send, peer);
                let Ok(sender) = sender else {
                    // It is over: its buffer is not the engine's any more.
                    self.fail(request, Why::Died(Cause::Left));
                    return true;
                };
                let (from, piece) = sender.run(moved, piece);
                // SAFETY: the sender is a request of this very engine: its buffer is readable until the `Fin`
                // that follows, and disjoint from the receive's exclusive one.
                unsafe { core::ptr::copy_nonoverlapping(from.cast_const(), at, piece) };
                Ok(piece)
            }
            op => match self.gates.reach(peer).and_then(|rail| self.gates.rails.get_mut(rail)) {
                None => Err(Refused::Unable),
                // SAFETY: inside the receive's buffer; the peer announced the address for `message` bytes.
                Some(rail) if op == Op::Recv => unsafe { rail.driver.get(peer, remote, at, piece) },
                Some(_) if !request.has_long_runs() => Err(Refused::Unable),
                // SAFETY: the peer asked for `total` bytes at that address; the run is readable.
                Some(rail) => unsafe { rail.driver.put(peer, remote, Span::new(at, piece)) },
            },
        };
        match result {
            Ok(copied) => {
                request.moved.set(moved + copied.min(piece));
                if request.moved.get() < request.total.get() {
                    self.copies.push(request, Place::Copies);
                } else {
                    let owes = if request.op == Op::Recv {
                        Owes::FinToSender
                    } else {
                        Owes::FinToReceiver
                    };
                    self.owe(request, owes);
                }
            }
            Err(Refused::Unable) => {
                self.send_fragments_instead(peer, request, REFUSED);
            }
            // Numbered and in no queue, it ends with the gate, after what the peer sent before.
            Err(Refused::Gone) => return false,
        }
        true
    }

    /// What was to be copied goes over the large tracks, from its beginning.
    pub(super) fn send_fragments_instead(&mut self, peer: u32, request: Ref, (_, why): Choice) {
        let message = (request.matched.get(), request.total.get());
        let partner = request.partner();
        trace::chosen(|| (self.gates.own(request.mine.get()), partner), message, why);
        self.gates[peer as usize].pace.forget(request.id.get());
        request.moved.set(0);
        match request.op {
            Op::Recv => self.ask_for_data(request),
            _ => self.send_fragments(peer, request),
        }
    }
}
