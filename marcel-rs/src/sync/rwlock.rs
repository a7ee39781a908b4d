//! A reader-writer lock. The protocol is in `raw_rwlock`.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use super::raw_rwlock::{RawRwLock, Wish};
use super::signal::{Limits, Outcome};
use super::{Interrupted, NotSend};
use crate::os::const_unless_modelled;

/// A lock for many readers or one writer, fair to both, for green and kernel threads in any mixture.
///
/// # Panics of a holder
/// There is no poisoning: a panic unlocks, as with [`super::Mutex`].
///
/// # Fairness
/// First come, first served: the lock is handed over, and no thread overtakes a waiter. While a writer waits, new
/// readers wait behind it. After it, all readers up to the next writer enter together. So neither side starves. A
/// thread that holds a read lock must not read again: a writer that waits in between would block both for ever.
///
/// ```
/// use marcel::sync::RwLock;
///
/// let lock = RwLock::new(1);
/// {
///     let (one, other) = (lock.read(), lock.try_read().unwrap());
///     assert_eq!(*one + *other, 2);
///     assert!(lock.try_write().is_none());
/// }
/// *lock.write() += 1;
/// assert_eq!(lock.into_inner(), 2);
/// ```
pub struct RwLock<T: ?Sized> {
    raw: RawRwLock,
    value: UnsafeCell<T>,
}

// SAFETY: the value goes from writer to writer, and is shared among readers.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}

impl<T> RwLock<T> {
    const_unless_modelled! {
        /// An unlocked lock.
        pub fn new(value: T) -> Self {
            RwLock { raw: RawRwLock::new(), value: UnsafeCell::new(value) }
        }
    }

    /// Consumes the lock and returns its value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Locks for reading, and waits while a writer holds the lock or waits for it.
    ///
    /// # Context
    /// Green and kernel threads; not the progress path.
    ///
    /// # Blocking
    /// Blocks the green thread, or outside a runtime the kernel thread. As with [`super::Mutex::lock`], destructors
    /// that run because the runtime stops wait too.
    ///
    /// # Panics
    /// 2³⁰ - 1 readers hold the lock already.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.raw.lock(Wish::Read, &Limits::TO_THE_END);
        self.reader()
    }

    /// Locks for reading, if no writer holds the lock and no thread waits.
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.raw.try_lock(Wish::Read).then(|| self.reader())
    }

    /// As [`RwLock::read`], for at most `time`.
    ///
    /// # Blocking
    /// As [`RwLock::read`], but a destructor that runs because the runtime stops does not wait.
    pub fn try_read_timeout(&self, time: Duration) -> Option<RwLockReadGuard<'_, T>> {
        self.read_within(&Limits::within(time))
    }

    /// As [`RwLock::try_read_timeout`], until `deadline`.
    ///
    /// # Blocking
    /// As [`RwLock::try_read_timeout`].
    pub fn try_read_until(&self, deadline: Instant) -> Option<RwLockReadGuard<'_, T>> {
        self.read_within(&Limits::until(deadline))
    }

    /// As [`RwLock::read`], but an interrupt ends the wait.
    ///
    /// # Blocking
    /// As [`RwLock::read`].
    ///
    /// # Errors
    /// The thread was interrupted, before or during the wait, or its runtime stops.
    pub fn read_interruptible(&self) -> Result<RwLockReadGuard<'_, T>, Interrupted> {
        self.read_within(&Limits::INTERRUPTIBLE).ok_or(Interrupted)
    }

    /// Locks for writing, and waits for all earlier holders and waiters.
    ///
    /// # Context, Blocking
    /// As [`RwLock::read`].
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.raw.lock(Wish::Write, &Limits::TO_THE_END);
        self.writer()
    }

    /// Locks for writing, if no thread holds the lock or waits for it.
    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.raw.try_lock(Wish::Write).then(|| self.writer())
    }

    /// As [`RwLock::write`], for at most `time`.
    ///
    /// # Blocking
    /// As [`RwLock::write`], but a destructor that runs because the runtime stops does not wait.
    pub fn try_write_timeout(&self, time: Duration) -> Option<RwLockWriteGuard<'_, T>> {
        self.write_within(&Limits::within(time))
    }

    /// As [`RwLock::try_write_timeout`], until `deadline`.
    ///
    /// # Blocking
    /// As [`RwLock::try_write_timeout`].
    pub fn try_write_until(&self, deadline: Instant) -> Option<RwLockWriteGuard<'_, T>> {
        self.write_within(&Limits::until(deadline))
    }

    /// As [`RwLock::write`], but an interrupt ends the wait.
    ///
    /// # Blocking
    /// As [`RwLock::write`].
    ///
    /// # Errors
    /// The thread was interrupted, before or during the wait, or its runtime stops.
    pub fn write_interruptible(&self) -> Result<RwLockWriteGuard<'_, T>, Interrupted> {
        self.write_within(&Limits::INTERRUPTIBLE).ok_or(Interrupted)
    }

    fn read_within(&self, limits: &Limits) -> Option<RwLockReadGuard<'_, T>> {
        (self.raw.lock(Wish::Read, limits) == Outcome::Woken).then(|| self.reader())
    }

    fn write_within(&self, limits: &Limits) -> Option<RwLockWriteGuard<'_, T>> {
        (self.raw.lock(Wish::Write, limits) == Outcome::Woken).then(|| self.writer())
    }

    fn reader(&self) -> RwLockReadGuard<'_, T> {
        RwLockReadGuard { lock: self, _not_send: PhantomData }
    }

    fn writer(&self) -> RwLockWriteGuard<'_, T> {
        RwLockWriteGuard { lock: self, _not_send: PhantomData }
    }

    /// Returns the value without locking, since the borrow is exclusive.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        RwLock::new(T::default())
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        RwLock::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_read() {
            Some(guard) => write!(f, "RwLock({:?})", &*guard),
            None => f.write_str("RwLock(locked)"),
        }
    }
}

/// Shared access to the value of a [`RwLock`]; unlocks when dropped.
#[must_use = "dropped at once, it unlocks at once"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    _not_send: NotSend,
}

/// Exclusive access to the value of a [`RwLock`]; unlocks when dropped.
#[must_use = "dropped at once, it unlocks at once"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    _not_send: NotSend,
}

// SAFETY: a shared guard gives a shared reference to the value.
unsafe impl<T: ?Sized + Sync> Sync for RwLockReadGuard<'_, T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Sync> Sync for RwLockWriteGuard<'_, T> {}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Turns the write lock into a read lock, without letting a writer in between.
    ///
    /// # Wakes
    /// The readers at the front of the queue.
    pub fn downgrade(this: Self) -> RwLockReadGuard<'a, T> {
        let lock = this.lock;
        std::mem::forget(this);
        lock.raw.downgrade();
        lock.reader()
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the lock is held to read.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the lock is held to write.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held to write, the borrow exclusive.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.unlock(Wish::Read);
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.unlock(Wish::Write);
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
