//! The lock that makes accumulations atomic: a word in memory that processes share, held for the length of one update.
//!
//! ```text
//!   free (0) ──▶ held (1) ──a waiter sleeps──▶ awaited (2)
//! ```
//! An unlocker that finds `awaited` wakes the sleepers; a thread that has slept takes the lock as `awaited`, since
//! others may still sleep.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::futex::{self, Alive};
use crate::error::Fault;

const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;

/// See the module. Zeroed memory is a lock that is free.
#[repr(C)]
#[derive(Default)]
pub(super) struct Mutex(AtomicU32);

/// Unlocks when it is dropped.
pub(super) struct Held<'a>(&'a Mutex);

impl Mutex {
    /// # Errors
    /// Those of `alive`: the holder may be dead.
    #[inline]
    pub(super) fn lock(&self, alive: Alive<'_>) -> Result<Held<'_>, Fault> {
        let take = || self.0.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok();
        if !take() && !futex::spin(take) {
            while self.0.swap(AWAITED, Acquire) != FREE {
                futex::pause(&self.0, AWAITED, alive)?;
            }
        }
        Ok(Held(self))
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.0.0.swap(FREE, Release) == AWAITED {
            futex::wake(&self.0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn one_thread_at_a_time_is_inside() {
        let (mutex, sum) = (Mutex::default(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let held = mutex.lock(&|| Ok(()));
                        let before = sum.load(Relaxed);
                        if before % 16 == 0 {
                            std::thread::yield_now();
                        }
                        sum.store(before + 1, Relaxed);
                        drop(held);
                    }
                });
            }
        });
        assert_eq!(sum.into_inner(), 8000);
    }
}
