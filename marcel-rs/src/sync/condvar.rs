//! A condition variable.

use std::fmt;
use std::time::{Duration, Instant};

use super::Interrupted;
use super::mutex::MutexGuard;
use super::signal::{Limits, Outcome};
use super::wait_list::{Join, Primitive, WaitList};
use crate::os::const_unless_modelled;

/// Lets threads wait for a condition on data that a [`super::Mutex`] protects.
///
/// A notification wakes threads that already wait, and is not stored. Change the condition with the mutex held: then a
/// waiter either sees the change or gets the notification. A wait may end without a notification, so callers check the
/// condition in a loop; the `_while` variants are that loop.
///
/// # Fairness
/// First come, first woken. A notified thread then competes for the mutex.
///
/// # When the runtime stops
/// Destructors that run because of it do not wait: every wait returns at once as if it had been notified, those with
/// a time limit as if it were over, and `wait_while` although its condition still holds.
///
/// ```
/// use marcel::sync::{Condvar, Mutex};
/// # use std::sync::Arc;
/// # let runtime = marcel::Runtime::builder().vps(1).build()?;
/// # runtime.run(|| {
/// let pair = Arc::new((Mutex::new(false), Condvar::new()));
/// let theirs = pair.clone();
/// let thread = marcel::spawn(move || {
///     *theirs.0.lock() = true;
///     theirs.1.notify_one();
/// });
/// let done = pair.1.wait_while(pair.0.lock(), |done| !*done);
/// assert!(*done);
/// # drop(done);
/// # thread.join().unwrap();
/// # });
/// # Ok::<(), marcel::Error>(())
/// ```
pub struct Condvar {
    waiters: WaitList<()>,
}

/// Whether a wait with a time limit timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// True if the wait timed out without a notification.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Primitive for Condvar {
    type State = ();
    type Waiter = ();

    fn list(&self) -> &WaitList<()> {
        &self.waiters
    }

    fn pass_on(&self, _: &()) {
        self.waiters.wake_one();
    }
}

impl Condvar {
    const_unless_modelled! {
        /// A condition variable without waiters.
        pub fn new() -> Self {
            Condvar { waiters: WaitList::new(()) }
        }
    }

