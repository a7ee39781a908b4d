//! Strategies: what leaves next, in which order and together with what, and over which rails large messages go.
//!
//! The *optimise* layer between submission and transfer. Messages that find their gate's small track free leave at
//! once; the others wait in the gate's queue. Whenever the track has room and more than one message waits, the gate's
//! strategy is shown a window of the queue ([`Waiting`]) and fills the next packet ([`Packet`]); when a large message
//! may move it is shown the open rails ([`Rail`]) and says how many bytes each of them gets.
//!
//! A strategy only answers. The protocol checks each answer, acts, and goes on without one: a wrong strategy costs
//! time, and neither a message, nor its order, nor the protocol. In particular the protocol sees to it that
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
//! Rejected: strategies that take messages from the queue and post packets themselves, as NewMadeleine's do (each has
//! to keep order, credits and repair, and a user's first one breaks the protocol).

pub(crate) mod aggreg;
pub(crate) mod contract;
pub(crate) mod default;
mod message;
pub(crate) mod packet;
pub(crate) mod prio;
pub(crate) mod selection;
pub(crate) mod split_balance;

use std::sync::Arc;

pub use crate::wire::MAX_RAILS;
pub use contract::Strategy;
pub use message::{Chunks, Large, Lone, Message, PATIENCE, Rail, WINDOW};
pub use packet::{Packet, Waiting};

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
