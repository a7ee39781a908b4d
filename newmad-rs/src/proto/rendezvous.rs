//! Rendezvous: large messages wait for their receiver, then move without passing through small packets.
//!
//! The sender announces (`Rts`). When a receive matches, *the copier is the one who waits*, so that a side that
//! computes is not slowed by the copy ([`Way`]):
//! - both wait: the receiver asks (`Cts`) and the sender streams (`Data`) over the large track, so that both
//!   copy at once, through a cache that they share; that is also how it is done where one process cannot reach the
//!   other's memory;
//! - else, somebody is blocked on the receive, or nobody waits on either side: the receiver copies from the sender's
//!   memory (pull), then tells it (`Fin`);
//! - else, when the sender said that it waits: it is given the buffer's address (`Cts` with `PUSH`), copies
//!   (push), then tells the receiver (`Fin`).
//!
//! Copies go on piece by piece, one per round, in turn. A refused copy falls back to the stream. In a window of
//! messages most are announced, and matched, before their owners come to wait for the first. So a copy that somebody
//! waits for lets a few rounds pass before it begins, and one that is not far yet becomes a stream once both sides wait.

use std::sync::atomic::Ordering;

use crate::memory::span::Span;
use crate::net::{Driver, Refused};
use crate::proto::core::Core;
use crate::request::{Op, Outcome, Owes, Place, Ref};
use crate::trace;
use crate::wire::{Header, Malformed, PUSH, TO_RECEIVER};

/// Bytes copied in one round.
const PIECE: usize = 256 * 1024;
/// Rounds that a copy lets pass for the other side to come to wait, too: less than a microsecond.
const GRACE: u32 = 16;
/// How a message moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The receiver copies.
    Pull,
    /// The sender copies.
    Push,
    /// Through the large track.
    Stream,
}

impl<D: Driver> Core<D> {
    /// Which way is the best now. One copy by the kernel takes two to five times as long as two at once through the
    /// cache, but it needs one side only. Inside one process one plain copy is the best; one side that stops waiting in
    /// the middle makes a stream slow, not wrong.
    fn way(&self, request: Ref, from: u32, sender_waits: bool) -> Way {
        if from == self.rank {
            return Way::Pull;
        }
        let Some(rail) = self.gates.reach(from).and_then(|rail| self.gates.rails.get(rail)) else {
            return Way::Stream;
        };
        let waits = request.is_waiting();
        if self.is_waited_for(request) && rail.driver.copies_too(from, sender_waits) {
            Way::Stream
        } else if waits || !sender_waits {
            Way::Pull
        } else {
            Way::Push
        }
    }

    /// Whether somebody here copies while this message moves: waits for it, or for another long one.
    fn is_waited_for(&self, request: Ref) -> bool {
        request.is_waiting() || self.signals.waiters.load(Ordering::Relaxed) > 0
    }

    /// Whether both sides have come to wait while a copy was to begin, or not far: what was copied is sent again then.
    fn is_late_stream(&self, request: Ref, peer: u32) -> bool {
        if request.moved.get() > request.total.get() / 4 || !self.is_waited_for(request) {
            return false;
        }
        let rail = self.gates.reach(peer).and_then(|rail| self.gates.rails.get(rail));
        rail.is_some_and(|rail| rail.driver.copies_too(peer, false))
    }

    /// A receive matched an announced message.
    pub(crate) fn begin_rendezvous(
        &mut self,
        request: Ref,
        from: u32,
        len: usize,
        id: u64,
        addr: u64,
        sender_waits: bool,
    ) {
        if self.gates[from as usize].bye_sent {
            // Lent memory (`gate`): on our goodbye the sender takes it back.
            return self.finish(request, Outcome::Closed);
        }
        request.source.set(from);
        request.message.set(len);
        request.total.set(len.min(request.capacity));
        request.moved.set(0);
        request.remote.set(addr);
        request.remote_id.set(id);
        self.table.insert(request);
        if request.total.get() == 0 {
            self.owe(request, Owes::FinToSender);
            return;
        }
        // A scattered sender has no address; a scattered receiver has none to give.
        let here = addr != 0 && request.has_long_runs();
        let way = match self.way(request, from, sender_waits) {
            Way::Pull if from != self.rank && !here => Way::Stream,
            Way::Push if request.is_scattered() => {
                if here {
                    Way::Pull
                } else {
                    Way::Stream
                }
            }
            way => way,
        };
        match way {
            Way::Pull => {
                self.copies.push(request, Place::Copies);
                if from != self.rank && self.is_waited_for(request) {
                    self.grace = GRACE;
                }
            }
            Way::Stream => self.ask_for_data(request),
            Way::Push => {
                // The sender may find that it cannot push, and stream instead.
                request.parts.clear();
                self.expect_data(request);
                self.owe(request, Owes::CtsPush);
            }
        }
    }

