//! A counting semaphore with hand-over: permits go to the thread that has waited longest.

use std::fmt;
use std::time::{Duration, Instant};

use super::Interrupted;
use super::signal::{Limits, Outcome, Wake};
use super::wait_list::{Inner, Join, Primitive, WaitList};
use crate::os::const_unless_modelled;
use crate::task::budget;

/// A counting semaphore, for green and kernel threads in any mixture.
///
/// A [`Permit`] is released when it is dropped, after a panic too. One that is [forgotten](Permit::forget) (P) may be
/// [released](Semaphore::release) by any thread (V).
///
/// # Fairness
/// First come, first served: permits are handed over, and no thread overtakes a waiter. A thread that waits for many
/// permits holds up the threads behind it, even if there are enough permits for them.
///
/// # When the runtime stops
/// [`acquire`](Semaphore::acquire) in a destructor that runs because of it takes its permits on credit: it does not
/// wait, and the next permits that are released pay for it. So the count is right as long as each acquisition is
/// followed by a release; but meanwhile there are more holders than permits. What has to exclude in destructors is
/// locked by a [`super::Mutex`].
///
/// ```
/// use marcel::sync::Semaphore;
///
/// let semaphore = Semaphore::new(2);
/// let permit = semaphore.acquire();
/// semaphore.try_acquire().expect("the second one").forget();
/// assert!(semaphore.try_acquire().is_none());
/// drop(permit);
/// assert_eq!(semaphore.available(), 1);
/// ```
pub struct Semaphore {
    /// Number of free permits; negative after credit.
    permits: WaitList<isize, Wish>,
}

/// The number of permits that a thread waits for.
pub(super) struct Wish(usize);

impl Primitive for Semaphore {
    type State = isize;
    type Waiter = Wish;

    fn list(&self) -> &WaitList<isize, Wish> {
        &self.permits
    }

    fn unblocked(&self) {
        self.permits.serve_while(serve);
    }

    fn pass_on(&self, wish: &Wish) {
        self.release_many(wish.0);
    }
}

/// Hands permits to the first waiter, if there are enough.
fn serve(inner: &mut Inner<isize, Wish>) -> Option<Wake> {
    let Wish(n) = *inner.queue.first()?;
    if !enough(inner.state, n) {
        return None;
    }
    inner.state -= n as isize;
    inner.queue.serve_first(|_| ())
}

fn enough(permits: isize, n: usize) -> bool {
    usize::try_from(permits).is_ok_and(|permits| permits >= n)
}

/// Takes permits, unless another thread waits for some already. None are always free: no release would look for a
/// waiter that wants none.
fn take(inner: &mut Inner<isize, Wish>, n: usize) -> bool {
    let free = n == 0 || inner.queue.is_empty() && enough(inner.state, n);
    if free {
        inner.state -= n as isize;
    }
    free
}

impl Semaphore {
    const_unless_modelled! {
        /// A semaphore with `permits` permits.
        ///
        /// # Panics
        /// `permits` is more than `isize::MAX`.
        pub fn new(permits: usize) -> Self {
            assert!(permits <= isize::MAX as usize, "more permits than isize::MAX");
            Semaphore { permits: WaitList::new(permits as isize) }
        }
    }

    /// Takes a permit (P).
    ///
    /// # Context
    /// Green and kernel threads; not the progress path.
    ///
    /// # Blocking
    /// Blocks the green thread, or outside a runtime the kernel thread.
    #[inline]
    pub fn acquire(&self) -> Permit<'_> {
        self.acquire_many(1)
    }

    /// Takes `n` permits at once.
    ///
    /// A call for more permits than there will ever be waits for ever.
    ///
    /// # Context, Blocking
    /// As [`Semaphore::acquire`].
    #[inline]
    pub fn acquire_many(&self, n: usize) -> Permit<'_> {
        if self.acquire_within(n, &Limits::NONE) != Outcome::Woken {
            self.permits.with(|inner| inner.state = inner.state.saturating_sub_unsigned(n));
        }
        Permit { semaphore: self, n }
    }

    /// Takes a permit if one is free now and no thread waits for it.
    #[inline]
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        self.try_acquire_many(1)
    }

    /// Takes `n` permits if they are free now and no thread waits for any.
    #[inline]
    pub fn try_acquire_many(&self, n: usize) -> Option<Permit<'_>> {
        self.permits.with(|inner| take(inner, n)).then(|| Permit { semaphore: self, n })
    }

    /// Takes a permit within `time`; `None` after a time-out.
    ///
    /// # Context, Blocking
    /// As [`Semaphore::acquire`].
    pub fn acquire_timeout(&self, time: Duration) -> Option<Permit<'_>> {
        self.permit(1, &Limits::within(time))
    }

    /// Takes `n` permits before `deadline`; `None` after a time-out.
    ///
    /// # Context, Blocking
    /// As [`Semaphore::acquire`].
    pub fn acquire_many_until(&self, n: usize, deadline: Instant) -> Option<Permit<'_>> {
        self.permit(n, &Limits::until(deadline))
    }

    /// As [`Semaphore::acquire`], but an interrupt ends the wait.
    ///
    /// # Context, Blocking
    /// As [`Semaphore::acquire`].
    ///
    /// # Errors
    /// The thread was interrupted, before or during the wait, or its runtime stops. A permit that is there is
    /// taken all the same.
    pub fn acquire_interruptible(&self) -> Result<Permit<'_>, Interrupted> {
        self.acquire_many_interruptible(1)
    }

    /// As [`Semaphore::acquire_many`], but an interrupt ends the wait.
    ///
    /// # Context, Blocking, Errors
    /// As [`Semaphore::acquire_interruptible`].
    pub fn acquire_many_interruptible(&self, n: usize) -> Result<Permit<'_>, Interrupted> {
        self.permit(n, &Limits::INTERRUPTIBLE).ok_or(Interrupted)
    }

    fn permit(&self, n: usize, limits: &Limits) -> Option<Permit<'_>> {
        let woken = self.acquire_within(n, limits) == Outcome::Woken;
        woken.then(|| Permit { semaphore: self, n })
    }

    #[inline]
    fn acquire_within(&self, n: usize, limits: &Limits) -> Outcome {
        budget::spend();
        match self.permits.with(|inner| take(inner, n)) {
            true => Outcome::Woken,
            false => self.acquire_in_turn(n, limits),
        }
    }

    fn acquire_in_turn(&self, n: usize, limits: &Limits) -> Outcome {
        let ready =
            |inner: &mut Inner<isize, Wish>| if take(inner, n) { Join::No } else { Join::Back };
        self.wait_in_turn("semaphore", limits, Wish(n), ready, || ()).0
    }

    /// Releases a permit, or adds one (V).
    ///
    /// # Wakes
    /// The thread that has waited longest, which gets the permit.
    ///
    /// # Panics
    /// As [`Semaphore::release_many`].
    #[inline]
    pub fn release(&self) {
        self.release_many(1);
    }

    /// Releases `n` permits, or adds them.
    ///
    /// # Wakes
    /// The threads that have waited longest, as far as the permits go.
    ///
    /// # Panics
    /// The semaphore would have more than `isize::MAX` permits.
    pub fn release_many(&self, n: usize) {
        let (fits, first) = self.permits.with(|inner| {
            let sum = inner.state.checked_add_unsigned(n);
            inner.state = sum.unwrap_or(inner.state);
            (sum.is_some(), serve(inner))
        });
        if let Some(first) = first {
            first.up();
            if n > 1 {
                self.unblocked();
            }
        }
        assert!(fits, "a semaphore of more permits than isize::MAX");
    }

    /// Number of free permits.
    pub fn available(&self) -> usize {
        self.permits.with(|inner| inner.state.max(0) as usize)
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Semaphore({})", self.available())
    }
}

