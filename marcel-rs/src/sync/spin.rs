//! The tiny lock below the primitives: one exchange to lock, one store to unlock.
//!
//! It is held for a few instructions, never across a switch and never by a signal handler. So on one virtual
//! processor it is always free, and a thread that finds it taken spins briefly, then lets the kernel run the holder,
//! which may have lost its core.
//!
//! Its word has a model of its own. Models of what is built on it use loom's lock instead: exploring all ways to spin
//! at each step would take them for ever.

use std::sync::atomic::Ordering::*;

use crate::os::{self, AtomicBool, UnsafeCell, const_unless_modelled};

/// How often to look at a taken lock before the kernel is asked to run another thread.
const SPINS: u32 = 64;

/// A value that is reached by one thread at a time, shortly.
pub struct Spin<T> {
    word: Lock,
    value: UnsafeCell<T>,
}

#[cfg(not(loom))]
type Lock = Word;
#[cfg(loom)]
type Lock = modelled::Lock;

// SAFETY: the value is touched with the word locked only.
unsafe impl<T: Send> Sync for Spin<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Spin<T> {}

/// Whether the lock is taken.
struct Word(AtomicBool);

impl Word {
    const_unless_modelled! {
        fn new() -> Self {
            Word(AtomicBool::new(false))
        }
    }

    #[inline]
    fn take(&self) -> bool {
        self.0.compare_exchange(false, true, Acquire, Relaxed).is_ok()
    }

    #[inline]
    fn lock(&self) {
        if !self.take() {
            self.lock_taken();
        }
    }

    /// By its holder.
    #[inline]
    fn unlock(&self) {
        self.0.store(false, Release);
    }

    #[cold]
    fn lock_taken(&self) {
        let mut spins = 0;
        loop {
            if cfg!(not(loom)) && spins < SPINS {
                spins += 1;
                os::spin_loop();
                if self.0.load(Relaxed) {
                    continue;
                }
            } else {
                os::yield_now();
            }
            if self.take() {
                return;
            }
        }
    }
}

/// Unlocks, also when the section panics.
struct Locked<'a>(&'a Lock);

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.unlock();
    }
}

impl<T> Spin<T> {
    const_unless_modelled! {
        /// A free lock.
        pub fn new(value: T) -> Self {
            Spin { word: Lock::new(), value: UnsafeCell::new(value) }
        }
    }

    /// Runs `section` with the value. The section must not wait, and not lock this lock again.
    ///
    /// # Context
    /// Not in a signal handler, which may have interrupted the holder.
    #[inline]
    pub fn with<R>(&self, section: impl FnOnce(&mut T) -> R) -> R {
        self.lock();
        let _locked = Locked(&self.word);
        // SAFETY: the lock is ours.
        unsafe { self.with_locked(section) }
    }

    /// As [`Spin::with`], if the lock is free.
    ///
    /// # Context
    /// Anywhere, signal handlers included.
    #[cfg(not(loom))]
    #[inline]
    pub fn try_with<R>(&self, section: impl FnOnce(&mut T) -> R) -> Option<R> {
        if !self.word.take() {
            return None;
        }
        let _locked = Locked(&self.word);
        // SAFETY: the lock is ours.
        Some(unsafe { self.with_locked(section) })
    }

    /// Takes the lock, to be given back by [`Spin::unlock`]: for callers that need several locks at once.
    #[inline]
    pub(super) fn lock(&self) {
        self.word.lock();
    }

    /// # Safety
    /// The caller holds the lock by [`Spin::lock`].
    #[inline]
    pub(super) unsafe fn unlock(&self) {
        self.word.unlock();
    }

    /// # Safety
    /// The caller holds the lock, and is in no other section of it.
    #[inline]
    pub(super) unsafe fn with_locked<R>(&self, section: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the lock is held, by the caller's promise.
        self.value.with_mut(|value| section(unsafe { &mut *value }))
    }
}

impl<T> std::fmt::Debug for Spin<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Spin")
    }
}

#[cfg(loom)]
mod modelled {
    use loom::sync::{Mutex, MutexGuard};
    use std::cell::Cell;

    /// Loom's mutex, without a guard.
    pub(super) struct Lock {
        guard: Cell<Option<MutexGuard<'static, ()>>>,
        mutex: Mutex<()>,
    }

    impl Lock {
        pub(super) fn new() -> Lock {
            Lock { guard: Cell::new(None), mutex: Mutex::new(()) }
        }

        pub(super) fn lock(&self) {
            let guard = self.mutex.lock().unwrap();
            // SAFETY: dropped by `unlock`, which comes before the end of `self`.
            let guard: MutexGuard<'static, ()> = unsafe { std::mem::transmute(guard) };
            self.guard.set(Some(guard));
        }

        pub(super) fn unlock(&self) {
            drop(self.guard.take());
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    struct Shared {
        word: Word,
        value: UnsafeCell<u32>,
    }

    // SAFETY: the lock's protocol, which loom checks here.
    unsafe impl Sync for Shared {}

    impl Shared {
        fn section(&self) {
            self.word.lock();
            // SAFETY: the lock is ours.
            self.value.with_mut(|n| unsafe { *n += 1 });
            self.word.unlock();
        }
    }

    #[test]
    fn the_tiny_lock_excludes() {
        loom::model(|| {
            let shared = Arc::new(Shared { word: Word::new(), value: UnsafeCell::new(0) });
            let other = {
                let shared = shared.clone();
                thread::spawn(move || shared.section())
            };
            shared.section();
            other.join().unwrap();
            // SAFETY: the other has ended.
            shared.value.with_mut(|n| unsafe { assert_eq!(*n, 2) });
        });
    }
}