    fn ask_for_data(&mut self, request: Ref) {
        request.moved.set(0);
        request.parts.clear();
        self.expect_data(request);
        self.owe(request, Owes::CtsData);
    }

    /// `Cts`: a receiver asks for a message that was announced.
    pub(crate) fn on_cts(&mut self, from: u32, header: &Header) -> Result<(), Malformed> {
        let request = self.table.get(header.id, Op::Send, from)?;
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
        if header.flags & PUSH != 0 && self.gates.reach(from).is_some() {
            self.copies.push(request, Place::Copies);
        } else {
            self.stream(from, request);
        }
        Ok(())
    }

    /// `Fin`: the other side has copied everything.
    pub(crate) fn on_fin(&mut self, from: u32, header: &Header) -> Result<(), Malformed> {
        let op = if header.flags & TO_RECEIVER != 0 { Op::Recv } else { Op::Send };
        let request = self.table.get(header.id, op, from)?;
        let place = request.place.get();
        if place != Place::Nowhere && !(self.gates.fragile && place == Place::Streams) {
            return Err(Malformed);
        }
        // A sender that was asked to push may stream instead, but not both.
        if op == Op::Recv && (request.owes.get() != Owes::CtsPush || request.moved.get() > 0) {
            return Err(Malformed);
        }
        let mut arrivals = self.gates[from as usize].arrivals.iter().flatten();
        if arrivals.any(|arrival| arrival.request == Some(request)) {
            return Err(Malformed);
        }
        if op == Op::Send {
            self.streamed(from, request);
        } else {
            self.end_rendezvous(request);
        }
        Ok(())
    }

    /// Ends a rendezvous, in order, on this side.
    pub(crate) fn end_rendezvous(&mut self, request: Ref) {
        if request.op == Op::Send {
            trace::sent(self.rank, request);
        }
        self.table.remove(request);
        match request.op {
            Op::Recv => {
                self.unexpect_data(request);
                self.ignore_arrivals(request);
                let number = trace::announced(request.remote_id.get());
                self.received(request, request.source.get(), request.message.get(), number);
            }
            _ => self.finish(request, Outcome::Done),
        }
    }

    /// Copies a piece of the oldest copy, then lets the next one have its turn. False: nothing has changed, or it lets a
    /// round pass first.
    pub(crate) fn copy_some(&mut self) -> bool {
        let Some(request) = self.copies.pop() else { return false };
        let peer = request.source.get();
        if peer != self.rank && self.is_late_stream(request, peer) {
            self.stream_instead(peer, request);
            return true;
        }
        if self.grace > 0 {
            self.grace -= 1;
            self.copies.push_front(request, Place::Copies);
            return false;
        }
        let moved = request.moved.get();
        let (at, piece) = request.run(moved, PIECE.min(request.total.get() - moved));
        let remote = request.remote.get().wrapping_add(moved as u64);
        let result = match request.op {
            Op::Recv if peer == self.rank => {
                let sender = self.table.get(request.remote_id.get(), Op::Send, peer);
                let (from, piece) = match sender {
                    Ok(sender) => sender.run(moved, piece),
                    Err(Malformed) => (remote as *mut u8, piece),
                };
                // SAFETY: the sender is a request of this very engine: its buffer is readable until the `Fin`
                // that follows, and disjoint from the receive's exclusive one.
                unsafe { core::ptr::copy_nonoverlapping(from.cast_const(), at, piece) };
                Ok(piece)
            }
            op => match self.gates.reach(peer).and_then(|rail| self.gates.rails.get_mut(rail)) {
                None => Err(Refused::Unable),
                // SAFETY: inside the receive's buffer; the peer announced the address for `message` bytes.
                Some(rail) if op == Op::Recv => unsafe {
                    rail.driver.pull(peer, remote, at, piece)
                },
                Some(_) if !request.has_long_runs() => Err(Refused::Unable),
                // SAFETY: the peer asked for `total` bytes at that address; the run is readable.
                Some(rail) => unsafe { rail.driver.push(peer, remote, Span::new(at, piece)) },
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
            Err(Refused::Unable) => self.stream_instead(peer, request),
            // Numbered and in no queue, it ends with the gate, after what the peer sent before.
            Err(Refused::Gone) => return false,
        }
        true
    }

    /// What was to be copied goes over the large track, from its beginning.
    fn stream_instead(&mut self, peer: u32, request: Ref) {
        request.moved.set(0);
        match request.op {
            Op::Recv => self.ask_for_data(request),
            _ => self.stream(peer, request),
        }
    }

    fn expect_data(&mut self, request: Ref) {
        self.gates[request.source.get() as usize].large_expected += 1;
    }

    pub(crate) fn unexpect_data(&mut self, request: Ref) {
        if matches!(request.owes.get(), Owes::CtsData | Owes::CtsPush | Owes::Have) {
            self.gates[request.source.get() as usize].large_expected -= 1;
        }
    }
}
