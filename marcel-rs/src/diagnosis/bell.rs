//! The bell of the diagnosis thread: other threads and signal handlers wake it.

use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::Instant;

use crate::os::sleeper::Sleeper;

static BELL: Sleeper = Sleeper::new();
static SERVED: AtomicBool = AtomicBool::new(false);

/// Wakes the diagnosis thread.
///
/// # Context
/// Anywhere, signal handlers included.
pub(super) fn ring() {
    BELL.notify();
}

/// Sleeps until `is_wanted` holds after a [`ring`], or until `deadline`.
pub(super) fn sleep(deadline: Option<Instant>, is_wanted: impl Fn() -> bool) {
    BELL.sleep(deadline, is_wanted);
}

/// Says whether a diagnosis thread answers the bell.
pub(super) fn set_served(served: bool) {
    SERVED.store(served, Release);
}

/// Whether a diagnosis thread answers the bell.
pub(super) fn is_served() -> bool {
    SERVED.load(Acquire)
}
