//! The word of a reader-writer lock and its waiters, without a value.
//!
//! The word holds the number of readers, WRITER while a writer is inside, and WAITERS while the queue holds a waiter.
//! While WAITERS is set every thread goes through the queue: readers that come join it behind the writer that waits,
//! so writers do not starve. The thread that ends the reason to wait (the last reader, the writer, a waiter that gives
//! up) hands the lock to the first in the queue: to one writer, or to all readers up to the next writer. So readers do
//! not starve either, and a wait ends after those that came earlier.
//!
//! ```text
//!   0 ──read──▶ n readers ──────▶ n readers + WAITERS ──the last one leaves──▶ granted to the first
//!   0 ──write─▶ WRITER ─────────▶ WRITER + WAITERS ─────unlock───────────────▶ granted to the first
//! ```
//!
//! WAITERS changes, and a lock is granted, under the list's lock only. With WAITERS set, the only change outside of it
//! is that readers leave, so the granting thread sees a word that stays true.

use std::sync::atomic::Ordering::*;

use super::signal::{Limits, Outcome, Wake};
use super::wait_list::{Inner, Join, Primitive, WaitList};
use crate::os::{AtomicU32, const_unless_modelled};
use crate::task::budget;

const WRITER: u32 = 1 << 31;
const WAITERS: u32 = 1 << 30;
const READERS: u32 = WAITERS - 1;

/// How a thread wants the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    Read,
    Write,
}

/// See the module's description.
pub(super) struct RawRwLock {
    word: AtomicU32,
    waiters: WaitList<(), Wish>,
}

impl Primitive for RawRwLock {
    type State = ();
    type Waiter = Wish;

    fn list(&self) -> &WaitList<(), Wish> {
        &self.waiters
    }

    fn unblocked(&self) {
        self.grant();
    }

    fn pass_on(&self, wish: &Wish) {
        self.unlock(*wish);
    }
}

impl RawRwLock {
    const_unless_modelled! {
        pub(super) fn new() -> Self {
            RawRwLock { word: AtomicU32::new(0), waiters: WaitList::new(()) }
        }
    }

    /// What the word becomes if the lock is free for this.
    #[inline]
    fn taken(word: u32, wish: Wish) -> Option<u32> {
        match wish {
            Wish::Read => (word & (WRITER | WAITERS) == 0 && word < READERS).then_some(word + 1),
            Wish::Write => (word == 0).then_some(WRITER),
        }
    }

