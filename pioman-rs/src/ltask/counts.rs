//! How many light tasks there were, and how they have ended.
//!
//! A row for each kernel thread, as in [`crate::observe`]: counting is a plain addition.

use std::sync::atomic::{Ordering::*, fence};

use marcel::plumbing::slot::{Counter, SLOTS};

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

/// What one kernel thread counts.
#[derive(Default)]
#[repr(align(64))]
struct Row {
    submitted: Counter,
    ended: [Counter; 3],
}

/// The counters. An end is counted before any waiter is told of it.
pub(crate) struct Counts(Box<[Row]>);

impl Default for Counts {
    fn default() -> Counts {
        Counts((0..=SLOTS).map(|_| Row::default()).collect())
    }
}

impl Counts {
    #[inline]
    fn count(&self, of: impl Fn(&Row) -> &Counter, change: u64) {
        match marcel::plumbing::slot::current() {
            Some(slot) => of(&self.0[slot]).add(change),
            None => of(&self.0[SLOTS]).add_shared(change),
        }
    }

    /// One is, or is not (-1) after all. Sums wrap, and come out right.
    pub(crate) fn submitted(&self, change: i64) {
        self.count(|row| &row.submitted, change as u64);
    }

    pub(crate) fn note(&self, outcome: Outcome) {
        self.count(|row| &row.ended[outcome as usize], 1);
    }

    /// Ends first, then submissions: there are never more of the former.
    pub(crate) fn get(&self) -> TaskCounts {
        let sum = |of: &dyn Fn(&Row) -> &Counter| {
            self.0.iter().fold(0, |sum: u64, row| sum.wrapping_add(of(row).get()))
        };
        let ended = |outcome: Outcome| sum(&|row| &row.ended[outcome as usize]);
        let (completed, cancelled) = (ended(Outcome::Completed), ended(Outcome::Cancelled));
        let failed = ended(Outcome::Failed);
        fence(Acquire);
        TaskCounts { submitted: sum(&|row| &row.submitted), completed, cancelled, failed }
    }
}

impl std::fmt::Debug for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}
