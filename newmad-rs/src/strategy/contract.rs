//! What a strategy has to answer.

use crate::strategy::message::{Large, Lone, Rail};
use crate::strategy::packet::{Packet, Waiting};

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
/// of the I/O manager, one call at a time for each session. They should take some ten nanoseconds for each message
/// shown, and must neither block, nor allocate, nor wait for a message. The caller holds the engine: calls of a session
/// are refused with [`Error::InStrategy`](crate::Error::InStrategy), and those that return no error panic. They are
/// never called from a signal handler: there `default` answers. One that panics is reported, and `default` answers from
/// then on.
pub trait Strategy: Send + Sync {
    /// Its name, for messages.
    fn name(&self) -> &str;

    /// Fills the next packet of the small track from the messages that wait, two of them or more.
    fn fill(&self, waiting: &Waiting<'_>, packet: &mut Packet<'_>);

    /// Whether [`Strategy::hold`] is to be asked; looked at once, when the strategy is chosen.
    fn may_hold(&self) -> bool {
        false
    }

    /// A message whose sender does not wait for it is submitted, nothing is before it and the track is free. True: it
    /// stays until a thread polls, at the latest when the session's I/O manager, which is told, does; it then leaves
    /// together with what came after it. False: it leaves at once.
    fn hold(&self, lone: &Lone) -> bool {
        let _ = lone;
        false
    }

    /// How many bytes of a large message go over each of these rails, two of them or more: `shares[i]` over `rails[i]`;
    /// all zero at first. Unless this comes to the message's length, everything goes over the fastest.
    fn share(&self, large: &Large, rails: &[Rail], shares: &mut [usize]) {
        let _ = (large, rails, shares);
    }

    #[doc(hidden)]
    fn is_ours(&self, _: seal::Seal) -> bool {
        false
    }
}

/// Only this crate can say that a strategy is one of its own.
pub(crate) mod seal {
    #[derive(Debug)]
    pub struct Seal;
}

impl std::fmt::Debug for dyn Strategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
