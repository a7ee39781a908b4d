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
//! | a blocking system call | blocks | **blocks** | blocks |
//!
//! # Where to look
//! The scheduler's loop and how it sleeps: `vp`. Park and unpark: `tcb`. The switch: `context`. Ticks: `tick`.
//! Spare kernel threads: [`lwp`]. What an I/O manager sees: [`Hooks`].

mod context;
mod error;
mod hooks;
pub mod knob;
mod knobs;
mod latch;
mod local;
pub mod lwp;
mod overflow;
mod queue;
mod runtime;
mod sleeper;
mod spawn;
mod stack;
pub mod sync;
mod tcb;
mod thread;
mod tick;
mod timer;
pub mod topology;
mod vp;

pub use error::Error;
pub use hooks::{Hooks, Idle};
pub use knobs::{KNOBS, TIMER_PERIOD};
pub use latch::Latch;
pub use runtime::{Builder as RuntimeBuilder, Load, Mode, Runtime};
pub use sleeper::Sleeper;
pub use spawn::{Builder, JoinHandle, Stopped, spawn};
pub use thread::{
    Thread, current, current_name, current_sleeper, current_vp, is_green, is_stopping,
    others_runnable, park, park_timeout, park_until, sleep, yield_now,
};
pub use vp::{Kind, Vp};
