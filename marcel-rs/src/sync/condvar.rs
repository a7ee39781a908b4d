//! Condition variable.

use std::fmt;
use std::time::{Duration, Instant};

use super::mutex::MutexGuard;
use super::wait_list::WaitList;

/// Lets threads wait for a condition on data that a [`super::Mutex`] protects.
pub struct Condvar {
    waiters: WaitList<()>,
}

impl Condvar {
    /// A condition variable that nobody waits on.
    pub const fn new() -> Self {
        Condvar { waiters: WaitList::new(()) }
    }

    /// Unlocks, waits for a notification, locks again. May return without one when the runtime stops.
    ///
    /// # Context
    /// Green and kernel threads. # Blocking: the green thread.
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.wait_until(guard, None).0
    }

    /// As [`Condvar::wait`], until `condition` is false.
    pub fn wait_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        while condition(&mut guard) {
            guard = self.wait(guard);
        }
        guard
    }

    /// As [`Condvar::wait`], for at most `time`; false after a time-out.
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        self.wait_until(guard, Instant::now().checked_add(time))
    }

    fn wait_until<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Option<Instant>,
    ) -> (MutexGuard<'a, T>, bool) {
        let mutex = guard.mutex();
        // In the list before the mutex is free: a notifier that holds the mutex later finds us.
        let notified = self.waiters.wait(
            "condvar",
            deadline,
            |()| false,
            move || drop(guard),
            |list| {
                list.wake_one(|(), _| ());
            },
        );
        (mutex.lock(), notified)
    }

    /// Wakes one waiter.
    ///
    /// # Wakes
    /// The thread that has waited longest.
    pub fn notify_one(&self) {
        self.waiters.wake_one(|(), _| ());
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.waiters.wake_all();
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Condvar")
    }
}
