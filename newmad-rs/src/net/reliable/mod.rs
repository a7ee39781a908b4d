//! Reliability over links that break: what is apart from the drivers, which carry packets, and from the engine, which
//! decides about messages.
//!
//! | file | what |
//! |---|---|
//! | `state` | one peer's acknowledgements, broken links and times: the rules |
//! | `retransmit` | the packets that the peer has not acknowledged |
//! | `checksum` | checksums of packets |
//!
//! [`Gates`](crate::gate::gates::Gates) applies it to its rails. The fragments of long messages have rules of their own
//! (`proto/missing.rs`).

mod checksum;
mod retransmit;
mod state;

pub(crate) use checksum::checksum;
pub(crate) use retransmit::Retransmit;
pub(crate) use state::{ACK, PATIENCE_MS, PROBE, Reliability};
