//! Event servers (\[Trahay09\], annex A.1): a library says how to poll for its events and how to block on them, and
//! pioman does either, whichever suits the machine at that moment.
//!
//! ```
//! use pioman_extras::server::{Outcome, Server};
//! # use std::sync::{Arc, atomic::{AtomicBool, Ordering::SeqCst}};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let manager = pioman::Manager::here()?;
//! let server = Server::builder(&manager, "flags")
//!     .poll_one(|request| {
//!         let flag: &Arc<AtomicBool> = request;
//!         if flag.load(SeqCst) {
//!             request.complete(0);
//!         }
//!     })
//!     .start()?;
//! let flag = Arc::new(AtomicBool::new(false));
//! let request = server.submit(flag.clone())?;
//! assert_eq!(request.test(), None);
//! flag.store(true, SeqCst);
//! assert_eq!(request.wait(), Outcome::Completed(0));
//! # Ok(())
//! # }
//! ```
//!
//! # What looks for a request
//! A thread that waits, an idle virtual processor or a context switch *polls*, one thread at a time, for all requests
//! of the server (`polling`). Of several waiting threads one polls, the others sleep (`poller`). *Blocking* is done by
//! pool threads (`blocking`): from the submission on if the policy says so, since every core computes; else from the
//! moment when the last poller leaves (`arming`). It goes back to polling when a thread waits and the policy lets it
//! poll, and for good when threads poll for half a millisecond without a pause.
//!
//! Which callback is taken:
//!
//! | requests to look for | polling: the first that there is | blocking: the first that there is |
//! |---|---|---|
//! | one | poll one, poll group, poll any | block one, block group, block any |
//! | several | poll any, poll group (each interface), poll one (each) | block any, block group, block one |
//!
//! With *poll* callbacks only, requests are polled: while everything sleeps, at the pace of the tick (4 ms). With
//! *block* callbacks only, pool threads block (`PIOM_SPARE_LWP` of them at most), in every mode, since nothing else can
//! be done; a kind with time-out also serves for polling. With both, `block` callbacks are used in mode `smp` with the
//! point *block* on. Without a pool thread, requests are polled until one is to be had.
//!
//! # How a request ends
//! Exactly once (`word`): completed by a callback, or by another holder of a [`Pending`] (another thread, another
//! server, a driver in the tick's signal handler); cancelled; stopped with its server; failed with a callback. The
//! thread that ends it wakes all its waiters at once, the poller included.
//!
//! A request is its caller's ([`Server::submit`]) or the library's own ([`Server::post`]), whose end
//! [`Server::wait_any`] gives. What may be said of it: [`Options`].
//!
//! Rejected: values that callbacks may change through `&mut` (then a poll could not look at what a pool thread blocks
//! on; a value that changes has its own lock); a source for each server (64 servers at most, and pins that a server
//! dropped in its own callback would wait for); requests in the caller's memory (a safe caller can forget them).

#[cfg(not(loom))]
mod activity;
#[cfg(not(loom))]
mod arming;
#[cfg(not(loom))]
mod blocking;
#[cfg(not(loom))]
mod builder;
#[cfg(not(loom))]
mod callbacks;
#[cfg(not(loom))]
mod counters;
#[cfg(not(loom))]
mod handle;
#[cfg(not(loom))]
mod job;
#[cfg(not(loom))]
mod kinds;
#[cfg(not(loom))]
mod options;
#[cfg(not(loom))]
mod pass;
#[cfg(not(loom))]
mod pending;
mod poller;
#[cfg(not(loom))]
mod polling;
#[cfg(not(loom))]
mod pool;
#[cfg(not(loom))]
mod request;
#[cfg(not(loom))]
mod server_source;
#[cfg(not(loom))]
mod shared;
mod waiters;
mod word;

#[cfg(not(loom))]
pub use self::{
    builder::Builder,
    counters::Counters,
    handle::Server,
    options::{Only, Options},
    pending::{Group, Pending},
    request::{DROPPED, Request},
    shared::{NotTaken, Refused},
};
pub use word::Outcome;
