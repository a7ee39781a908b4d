//! Communication core: messages between the threads of several processes, with tags, eager and rendezvous
//! protocols, over shared memory or TCP; progress in the background by the I/O manager.
//!
//! ```
//! newmad::run(|session| {
//!     let next = (session.rank() + 1) % session.size();
//!     let hello = session.isend(next, 7, "hello")?;
//!     let mut buffer = [0; 16];
//!     let status = session.recv(newmad::ANY, 7, &mut buffer)?;
//!     assert_eq!(&buffer[..status.len], b"hello");
//!     hello.wait()?;
//!     Ok::<(), newmad::Error>(())
//! })??;
//! # Ok::<(), newmad::Error>(())
//! ```
//!
//! # What each call blocks
//! | call | green thread | its virtual processor | kernel thread outside a runtime |
//! |---|---|---|---|
//! | [`Session::send`], [`Session::recv`], [`Session::barrier`], the `wait`s, the end of a [`Session::scope`], dropping an unfinished request | blocks | goes on | blocks |
//! | [`Session::isend`], [`Session::irecv`], the `test`s | goes on | goes on | goes on |
//! | opening a session | blocks | **blocks** | blocks |
//! | closing it | blocks | goes on (**blocks** while the process manager answers) | blocks |
//!
//! # Where to look
//! Requests: `request`. Collect: `collect` (submission list). Optimise: `strategy`. Transfer: `transfer`,
//! `driver`. Matching: `matching`, `pool`. What arrives: `incoming`. Large messages: `rendezvous`. Deaths and
//! the end: `gate`. The lock around all that: `engine`. Bytes on the wire: `proto`.

mod bootstrap;
mod collect;
mod core;
mod driver;
mod engine;
mod error;
mod gate;
mod handle;
mod incoming;
mod knobs;
mod matching;
mod pool;
mod proto;
mod queue;
mod rendezvous;
mod request;
mod run;
mod scope;
mod session;
#[cfg(all(test, not(loom)))]
mod simulation;
mod span;
mod strategy;
mod sync;
mod sys;
mod transfer;

pub use driver::shm::cma::cma_works;
pub use error::{Cause, Error};
pub use handle::{RecvRequest, SendRequest};
pub use knobs::KNOBS;
pub use run::run;
pub use scope::{Scope, ScopedRequest};
pub use session::{ANY, Builder, Driver, Origin, Session};

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
