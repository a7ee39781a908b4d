//! Inline messages: a short message goes from the sender's call to the driver, and from the driver to its receive,
//! without a request. Nothing is allocated or posted, and no thread has to be asked to watch.
//!
//! The receiver of one message after the other is often a little ahead of the sender. A receive that is posted and left
//! asks for the bell then, and one ring costs both sides as much as a hundred messages. So while nothing else is under
//! way the engine polls for such a message about as long as it takes to come, if that was not in vain the last times.
//! The *hit streak* counts those: up when a message was there or came, down when none did. A program that posts
//! receives long before their messages polls for a few of them, and for no more until messages are there first again.

use crate::matching::Source;
use crate::matching::pool::Content;
use crate::memory::span::Span;
use crate::net::{Driver, Peek};
use crate::proto::core::Core;
use crate::proto::receive::Taken;
use crate::request::tag::EXACT;
use crate::request::{ANY_SOURCE, Ref};
use crate::trace;
use crate::wire::{Ends, Envelope, Header, Kind};

/// Most packets that are treated before the message.
const MOST: usize = 64;
/// Longest hit streak that counts.
const LONGEST: u8 = 4;

/// What a look for a message has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It is in the buffer; its length.
    Message(usize),
    /// Nothing has come.
    Nothing,
    /// It takes more than this to receive it.
    Other,
}

impl<D: Driver> Core<D> {
    /// Sends a short message to a process at once, if nothing is before it and the driver has room. False: it is still to
    /// be sent.
    #[inline(always)]
    pub(crate) fn send_to(&mut self, to: u32, envelope: Envelope, data: Span) -> bool {
        self.gates.post_inline(to, envelope, data) || self.send_otherwise(to, envelope, data)
    }

    #[inline(never)]
    fn send_otherwise(&mut self, to: u32, envelope: Envelope, data: Span) -> bool {
        if to == self.process {
            return self.send_here(envelope, data);
        }
        self.gates[to as usize].lease.is_lent()
            && self.gates.recall(to)
            && self.gates.post_inline(to, envelope, data)
    }

    /// The receive for a message to a rank of this process, taken out of its queue, if it is there and nothing is before the
    /// message. The caller copies the message and then calls [`Core::received_here`], and neither waits nor unwinds in
    /// between. Meanwhile the receive is in no queue, so it is neither cancelled nor nudged.
    pub(crate) fn take_receive(&mut self, Envelope { tag, ends }: Envelope) -> Option<Ref> {
        if self.deaf || !self.gates[self.process as usize].sends.is_empty() {
            return None;
        }
        self.matching.take_posted(ends.to(), self.gates.own(ends.from()), tag)
    }

    /// The message of a receive that was taken out is in its buffer.
    pub(crate) fn received_here(&mut self, request: Ref, envelope: Envelope, len: usize) {
        let (source, moment) = (self.gates.own(envelope.ends.from()), trace::moment());
        let number = u64::from(self.gates[self.process as usize].tx_seq);
        self.pending.is_given_by(envelope.ends.from());
        self.received(request, source, len, number);
        self.count_here(envelope, len, moment, number);
    }

    /// Sends to a rank of this process. If a receive is there: one copy, from the sender's buffer to the receiver's. False: it
    /// is still to be sent.
    #[inline]
    pub(crate) fn send_here(&mut self, envelope: Envelope, data: Span) -> bool {
        let Envelope { tag, ends } = envelope;
        let (process, len) = (self.process, data.len());
        if len > self.gates.threshold || self.deaf || !self.gates[process as usize].sends.is_empty()
        {
            return false;
        }
        let source = Source { gate: process, rank: self.gates.own(ends.from()) };
        let moment = trace::moment();
        let number = u64::from(self.gates[process as usize].tx_seq);
        match self.matching.take_posted(ends.to(), source.rank, tag) {
            Some(request) => {
                request.store(0, data);
                self.pending.is_given_by(ends.from());
                self.received(request, source.rank, len, number);
            }
            None => {
                if !self.gates.spend_credit(process, len) {
                    return false;
                }
                let payload = len as u32;
                let header =
                    Header { tag, ends, len: len as u64, payload, ..Header::new(Kind::Eager) };
                let Ok(Some(cell)) = self.keep(source, &header, Content::Eager, number) else {
                    self.gates[process as usize].credit.take_back(len);
                    return false;
                };
                self.matching.pool.append(cell, data);
            }
        }
        self.count_here(envelope, len, moment, number);
        true
    }

