//! What strategies are shown: messages and rails, as plain figures.

use crate::wire::{MAX_RAILS, entries};

/// Most waiting messages that a strategy is shown at once.
pub const WINDOW: usize = 64;

/// For so many packets the oldest message of a gate may be overtaken.
pub const PATIENCE: u32 = 64;

/// A message that waits for the small track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// Its tag.
    pub tag: u64,
    /// Its length in bytes.
    pub len: usize,
    /// How urgent its sender said it is: 0 unless told otherwise, more is more urgent.
    pub priority: i8,
    /// Only its announcement goes over the small track; its bytes wait for the receiver.
    pub announced: bool,
    /// An entry for it names its ranks.
    pub(crate) named: bool,
}

impl Message {
    /// The same but for its own bytes, in an entry of a packet.
    pub(crate) fn head(&self) -> usize {
        entries::head(self.named, self.announced)
    }

    /// Bytes that it takes in a packet together with others.
    pub fn bytes(&self) -> usize {
        self.head() + if self.announced { 0 } else { self.len }
    }
}

/// What is known of a message at the moment when it is submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lone {
    /// The message.
    pub message: Message,
    /// Nanoseconds since the last packet left over this track, or the last message was held.
    pub quiet_ns: u64,
    /// Nanoseconds that a packet costs this processor, whatever its length (a system call on some rails).
    pub packet_ns: u64,
    /// Messages to this peer since a thread of this process last looked for events.
    pub before: u32,
    /// How many there were in the burst before, if any came since: messages that might have been held, with no look in between.
    pub last_burst: u32,
}

/// A large message that its receiver has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Large {
    /// Bytes to be sent.
    pub len: usize,
    /// How many cores had nothing to do a moment ago, the one that asks not counted.
    pub idle: usize,
    /// How many parts the session wants.
    pub chunks: Chunks,
}

impl Large {
    /// Into how many parts at most the session wants it cut.
    pub fn most_parts(&self) -> usize {
        match self.chunks {
            Chunks::Rails => MAX_RAILS,
            Chunks::Idle => self.idle.saturating_add(1),
        }
    }
}

/// What the number of parts of a large message depends on (`NMAD_CHUNKS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Chunks {
    /// The rails that are worth their while, whatever the cores do.
    Rails,
    /// Also the load: one part, and one more for each idle core.
    Idle,
}

/// A rail that can carry large messages to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rail {
    /// Its place in `NMAD_DRIVER`, from 0.
    pub number: usize,
    /// What a part costs whatever its length, in nanoseconds: sampled, as the next one.
    pub latency_ns: u64,
    /// Nanoseconds for a mebibyte.
    pub mib_ns: u64,
    /// Nanoseconds until it is free of what it has to carry already, as predicted.
    pub busy_ns: u64,
    /// It is as fast as a core feeds it, as far as is known: two such rails together are no faster than one.
    pub copies: bool,
}

impl Rail {
    /// When a part of so many bytes would be through, in nanoseconds from now.
    pub fn end_ns(&self, bytes: usize) -> u64 {
        let carried = (bytes as u128 * u128::from(self.mib_ns)) >> 20;
        let carried = u64::try_from(carried).unwrap_or(u64::MAX);
        self.busy_ns.saturating_add(self.latency_ns).saturating_add(carried)
    }
}