    #[inline]
    pub(super) fn try_lock(&self, wish: Wish) -> bool {
        let mut word = match wish {
            Wish::Read => self.word.load(Relaxed),
            Wish::Write => 0,
        };
        while let Some(taken) = Self::taken(word, wish) {
            match self.word.compare_exchange_weak(word, taken, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// [`Outcome::Woken`] if the lock is the caller's.
    #[inline]
    pub(super) fn lock(&self, wish: Wish, limits: &Limits) -> Outcome {
        if self.try_lock(wish) { Outcome::Woken } else { self.lock_contended(wish, limits) }
    }

    #[cold]
    fn lock_contended(&self, wish: Wish, limits: &Limits) -> Outcome {
        budget::spend();
        let reason = match wish {
            Wish::Read => "rwlock, to read",
            Wish::Write => "rwlock, to write",
        };
        let mut too_many = false;
        let ready = |_: &mut Inner<(), Wish>| {
            let mut word = self.word.load(Relaxed);
            loop {
                let taken = Self::taken(word, wish);
                too_many = wish == Wish::Read && word == READERS;
                let next = match taken {
                    _ if too_many => return Join::No,
                    Some(taken) => taken,
                    None => word | WAITERS,
                };
                match self.word.compare_exchange_weak(word, next, Acquire, Relaxed) {
                    Ok(_) if taken.is_some() => return Join::No,
                    Ok(_) => return Join::Back,
                    Err(now) => word = now,
                }
            }
        };
        let (outcome, _) = self.wait_in_turn(reason, limits, wish, ready, || ());
        assert!(!too_many, "a reader-writer lock with {READERS} readers takes no more");
        outcome
    }

    #[inline]
    pub(super) fn unlock(&self, wish: Wish) {
        match wish {
            Wish::Read => {
                if self.word.fetch_sub(1, Release) == WAITERS | 1 {
                    self.grant();
                }
            }
            Wish::Write => {
                if self.word.compare_exchange(WRITER, 0, Release, Relaxed).is_err() {
                    self.word.fetch_and(!WRITER, Release);
                    self.grant();
                }
            }
        }
    }

    /// The writer becomes a reader; readers that wait at the front enter too.
    pub(super) fn downgrade(&self) {
        if self.word.fetch_sub(WRITER - 1, Release) & WAITERS != 0 {
            self.grant();
        }
    }

    /// Gives the lock to the first waiters, as far as it is free.
    #[cold]
    fn grant(&self) {
        self.waiters.serve_while(|inner| self.grant_one(inner));
    }

    /// Under the list's lock.
    fn grant_one(&self, inner: &mut Inner<(), Wish>) -> Option<Wake> {
        // What past holders did comes before what the next one does.
        let word = self.word.load(Acquire);
        let (free, granted) = match inner.queue.first() {
            None => (true, 0),
            Some(Wish::Write) => (word & (WRITER | READERS) == 0, WRITER),
            Some(Wish::Read) => (word & WRITER == 0 && word & READERS < READERS, 1),
        };
        if !free {
            return None;
        }
        // No thread enters while WAITERS is set, so this and what readers do by leaving commute.
        if granted != 0 {
            self.word.fetch_add(granted, Relaxed);
        }
        let wake = inner.queue.serve_first(|_| ());
        if inner.queue.is_empty() {
            self.word.fetch_and(!WAITERS, Relaxed);
        }
        wake
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;
    use std::time::Instant;

    struct Protected {
        lock: RawRwLock,
        value: UnsafeCell<usize>,
    }

    // SAFETY: the lock's protocol, which loom checks here.
    unsafe impl Sync for Protected {}

    impl Protected {
        fn new() -> Arc<Protected> {
            Arc::new(Protected { lock: RawRwLock::new(), value: UnsafeCell::new(0) })
        }

        fn section(&self, wish: Wish, limits: &Limits) -> bool {
            if self.lock.lock(wish, limits) != Outcome::Woken {
                return false;
            }
            match wish {
                // SAFETY: locked to read.
                Wish::Read => self.value.with(|value| unsafe { assert!(*value < 3) }),
                // SAFETY: locked to write.
                Wish::Write => self.value.with_mut(|value| unsafe { *value += 1 }),
            }
            self.lock.unlock(wish);
            true
        }
    }

    fn run(wishes: [(Wish, Limits); 3]) {
        loom::model(move || {
            let protected = Protected::new();
            let others: Vec<_> = wishes[1..]
                .iter()
                .map(|&(wish, limits)| {
                    let protected = protected.clone();
                    thread::spawn(move || protected.section(wish, &limits))
                })
                .collect();
            protected.section(wishes[0].0, &wishes[0].1);
            for other in others {
                other.join().unwrap();
            }
            assert_eq!(protected.lock.word.load(Relaxed), 0, "not free, or a waiter left behind");
        });
    }

    const FOREVER: Limits = Limits::TO_THE_END;

    #[test]
    fn writers_exclude_each_other_and_readers() {
        run([(Wish::Write, FOREVER), (Wish::Write, FOREVER), (Wish::Read, FOREVER)]);
    }

    #[test]
    fn readers_wait_for_a_writer_and_enter_together() {
        run([(Wish::Write, FOREVER), (Wish::Read, FOREVER), (Wish::Read, FOREVER)]);
    }

    #[test]
    fn a_writer_that_gives_up_lets_the_readers_behind_it_in() {
        loom::model(|| {
            let protected = Protected::new();
            protected.lock.lock(Wish::Read, &FOREVER);
            let hasty = Limits::until(Instant::now());
            let [writer, reader] =
                [(Wish::Write, hasty), (Wish::Read, FOREVER)].map(|(wish, limits)| {
                    let protected = protected.clone();
                    thread::spawn(move || protected.section(wish, &limits))
                });
            // While we are inside.
            assert!(reader.join().unwrap());
            assert!(!writer.join().unwrap());
            protected.lock.unlock(Wish::Read);
            assert_eq!(protected.lock.word.load(Relaxed), 0);
        });
    }

    #[test]
    fn a_downgrade_lets_readers_in_and_keeps_writers_out() {
        loom::model(|| {
            let protected = Protected::new();
            let others = [Wish::Read, Wish::Write].map(|wish| {
                let protected = protected.clone();
                thread::spawn(move || protected.section(wish, &FOREVER))
            });
            protected.lock.lock(Wish::Write, &FOREVER);
            // SAFETY: locked to write.
            protected.value.with_mut(|value| unsafe { *value += 1 });
            protected.lock.downgrade();
            // SAFETY: locked to read.
            protected.value.with(|value| unsafe { assert!(*value > 0) });
            protected.lock.unlock(Wish::Read);
            others.into_iter().for_each(|t| assert!(t.join().unwrap()));
            assert_eq!(protected.lock.word.load(Relaxed), 0);
        });
    }
}
