//! Communication core: messages between the threads of several processes, with tags, eager and rendezvous
//! protocols, over shared memory, TCP or verbs (InfiniBand or RoCE); progress in the background by the I/O manager.
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
//! | [`Session::send`], [`Session::recv`] and their kin (`send_with`, `recv_with`, `probe`, `mprobe`), [`Session::barrier`], the `wait`s, [`wait_any`] and its kin, the end of a [`Session::scope`], dropping an unfinished request | blocks | goes on | blocks |
//! | [`Session::isend`], [`Session::irecv`] and their kin, [`Session::iprobe`], `start`, `cancel`, the `test`s, requests as futures | goes on | goes on | goes on |
//! | opening a session | blocks | **blocks** | blocks |
//! | closing it | blocks | goes on (**blocks** while neighbours and the process manager say goodbye) | blocks |
//!
//! # Where to look
//! The path of a message: `api` (calls and requests of the program), `engine` (the lock, and when to poll), `proto`
//! (the protocols) and `matching` (which receive gets which message), `net` (networks). `collect`: what is submitted
//! while the engine is locked. `strategy`: what goes into the next packet. `wire`: formats of packets. `gate`: a peer,
//! its queues and its end. `connect`, `bootstrap`: how processes meet, stay connected and notice each other's end. [`tolerance`]: going on after that.
#![warn(missing_debug_implementations)]

#[cfg(not(loom))]
mod api;
#[cfg(not(loom))]
pub mod authentication;
#[cfg(not(loom))]
mod bootstrap;
#[cfg(not(loom))]
mod callback;
#[cfg(not(loom))]
mod choices;
#[cfg(not(loom))]
pub mod coll;
mod collect;
#[cfg(not(loom))]
mod connect;
#[cfg(not(loom))]
pub mod driver;
#[cfg(not(loom))]
mod engine;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod gate;
#[cfg(all(feature = "bench-internals", not(loom)))]
#[doc(hidden)]
#[allow(missing_debug_implementations, reason = "for benches")]
pub mod internals;
#[cfg(not(loom))]
mod knobs;
#[cfg(not(loom))]
mod matching;
#[cfg(not(loom))]
mod memory;
#[cfg(not(loom))]
mod net;
#[cfg(not(loom))]
mod nodes;
#[cfg(not(loom))]
mod pack;
#[cfg(not(loom))]
pub mod plumbing;
#[cfg(not(loom))]
pub mod port;
#[cfg(not(loom))]
mod proto;
#[cfg(not(loom))]
pub mod raw;
#[cfg(not(loom))]
mod request;
#[cfg(not(loom))]
mod rpc;
#[cfg(not(loom))]
mod run;
#[cfg(not(loom))]
pub mod sampling;
#[cfg(not(loom))]
mod session;
#[cfg_attr(loom, allow(dead_code, unused_imports))]
mod shared_locks;
#[cfg(not(loom))]
pub mod strategy;
mod sync;
#[cfg(not(loom))]
mod sys;
#[cfg(all(any(test, fuzzing), not(loom)))]
mod testing;
#[cfg(not(loom))]
pub mod tolerance;
#[cfg(not(loom))]
mod trace;
#[cfg(not(loom))]
mod wire;
// Under loom only what is modelled is built.
#[cfg(loom)]
#[cfg_attr(not(test), allow(dead_code))]
#[path = "engine/cover.rs"]
mod cover;
#[cfg(loom)]
#[cfg_attr(not(test), allow(dead_code))]
#[path = "net/shm/loan.rs"]
mod loan;
#[cfg(loom)]
#[cfg_attr(not(test), allow(dead_code))]
#[path = "net/verbs/mail.rs"]
mod mail;
#[cfg(loom)]
#[cfg_attr(not(test), allow(dead_code))]
#[path = "coll/board/meeting/neighbours.rs"]
mod neighbours;
#[cfg(loom)]
#[cfg_attr(not(test), allow(dead_code))]
#[path = "net/segment/notice.rs"]
mod notice;
#[cfg(loom)]
#[cfg_attr(not(test), allow(dead_code))]
#[path = "net/ready.rs"]
mod ready;
#[cfg(loom)]
#[path = "net/segment/ring.rs"]
mod ring;
#[cfg(loom)]
#[cfg_attr(not(test), allow(dead_code))]
#[path = "coll/board/meeting/rounds.rs"]
mod rounds;
#[cfg(loom)]
#[cfg_attr(not(test), allow(dead_code))]
#[path = "net/segment/word.rs"]
mod word;

#[cfg(not(loom))]
pub use api::buffer::{Borrowed, Buffer, BufferMut};
#[cfg(not(loom))]
pub use api::message::Message;
#[cfg(not(loom))]
pub use api::options::{RecvOptions, SendOptions};
#[cfg(not(loom))]
pub use api::request::{Keeper, Owner, Request};
#[cfg(not(loom))]
pub use api::scope::{InScope, Scope, ScopedRequest};
#[cfg(not(loom))]
pub use api::several::{Waited, test_some, wait_all, wait_any, wait_some};
#[cfg(not(loom))]
pub use bootstrap::{Launched, spawn::Command};
#[cfg(not(loom))]
pub use engine::Locking;
#[cfg(not(loom))]
pub use error::{Cause, Error};
#[cfg(not(loom))]
pub use knobs::KNOBS;
#[cfg(not(loom))]
pub use memory::layout::Strided;
#[cfg(not(loom))]
pub use pack::{Pack, PackRequest, Unpack};
#[cfg(not(loom))]
pub use request::tag::Tag;
#[cfg(all(feature = "typed", not(loom)))]
pub use rpc::Answer;
#[cfg(not(loom))]
pub use rpc::{CallError, Client, Context, Priority, Reply, Rpc, Service, ServiceBuilder};
#[cfg(not(loom))]
pub use run::{run, run_ranks};
#[cfg(not(loom))]
pub use session::{
    ANY, Builder, Connection, Control, Driver, Introduction, Origin, ProcessManager, Session,
    Spawned,
};
#[cfg(all(any(test, fuzzing), not(loom)))]
#[doc(hidden)]
pub use testing::fuzzing;

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

/// Makes the README's example a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
