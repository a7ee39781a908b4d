//! Communication core: tags, matching, eager and rendezvous protocols over local, shm and tcp drivers.

mod bootstrap;
mod collect;
mod core;
mod driver;
mod error;
mod gate;
mod incoming;
mod knobs;
mod matching;
mod pool;
mod proto;
mod queue;
mod rendezvous;
mod request;
mod span;
mod strategy;
mod sync;
mod sys;
mod transfer;

pub use error::{Cause, Error};
pub use knobs::KNOBS;

/// What is known of a message that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Rank of its sender.
    pub source: u32,
    /// Its tag.
    pub tag: u64,
    /// Its length in bytes.
    pub len: usize,
}
