//! The delegation lock: a try-lock whose losers leave their work to the holder.
//!
//! The progress path may only *try* locks: it runs in signal handlers, which may have interrupted the very holder. A
//! caller that does not get the lock must not strand its work, so it delegates it: as bits that the holder finds.
//!
//! One word holds both the lock and the bits, and that is the whole protocol:
//!
//! ```text
//!   delegate(bits):  before = word.fetch_or(HELD | bits)
//!                    before had HELD?  the holder will do it   :  the lock is the caller's, with its bits in it
//!   unlock:          compare_exchange(HELD, 0)  ok? done
//!                    else bits = word.fetch_and(HELD), T::run_delegated(bits), try again
//! ```
//!
//! Invariant: the word is not 0 while it holds a bit, and a bit is only added to a held word or by its new holder. So
//! no work is stranded: there is no window between "failed to lock" and "left the work". Model-checked with loom below.
//!
//! Rejected: two words, with a second attempt after leaving and a second look after unlocking (the same guarantee for
//! twice the atomic operations). \[Goedefroit23\] has neither and strands work until the next interrupt.

use crate::shim::{AtomicU64, Ordering::*, UnsafeCell, yield_now};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

const HELD: u64 = 1 << 63;

/// What the holder of the lock does for callers that could not lock. On the progress path: it allocates and frees
/// nothing, blocks on nothing, and does not panic.
pub trait Delegated {
    /// Does the work that `bits` stand for; the same bit left twice may be seen once.
    fn run_delegated(&mut self, bits: u64);
}

/// See the module's description.
pub struct DelegationLock<T: Delegated> {
    word: AtomicU64,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by the holder only.
unsafe impl<T: Delegated + Send> Sync for DelegationLock<T> {}
// SAFETY: as above.
unsafe impl<T: Delegated + Send> Send for DelegationLock<T> {}

impl<T: Delegated> DelegationLock<T> {
    /// A free lock.
    pub fn new(value: T) -> Self {
        DelegationLock { word: AtomicU64::new(0), value: UnsafeCell::new(value) }
    }

    /// The lock, if it is free. Dropping the guard does what others have left meanwhile, then unlocks.
    ///
    /// # Context
    /// Anywhere, signal handlers included.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        let free = self.word.compare_exchange(0, HELD, Acquire, Relaxed).is_ok();
        free.then(|| Guard { lock: self, _here: PhantomData })
    }

    /// Waits for the lock, which its holders only keep for a moment.
    ///
    /// # Context
    /// Not the progress path: a signal handler may have interrupted the holder.
    pub fn lock(&self) -> Guard<'_, T> {
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            yield_now();
        }
    }

    /// Has `T::run_delegated(bits)` done: here and now if the lock is free (true), else by the holder before it
    /// unlocks (false). The top bit is reserved.
    ///
    /// # Context
    /// Anywhere, signal handlers included.
    #[inline]
    pub fn delegate(&self, bits: u64) -> bool {
        debug_assert!(bits & HELD == 0 && bits != 0);
        let before = self.word.fetch_or(HELD | bits, AcqRel);
        let ours = before & HELD == 0;
        if ours {
            drop(Guard { lock: self, _here: PhantomData });
        }
        ours
    }

    /// Whether the lock is held at this moment.
    pub fn is_held(&self) -> bool {
        self.word.load(Relaxed) & HELD != 0
    }

    /// The value, without locking: the borrow is exclusive.
    #[cfg(not(loom))]
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T: Delegated + std::fmt::Debug> std::fmt::Debug for DelegationLock<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DelegationLock")
    }
}

/// Access to the value of a [`DelegationLock`].
///
/// Stays with the thread that has it, and is not shared: the value may be `Send` without being `Sync`.
/// ```compile_fail
/// # fn f<T: pioman::plumbing::Delegated + Send>(guard: &pioman::plumbing::Guard<'_, T>) {
/// fn shared<T: Sync>(_: T) {}
/// shared(guard);
/// # }
/// ```
pub struct Guard<'a, T: Delegated> {
    lock: &'a DelegationLock<T>,
    _here: PhantomData<*mut T>,
}

impl<T: Delegated> Guard<'_, T> {
    /// Whether others have left work since the lock was taken: a holder that only looks around had better let go.
    ///
    /// # Context
    /// Anywhere, signal handlers included.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.lock.word.load(Relaxed) != HELD
    }

    fn pointer(&self) -> *mut T {
        #[cfg(loom)]
        return self.lock.value.with_mut(|p| p);
        #[cfg(not(loom))]
        self.lock.value.get()
    }
}

impl<T: Delegated> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.pointer() }
    }
}

impl<T: Delegated> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, the borrow exclusive.
        unsafe { &mut *self.pointer() }
    }
}

impl<T: Delegated + std::fmt::Debug> std::fmt::Debug for Guard<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: Delegated> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        while self.lock.word.compare_exchange(HELD, 0, AcqRel, Relaxed).is_err() {
            let bits = self.lock.word.fetch_and(HELD, AcqRel) & !HELD;
            self.run_delegated(bits);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Tally {
        seen: u64,
        calls: usize,
    }
    impl Delegated for Tally {
        fn run_delegated(&mut self, bits: u64) {
            self.seen |= bits;
            self.calls += 1;
        }
    }

    #[test]
    fn what_is_left_with_the_holder_is_done_before_it_unlocks() {
        let lock = DelegationLock::new(Tally { seen: 0, calls: 0 });
        let guard = lock.try_lock().unwrap();
        assert!(lock.try_lock().is_none());
        assert!(!lock.delegate(1));
        assert!(!lock.delegate(4));
        assert_eq!(guard.seen, 0);
        drop(guard);
        let guard = lock.try_lock().unwrap();
        assert_eq!((guard.seen, guard.calls), (5, 1));
    }

    #[test]
    fn a_free_lock_works_at_once() {
        let lock = DelegationLock::new(Tally { seen: 0, calls: 0 });
        assert!(lock.delegate(2));
        assert_eq!(lock.try_lock().unwrap().seen, 2);
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    /// Work is "take everything from the box": whatever was put in before `leave` must be taken.
    struct Box_ {
        items: Arc<AtomicUsize>,
        taken: usize,
    }
    impl Delegated for Box_ {
        fn run_delegated(&mut self, _: u64) {
            self.taken += self.items.swap(0, Relaxed);
        }
    }

    #[test]
    fn no_work_is_stranded() {
        loom::model(|| {
            let items = Arc::new(AtomicUsize::new(0));
            let lock = Arc::new(DelegationLock::new(Box_ { items: items.clone(), taken: 0 }));
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let (items, lock) = (items.clone(), lock.clone());
                    thread::spawn(move || {
                        items.fetch_add(1, Relaxed);
                        lock.delegate(1);
                    })
                })
                .collect();
            drop(lock.try_lock());
            threads.into_iter().for_each(|t| t.join().unwrap());
            assert_eq!(lock.try_lock().unwrap().taken, 2);
        });
    }

    #[test]
    fn the_value_has_one_user_at_a_time() {
        struct Plain(usize);
        impl Delegated for Plain {
            fn run_delegated(&mut self, _: u64) {
                self.0 += 1; // loom reports a race if two are here
            }
        }
        loom::model(|| {
            let lock = Arc::new(DelegationLock::new(Plain(0)));
            let other = lock.clone();
            let thread = thread::spawn(move || {
                if let Some(mut guard) = other.try_lock() {
                    guard.0 += 1;
                }
            });
            lock.delegate(1);
            thread.join().unwrap();
            assert!((1..=2).contains(&lock.try_lock().unwrap().0));
        });
    }
}
