//! M:N green threads: virtual processors bound to cores, stackful threads, and hooks at the points where an
//! I/O manager can detect events.
//!
//! ```
//! let runtime = marcel::Runtime::builder().build()?;
//! let sum: u64 = runtime.run(|| {
//!     let threads: Vec<_> = (0..10u64).map(|i| marcel::spawn(move || i * i)).collect();
//!     threads.into_iter().map(|t| t.join().unwrap()).sum()
//! });
//! assert_eq!(sum, 285);
//! # Ok::<(), marcel::Error>(())
//! ```
//!
//! # What each call blocks
//! | call | green thread | its virtual processor | kernel thread outside a runtime |
//! |---|---|---|---|
//! | [`park`], [`sleep`], [`JoinHandle::join`], [`scope`], what waits in [`sync`] | blocks | goes on | blocks |
//! | [`yield_now`], [`yield_to`] | goes to the end of the queue | goes on | `sched_yield` |
//! | [`spawn`], [`Thread::unpark`], [`Thread::interrupt`] | goes on | goes on | goes on ([`Runtime::spawn`]) |
//! | [`blocking`](blocking()) | blocks | goes on, or has nobody else to run | runs the closure |
//! | [`blocking::export`](mod@blocking) | blocks | goes on | runs the closure |
//! | [`blocking::standby`](mod@blocking) | makes the call | **blocks**; a standby runs what never ran | runs the closure |
//! | a blocking system call | blocks | **blocks** | blocks |
//! | [`Runtime::run`] | panics | | blocks |
//! | dropping a [`Runtime`] | blocks; one of its own does not wait | **blocks** | blocks |
//!
//! Each function says the rest under `# Context`, `# Blocking`, `# Wakes`, `# Errors` and `# Panics`, where they apply.
//!
//! # Where to look
//! | for | see |
//! |---|---|
//! | starting threads | [`spawn`], [`Builder`]; [`scope`] for those that borrow; [`Runtime::spawn`] from outside |
//! | waiting for one another | [`sync`]; [`park`] and [`Thread::unpark`]; [`Latch`] |
//! | asking a thread to stop | [`Thread::interrupt`], [`Interrupted`] |
//! | values of a thread's own | [`thread_local!`](crate::thread_local), [`LocalKey`] |
//! | calls that block in the kernel | [`mod@blocking`] |
//! | which thread runs next | [`Priority`], [`policy`], [`yield_to`] |
//! | on which cores | [`Builder::bind`], [`topology`], [`RuntimeBuilder`] |
//! | threads that move | [`RuntimeBuilder::migrate_started_threads`]: unsafe, and why |
//! | what hangs, and where | [`diagnosis`] |
//! | what happened when | [`trace`] |
//! | the environment's knobs | [`KNOBS`] |
//! | writing an I/O manager | [`Hooks`], [`Load`], [`Vp`] |
//!
//! Inside: the scheduler's loop, its queues, its ticks and how it sleeps are in `vp`; control blocks, park and unpark in
//! `thread`; stacks and the switch in `context`; what a runtime shares, its start and its end in `runtime`.

// Only what is modelled is built for the model checker.
#![cfg_attr(loom, allow(dead_code, missing_docs, unreachable_pub))]

pub mod blocking;
#[cfg(not(loom))]
mod context;
#[cfg(not(loom))]
pub mod diagnosis;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod hooks;
#[cfg(all(feature = "bench-internals", not(loom)))]
#[doc(hidden)]
pub mod internals;
#[cfg(not(loom))]
mod knob;
#[cfg(not(loom))]
mod knobs;
mod list;
#[doc(hidden)]
pub mod plumbing;
#[cfg(not(loom))]
mod runtime;
mod shim;
pub mod sync;
mod thread;
#[cfg(not(loom))]
pub mod topology;
mod vp;

#[cfg(not(loom))]
pub use crate::{
    blocking::blocking,
    error::Error,
    hooks::{Hooks, Idle},
    knob::{Knob, KnobError},
    knobs::{KNOBS, TIMER_PERIOD},
    runtime::{Runtime, builder::Builder as RuntimeBuilder, load::Load, mode::Mode},
    thread::current::{
        Thread, ThreadId, current, current_name, current_vp, is_green, is_stopping, park,
        park_timeout, park_until, sleep, sleep_until, stack_high_water, yield_now, yield_to,
    },
    thread::interrupt::{
        Interrupted, clear_interrupt, is_interrupted, park_interruptible, park_until_interruptible,
        sleep_interruptible,
    },
    thread::join::{JoinHandle, NoStack, Stopped},
    thread::local_key::{AccessError, LocalKey},
    thread::scope::{Scope, ScopedJoinHandle, scope},
    thread::spawn::{Builder, spawn},
    vp::local::in_tick,
    vp::policy::{self, Priority},
    vp::processor::{Kind, Vp},
};
#[cfg(not(loom))]
pub use diagnosis::record as trace;
pub use thread::latch::Latch;
