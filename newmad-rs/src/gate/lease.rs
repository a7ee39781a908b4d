//! Leases of the sending end (`NMAD_LOCK=fine`): short messages leave beside the engine.
//!
//! [Trahay09] has a lock for each list: what the program submits, what each network sends. Here the list of what is
//! submitted needs no lock, and what each gate sends gets one of its own: while nothing is before a short message, its
//! sender takes the gate's [`Lease`](crate::collect::lease::Lease) instead of the engine's lock, and with it everything
//! that such a message needs, the [`InlineLease`]. So threads that send to different ranks do not meet, nor does one
//! that sends meet one that receives, copies or polls. Matching, large messages and control packets stay with the
//! engine and its lock.
//!
//! *Order.* A message must not overtake one that its thread, or one that waited for it, has submitted before. That one
//! is on the submission list, on its way to the engine, or was begun; and to begin what does not leave at once the
//! engine recalls the lease first. So a thread that finds nothing pending, and then the lease free, overtakes no other.
//!
//! *When it is granted*: after a message that went through the engine, if another could go inline. *When it is
//! recalled*: for whatever else is to leave for that rank, and when something changes there (its strategy, its life).
//!
//! Only over shared memory, and in sessions without reliable rails: packets that are kept, sent again and acknowledged
//! take the whole gate. Elsewhere fine is as coarse.

use crate::gate::credit::EACH;
use crate::memory::span::Span;
use crate::net::SendLease;
use crate::trace;
use crate::wire::Envelope;

/// What it takes to send short messages to a rank without the engine.
pub(crate) struct InlineLease {
    pub(super) send: SendLease,
    /// The first ranks of this process, and of that one.
    pub(super) firsts: (u32, u32),
    /// The rail whose it is.
    pub(super) rail: usize,
    /// Of the next packet, and the one that was expected when this was lent: plain rails do not read that.
    pub(super) numbers: (u32, u32),
    /// Of the gate's credit.
    pub(super) credit: u64,
    /// Messages are shorter.
    pub(super) bound: usize,
}

impl InlineLease {
    /// Sends a message, if it is short enough, and there is room.
    #[inline]
    pub(crate) fn post(&mut self, envelope: Envelope, data: Span) -> bool {
        let cost = data.len() as u64 + EACH;
        let moment = trace::moment();
        let posted = data.len() < self.bound
            && cost <= self.credit
            && self.send.post_eager(self.numbers, envelope, data);
        if posted {
            let (Envelope { tag, ends }, firsts) = (envelope, self.firsts);
            let names = || (firsts.0 + u32::from(ends.from()), firsts.1 + u32::from(ends.to()));
            trace::left(moment, names, self.numbers.0.into(), (tag, data.len()));
            self.numbers.0 = self.numbers.0.wrapping_add(1);
            self.credit -= cost;
        }
        posted
    }
}
