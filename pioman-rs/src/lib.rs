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
//! | [`Manager::poll`], [`Manager::left_pending`], [`TaskBuilder::submit`] | goes on | goes on | goes on |
//!
//! # Where to look
//! The invariant of detection: `manager`. The mixed wait: `wait`. What the scheduler calls: `hooks`. Sleeping in
//! the kernel: `watch`, `spare`. Light tasks: `ltask`, their queues: `tree`. The lock of the progress path:
//! `handover`.

// Only what is modelled is built for the model checker.
#![cfg_attr(loom, allow(dead_code, missing_docs))]

#[cfg_attr(loom, allow(dead_code))]
mod arming;
#[cfg(not(loom))]
mod candidates;
mod completion;
mod cond;
#[cfg(not(loom))]
mod error;
mod handover;
#[cfg(not(loom))]
mod hooks;
#[cfg(not(loom))]
mod knobs;
#[cfg(not(loom))]
mod ltask;
#[cfg(not(loom))]
mod manager;
#[cfg(not(loom))]
mod point;
#[cfg(not(loom))]
mod registry;
mod shim;
#[cfg(not(loom))]
mod source;
#[cfg(not(loom))]
mod spare;
#[cfg(not(loom))]
mod tree;
#[cfg(not(loom))]
mod wait;
#[cfg(not(loom))]
mod watch;

#[cfg(not(loom))]
pub use crate::{
    error::Error,
    knobs::KNOBS,
    ltask::{Progress, Task, TaskBuilder},
    manager::{Builder, Manager, SourceHandle},
    point::{Point, Points},
    source::Source,
    wait::Hint,
};
pub use completion::Completion;
pub use cond::Cond;
pub use handover::{Guard, Handover, HandoverLock};
