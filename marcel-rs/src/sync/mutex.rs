//! Mutual exclusion: one word, and a list of waiters that is touched only under contention.
//!
//! FREE ─lock─▶ LOCKED; a waiter makes it CONTENDED before it sleeps, so that the unlock looks at the list.
//! A woken waiter competes with running threads ("barging": hand-over would make every contended section cost
//! two switches) and locks as CONTENDED, since others may wait behind it.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering::*};

use super::wait_list::WaitList;
use crate::runtime::NotSend;

const FREE: u32 = 0;
const LOCKED: u32 = 1;
const CONTENDED: u32 = 2;

/// A mutual exclusion lock without poisoning: a panic of the holder unlocks it.
pub struct Mutex<T: ?Sized> {
    word: AtomicU32,
    waiters: WaitList<()>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one thread at a time.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub const fn new(value: T) -> Self {
        Mutex {
            word: AtomicU32::new(FREE),
            waiters: WaitList::new(()),
            value: UnsafeCell::new(value),
        }
    }

    /// The value, by the mutex's end.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock.
    ///
    /// # Context
    /// Green and kernel threads; not the progress path. # Blocking: the green thread.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        if self.word.compare_exchange(FREE, LOCKED, Acquire, Relaxed).is_err() {
            self.lock_contended();
        }
        MutexGuard { mutex: self, _not_send: PhantomData }
    }

    /// The lock, if it is free now.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.word
            .compare_exchange(FREE, LOCKED, Acquire, Relaxed)
            .is_ok()
            .then(|| MutexGuard { mutex: self, _not_send: PhantomData })
    }

    #[cold]
    fn lock_contended(&self) {
        // A section is usually shorter than a switch.
        for _ in 0..40 {
            if self.word.load(Relaxed) == FREE
                && self.word.compare_exchange(FREE, LOCKED, Acquire, Relaxed).is_ok()
            {
                return;
            }
            std::hint::spin_loop();
        }
        loop {
            let mut got = false;
            self.waiters.wait(
                "mutex",
                None,
                |()| {
                    got = self.word.swap(CONTENDED, Acquire) == FREE;
                    got
                },
                || (),
                |list| list.wake_one(|(), _| ()),
            );
            if got {
                return;
            }
        }
    }

    #[inline]
    fn unlock(&self) {
        if self.word.swap(FREE, Release) == CONTENDED {
            self.wake_one();
        }
    }

    #[cold]
    fn wake_one(&self) {
        self.waiters.wake_one(|(), _| ());
    }

    /// The value, without locking: the borrow is exclusive.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Mutex::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Some(guard) => write!(f, "Mutex({:?})", &*guard),
            None => f.write_str("Mutex(locked)"),
        }
    }
}

/// Access to a mutex's value; unlocks when dropped.
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    _not_send: NotSend,
}

// SAFETY: a shared guard gives a shared reference to the value.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    pub(super) fn mutex(&self) -> &'a Mutex<T> {
        self.mutex
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, the borrow exclusive.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.unlock();
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
