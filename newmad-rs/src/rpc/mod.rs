//! Remote calls: services that other processes of the session call by name or number; replies are futures.
//!
//! ```
//! newmad::run(|session| {
//!     let rpc = session.rpc()?;
//!     rpc.service("shout").bytes(|_, text| Ok::<_, String>(text.to_ascii_uppercase()))?;
//!     session.barrier()?; // all ranks offer it now
//!     let next = (session.rank() + 1) % session.size();
//!     let reply = rpc.call_bytes(next, "shout", b"hello")?;
//!     assert_eq!(reply.wait()?, b"HELLO");
//!     session.barrier()?;
//!     Ok::<(), newmad::Error>(())
//! })??;
//! # Ok::<(), newmad::Error>(())
//! ```
//!
//! With the feature `typed` (on by default) arguments and results are any types that serde knows: [`Client::call`],
//! [`Rpc::serve`].
//!
//! # What runs where
//! A call runs on a green thread of its own, on the reactive virtual processors of the target, so it is served while
//! every core computes; without a runtime it is a kernel thread. Handlers may block, wait, and call services
//! themselves, their callers' too. Services that answer at once may run [`inline`](ServiceBuilder::inline), where the
//! call is found. A call carries a [`Priority`]: an urgent one passes those that wait, a background one waits until the
//! virtual processor has nothing else. A target that is awake is sent no wake-up, whatever the priority: that is the
//! drivers' affair (`net/segment/bell.rs`).
//!
//! # Bounds
//! `NMAD_RPC_THREADS` calls of one kind run at once, and their long arguments take at most `NMAD_RPC_MEMORY` bytes;
//! beyond that calls wait (see `lanes` for why nothing waits in a circle). Longer arguments, and longer results at the
//! caller, are refused.
//!
//! # Ends
//! A peer that dies ends every call to it with [`crate::Error::PeerDied`]; the end of the session, every call with
//! [`crate::Error::Closed`]. A process that has never registered a service does not answer: calls to it wait until it
//! does, or leaves.
//!
//! Rejected: a thread that receives all answers and hands them out (each call has a tag of its own, so matching does
//! it); a thread for each reply that is not wanted (callbacks take it); suspending a call that waits for memory (the
//! thread is that already).

mod client;
mod depth;
mod error;
mod lanes;
mod outgoing;
mod registry;
mod service;
mod serving;
#[cfg(feature = "typed")]
mod typed;
pub(crate) mod wire;

pub use client::{Client, Context};
pub use error::CallError;
pub use lanes::Priority;
pub use outgoing::Reply;
pub use service::{Rpc, ServiceBuilder};
#[cfg(feature = "typed")]
pub use typed::Answer;
pub use wire::Service;
