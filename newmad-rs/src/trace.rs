//! What the engine tells the trace ([`marcel::trace`]) of messages, so that a picture can have an arrow for each.
//!
//! # A message's number
//! Both sides know one without having to say more than they do anyway, so an arrow survives whatever either side's ring
//! has forgotten: of an announced message it is the announcement's (`Rts`), of another that of its packet, with its
//! place there if it is one of several. Both are unique among the messages from one rank to another; a packet's comes
//! again after 2^32.
//!
//! # Cost
//! Off: a load and a branch for the moment before the packet leaves, which is the one that counts: afterwards the
//! receiver may have it already. On: two records on either side of each message, which made a half round trip of 1 byte
//! over shared memory 0.22 µs instead of 0.085. None is left out: of an arrow both ends are needed. What a process
//! sends to itself has none.
//!
//! # Rejected
//! * Counting the messages of each pair and tag: the oldest records are overwritten, on each side at another time.
//! * Telling of each packet: parts and control packets are the protocol's business.

use marcel::trace::{self, Kind, When};

use crate::request::Ref;

/// Marks the number of an announcement.
const ANNOUNCED: u64 = 1 << 63;

/// The number of a message that was announced with this number.
pub(crate) fn announced(id: u64) -> u64 {
    id | ANNOUNCED
}

/// The number of a message at `at` in the packet with sequence number `seq`.
#[inline]
pub(crate) fn packed(seq: u32, at: usize) -> u64 {
    u64::from(seq) | (at as u64) << 32 & !ANNOUNCED
}

/// The moment at which what follows is about to leave, if anything is recorded.
#[inline(always)]
pub(crate) fn moment() -> Option<When> {
    trace::now()
}

/// A message has left, or its announcement. `ranks`: the sender's, which is of this process, and the receiver's.
#[inline(always)]
pub(crate) fn left(
    when: Option<When>,
    ranks: impl FnOnce() -> (u32, u32),
    number: u64,
    message: (u64, usize),
) {
    if let Some(when) = when {
        tell(when, Kind::MessageLeft, number, ranks(), message);
    }
}

/// A message has come, and there is no receive for it yet, or it has only been announced. `ranks`: the receiver's, which is of this process,
/// and the sender's.
#[inline]
pub(crate) fn arrived(ranks: impl FnOnce() -> (u32, u32), number: u64, message: (u64, usize)) {
    if let Some(when) = moment() {
        tell(when, Kind::MessageArrived, number, ranks(), message);
    }
}

/// A message is received. `ranks`: the receiver's, which is of this process, and the sender's.
#[inline(always)]
pub(crate) fn received(ranks: impl FnOnce() -> (u32, u32), number: u64, message: (u64, usize)) {
    if let Some(when) = moment() {
        tell(when, Kind::MessageReceived, number, ranks(), message);
    }
}

/// Nothing more is to be read of a message that was announced.
#[inline]
pub(crate) fn sent(rank: impl FnOnce() -> u32, request: Ref) {
    if let Some(when) = moment()
        && request.id.get() != 0
    {
        let number = announced(request.id.get());
        let message = (request.tag, request.capacity);
        tell(when, Kind::MessageSent, number, (rank(), request.peer), message);
    }
}

/// How a message moves, and why, was chosen. `ranks`: that of this process, and the other.
#[inline]
pub(crate) fn chosen(ranks: impl FnOnce() -> (u32, u32), message: (u64, usize), how: &'static str) {
    if let Some(when) = moment() {
        tell(when, Kind::MessageProtocol, trace::intern_static(how).into(), ranks(), message);
    }
}

/// A message does not leave at once: it is in its gate's queue.
#[inline]
pub(crate) fn queued(rank: impl FnOnce() -> u32, request: Ref) {
    if let Some(when) = moment() {
        let message = (request.tag, request.capacity);
        tell(when, Kind::MessageQueued, 0, (rank(), request.peer), message);
    }
}

#[cold]
#[inline(never)]
fn tell(when: When, kind: Kind, number: u64, (rank, peer): (u32, u32), message: (u64, usize)) {
    if peer != rank {
        let (tag, len) = message;
        let ranks = u64::from(rank) << 32 | u64::from(peer);
        let about = (Kind::Message, tag, len as u64);
        trace::record_as_of(when, [about, (kind, number, ranks)]);
    }
}
