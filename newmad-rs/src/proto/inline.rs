//! Inline messages: a short message goes from the sender's call to the driver, and from the driver to its receive,
//! without a request. Nothing is allocated or posted, and no thread has to be asked to watch.
//!
//! The receiver of one message after the other is often a little ahead of the sender. A receive that is posted and left
//! asks for the bell then, and one ring costs both sides as much as a hundred messages. So while nothing else is under
//! way the engine polls for such a message about as long as it takes to come, if that was not in vain the last times.
//! The *hit streak* counts those: up when a message was there or came, down when none did. A program that posts
//! receives long before their messages polls for a few of them, and for no more until messages are there first again.

use crate::memory::span::Span;
use crate::net::{Driver, Peek};
use crate::proto::core::Core;
use crate::proto::receive::Taken;
use crate::request::ANY_SOURCE;
use crate::request::tag::EXACT;
use crate::trace;
use crate::wire::Kind;

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
    /// Sends a short message at once, if nothing is before it and the driver has room. False: it is still to be sent.
    #[inline(always)]
    pub(crate) fn send_inline(&mut self, to: u32, tag: u64, data: Span) -> bool {
        self.gates.post_inline(to, tag, data)
            || (self.gates[to as usize].lease.is_lent() && self.send_after_recall(to, tag, data))
    }

    #[cold]
    fn send_after_recall(&mut self, to: u32, tag: u64, data: Span) -> bool {
        self.gates.recall(to) && self.gates.post_inline(to, tag, data)
    }

    /// Receives a short message into `buffer` if it comes next, and no other receive is before.
    #[inline]
    pub(crate) fn recv_inline(
        &mut self,
        from: u32,
        (tag, mask): (u64, u64),
        buffer: &mut [u8],
    ) -> Found {
        if from == ANY_SOURCE || mask != EXACT || self.closed {
            return Found::Other;
        }
        let gate = &self.gates[from as usize];
        if gate.reliable {
            return Found::Other;
        }
        let rail = gate.small;
        for _ in 0..MOST {
            if self.matching.has_more(from, tag) {
                return Found::Other;
            }
            let Some((way, gate)) = self.gates.pair(rail, from) else { return Found::Other };
            let (header, payload) = match way.driver.peek_small(from) {
                Peek::Packet(header, payload) => (header, payload),
                Peek::Empty => return Found::Nothing,
                Peek::Gone(_) => return Found::Other,
            };
            let len = payload.len();
            let ours = header.tag == tag
                && header.kind == Kind::Eager
                && header.seq == gate.rx_seq
                && header.payload as usize == len
                && !self.matching.is_posted(from, tag);
            if ours {
                if len > buffer.len() {
                    return Found::Other;
                }
                gate.rx_seq = gate.rx_seq.wrapping_add(1);
                gate.hits = (gate.hits + 1).min(LONGEST);
                // SAFETY: it fits; packets never lie in user buffers.
                unsafe { payload.copy_to(buffer.as_mut_ptr()) };
                way.driver.release(from);
                self.gates.count_received(from, len);
                trace::received((self.rank, from), header.seq.into(), (tag, len));
                return Found::Message(len);
            }
            // What is wrong with it is found again by the next poll.
            if !matches!(self.take(rail, from, &header, payload), Ok(Taken::Yes)) {
                return Found::Other;
            }
            if let Some(way) = self.gates.rails.get_mut(rail) {
                way.driver.release(from);
            }
        }
        Found::Other
    }
}
