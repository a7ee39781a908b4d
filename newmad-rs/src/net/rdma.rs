//! Reads of a peer's memory by an adapter (RDMA): what passes between the engine and a driver that can have them made.
//!
//! The adapter knows registered memory only. Both sides register a piece of a message, the sender tells the key of its
//! part, and the receiver's adapter reads. All of it takes its time: the driver is asked, and tells later by an
//! [`RdmaEvent`] what has become of a piece.

/// What registered memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Peers read it.
    Source,
    /// Reads of this side put there what they get.
    Target,
}

/// A piece of memory that a driver was asked to register. No two pieces of a driver have the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) place: u32,
    pub(crate) turn: u32,
}

/// What has become of a piece. After it, the adapter does not touch the memory of a target any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RdmaEvent {
    /// A source: peers that are told the key can read it.
    Registered { key: u32 },
    /// The memory cannot be registered.
    Refused,
    /// A target has what was to be read.
    Read,
    /// The link has ended, and the read with it: what is in the target is not known.
    Broken,
}
