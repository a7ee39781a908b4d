//! An I/O manager that the thread scheduler calls: at its idle loop, at context switches and at timer ticks it
//! polls; when every core computes, spare kernel threads block instead.
//!
//! A library registers a [`Source`] of events and waits for [`Completion`]s with [`Manager::wait`]; it may also
//! submit light tasks ([`TaskBuilder`]). Applications wait as they would anywhere; their green threads block
//! alone, and requests progress while they compute.
//!
//! # What each call blocks
//! | call | green thread | its virtual processor | kernel thread outside a runtime |
//! |---|---|---|---|
//! | [`Manager::wait`], [`Task::wait`] | blocks | goes on; polls or sleeps in the kernel when it has nothing to run | blocks |
//! | [`Manager::wait_any`], [`Manager::wait_all`], [`Cond::wait`], [`Semaphore::acquire`] | as [`Manager::wait`] | | |
//! | [`Completion::complete`], [`Cond::signal`], [`Semaphore::release`], [`Notifier::notify`] | goes on, in a handler too | goes on | goes on |
//! | what reads, writes, syncs or waits in [`fs`] and [`process`] | blocks | goes on | blocks |
//! | [`time::Timer::wait`], [`time::Interval::tick`], [`Transfer::wait`] | blocks | goes on | blocks |
//! | [`fs::File::start_read_at`] and its like, [`time::timeout`] | goes on | goes on | goes on |
//! | [`Manager::poll`], [`Manager::left_pending`], [`TaskBuilder::submit`] | goes on | goes on | goes on |
//!
//! # Where to look
//! The invariant of detection: `manager`. The mixed wait: `wait`. Who chooses the method of
//! detection: [`policy`]. What the scheduler calls: `manager/hooks.rs`. Sleeping in
//! the kernel: `watch`. Light tasks and their queues: `ltask`. What is waited for, and the lock of the progress path:
//! `sync`. Sockets, pipes and other descriptors:
//! [`net`], [`pipe`], [`fd`], `source/fd`. Files by `io_uring` or a pool: [`fs`], `source/uring`. Deadlines: [`time`],
//! `source/timer`. Children: [`process`].
//! Libraries with machinery of their own: [`plumbing`]. Who has looked where, and with what success: [`observe`].

// Only what is modelled is built for the model checker.
#![cfg_attr(loom, allow(dead_code, missing_docs, unreachable_pub))]

#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod fault;
#[cfg(not(loom))]
pub mod fd;
#[cfg(not(loom))]
pub mod fs;
#[cfg(not(loom))]
mod knobs;
mod ltask;
#[cfg(not(loom))]
mod manager;
#[cfg(not(loom))]
pub mod net;
#[cfg(not(loom))]
pub mod observe;
mod pins;
#[cfg(not(loom))]
pub mod pipe;
pub mod plumbing;
#[cfg(not(loom))]
pub mod policy;
#[cfg(not(loom))]
pub mod process;
mod shim;
#[cfg_attr(loom, allow(unused_imports))]
mod source;
mod sync;
#[cfg(not(loom))]
pub mod time;
#[cfg(not(loom))]
mod wait;
mod watch;

#[cfg(not(loom))]
pub use crate::{
    error::Error,
    fault::faults,
    knobs::KNOBS,
    ltask::{
        Polling, Progress, Task, TaskBuilder, TaskCounts, TaskError, Tasklet, TaskletBuilder,
        TaskletType,
    },
    manager::current::{Entered, current},
    manager::point::{Point, Points},
    manager::registry::SourceId,
    manager::{Builder, Looking, Manager, Removed, SourceHandle, SourceRemoved, runtime::Runtime},
    policy::Policy,
    policy::hints::{Hint, Hints, Priority},
    source::Source,
    source::uring::{FileEngine, transfer::Transfer},
};
#[cfg(all(feature = "bench-internals", not(loom)))]
#[doc(hidden)]
pub use ltask::internals;
#[cfg(not(loom))]
pub use sync::notifier::{Notifier, Watched};
pub use sync::{
    callback::Callback, completion::Completion, cond::Cond, future::Wait, semaphore::Semaphore,
    waitable::Waitable,
};
