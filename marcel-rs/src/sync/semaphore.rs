//! Counting semaphore with hand-over: a released permit goes to the thread that has waited longest.

use std::fmt;
use std::time::{Duration, Instant};

use super::wait_list::WaitList;

/// A number of permits.
pub struct Semaphore {
    permits: WaitList<usize>,
}

impl Semaphore {
    /// A semaphore with `permits` permits.
    pub const fn new(permits: usize) -> Self {
        Semaphore { permits: WaitList::new(permits) }
    }

    /// Takes a permit (P).
    ///
    /// # Context
    /// Green and kernel threads. # Blocking: the green thread.
    pub fn acquire(&self) {
        self.permits.wait("semaphore", None, take, || (), give);
    }

    /// Takes a permit within `time`; false after a time-out.
    pub fn acquire_timeout(&self, time: Duration) -> bool {
        self.permits.wait("semaphore", Instant::now().checked_add(time), take, || (), give)
    }

    /// Takes a permit if there is one now.
    pub fn try_acquire(&self) -> bool {
        self.permits.update(take)
    }

    /// Gives a permit back (V).
    ///
    /// # Wakes
    /// The thread that has waited longest, which gets the permit.
    pub fn release(&self) {
        give(&self.permits);
    }

    /// Permits that nobody holds.
    pub fn available(&self) -> usize {
        self.permits.update(|permits| *permits)
    }
}

/// To the thread that has waited longest, else for whoever comes.
fn give(permits: &WaitList<usize>) {
    permits.wake_one(|permits, handed_over| {
        if !handed_over {
            *permits += 1;
        }
    });
}

fn take(permits: &mut usize) -> bool {
    let free = *permits > 0;
    if free {
        *permits -= 1;
    }
    free
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Semaphore({})", self.available())
    }
}