/// Permits of a [`Semaphore`], released when dropped.
#[must_use = "dropped at once, it gives its permits back at once"]
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
    n: usize,
}

impl Permit<'_> {
    /// Number of permits that it holds.
    pub fn count(&self) -> usize {
        self.n
    }

    /// Drops the guard without releasing the permits; another thread may [release](Semaphore::release) them.
    pub fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.semaphore.release_many(self.n);
    }
}

impl fmt::Debug for Permit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permit({})", self.n)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn no_permits_are_to_be_had_at_once() {
        let semaphore = Semaphore::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| semaphore.acquire().forget());
            while semaphore.permits.with(|inner| inner.queue.is_empty()) {
                std::thread::yield_now();
            }
            // Behind a thread that waits, and without a permit.
            let at_once = semaphore.try_acquire_many(0).is_some();
            semaphore.release();
            assert!(at_once);
        });
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::task::park;
    use loom::sync::{Arc, mpsc};
    use loom::thread;

    /// The wait list's protocol, seen through the permits: none is lost, none is made.
    #[test]
    fn permits_reach_those_who_wait() {
        loom::model(|| {
            let semaphore = Arc::new(Semaphore::new(0));
            let waiters: Vec<_> = (0..2)
                .map(|_| {
                    let semaphore = semaphore.clone();
                    thread::spawn(move || semaphore.acquire().forget())
                })
                .collect();
            semaphore.release_many(2);
            waiters.into_iter().for_each(|t| t.join().unwrap());
            assert_eq!(semaphore.available(), 0);
        });
    }

    #[test]
    fn a_time_out_that_races_a_release_loses_no_permit() {
        loom::model(|| {
            let semaphore = Arc::new(Semaphore::new(0));
            let hasty = {
                let semaphore = semaphore.clone();
                thread::spawn(move || {
                    semaphore.acquire_many_until(1, Instant::now()).map(Permit::forget).is_some()
                })
            };
            let patient = {
                let semaphore = semaphore.clone();
                thread::spawn(move || semaphore.acquire().forget())
            };
            semaphore.release();
            let got = hasty.join().unwrap();
            if got {
                semaphore.release();
            }
            patient.join().unwrap();
            assert_eq!(semaphore.available(), 0);
        });
    }

    #[test]
    fn an_interruption_that_races_a_release_loses_no_permit() {
        loom::model(|| {
            let semaphore = Arc::new(Semaphore::new(0));
            let (tx, rx) = mpsc::channel();
            let waiter = {
                let semaphore = semaphore.clone();
                thread::spawn(move || {
                    tx.send(park::current()).unwrap();
                    semaphore.acquire_interruptible().map(Permit::forget).is_ok()
                })
            };
            let releaser = {
                let semaphore = semaphore.clone();
                thread::spawn(move || semaphore.release())
            };
            let waiter_tcb = rx.recv().unwrap();
            assert!(waiter_tcb.interrupt.ask(waiter_tcb.interrupt.generation()));
            crate::task::park::unpark(waiter_tcb);
            let got = waiter.join().unwrap();
            releaser.join().unwrap();
            assert_eq!(semaphore.available() + usize::from(got), 1);
        });
    }

    /// A waiter that gives up lets those behind it go on.
    #[test]
    fn a_wish_for_many_that_times_out_does_not_hold_up_the_next() {
        loom::model(|| {
            let semaphore = Arc::new(Semaphore::new(1));
            let greedy = {
                let semaphore = semaphore.clone();
                thread::spawn(move || semaphore.acquire_many_until(2, Instant::now()).is_some())
            };
            semaphore.acquire().forget();
            assert!(!greedy.join().unwrap());
            assert_eq!(semaphore.available(), 0);
        });
    }
}
