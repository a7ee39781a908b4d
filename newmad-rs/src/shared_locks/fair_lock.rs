//! The lock of a member's memory, in the segment of the window: for one holder, or shared by several, first come first
//! served.
//!
//! ```text
//!   lock      ticket = next++
//!             exclusive: until write == ticket            all before have unlocked
//!             shared:    until read == ticket, read++     all before have unlocked, or share
//!   unlock    exclusive: read++, write++        shared: write++
//! ```
//! A waiter leaves with an error when its caller's `alive` says that a member with an earlier ticket may be dead. The
//! waiter's ticket is lost then, and the lock works no more: `alive` has to tell all later waiters the same.
//!
//! Sleeping: a waiter counts itself in `sleepers` and then looks at its word; an unlocker changes the word and then
//! looks at `sleepers`. All four are sequentially consistent, so at least one sees the other. The kernel compares the
//! word once more before the waiter sleeps.

use super::futex::{self, Alive};
use crate::sync::{AtomicU32, Ordering::SeqCst, fence};

/// See the module. Zeroed memory is a lock that is free.
#[repr(C)]
#[derive(Debug, Default)]
pub struct FairLock {
    next: AtomicU32,
    read: AtomicU32,
    write: AtomicU32,
    sleepers: AtomicU32,
}

impl FairLock {
    /// Takes the lock, for the caller alone or together with others.
    ///
    /// # Blocking
    /// The calling thread. A green thread's virtual processor goes on.
    ///
    /// # Errors
    /// Those of `alive`.
    pub fn lock<E>(&self, exclusive: bool, alive: Alive<'_, E>) -> Result<(), E> {
        let ticket = self.next.fetch_add(1, SeqCst);
        let word = if exclusive { &self.write } else { &self.read };
        if !futex::spin(|| word.load(SeqCst) == ticket) {
            self.sleepers.fetch_add(1, SeqCst);
            as_said();
            let slept = self.sleep(word, ticket, alive);
            self.sleepers.fetch_sub(1, SeqCst);
            slept?;
        }
        if !exclusive {
            self.pass(&self.read);
        }
        Ok(())
    }

    fn sleep<E>(&self, word: &AtomicU32, ticket: u32, alive: Alive<'_, E>) -> Result<(), E> {
        loop {
            match word.load(SeqCst) {
                now if now == ticket => return Ok(()),
                now => futex::sleep(word, now, alive)?,
            }
        }
    }

    /// Gives it back, for a caller that holds it in that way.
    pub fn unlock(&self, exclusive: bool) {
        if exclusive {
            self.pass(&self.read);
        }
        self.pass(&self.write);
    }

    fn pass(&self, word: &AtomicU32) {
        word.fetch_add(1, SeqCst);
        as_said();
        if self.sleepers.load(SeqCst) > 0 {
            futex::wake(word);
        }
    }
}

/// The model checker takes sequentially consistent accesses for weaker ones than they are.
#[inline]
fn as_said() {
    if cfg!(loom) {
        fence(SeqCst);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicI32, AtomicU64};

    #[test]
    fn writers_are_alone_and_readers_are_not() {
        let (lock, inside, sum) = (FairLock::default(), AtomicI32::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (lock, inside, sum) = (&lock, &inside, &sum);
                scope.spawn(move || {
                    for round in 0..500 {
                        let exclusive = (round + thread) % 3 == 0;
                        assert!(lock.lock(exclusive, &|| Ok::<_, ()>(())).is_ok());
                        if exclusive {
                            assert_eq!(inside.swap(-1, SeqCst), 0);
                            let before = sum.load(SeqCst);
                            std::thread::yield_now();
                            sum.store(before + 1, SeqCst);
                            inside.store(0, SeqCst);
                        } else {
                            assert!(inside.fetch_add(1, SeqCst) >= 0);
                            std::thread::yield_now();
                            inside.fetch_sub(1, SeqCst);
                        }
                        lock.unlock(exclusive);
                    }
                });
            }
        });
        let exclusive = (0..4).flat_map(|thread| (0..500).map(move |round| (round + thread) % 3));
        assert_eq!(sum.load(SeqCst), exclusive.filter(|&rest| rest == 0).count() as u64);
    }

    #[test]
    fn a_waiter_whose_neighbour_has_died_leaves() {
        let lock = FairLock::default();
        assert!(lock.lock(true, &|| Ok::<_, &str>(())).is_ok());
        assert_eq!(lock.lock(false, &|| Err("gone")), Err("gone"));
    }

    /// The lock is given back between the waiter's look and its sleep.
    #[test]
    fn a_waiter_that_does_not_sleep_asks_for_nobody() {
        let word = AtomicU32::new(1);
        assert_eq!(futex::sleep(&word, 0, &|| Err("gone")), Ok(()));
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::thread;

    use super::super::Guarded;
    use super::*;

    type Shared = Guarded<FairLock>;

    impl Shared {
        fn write(&self) {
            self.lock.lock(true, &|| Ok::<_, ()>(())).unwrap();
            // SAFETY: the lock is ours alone.
            unsafe { self.count() };
            self.lock.unlock(true);
        }

        fn read(&self) -> u32 {
            self.lock.lock(false, &|| Ok::<_, ()>(())).unwrap();
            // SAFETY: nobody writes.
            let value = unsafe { self.value() };
            self.lock.unlock(false);
            value
        }
    }

    #[test]
    fn model_writers_exclude_each_other_and_sleepers_are_woken() {
        loom::model(|| {
            let shared = Shared::new();
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let shared = shared.clone();
                    thread::spawn(move || shared.write())
                })
                .collect();
            shared.write();
            others.into_iter().for_each(|other| other.join().unwrap());
            assert_eq!(shared.read(), 3);
        });
    }

    #[test]
    fn model_readers_share_and_wait_for_the_writer_before_them() {
        loom::model(|| {
            let shared = Shared::new();
            let reader = {
                let shared = shared.clone();
                thread::spawn(move || shared.read())
            };
            let writer = {
                let shared = shared.clone();
                thread::spawn(move || shared.write())
            };
            assert!(shared.read() <= 1);
            assert!(reader.join().unwrap() <= 1);
            writer.join().unwrap();
            assert_eq!(shared.read(), 1);
        });
    }
}