    /// Unlocks the mutex, waits for a notification, and locks the mutex again.
    ///
    /// # Context
    /// Green and kernel threads; not the progress path.
    ///
    /// # Blocking
    /// Blocks the green thread, or outside a runtime the kernel thread.
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.wait_within(guard, &Limits::NONE).0
    }

    /// As [`Condvar::wait`], until `condition` is false.
    ///
    /// # Blocking
    /// As [`Condvar::wait`].
    pub fn wait_while<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        self.wait_while_within(guard, condition, &Limits::NONE).0
    }

    /// As [`Condvar::wait`], for at most `time`.
    ///
    /// # Blocking
    /// As [`Condvar::wait`].
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
        timed(self.wait_within(guard, &Limits::within(time)))
    }

    /// As [`Condvar::wait`], until `deadline` at the latest.
    ///
    /// # Blocking
    /// As [`Condvar::wait`].
    pub fn wait_until<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
        timed(self.wait_within(guard, &Limits::until(deadline)))
    }

    /// As [`Condvar::wait_while`], for at most `time` in all.
    ///
    /// After a time-out the condition held when the time was over.
    ///
    /// # Blocking
    /// As [`Condvar::wait`].
    pub fn wait_timeout_while<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        time: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
        timed(self.wait_while_within(guard, condition, &Limits::within(time)))
    }

    /// As [`Condvar::wait_timeout_while`], until `deadline` at the latest.
    ///
    /// # Blocking
    /// As [`Condvar::wait`].
    pub fn wait_until_while<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
        condition: impl FnMut(&mut T) -> bool,
    ) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
        timed(self.wait_while_within(guard, condition, &Limits::until(deadline)))
    }

    /// As [`Condvar::wait`], but an interrupt ends the wait. The mutex is locked again in either case.
    ///
    /// # Blocking
    /// As [`Condvar::wait`].
    ///
    /// # Errors
    /// The thread was interrupted, before or during the wait, or its runtime stops.
    pub fn wait_interruptible<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
    ) -> (MutexGuard<'a, T>, Result<(), Interrupted>) {
        interruptible(self.wait_within(guard, &Limits::INTERRUPTIBLE))
    }

    /// As [`Condvar::wait_while`], but an interrupt ends the wait. The mutex is locked again in either case.
    ///
    /// # Blocking
    /// As [`Condvar::wait`].
    ///
    /// # Errors
    /// As [`Condvar::wait_interruptible`]; the condition holds.
    pub fn wait_while_interruptible<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) -> (MutexGuard<'a, T>, Result<(), Interrupted>) {
        interruptible(self.wait_while_within(guard, condition, &Limits::INTERRUPTIBLE))
    }

    fn wait_within<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        limits: &Limits,
    ) -> (MutexGuard<'a, T>, Outcome) {
        let mutex = guard.mutex();
        // In the queue before the mutex is free: a notifier that holds the mutex later finds us.
        let (outcome, ()) =
            self.wait_in_turn("condvar", limits, (), |_| Join::Back, move || drop(guard));
        (mutex.lock(), outcome)
    }

    fn wait_while_within<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        limits: &Limits,
    ) -> (MutexGuard<'a, T>, Outcome) {
        let mut outcome = Outcome::Woken;
        loop {
            if !condition(&mut guard) {
                return (guard, Outcome::Woken);
            }
            if outcome != Outcome::Woken {
                return (guard, outcome);
            }
            (guard, outcome) = self.wait_within(guard, limits);
        }
    }

    /// Wakes one waiter.
    ///
    /// # Wakes
    /// The thread that has waited longest.
    #[inline]
    pub fn notify_one(&self) {
        // A waiter whose condition we change has unlocked the mutex before we locked it: we see it in the queue.
        if self.waiters.is_occupied() {
            self.waiters.wake_one();
        }
    }

    /// Wakes all waiters.
    ///
    /// # Wakes
    /// All threads that wait at this moment.
    #[inline]
    pub fn notify_all(&self) {
        if self.waiters.is_occupied() {
            self.waiters.wake_all();
        }
    }
}

fn timed<G>((guard, outcome): (G, Outcome)) -> (G, WaitTimeoutResult) {
    (guard, WaitTimeoutResult(matches!(outcome, Outcome::TimedOut | Outcome::Stopping)))
}

fn interruptible<G>((guard, outcome): (G, Outcome)) -> (G, Result<(), Interrupted>) {
    let interrupted = matches!(outcome, Outcome::Interrupted | Outcome::Stopping);
    (guard, if interrupted { Err(Interrupted) } else { Ok(()) })
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Condvar { .. }")
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::sync::Mutex;
    use loom::sync::Arc;
    use loom::thread;

    /// A notifier that sees no waiter does nothing: a waiter must have been seen, or have seen the change.
    #[test]
    fn a_change_under_the_mutex_reaches_every_waiter() {
        loom::model(|| {
            let pair = Arc::new((Mutex::new(0), Condvar::new()));
            let waiters: Vec<_> = (0..2)
                .map(|_| {
                    let pair = pair.clone();
                    thread::spawn(move || {
                        *pair.1.wait_while(pair.0.lock(), |permits| *permits == 0) -= 1;
                    })
                })
                .collect();
            for _ in 0..2 {
                *pair.0.lock() += 1;
                pair.1.notify_one();
            }
            waiters.into_iter().for_each(|t| t.join().unwrap());
            assert_eq!(*pair.0.lock(), 0);
        });
    }

    #[test]
    fn a_waiter_that_times_out_does_not_take_the_notification_of_another() {
        loom::model(|| {
            let pair = Arc::new((Mutex::new(false), Condvar::new()));
            let hasty = {
                let pair = pair.clone();
                thread::spawn(move || {
                    let (_guard, result) = pair.1.wait_until(pair.0.lock(), Instant::now());
                    result.timed_out()
                })
            };
            let patient = {
                let pair = pair.clone();
                thread::spawn(move || drop(pair.1.wait_while(pair.0.lock(), |done| !*done)))
            };
            *pair.0.lock() = true;
            pair.1.notify_one();
            if !hasty.join().unwrap() {
                pair.1.notify_one(); // the notification was its
            }
            patient.join().unwrap();
        });
    }
}