    /// A message to a rank of this process has left. For the trace: nothing is on its way here.
    #[inline]
    fn count_here(
        &mut self,
        Envelope { tag, ends }: Envelope,
        len: usize,
        moment: Option<marcel::trace::When>,
        number: u64,
    ) {
        let ranks = || (self.gates.own(ends.from()), self.gates.own(ends.to()));
        trace::left(moment, ranks, number, (tag, len));
        let gate = &mut self.gates[self.process as usize];
        gate.tx_seq = gate.tx_seq.wrapping_add(1);
        gate.rx_seq = gate.tx_seq;
    }

    /// Receives a message of a rank of this process that is there already.
    fn recv_here(&mut self, mine: u16, from: u32, tag: u64, buffer: &mut [u8]) -> Found {
        let Some(index) = self.matching.find_unexpected(mine, from, tag, EXACT) else {
            return Found::Other;
        };
        let cell = self.matching.pool.get(index);
        let (len, number) = (cell.len, cell.number);
        if cell.content != Content::Eager || cell.got < len || len > buffer.len() {
            return Found::Other;
        }
        // SAFETY: it fits; cells never lie in user buffers.
        unsafe { self.matching.pool.payload(index).copy_to(buffer.as_mut_ptr()) };
        self.matching.remove_unexpected(index);
        self.matching.pool.put(index);
        self.gates.count_received(self.process, len);
        trace::received(|| (self.gates.own(mine), from), number, (tag, len));
        Found::Message(len)
    }

    /// Receives a short message into `buffer` if it comes next, and no other receive is before.
    #[inline]
    pub(crate) fn recv_inline(
        &mut self,
        mine: u16,
        from: u32,
        (tag, mask): (u64, u64),
        buffer: &mut [u8],
    ) -> Found {
        if from == ANY_SOURCE || mask != EXACT || self.deaf {
            return Found::Other;
        }
        let (process, place) = self.gates.ranks.place(from);
        if process == self.process {
            return self.recv_here(mine, from, tag, buffer);
        }
        let gate = &self.gates[process as usize];
        if gate.reliable {
            return Found::Other;
        }
        let ends = Ends::new(place, mine);
        let rail = gate.small;
        for _ in 0..MOST {
            if self.matching.has_more(mine, from, tag) {
                return Found::Other;
            }
            let Some((way, gate)) = self.gates.pair(rail, process) else { return Found::Other };
            let (header, payload) = match way.driver.peek_small(process) {
                Peek::Packet(header, payload) => (header, payload),
                Peek::Empty => return Found::Nothing,
                Peek::Gone(_) => return Found::Other,
            };
            let len = payload.len();
            let ours = header.tag == tag
                && header.ends == ends
                && header.kind == Kind::Eager
                && header.seq == gate.rx_seq
                && header.payload as usize == len
                && !self.matching.is_posted(mine, from, tag);
            if ours {
                if len > buffer.len() {
                    return Found::Other;
                }
                gate.rx_seq = gate.rx_seq.wrapping_add(1);
                gate.hits = (gate.hits + 1).min(LONGEST);
                // SAFETY: it fits; packets never lie in user buffers.
                unsafe { payload.copy_to(buffer.as_mut_ptr()) };
                way.driver.release(process);
                self.gates.count_received(process, len);
                trace::received(|| (self.gates.own(mine), from), header.seq.into(), (tag, len));
                return Found::Message(len);
            }
            // What is wrong with it is found again by the next poll.
            if !matches!(self.take(rail, process, &header, payload), Ok(Taken::Yes)) {
                return Found::Other;
            }
            if let Some(way) = self.gates.rails.get_mut(rail) {
                way.driver.release(process);
            }
        }
        Found::Other
    }
}
