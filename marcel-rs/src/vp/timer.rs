//! Entries of a virtual processor's timer heap: who is to be woken, and when.

use std::cmp::Ordering;
use std::time::Instant;

use crate::thread::tcb::Tcb;

/// A timed wait. It is not taken out of the heap when the thread is woken earlier: `wait`, compared with the
/// thread's own count, tells that it is stale.
pub(crate) struct Timer {
    pub(crate) deadline: Instant,
    pub(crate) tcb: &'static Tcb,
    pub(crate) wait: u64,
}

impl Ord for Timer {
    /// The earliest deadline is the greatest, for a max-heap.
    fn cmp(&self, other: &Self) -> Ordering {
        other.deadline.cmp(&self.deadline)
    }
}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.deadline == other.deadline
    }
}

impl Eq for Timer {}
