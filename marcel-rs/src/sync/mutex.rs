//! Mutual exclusion. The protocol: `raw_mutex`.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use super::raw_mutex::RawMutex;
use super::signal::{Limits, Outcome};
use super::{Interrupted, NotSend};
use crate::os::const_unless_modelled;

/// A mutual exclusion lock, fair in the long run, for green and kernel threads in any mixture.
///
/// # Panics of the holder
/// There is no poisoning: a panic unlocks the mutex. The next holder sees the data as the panicking thread left it, so
/// a section that may panic half-way keeps its data valid at each step. The same holds when a stopping runtime unwinds
/// the holder.
///
/// # Fairness
/// First come, first woken; but running threads may take the mutex before a woken one gets to run. After a millisecond
/// a waiter that was overtaken is handed the mutex by the next unlock.
///
/// ```
/// use marcel::sync::Mutex;
///
/// let sum = Mutex::new(0);
/// *sum.lock() += 2;
/// assert_eq!(sum.into_inner(), 2);
/// ```
pub struct Mutex<T: ?Sized> {
    raw: RawMutex,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one thread at a time.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}

impl<T> Mutex<T> {
    const_unless_modelled! {
        /// An unlocked mutex.
        pub fn new(value: T) -> Self {
            Mutex { raw: RawMutex::new(), value: UnsafeCell::new(value) }
        }
    }

    /// Consumes the mutex and returns its value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks the mutex, and waits for it if necessary.
    ///
    /// A thread that already holds the mutex waits for ever. There is no poisoning and so no `unwrap`: after a holder's
    /// panic the next one gets the value as it was left.
    ///
    /// ```
    /// use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    /// let sum = marcel::sync::Mutex::new(0);
    /// let _ = catch_unwind(AssertUnwindSafe(|| {
    ///     let mut held = sum.lock();
    ///     *held += 2;
    ///     resume_unwind(Box::new("half-way"));
    /// }));
    /// assert_eq!(*sum.lock(), 2);
    /// ```
    ///
    /// # Context
    /// Green and kernel threads; not the progress path.
    ///
    /// # Blocking
    /// Blocks the green thread, or outside a runtime the kernel thread. A destructor that runs because the runtime
    /// stops waits too, until the holder has unlocked or has been unwound.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.raw.lock(&Limits::TO_THE_END);
        self.guard()
    }

    /// Locks the mutex if it is free now.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.raw.try_lock().then(|| self.guard())
    }

    /// As [`Mutex::lock`], for at most `time`.
    ///
    /// # Blocking
    /// As [`Mutex::lock`], but a destructor that runs because the runtime stops does not wait.
    pub fn try_lock_timeout(&self, time: Duration) -> Option<MutexGuard<'_, T>> {
        self.try_lock().or_else(|| self.lock_within(&Limits::within(time)).ok())
    }

    /// As [`Mutex::try_lock_timeout`], until `deadline`.
    ///
    /// # Blocking
    /// As [`Mutex::try_lock_timeout`].
    pub fn try_lock_until(&self, deadline: Instant) -> Option<MutexGuard<'_, T>> {
        self.lock_within(&Limits::until(deadline)).ok()
    }

    /// As [`Mutex::lock`], but an interrupt ends the wait.
    ///
    /// # Blocking
    /// As [`Mutex::lock`].
    ///
    /// # Errors
    /// The thread was interrupted, before or during the wait, or its runtime stops. An uncontended mutex is locked
    /// all the same.
    pub fn lock_interruptible(&self) -> Result<MutexGuard<'_, T>, Interrupted> {
        self.lock_within(&Limits::INTERRUPTIBLE).map_err(|_| Interrupted)
    }

    fn lock_within(&self, limits: &Limits) -> Result<MutexGuard<'_, T>, Outcome> {
        match self.raw.lock(limits) {
            Outcome::Woken => Ok(self.guard()),
            outcome => Err(outcome),
        }
    }

    /// Whether the mutex is locked. A hint, since it may change at any moment.
    pub fn is_locked(&self) -> bool {
        self.raw.is_locked()
    }

    #[inline]
    fn guard(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, _not_send: PhantomData }
    }

    /// Returns the value without locking, since the borrow is exclusive.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Mutex::new(T::default())
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Mutex::new(value)
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

/// Access to a mutex's value; unlocks the mutex when dropped. A guard stays on the thread that has locked:
///
/// ```compile_fail,E0277
/// let mutex = marcel::sync::Mutex::new(0);
/// let guard = mutex.lock();
/// std::thread::scope(|s| { s.spawn(move || drop(guard)); });
/// ```
#[must_use = "dropped at once, it unlocks at once"]
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
        self.mutex.raw.unlock();
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
