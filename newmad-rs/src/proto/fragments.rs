//! Fragments: large messages that were asked for, in pieces over the large tracks of all open links.
//!
//! *Sender*: `Cts` came; the message is divided (`shares`) into a part for each link, and every link that has room
//! takes pieces of its part of the oldest message that has one. Once everything is sent the request waits for the
//! receiver's `Fin`, if any rail of the session can break; otherwise what is given to a rail arrives or the peer is
//! dead, and the request is over. A piece of which a part has left must be finished whatever happens, for it is
//! the link's next bytes: a request whose `Fin` comes while a link holds such a piece is over when that is sent.
//!
//! *Receiver*: pieces come in any order over any link, each into its place in the buffer; the request keeps the ranges
//! it has, and is over when they cover the message. Numbers only grow: a piece for a number that was given and is
//! over is read into the discard buffer, one for a number that was never given ends the gate.
//!
//! *Twice.* A sender that has given up a link sends what went over it again over another, while the receiver may still
//! read from the first. Both copies are the same, so they may be written over each other; the message ends once. A
//! piece that has a checksum may be wrong until its end, however: it is not written over what the receiver has, and of
//! two that belong to the same place and come at the same time the link of the one that began first is broken here,
//! too. (Mostly that is the link which the sender has given up; otherwise it sends once more.)

use crate::error::Cause;
use crate::gate::{Arrival, rails};
use crate::memory::span::Span;
use crate::net::reliable::checksum;
use crate::net::{Driver, Peek};
use crate::proto::core::Core;
use crate::request::queue::Queue;
use crate::request::{Op, Owes, Place, Ref};
use crate::trace;
use crate::wire::{CHECKED, Header, Kind, Malformed};

/// Pieces read from the large track of one link in one round.
const BATCH: usize = 32;
/// Messages looked at for a part that a link could send.
const LOOK: usize = 64;
/// Most bytes of a piece that has a checksum; drivers send so much as one piece, under the header that they are given.
pub(crate) const CHECKED_PIECE: usize = 64 * 1024;

impl<D: Driver> Core<D> {
    /// The peer asked for this message over the large track.
    pub(crate) fn send_fragments(&mut self, peer: u32, request: Ref) {
        let total = request.total.get();
        let shares = self.shares(peer, total);
        request.parts.divide(&shares, total);
        self.gates.enqueue(peer, request, Place::Fragments);
        if self.gates.fragile {
            self.signals.unrest();
        }
        self.flush(peer);
    }

    /// Gives the links what they take of the streams.
    pub(crate) fn flush_fragments(&mut self, to: u32) -> bool {
        let mut any = false;
        for rail in rails(self.gates[to as usize].open) {
            any |= self.flush_large(rail, to);
        }
        any
    }

    fn flush_large(&mut self, rail: usize, to: u32) -> bool {
        let mut any = false;
        loop {
            let gate = &self.gates[to as usize];
            let half = gate.mid_pieces[rail];
            let Some(request) = half.or_else(|| next_with_part(&gate.fragments, rail)) else {
                break;
            };
            let Some((index, part)) = request.parts.next_for(rail as u8) else { break };
            let driver = &self.gates.rails[rail].driver;
            // A piece that has begun is finished: nothing more when the receiver has everything, and, where there are
            // checksums, nothing more under the same header.
            let only = request.over.get() || (self.gates.rails[rail].checked && half.is_some());
            let most = if only { driver.mid_piece(to) } else { usize::MAX };
            let mut data =
                request.together(part.at, most.min(part.to - part.at), &mut self.discard);
            let mut header = Header {
                id: request.remote_id.get(),
                len: part.at as u64,
                ..Header::new(Kind::Data)
            };
            if self.gates.rails[rail].checked && half.is_none() {
                data = data.part(0, CHECKED_PIECE.min(driver.longest_piece(to)));
                seal(&mut header, data);
            }
            let driver = &mut self.gates.rails[rail].driver;
            let sent = driver.post_large(to, &header, data).min(data.len());
            let half = driver.mid_piece(to) > 0;
            any |= sent > 0;
            self.gates[to as usize].mid_pieces[rail] = half.then_some(request);
            let all = request.parts.sent(index, sent);
            if request.over.get() {
                if !half {
                    self.end_if_whole(to, request);
                }
            } else if all {
                self.gates.dequeue(to, request);
                if !self.gates.fragile {
                    self.end_rendezvous(request);
                }
            }
            if sent < data.len() {
                break;
            }
        }
        any
    }

    /// `Fin`: the receiver of a stream has everything.
    pub(crate) fn fragments_received(&mut self, to: u32, request: Ref) {
        if request.place.get() == Place::Fragments {
            self.gates.dequeue(to, request);
        }
        trace::sent(|| self.gates.own(request.mine.get()), request);
        self.table.remove(request);
        if self.gates[to as usize].mid_pieces.contains(&Some(request)) {
            request.over.set(true);
            self.gates.backlog += 1;
        } else {
            self.end_rendezvous(request);
        }
    }

    /// Ends a send that is over but for pieces that links hold in part, if none does any more.
    pub(crate) fn end_if_whole(&mut self, to: u32, request: Ref) {
        if !self.gates[to as usize].mid_pieces.contains(&Some(request)) {
            self.gates.backlog -= 1;
            self.end_rendezvous(request);
        }
    }

