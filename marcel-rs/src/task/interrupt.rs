//! Asking a thread to stop.
//!
//! A sticky flag in the control block, and an unpark. Interruptible calls look at the flag before they wait and
//! whenever they wake; all others ignore it. The flag and the generation of the block share a word, so that a
//! request that comes late does not stop the block's next thread.
//!
//! Rejected: unwinding the thread at its next wait, as POSIX cancellation does. Any call that waits would have
//! to be a place where its callers can be torn off; an error is handled where it is understood.

use std::fmt;
#[cfg(not(loom))]
use std::time::Duration;
use std::time::Instant;

use crate::task::park::{current, park_until};
#[cfg(not(loom))]
use crate::task::park::{is_stopping, park_for_unpark};

/// The calling thread has been asked to stop, by [`crate::Thread::interrupt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the thread has been asked to stop")
    }
}

impl std::error::Error for Interrupted {}

/// Whether the calling thread has been asked to stop.
pub fn is_interrupted() -> bool {
    current().interrupt.is_set()
}

/// Forgets that the calling thread has been asked to stop.
pub fn clear_interrupt() {
    current().interrupt.clear();
}

/// As [`crate::park`], unless the thread has been asked to stop.
///
/// # Blocking
/// The green thread; outside a runtime, the kernel thread.
///
/// # Errors
/// At once when the thread has been asked to stop, or when it is while it waits.
#[cfg(not(loom))]
pub fn park_interruptible() -> Result<(), Interrupted> {
    park_until_interruptible("park", None)
}

/// As [`crate::park_until`], unless the thread has been asked to stop.
///
/// # Blocking, Errors
/// As [`park_interruptible`].
#[cfg(not(loom))]
pub fn park_until_interruptible(
    reason: &'static str,
    deadline: Option<Instant>,
) -> Result<(), Interrupted> {
    unless_interrupted(|| park_for_unpark(reason, deadline))
}

/// As [`park_until`], unless the thread has been asked to stop.
pub(crate) fn wait_until_interruptible(
    reason: &'static str,
    deadline: Option<Instant>,
) -> Result<(), Interrupted> {
    unless_interrupted(|| park_until(reason, deadline))
}

fn unless_interrupted(wait: impl FnOnce()) -> Result<(), Interrupted> {
    // The flag is set before the token is made available: a waiter that misses it here finds the token.
    let tcb = current();
    if !tcb.interrupt.is_set() {
        wait();
    }
    if tcb.interrupt.is_set() { Err(Interrupted) } else { Ok(()) }
}

/// As [`crate::sleep`], unless the thread has been asked to stop.
///
/// # Blocking, Errors
/// As [`park_interruptible`].
#[cfg(not(loom))]
pub fn sleep_interruptible(time: Duration) -> Result<(), Interrupted> {
    let end = Instant::now().checked_add(time);
    while end.is_none_or(|end| Instant::now() < end) && !is_stopping() {
        wait_until_interruptible("sleep", end)?;
    }
    Ok(())
}
