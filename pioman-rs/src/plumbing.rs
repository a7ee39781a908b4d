//! What libraries build on that bring sources, servers or channels of their own: no promises to applications.
//!
//! `newmad` and `pioman-extras` use it. A program that waits, reads and writes needs nothing from here.

#[cfg(not(loom))]
mod core_handle;

#[cfg(not(loom))]
pub use crate::{
    completion::wakers::{Held as WakersHeld, hold as hold_wakers},
    fault::{Called, TOO_LONG, call as call_foreign, report},
    fork::Birth,
    kernel_limits::check_file_size,
    kernel_threads::library_thread,
    manager::own_sources::OwnSource,
    trace::{Call as TracedCall, completes},
};
#[cfg(not(loom))]
pub use core_handle::CoreHandle;

pub use crate::sync::{
    biased::{BiasedGuard, BiasedLock},
    delegation::{Delegated, DelegationLock, Guard},
};

/// Whether the calling thread is calling a waker or a callback, or is in the middle of a light task: others wait behind
/// it, so it must not wait itself.
///
/// # Context
/// Not in a signal handler.
#[cfg(not(loom))]
pub fn must_not_wait() -> bool {
    crate::completion::wakers::is_calling() || crate::ltask::inside::is_inside()
}
