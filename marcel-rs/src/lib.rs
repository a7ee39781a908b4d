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
//! | [`park`], [`sleep`], [`JoinHandle::join`], [`sync`] | blocks | goes on | blocks |
//! | [`yield_now`] | goes to the end of the queue | goes on | `sched_yield` |
//! | [`spawn`], [`Thread::unpark`] | goes on | goes on | goes on |
//! | [`blocking`](blocking()) | blocks | goes on | runs the closure |
//! | a blocking system call | blocks | **blocks** | blocks |
//!
//! # Where to look
//! The scheduler's loop, its queues, its ticks and how it sleeps: `vp`. Control blocks, park and unpark: `thread`. Stacks and the
//! switch: `context`. Blocking calls, spare kernel threads: [`mod@blocking`]. What an I/O manager sees: [`Hooks`].

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
#[cfg(not(loom))]
pub mod knob;
#[cfg(not(loom))]
mod knobs;
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
    blocking::{blocking, lwp},
    error::Error,
    hooks::{Hooks, Idle},
    knobs::{KNOBS, TIMER_PERIOD},
    runtime::{Runtime, builder::Builder as RuntimeBuilder, load::Load, mode::Mode},
    thread::current::{
        Thread, current, current_name, current_sleeper, current_vp, is_green, is_stopping,
        others_runnable, park, park_timeout, park_until, sleep, stack_high_water, yield_now,
        yield_to,
    },
    thread::interrupt::{
        Interrupted, clear_interrupt, is_interrupted, park_interruptible, park_until_interruptible,
        sleep_interruptible,
    },
    thread::join::{JoinHandle, NoStack, Stopped},
    thread::local_key::{AccessError, LocalKey},
    thread::scope::{Scope, ScopedJoinHandle, scope},
    thread::spawn::{Builder, spawn},
    vp::policy::{self, Priority},
    vp::processor::{Kind, Vp},
};
pub use thread::latch::Latch;
pub use vp::sleeper::Sleeper;
