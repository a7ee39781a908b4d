//! A semaphore whose V is allowed on the progress path (\[Trahay09\], annex A.2).
//!
//! What tells it from `marcel::sync::Semaphore`: a thread that waits here waits with its manager, so it polls, or its
//! virtual processor sleeps in the watch, and events progress; and permits may come from the tick's handler.
//!
//! Permits that are given are *credit*, an atomic sum, until the holder of the queue's lock hands them out, first
//! come, first served. A giver that finds the lock taken leaves that to the holder.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::completion::node::Node;
use crate::completion::queue::{Queue, locked};
use crate::completion::wakers;
use crate::shim::{AtomicU64, Ordering::*};
use crate::sync::delegation::{Delegated, DelegationLock};

/// A number of permits; see the module's description.
///
/// # Fairness
/// First come, first served: permits are handed over, no caller overtakes a waiter. One that comes to a wait which has
/// ended otherwise (by time-out, by another of [`crate::Manager::wait_any`], by a dropped future) goes to the next.
pub struct Semaphore {
    credit: Arc<AtomicU64>,
    permits: DelegationLock<Permits>,
}

const GIVEN: u64 = 1;

struct Permits {
    credit: Arc<AtomicU64>,
    /// Permits without an owner and without a waiter.
    free: u64,
    queue: Queue,
}

impl Delegated for Permits {
    fn run_delegated(&mut self, _: u64) {
        self.free = self.free.saturating_add(self.credit.swap(0, AcqRel));
        while self.free > 0
            && let Some(node) = self.queue.pop_front()
        {
            self.free -= 1;
            // SAFETY: just taken out. The unlocking thread runs what is to come after.
            unsafe { Node::fire(node.as_ptr()) };
        }
    }
}

impl Permits {
    fn take(&mut self) -> bool {
        self.run_delegated(GIVEN);
        let some = self.free > 0; // and then there is no waiter
        self.free -= u64::from(some);
        some
    }
}

impl Semaphore {
    /// With `permits` permits.
    pub fn new(permits: u64) -> Semaphore {
        let credit = Arc::new(AtomicU64::new(0));
        let inside = Permits { credit: credit.clone(), free: permits, queue: Queue::new() };
        Semaphore { credit, permits: DelegationLock::new(inside) }
    }

    /// Gives a permit (V).
    ///
    /// # Context
    /// Anywhere, the tick's handler included.
    ///
    /// # Wakes
    /// The thread that has waited longest, which gets the permit.
    pub fn release(&self) {
        self.release_many(1);
    }

    /// Gives `n` permits.
    ///
    /// # Context
    /// As [`Semaphore::release`].
    ///
    /// # Wakes
    /// The threads that have waited longest, as far as the permits go.
    pub fn release_many(&self, n: u64) {
        self.credit.fetch_add(n, AcqRel);
        self.permits.delegate(GIVEN);
        wakers::settle();
    }

    /// Takes a permit if there is one, and no waiter for it.
    ///
    /// # Context
    /// Not the progress path.
    pub fn try_acquire(&self) -> bool {
        locked(&self.permits, Permits::take)
    }

    /// Free permits.
    ///
    /// # Context
    /// Not the progress path.
    pub fn available(&self) -> u64 {
        locked(&self.permits, |permits| {
            permits.run_delegated(GIVEN);
            permits.free
        })
    }

    /// Joins the queue, unless a permit is there, which is taken (false).
    ///
    /// # Safety
    /// As [`Queue::push_back`].
    pub(crate) unsafe fn enlist(&self, node: NonNull<Node>) -> bool {
        locked(&self.permits, |permits| {
            let wait = !permits.take();
            if wait {
                // SAFETY: the caller's promise.
                unsafe { permits.queue.push_back(node) };
            }
            wait
        })
    }

    /// Leaves the queue; false if it has got a permit.
    pub(crate) fn leave(&self, node: &Node) -> bool {
        // SAFETY: a node that was enlisted here is in no other list.
        locked(&self.permits, |permits| unsafe { permits.queue.remove(node) })
    }
}

impl std::fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Semaphore({})", self.available())
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::thread;

    fn acquire(semaphore: &Semaphore) {
        semaphore.permit().wait_with(|done| {
            done.latch().wait("a model");
            true
        });
    }

    #[test]
    fn a_time_out_that_races_a_release_loses_no_permit() {
        loom::model(|| {
            let semaphore = Arc::new(Semaphore::new(0));
            let (giver, hasty) = (semaphore.clone(), semaphore.clone());
            let giver = thread::spawn(move || giver.release());
            let hasty = thread::spawn(move || {
                if hasty.permit().wait_with(|done| done.is_done()) {
                    hasty.release();
                }
            });
            acquire(&semaphore);
            giver.join().unwrap();
            hasty.join().unwrap();
            assert_eq!(semaphore.available(), 0);
        });
    }

    #[test]
    fn two_permits_for_two_who_wait() {
        loom::model(|| {
            let semaphore = Arc::new(Semaphore::new(0));
            let (giver, other) = (semaphore.clone(), semaphore.clone());
            let other = thread::spawn(move || acquire(&other));
            let giver = thread::spawn(move || giver.release());
            semaphore.release();
            acquire(&semaphore);
            giver.join().unwrap();
            other.join().unwrap();
            assert_eq!(semaphore.available(), 0);
        });
    }
}
