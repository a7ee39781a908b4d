//! The tiny lock below the primitives: one exchange to lock, one store to unlock.
//!
//! It is held for a few instructions, never across a switch and never by a signal handler. So on one virtual
//! processor it is always free, and whoever finds it taken spins briefly, then lets the kernel run the holder,
//! which may have lost its core.

use std::sync::atomic::Ordering::*;

use crate::shim::{self, AtomicBool, UnsafeCell, const_unless_modelled};

/// How often to look at a taken lock before the kernel is asked to run somebody else.
const SPINS: u32 = 64;

/// A value that is reached by one thread at a time, shortly.
pub(super) struct Spin<T> {
    locked: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is touched with `locked` held only.
unsafe impl<T: Send> Sync for Spin<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Spin<T> {}

/// Unlocks, also when the section panics.
struct Locked<'a>(&'a AtomicBool);

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}

impl<T> Spin<T> {
    const_unless_modelled! {
        pub(super) fn new(value: T) -> Self {
            Spin { locked: AtomicBool::new(false), value: UnsafeCell::new(value) }
        }
    }

    /// Runs `section` with the value. The section must not wait, and not lock this lock again.
    #[inline]
    pub(super) fn with<R>(&self, section: impl FnOnce(&mut T) -> R) -> R {
        self.lock();
        let _locked = Locked(&self.locked);
        // SAFETY: the lock is ours.
        unsafe { self.with_locked(section) }
    }

    #[inline]
    fn lock(&self) {
        if self.locked.swap(true, Acquire) {
            self.lock_taken();
        }
    }

    /// # Safety
    /// The caller holds the lock, and is in no other section of it.
    #[inline]
    unsafe fn with_locked<R>(&self, section: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the lock is held, by the caller's promise.
        self.value.with_mut(|value| section(unsafe { &mut *value }))
    }

    #[cold]
    fn lock_taken(&self) {
        let mut spins = 0;
        loop {
            if spins < SPINS && cfg!(not(loom)) {
                spins += 1;
                shim::spin_loop();
            } else {
                shim::yield_now();
            }
            if !self.locked.load(Relaxed) && !self.locked.swap(true, Acquire) {
                return;
            }
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn a_spin_lock_excludes() {
        loom::model(|| {
            let lock = Arc::new(Spin::new(0));
            let other = {
                let lock = lock.clone();
                thread::spawn(move || lock.with(|n| *n += 1))
            };
            lock.with(|n| *n += 1);
            lock.with(|n| *n += 1);
            other.join().unwrap();
            assert_eq!(lock.with(|n| *n), 3);
        });
    }
}
