//! What libraries build on that bring sources, servers or channels of their own: no promises to applications.
//!
//! `newmad` and `pioman-extras` use it. A program that waits, reads and writes needs nothing from here.

#[cfg(not(loom))]
mod core_handle;

#[cfg(not(loom))]
pub use crate::{
    fault::{is_too_long, may_be_long, message, report},
    manager::own_sources::OwnSource,
    observe::threads::library_thread,
    source::fork::Birth,
    sync::deferred::{Held as WakersHeld, hold as hold_wakers, must_not_wait},
};
#[cfg(not(loom))]
pub use core_handle::CoreHandle;

pub use crate::sync::{
    biased::{BiasedGuard, BiasedLock},
    handover::{Guard, Handover, HandoverLock},
};
