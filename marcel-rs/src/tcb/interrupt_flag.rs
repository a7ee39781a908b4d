//! Whether a thread has been asked to stop.
//!
//! The flag and the generation of the control block share a word, so that a request that comes late does not stop the
//! block's next thread.

use std::sync::atomic::Ordering::*;

use crate::os::AtomicU64;

/// Generation of a control block, and whether its thread has been asked to stop: bit 0.
#[derive(Default)]
pub(crate) struct InterruptFlag(AtomicU64);

impl InterruptFlag {
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
