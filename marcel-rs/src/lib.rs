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
//! | [`blocking`](blocking()) | blocks | goes on, or has no other thread to run | runs the closure |
//! | [`blocking::export`](mod@blocking) | blocks | goes on | runs the closure |
//! | [`blocking::standby`](mod@blocking) | makes the call | **blocks**; a standby runs what never ran | runs the closure |
//! | a blocking system call | blocks | **blocks** | blocks |
//! | [`Runtime::run`] | panics | | blocks |
//! | dropping a [`Runtime`] | blocks until all threads have ended; one of its own does not block | **blocks** | blocks |
//!
//! Each function says the rest under `# Context`, `# Blocking`, `# Wakes`, `# Errors` and `# Panics`, where they apply.
//!
//! # What lets others run
//! A green thread runs until it waits, yields or ends. A call that may wait, but need not this time, spends one of the
//! 128 operations of the thread's *budget*; the call that finds the budget used up yields first, and each turn begins
//! with a full budget. So a thread whose input is always ready, or whose messages are always there, holds up no
//! neighbour, and can be unwound when its runtime stops. The budget covers blocking input and output, messages, waits
//! and probes of the crates above; here it covers sends on bounded channels, receives, [`select!`], [`sync::Semaphore`],
//! [`sync::Barrier`], locks that are contended, [`park`], [`sleep`], [`JoinHandle::join`] and [`blocking::standby`].
//!
//! What never waits never yields: `try_…`, a send on an unbounded channel, the release of anything, a look at a set
//! event or an initialised cell. An uncontended lock does not yield either. A thread that computes, or loops over such
//! calls, calls [`yield_now`] from time to time; `MARCEL_STALL_MS` names those that do not.
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
//! Inside, from the bottom: `knob`, `list` and `os`; `topology`; `stack`, stacks and the switch between them;
//! `recorder`, what traces are made of; `tcb`, the control block of a thread; `lwp`, kernel threads for calls that
//! block; `sched`, the scheduler; `task`, what a thread is to a program; `sync`, `blocking`, `diagnosis`; `runtime`,
//! the start and the end.

// Only what is modelled is built for the model checker.
#![cfg_attr(loom, allow(dead_code, missing_docs, unreachable_pub))]

pub mod blocking;
#[cfg(not(loom))]
pub mod diagnosis;
#[cfg(not(loom))]
mod error;
#[cfg(all(feature = "bench-internals", not(loom)))]
#[doc(hidden)]
pub mod internals;
#[cfg(not(loom))]
mod knob;
#[cfg(not(loom))]
mod knobs;
mod list;
mod lwp;
mod os;
#[doc(hidden)]
pub mod plumbing;
#[cfg(not(loom))]
mod recorder;
#[cfg(not(loom))]
mod runtime;
mod sched;
#[cfg(not(loom))]
mod stack;
pub mod sync;
mod task;
mod tcb;
#[cfg(not(loom))]
pub mod topology;
#[cfg(not(loom))]
pub mod trace;

#[cfg(not(loom))]
pub use crate::{
    blocking::blocking,
    error::Error,
    knob::{Knob, KnobError},
    knobs::{KNOBS, TIMER_PERIOD},
    os::this_thread::in_tick,
    runtime::{Runtime, builder::Builder as RuntimeBuilder},
    sched::{
        hooks::{Hooks, Idle},
        load::Load,
        mode::Mode,
        policy::{self, Priority},
        vp::{Kind, Vp},
    },
    task::{
        current::{
            Thread, current, current_name, current_vp, is_green, park, park_timeout, park_until,
            sleep, sleep_until, stack_high_water, yield_now, yield_to,
        },
        interrupt::{
            Interrupted, clear_interrupt, is_interrupted, park_interruptible,
            park_until_interruptible, sleep_interruptible,
        },
        join::{JoinHandle, NoStack, Stopped},
        local_key::{AccessError, LocalKey},
        park::is_stopping,
        scope::{Scope, ScopedJoinHandle, scope},
        spawn::{Builder, spawn},
    },
    tcb::block::ThreadId,
};
pub use task::latch::Latch;

/// Makes the README's example a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
