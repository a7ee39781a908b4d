//! The mutex's word and its waiters, without a value.
//!
//! ```text
//!   FREE ──lock──▶ LOCKED ──unlock──▶ FREE                           one exchange each, and that is all
//!                    │ a waiter is about to sleep
//!                    ▼
//!                CONTENDED ──unlock──▶ FREE, the first waiter woken
//!                    └───────unlock──▶ CONTENDED, handed to the first waiter, which starves
//! ```
//!
//! The holder that unlocks a contended mutex frees it and wakes the first waiter, which competes with running threads
//! ("barging"): to hand every contended lock over would cost two switches a section, and across cores leave the lock
//! idle for the microseconds of a wake-up. But a waiter that has been woken, has lost, and has waited for more than
//! [`PATIENCE`] queues at the front and *starves*: the next unlock hands it the lock, and no thread gets in between. So
//! each unlock after a millisecond serves a waiter.
//!
//! Only a contended lock spends one of the turn's operations (`task::budget`).
//!
//! Rejected: spinning for a mutex that others sleep for already, or while the virtual processor has others to run;
//! spending for an uncontended lock too (26.7 instructions instead of 11.0 for a lock and an unlock; and a thread that
//! locks and unlocks in a loop holds up no more than one that computes).

use std::cell::Cell;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use super::signal::{Limits, Outcome, Wake};
use super::wait_list::{Inner, Join, Primitive, WaitList};
use crate::os::{self, AtomicU32, const_unless_modelled};
use crate::task::budget;

const FREE: u32 = 0;
const LOCKED: u32 = 1;
const CONTENDED: u32 = 2;

/// How often to look at a locked mutex before waiting: a section is usually shorter than a switch.
const SPINS: u32 = 40;

/// How long running threads may overtake a waiter. The model checker's waiters have none.
const PATIENCE: Duration = Duration::from_millis(if cfg!(loom) { 0 } else { 1 });

/// See the module's description.
pub(super) struct RawMutex {
    word: AtomicU32,
    waiters: WaitList<(), Claimant>,
}

/// A thread that waits for a mutex.
pub(super) struct Claimant {
    starves: bool,
    given: Cell<bool>,
}

impl Primitive for RawMutex {
    type State = ();
    type Waiter = Claimant;

    fn list(&self) -> &WaitList<(), Claimant> {
        &self.waiters
    }

    fn pass_on(&self, claimant: &Claimant) {
        if claimant.given.get() {
            self.unlock();
        } else {
            self.waiters.wake_one();
        }
    }
}

impl RawMutex {
    const_unless_modelled! {
        pub(super) fn new() -> Self {
            RawMutex { word: AtomicU32::new(FREE), waiters: WaitList::new(()) }
        }
    }

    #[inline]
    pub(super) fn try_lock(&self) -> bool {
        self.word.compare_exchange(FREE, LOCKED, Acquire, Relaxed).is_ok()
    }

    pub(super) fn is_locked(&self) -> bool {
        self.word.load(Relaxed) != FREE
    }

    /// [`Outcome::Woken`] if the mutex is the caller's.
    #[inline]
    pub(super) fn lock(&self, limits: &Limits) -> Outcome {
        if self.try_lock() { Outcome::Woken } else { self.lock_contended(limits) }
    }

    #[inline]
    pub(super) fn unlock(&self) {
        if self.word.compare_exchange(LOCKED, FREE, Release, Relaxed).is_err() {
            self.unlock_contended();
        }
    }

    #[cold]
    fn lock_contended(&self, limits: &Limits) -> Outcome {
        budget::spend();
        if self.spin() {
            return Outcome::Woken;
        }
        let mut since = None;
        let mut starves = false;
        loop {
            let mut got = false;
            let ready = |inner: &mut Inner<(), Claimant>| {
                got = self.take(inner.queue.is_empty());
                match (got, starves) {
                    (true, _) => Join::No,
                    (false, true) => Join::Front,
                    (false, false) => Join::Back,
                }
            };
            let claimant = Claimant { starves, given: Cell::new(false) };
            let (outcome, claimant) = self.wait_in_turn("mutex", limits, claimant, ready, || ());
            if got || claimant.given.get() || outcome != Outcome::Woken {
                return outcome;
            }
            starves = since.get_or_insert_with(Instant::now).elapsed() >= PATIENCE;
        }
    }

