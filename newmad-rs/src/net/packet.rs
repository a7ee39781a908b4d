//! What passes between the engine and a driver: a packet that has come, and why a copy was refused.

use crate::error::Cause;
use crate::memory::span::Span;
use crate::wire::Header;

/// Most pieces of memory that one small packet is gathered from.
pub(crate) const GATHER_MAX: usize = 32;
/// As many, and a checksum.
pub(crate) const GATHER_MAX_CHECKED: usize = GATHER_MAX + 1;

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

/// Why bytes could not be copied from or to a peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// This is not possible between these two processes.
    Unable,
    /// The peer is gone: its gate's end will be seen when what it sent before has been taken.
    Gone,
}
