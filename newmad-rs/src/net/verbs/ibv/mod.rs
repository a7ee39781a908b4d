//! libibverbs behind a safe face: adapters, memory that they may use, queue pairs, completions.
//!
//! Raw pointers and calls of the library are in this folder only. An [`Adapter`] outlives what was made of it, since
//! each [`QueuePair`] holds it; the receive buffers are the adapter's own, so no queue pair receives into
//! memory that is gone.
//!
//! The library may be called by several threads. The driver calls under the engine's lock, the connection manager's
//! thread makes memory and queue pairs beside it.

mod adapter;
mod choice;
mod completion;
mod landing;
mod library;
mod memory;
mod owned;
mod pages;
mod ports;
mod queue_pair;
mod region;

pub(crate) use adapter::Event;
pub(super) use adapter::{Adapter, Plan, Which, pick};
pub(super) use completion::Completion;
pub(super) use landing::Landing;
pub use ports::{PortReport, ports};
pub(super) use queue_pair::{BATCH, Failing, Packet, QueuePair};
pub(super) use region::Region;
