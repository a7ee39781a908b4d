//! What passes between the engine and a driver: a packet that has come, and what became of one that was to leave.

use crate::error::Cause;
use crate::memory::span::Span;
use crate::wire::Header;

/// Most pieces of memory that one small packet is gathered from.
pub(crate) const MAX_PARTS: usize = 32;
/// As many, and a checksum.
pub(crate) const MOST_PARTS: usize = MAX_PARTS + 1;

/// What came on a track.
#[derive(Clone, Copy)]
pub(crate) enum Peek {
    /// Nothing.
    Empty,
    /// A packet. Its payload stays where it is until `release` (small track) or is still to be read
    /// (large track: the span is empty).
    Packet(Header, Span),
    /// The peer is gone, and everything that it sent before has been taken.
    Gone(Cause),
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Post {
    /// It is on its way and its memory is free again.
    Posted,
    /// The track has no room now.
    Full,
}

/// Why bytes could not be copied from or to a peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// This is not possible between these two processes.
    Unable,
    /// The peer is gone: its gate's end will be seen when what it sent before has been taken.
    Gone,
}
