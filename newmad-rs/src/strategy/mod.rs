//! Strategies: what leaves next, in which order and together with what, and over which rails large messages go.
//!
//! The *optimise* layer between submission and transfer. Messages that find their gate's small track free leave at once;
//! the others wait in the gate's queue. Whenever the track has room and more than one message waits, the gate's
//! strategy is shown a window of the queue ([`Waiting`]) and fills the next packet ([`Packet`]); when a large
//! message may move it is shown the open rails ([`Rail`]) and says how many bytes each of them gets.
//!
//! A strategy only answers. The core checks each answer, acts, and goes on without one: a wrong strategy costs time, and
//! neither a message, nor its order, nor the protocol. In particular the core sees to it that
//! - messages from one sender with the same tag never overtake each other, and, unless the session allows it
//!   (`NMAD_REORDER`), no message overtakes another;
//! - a message that has begun to leave goes on before all others;
//! - the oldest message leaves next after the others have overtaken it for [`PATIENCE`] packets;
//! - an empty answer sends the oldest message, and shares that do not come to the whole message send all of it over
//!   the fastest rail.
//!
//! | name | its packets | its large messages | file |
//! |---|---|---|---|
//! | `default` | one message each, in order | the fastest rail | `default.rs` |
//! | `aggreg` | as many messages as fit | the fastest rail | `aggreg.rs` |
//! | `prio` | as many as fit, the most urgent first | the fastest rail | `prio.rs` |
//! | `split_balance` | as `aggreg` | parts over all rails that end together | `split_balance.rs` |
//!
//! Rejected: strategies that take messages from the queue and post packets themselves, as NewMadeleine's do (each has to
//! keep order, credits and repair, and a user's first one breaks the protocol).

pub(crate) mod aggreg;
pub(crate) mod chosen;
pub(crate) mod default;
pub(crate) mod prio;
pub(crate) mod selection;
pub(crate) mod split_balance;

use std::sync::Arc;

pub use crate::wire::MAX_RAILS;
use crate::wire::entries;
pub use chosen::{Packet, Waiting};

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
}

impl Message {
    /// Bytes that it takes in a packet together with others.
    pub fn bytes(&self) -> usize {
        match self.announced {
            true => entries::ANNOUNCED,
            false => entries::SHORT + self.len,
        }
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

/// Answers what leaves next; see the module. Users write their own: `examples/my_strategy.rs`.
///
/// ```
/// use newmad::strategy::{Packet, Strategy, Waiting};
///
/// /// The shortest first.
/// struct Shortest;
///
/// impl Strategy for Shortest {
///     fn name(&self) -> &str {
///         "shortest"
///     }
///     fn fill(&self, waiting: &Waiting<'_>, packet: &mut Packet<'_>) {
///         for limit in [64, 1024, usize::MAX] {
///             for (index, message) in waiting.iter().enumerate() {
///                 if message.len <= limit {
///                     packet.take(index);
///                 }
///             }
///         }
///     }
/// }
/// # let _ = Shortest;
/// ```
///
/// # Context
/// All methods are called on the progress path: by threads that send or wait, by the scheduler and by kernel threads
/// of the I/O manager, one call at a time for each session. They should take some ten nanoseconds for each message shown,
/// and must neither block, nor allocate, nor wait for a message. They are never called from a signal handler: there
/// `default` answers. One that panics is reported, and `default` answers from then on.
pub trait Strategy: Send + Sync {
    /// Its name, for messages.
    fn name(&self) -> &str;

    /// Fills the next packet of the small track from the messages that wait, two of them or more.
    fn fill(&self, waiting: &Waiting<'_>, packet: &mut Packet<'_>);

    /// Whether [`Strategy::hold`] is to be asked; looked at once, when the strategy is chosen.
    fn may_hold(&self) -> bool {
        false
    }

    /// A message whose sender does not wait for it is submitted, nothing is before it and the track is free. True: it stays
    /// until somebody looks for events, at the latest when the session's I/O manager, which is told, does; it then leaves
    /// together with what came after it. False: it leaves at once.
    fn hold(&self, lone: &Lone) -> bool {
        let _ = lone;
        false
    }

    /// How many bytes of a large message go over each of these rails, two of them or more: `shares[i]` over `rails[i]`; all
    /// zero at first. Unless this comes to the message's length, everything goes over the fastest.
    fn share(&self, large: &Large, rails: &[Rail], shares: &mut [usize]) {
        let _ = (large, rails, shares);
    }

    #[doc(hidden)]
    fn is_ours(&self, _: seal::Seal) -> bool {
        false
    }
}

/// Lets nobody else say that a strategy is one of this crate.
pub(crate) mod seal {
    #[derive(Debug)]
    pub struct Seal;
}

impl std::fmt::Debug for dyn Strategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Names of the strategies that come with this crate.
pub use crate::knobs::STRATEGIES as NAMES;

/// The strategy of this name ([`NAMES`]).
pub fn by_name(name: &str) -> Option<Arc<dyn Strategy>> {
    Some(match name {
        "default" => Arc::new(default::Default),
        "aggreg" => Arc::new(aggreg::Aggreg),
        "prio" => Arc::new(prio::Prio),
        "split_balance" => Arc::new(split_balance::SplitBalance),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_strategy_of_that_name() {
        for name in NAMES {
            assert_eq!(by_name(name).unwrap().name(), *name);
        }
        assert!(by_name("clever").is_none());
    }
}
