//! An I/O manager that the thread scheduler calls: at its idle loop, at context switches and at timer ticks it
//! polls; when every core computes, the background watcher and pool threads block instead.
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
//! | [`Manager::poll`], [`Manager::ensure_watched`], [`TaskBuilder::submit`] | goes on | goes on | goes on |
//!
//! # Where to look
//! From the top: [`net`], [`fs`], [`process`], [`pipe`], [`fd`], [`time`] wait with a manager (`manager`, `tasks`), for
//! sources that are built in (`io`). Which thread polls, which one sleeps in the kernel, and why no event is forgotten:
//! `driver`. The sources, and the policies that choose the method of detection: `progress`, [`policy`]. Light tasks and
//! their queues: `ltask`. What a thread waits for: `completion`. The lock of the progress path: `sync`. Libraries with
//! machinery of their own: [`plumbing`]. Counts of polls and events: [`observe`].

#![warn(missing_debug_implementations)]
// Only what is modelled is built for the model checker.
#![cfg_attr(loom, allow(dead_code, missing_docs, unreachable_pub))]

mod completion;
mod driver;
#[cfg(not(loom))]
mod epoll;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod fault;
#[cfg(not(loom))]
pub mod fd;
#[cfg(not(loom))]
mod fork;
#[cfg(not(loom))]
pub mod fs;
mod io;
#[cfg(not(loom))]
mod kernel_limits;
#[cfg(not(loom))]
mod kernel_threads;
#[cfg(not(loom))]
mod knobs;
#[cfg(not(loom))]
mod like_std;
mod ltask;
#[cfg(not(loom))]
mod manager;
#[cfg(not(loom))]
pub mod net;
#[cfg(not(loom))]
pub mod observe;
#[cfg(not(loom))]
pub mod pipe;
pub mod plumbing;
#[cfg(not(loom))]
pub mod policy;
#[cfg(not(loom))]
pub mod process;
mod progress;
mod shim;
mod srcu;
mod stderr;
mod sync;
#[cfg(not(loom))]
mod tasks;
#[cfg(not(loom))]
pub mod time;
#[cfg(not(loom))]
mod trace;

pub use crate::completion::{
    callback::Callback, cond::Cond, future::Wait, one_shot::Completion, semaphore::Semaphore,
    waitable::Waitable,
};
#[cfg(all(feature = "bench-internals", not(loom)))]
#[doc(hidden)]
pub use crate::ltask::internals;
#[cfg(not(loom))]
pub use crate::{
    completion::notifier::{Notifier, Watched},
    driver::offers::Glance,
    error::Error,
    fault::faults,
    io::uring::{FileEngine, transfer::Transfer},
    knobs::KNOBS,
    ltask::counts::TaskCounts,
    ltask::report::{Progress, TaskError},
    manager::Manager,
    manager::builder::Builder,
    manager::current::{Entered, current},
    manager::looking::Looking,
    manager::runtime::Runtime,
    manager::source_handle::{Removed, SourceHandle, SourceRemoved},
    progress::point::{Point, Points},
    progress::policy::contract::Policy,
    progress::policy::hints::{Hint, Hints, Priority},
    progress::source::{Source, SourceId},
    tasks::builder::{Polling, TaskBuilder},
    tasks::task::Task,
    tasks::tasklet::{Tasklet, TaskletBuilder, TaskletType},
};

/// Makes the README's example a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
