//! The lock of a member's memory, in the segment of the window: for one holder, or shared by several, first come first
//! served.
//!
//! ```text
//!   lock      ticket = next++
//!             exclusive: until write == ticket            all before have unlocked
//!             shared:    until read == ticket, read++     all before have unlocked, or share
//!   unlock    exclusive: read++, write++        shared: write++
//! ```
//! A waiter that finds that a member of the window has died leaves with an error. Its ticket is lost: the lock works no
//! more, and all later waiters find the same.
//!
//! Sleeping: a waiter counts itself in `sleepers` and then looks at its word; an unlocker changes the word and then
//! looks at `sleepers`. All four are sequentially consistent, so at least one sees the other. The kernel compares the
//! word once more before the waiter sleeps.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use super::futex::{self, Alive};
use crate::error::Fault;

/// See the module. Zeroed memory is a lock that is free.
#[repr(C)]
#[derive(Default)]
pub(super) struct FairLock {
    next: AtomicU32,
    read: AtomicU32,
    write: AtomicU32,
    sleepers: AtomicU32,
}

impl FairLock {
    /// # Errors
    /// Those of `alive`.
    pub(super) fn lock(&self, exclusive: bool, alive: Alive<'_>) -> Result<(), Fault> {
        let ticket = self.next.fetch_add(1, SeqCst);
        let word = if exclusive { &self.write } else { &self.read };
        if !futex::spin(|| word.load(SeqCst) == ticket) {
            self.sleepers.fetch_add(1, SeqCst);
            let slept = self.sleep(word, ticket, alive);
            self.sleepers.fetch_sub(1, SeqCst);
            slept?;
        }
        if !exclusive {
            self.pass(&self.read);
        }
        Ok(())
    }

    fn sleep(&self, word: &AtomicU32, ticket: u32, alive: Alive<'_>) -> Result<(), Fault> {
        loop {
            match word.load(SeqCst) {
                now if now == ticket => return Ok(()),
                now => futex::sleep(word, now, alive)?,
            }
        }
    }

    /// For the caller that holds it in that way.
    pub(super) fn unlock(&self, exclusive: bool) {
        if exclusive {
            self.pass(&self.read);
        }
        self.pass(&self.write);
    }

    fn pass(&self, word: &AtomicU32) {
        word.fetch_add(1, SeqCst);
        if self.sleepers.load(SeqCst) > 0 {
            futex::wake(word);
        }
    }
}

#[cfg(test)]
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
                        assert!(lock.lock(exclusive, &|| Ok(())).is_ok());
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
        assert!(lock.lock(true, &|| Ok(())).is_ok());
        let died = || Err(Fault::new(crate::abi::MPI_ERR_PROC_ABORTED, "gone"));
        assert!(lock.lock(false, &died).is_err());
    }
}
