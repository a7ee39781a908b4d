//! Asking a thread to stop.
//!
//! A sticky flag in the control block, and an unpark. Interruptible calls look at the flag before they wait and
//! whenever they wake; all others ignore it. The flag and the generation of the block share a word, so that a
//! request that comes late does not stop the block's next thread.
//!
//! Rejected: unwinding the thread at its next wait, as POSIX cancellation does. Any call that waits would have
//! to be a place where its callers can be torn off; an error is handled where it is understood.

use std::fmt;
use std::sync::atomic::Ordering::*;
#[cfg(not(loom))]
use std::time::Duration;
use std::time::Instant;

use crate::os::AtomicU64;
use crate::tcb::block as tcb;

/// The calling thread has been asked to stop, by [`crate::Thread::interrupt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the thread has been asked to stop")
    }
}

impl std::error::Error for Interrupted {}

/// Generation of a control block, and whether its thread has been asked to stop: bit 0.
#[derive(Default)]
pub(crate) struct Asked(AtomicU64);

impl Asked {
    /// Which of the threads that the block has served.
    pub(crate) fn generation(&self) -> u64 {
        self.0.load(Relaxed) >> 1
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Acquire) & 1 == 1
    }

    /// Asks the thread of this generation; false if it has ended.
    pub(crate) fn ask(&self, generation: u64) -> bool {
        let unasked = generation << 1;
        match self.0.compare_exchange(unasked, unasked | 1, AcqRel, Acquire) {
            Ok(_) => true,
            Err(now) => now == unasked | 1,
        }
    }

    /// By the thread itself, which does not end meanwhile.
    pub(crate) fn clear(&self) {
        self.0.fetch_and(!1, AcqRel);
    }

    /// The block's thread has ended: the next one has not been asked. By the block's owner.
    pub(crate) fn next_generation(&self) {
        let next = (self.generation() + 1) << 1;
        self.0.store(next, Release);
    }
}

/// Whether the calling thread has been asked to stop.
pub fn is_interrupted() -> bool {
    tcb::current().asked.is_set()
}

/// Forgets that the calling thread has been asked to stop.
pub fn clear_interrupt() {
    tcb::current().asked.clear();
}

/// As [`crate::park`], unless the thread has been asked to stop.
///
/// # Blocking
/// The green thread; outside a runtime, the kernel thread.
///
/// # Errors
/// At once when the thread has been asked to stop, or when it is while it waits.
pub fn park_interruptible() -> Result<(), Interrupted> {
    park_until_interruptible("park", None)
}

/// As [`crate::park_until`], unless the thread has been asked to stop.
///
/// # Blocking, Errors
/// As [`park_interruptible`].
pub fn park_until_interruptible(
    reason: &'static str,
    deadline: Option<Instant>,
) -> Result<(), Interrupted> {
    // The flag is set before the token is made available: whoever misses it here finds the token.
    let tcb = tcb::current();
    if !tcb.asked.is_set() {
        tcb::park_until(reason, deadline);
    }
    if tcb.asked.is_set() { Err(Interrupted) } else { Ok(()) }
}

/// As [`crate::sleep`], unless the thread has been asked to stop.
///
/// # Blocking, Errors
/// As [`park_interruptible`].
#[cfg(not(loom))]
pub fn sleep_interruptible(time: Duration) -> Result<(), Interrupted> {
    let end = Instant::now().checked_add(time);
    while end.is_none_or(|end| Instant::now() < end) && !crate::is_stopping() {
        park_until_interruptible("sleep", end)?;
    }
    Ok(())
}