    fn spin(&self) -> bool {
        for _ in 0..SPINS {
            if self.try_lock() {
                return true;
            }
            if cfg!(loom) || self.word.load(Relaxed) == CONTENDED || super::others_runnable() {
                return false;
            }
            os::spin_loop();
        }
        false
    }

    /// Under the list's lock: takes the mutex if it is free, else sees to it that its unlock looks at the list.
    fn take(&self, alone: bool) -> bool {
        alone && self.try_lock() || self.word.swap(CONTENDED, Acquire) == FREE
    }

    #[cold]
    fn unlock_contended(&self) {
        let wake = self.waiters.with(|inner| match inner.queue.first() {
            Some(first) if first.starves => inner.queue.serve_first(|first| first.given.set(true)),
            first => {
                // Waiters leave the word at CONTENDED under the list's lock, others do not touch it.
                debug_assert!(first.is_none() || self.word.load(Relaxed) == CONTENDED);
                self.word.store(FREE, Release);
                inner.queue.serve_first(|_| ())
            }
        });
        Wake::any(wake);
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    struct Protected {
        mutex: RawMutex,
        value: UnsafeCell<usize>,
    }

    // SAFETY: the mutex's protocol, which loom checks here.
    unsafe impl Sync for Protected {}

    impl Protected {
        fn new() -> Arc<Protected> {
            Arc::new(Protected { mutex: RawMutex::new(), value: UnsafeCell::new(0) })
        }

        fn section(&self, limits: &Limits) -> usize {
            if self.mutex.lock(limits) != Outcome::Woken {
                return 0;
            }
            // SAFETY: the mutex is locked.
            self.value.with_mut(|value| unsafe { *value += 1 });
            self.mutex.unlock();
            1
        }

        fn value(&self) -> usize {
            // SAFETY: all others have ended.
            self.value.with(|value| unsafe { *value })
        }
    }

    /// Waiters starve as soon as they have lost once: hand-over is part of this.
    #[test]
    fn a_mutex_excludes_and_wakes() {
        loom::model(|| {
            let protected = Protected::new();
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let protected = protected.clone();
                    thread::spawn(move || protected.section(&Limits::TO_THE_END))
                })
                .collect();
            protected.section(&Limits::TO_THE_END);
            others.into_iter().for_each(|t| assert_eq!(t.join().unwrap(), 1));
            assert_eq!(protected.value(), 3);
        });
    }

    #[test]
    fn a_mutex_is_handed_over_to_who_has_been_overtaken() {
        loom::model(|| {
            let protected = Protected::new();
            let other = {
                let protected = protected.clone();
                thread::spawn(move || protected.section(&Limits::TO_THE_END))
            };
            for _ in 0..3 {
                protected.section(&Limits::TO_THE_END);
            }
            other.join().unwrap();
            assert_eq!(protected.value(), 4);
        });
    }

    #[test]
    fn a_lock_that_times_out_leaves_the_mutex_to_the_others() {
        loom::model(|| {
            let protected = Protected::new();
            let hasty = {
                let protected = protected.clone();
                thread::spawn(move || protected.section(&Limits::until(Instant::now())))
            };
            let other = {
                let protected = protected.clone();
                thread::spawn(move || protected.section(&Limits::TO_THE_END))
            };
            let mine = protected.section(&Limits::TO_THE_END);
            let all = mine + hasty.join().unwrap() + other.join().unwrap();
            assert_eq!(protected.value(), all);
            assert!(protected.mutex.try_lock());
        });
    }
}