    /// Reads what came on the large track of a link.
    pub(crate) fn take_large(&mut self, rail: usize, from: u32) -> bool {
        let mut any = false;
        for _ in 0..BATCH {
            let mut arrival = match self.gates[from as usize].arrivals[rail].take() {
                Some(arrival) => arrival,
                None => match self.gates.rails[rail].driver.peek_large(from) {
                    Peek::Empty => return any,
                    Peek::Gone(cause) => {
                        self.ended(rail, from, cause);
                        return true;
                    }
                    Peek::Packet(header, _) => loop {
                        let Ok(arrival) = self.piece(rail, from, &header) else {
                            self.ended(rail, from, Cause::Malformed);
                            return true;
                        };
                        let Some(stale) = self.gates.in_the_way(rail, from, &arrival) else {
                            self.gates[from as usize].reliability.carried |= 1 << rail;
                            break arrival;
                        };
                        self.broke(stale, from, Cause::Broken(libc::EPROTO));
                        if self.gates[from as usize].open & 1 << rail == 0 {
                            return true;
                        }
                    },
                },
            };
            let at = arrival.start + arrival.got;
            let (has, run) = match arrival.request {
                Some(request) if arrival.sums.is_some() => request.parts.received_at(at),
                _ => (false, usize::MAX),
            };
            let left = run.min(arrival.len - arrival.got);
            let (to, room) = match arrival.request {
                Some(request) if !has && !request.is_scattered() => (request.at(at), left),
                _ => (self.discard.as_mut_ptr(), left.min(self.discard.len())),
            };
            // SAFETY: `piece` checked that all of it fits at `start`, and the buffer is the engine's until the
            // request is finished, when `end_rendezvous` takes it out of the arrivals; or it is our own memory.
            let read =
                unsafe { self.gates.rails[rail].driver.read_large(from, to, room) }.min(room);
            if let Some(request) = arrival.request
                && !has
                && request.is_scattered()
            {
                // SAFETY: just read there.
                let data = unsafe { Span::new(self.discard.as_ptr(), read) };
                request.store(at, data);
            }
            arrival.got += read;
            if let Some((so_far, _)) = &mut arrival.sums {
                let mut sum = crc32fast::Hasher::new_with_initial(*so_far);
                // SAFETY: `read` bytes were just written there, and nothing else touches them.
                sum.update(unsafe { core::slice::from_raw_parts(to, read) });
                *so_far = sum.finalize();
            }
            any |= read > 0;
            if arrival.got < arrival.len {
                self.gates[from as usize].arrivals[rail] = Some(arrival);
                if read == 0 {
                    return any;
                }
                continue;
            }
            if arrival.sums.is_some_and(|(sum, right)| sum != right) {
                self.broke(rail, from, Cause::Broken(libc::EBADMSG));
                return true;
            }
            let Some(request) = arrival.request else { continue };
            match request.parts.add_received(arrival.start, arrival.start + arrival.len) {
                None => {
                    self.fail_peer(from, Cause::Malformed);
                    return true;
                }
                Some(have) if have == request.total.get() => {
                    self.whole(request);
                    let gate = &self.gates[from as usize];
                    if gate.large_expected == 0 && !gate.reliability.late {
                        return true;
                    }
                }
                Some(have) => request.moved.set(have),
            }
        }
        any
    }

    /// All of a message is here.
    pub(crate) fn whole(&mut self, request: Ref) {
        if !self.gates.fragile {
            return self.end_rendezvous(request);
        }
        let gate = &mut self.gates[request.gate.get() as usize];
        gate.ignore_arrivals(request);
        gate.unexpect_data(request);
        if request.place.get() == Place::Control {
            // Instead of what it owes there.
            request.owes.set(Owes::FinToSender);
        } else {
            self.owe(request, Owes::FinToSender);
        }
    }

    /// Checks the header of a piece.
    fn piece(&self, rail: usize, from: u32, header: &Header) -> Result<Arrival, Malformed> {
        let (start, len) = (header.len as usize, header.payload as usize);
        let checked = self.gates.rails[rail].checked;
        let sums = checked.then_some((0, header.addr as u32));
        let arrival = Arrival { request: None, start, got: 0, len, sums };
        if header.kind != Kind::Data || (checked && !is_sealed(header)) {
            return Err(Malformed);
        }
        let Some(request) = self.table.find_id(header.id, Op::Recv, from)? else {
            return Ok(arrival);
        };
        if request.owes.get() == Owes::FinToSender {
            // It is here already; only the sender was not told.
            return Ok(arrival);
        }
        let asked = match request.owes.get() {
            Owes::CtsFragments | Owes::CtsPut => request.place.get() == Place::Nowhere,
            owes => owes == Owes::Have,
        };
        let fits = start.checked_add(len).is_some_and(|end| end <= request.total.get());
        if !asked || !fits {
            return Err(Malformed);
        }
        Ok(Arrival { request: Some(request), ..arrival })
    }
}

/// Gives a piece its checksums.
pub(crate) fn seal(header: &mut Header, data: Span) {
    let mut sum = crc32fast::Hasher::new();
    // SAFETY: the sender's buffer, which stays as it is while it is sent.
    sum.update(unsafe { core::slice::from_raw_parts(data.as_ptr(), data.len()) });
    header.addr = u64::from(sum.finalize());
    header.flags = CHECKED;
    header.payload = data.len() as u32;
    header.tag = u64::from(checksum(header, &[]));
}

fn is_sealed(header: &Header) -> bool {
    let sum = checksum(&Header { tag: 0, ..*header }, &[]);
    header.flags & CHECKED != 0 && header.tag == u64::from(sum)
}

/// The oldest message of which this rail can send a part.
fn next_with_part(messages: &Queue, rail: usize) -> Option<Ref> {
    messages.iter().take(LOOK).find(|request| request.parts.next_for(rail as u8).is_some())
}
