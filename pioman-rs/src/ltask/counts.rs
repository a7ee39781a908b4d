//! How many light tasks there were, and how they have ended.

use std::sync::atomic::{AtomicU64, Ordering::*};

use crate::ltask::state::Outcome;

/// What has become of the light tasks of a manager: [`crate::Manager::tasks`]. A tasklet counts each time it is
/// scheduled, but for those that merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounts {
    /// Submitted so far.
    pub submitted: u64,
    /// Those that have done their work.
    pub completed: u64,
    /// Those that were cancelled first.
    pub cancelled: u64,
    /// Those that have panicked.
    pub failed: u64,
}

impl TaskCounts {
    /// Those that have not ended.
    pub fn outstanding(&self) -> u64 {
        self.submitted.saturating_sub(self.completed + self.cancelled + self.failed)
    }
}

/// The counters. An end is counted before anybody is told of it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counts {
    submitted: AtomicU64,
    ended: [AtomicU64; 3],
}

impl Counts {
    pub(super) fn submitted(&self, change: i64) {
        self.submitted.fetch_add(change as u64, Relaxed);
    }

    pub(super) fn note(&self, outcome: Outcome) {
        self.ended[outcome as usize].fetch_add(1, Release);
    }

    /// Ends first, then submissions: there are never more of the former.
    pub(crate) fn get(&self) -> TaskCounts {
        let ended = |outcome: Outcome| self.ended[outcome as usize].load(Acquire);
        let (completed, cancelled) = (ended(Outcome::Completed), ended(Outcome::Cancelled));
        let failed = ended(Outcome::Failed);
        TaskCounts { submitted: self.submitted.load(Relaxed), completed, cancelled, failed }
    }
}
