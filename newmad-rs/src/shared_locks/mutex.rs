//! A lock that is held for a moment: one word.
//!
//! ```text
//!   free (0) ──▶ held (1) ──a waiter sleeps──▶ awaited (2)
//! ```
//! An unlocker that finds `awaited` wakes the sleepers; a thread that has slept takes the lock as `awaited`, since
//! others may still sleep.

use super::futex::{self, Alive};
use crate::sync::AtomicU32;
use crate::sync::Ordering::{Acquire, Relaxed, Release};

const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;

/// See the module. Zeroed memory is a lock that is free.
#[repr(C)]
#[derive(Debug, Default)]
pub struct SharedMutex(AtomicU32);

/// Unlocks when it is dropped.
#[derive(Debug)]
#[must_use = "the lock is given back when this is dropped"]
pub struct Held<'a>(&'a SharedMutex);

impl SharedMutex {
    /// Takes the lock.
    ///
    /// # Context
    /// Callbacks too.
    ///
    /// # Blocking
    /// The calling thread, with its virtual processor.
    ///
    /// # Errors
    /// Those of `alive`: the holder may be dead.
    #[inline]
    pub fn lock<E>(&self, alive: Alive<'_, E>) -> Result<Held<'_>, E> {
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::AtomicU64;

    #[test]
    fn one_thread_at_a_time_is_inside() {
        let (mutex, sum) = (SharedMutex::default(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let held = mutex.lock(&|| Ok::<_, ()>(()));
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

#[cfg(all(test, loom))]
mod model {
    use loom::thread;

    use super::super::Guarded;
    use super::*;

    type Shared = Guarded<SharedMutex>;

    impl Shared {
        fn update(&self) {
            let held = self.lock.lock(&|| Ok::<_, ()>(())).unwrap();
            // SAFETY: the lock is ours.
            unsafe { self.count() };
            drop(held);
        }
    }

    #[test]
    fn model_updates_exclude_each_other_and_sleepers_are_woken() {
        loom::model(|| {
            let shared = Shared::new();
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let shared = shared.clone();
                    thread::spawn(move || shared.update())
                })
                .collect();
            shared.update();
            others.into_iter().for_each(|other| other.join().unwrap());
            // SAFETY: the others have ended.
            assert_eq!(unsafe { shared.value() }, 3);
        });
    }
}
