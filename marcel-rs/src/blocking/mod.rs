//! Calls that block in the kernel, and the spare kernel threads that make them.
//!
//! ```
//! # let runtime = marcel::Runtime::builder().build()?;
//! # runtime.run(|| {
//! let hosts = marcel::blocking(|| std::fs::read_to_string("/etc/hosts"));
//! # assert!(hosts.is_ok());
//! # });
//! # Ok::<(), marcel::Error>(())
//! ```
//!
//! Two mechanisms, one of each source. [`blocking()`] picks; [`export`] and [`standby`] are there to force one.
//!
//! | | [`export`] (\[Trahay09\]) | [`standby`] (\[Trahay07\]) |
//! |---|---|---|
//! | the call is made by | a kernel thread of a pool | the caller's |
//! | it costs | two wake-ups by the kernel | some tens of nanoseconds |
//! | meanwhile, of the caller's virtual processor, run | all its threads | those that never ran, on a standby |
//! | those that it has started | run | wait for the return |
//! | the closure | goes to another kernel thread: `Send`, other thread-locals | stays |
//! | when the kernel gives no thread | it waits for one of the pool, or blocks the virtual processor | the same |
//!
//! Auto (`MARCEL_BLOCKING`): a virtual processor on which only the caller has been started has no thread that would
//! have to wait, so its call is made by standby; every other is exported. What was started elsewhere during the call
//! is not known to it: threads bound to this virtual processor wait.
//!
//! A closure should be the call and little else. On the pool it is no green thread; by standby it is the caller.

#[cfg(not(loom))]
mod choice;
#[cfg(not(loom))]
mod export;
#[cfg(not(loom))]
mod standby;

#[cfg(not(loom))]
pub use self::{choice::blocking, export::export, standby::standby};
#[cfg(not(loom))]
pub use crate::lwp::blocking::Mechanism;
