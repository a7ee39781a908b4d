//! What a server has done so far, and the few words that signal handlers touch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};

use super::waiters::Waiters;
use super::word::Outcome;

/// A snapshot. `submitted = completed + cancelled + failed + pending`, always. (A request counts as pending until the
/// thread that ends it has counted that, which may be a moment after its waiter has seen the end.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Requests taken.
    pub submitted: u64,
    /// Those whose event has come.
    pub completed: u64,
    /// Those that were cancelled, or dropped while pending.
    pub cancelled: u64,
    /// Those that ended because the server was stopped, or a callback panicked.
    pub failed: u64,
    /// Those that have not ended.
    pub pending: u64,
    /// Rounds of polling callbacks.
    pub polls: u64,
    /// Calls of blocking callbacks by pool threads.
    pub blocks: u64,
    /// Requests that went from being polled to being blocked on.
    pub to_block: u64,
    /// Requests that went back to being polled.
    pub to_poll: u64,
    /// Calls of the callback that gets pool threads out of their blocking call.
    pub interrupts: u64,
    /// Times that a pool thread was wanted and not to be had: the requests were polled on.
    pub no_thread: u64,
    /// Callbacks that panicked.
    pub panics: u64,
    /// Polling callbacks that ran too long (`PIOM_LONG_CALLBACK_USEC`).
    pub too_long: u64,
}

/// What requests share, without the type of their values: enough to end one in a signal handler.
#[derive(Default)]
pub(super) struct Common {
    submitted: AtomicU64,
    completed: AtomicU64,
    cancelled: AtomicU64,
    failed: AtomicU64,
    /// Requests of this server that have not ended.
    pub(super) pending: AtomicUsize,
    /// Those of all servers of the manager.
    all_pending: Arc<AtomicUsize>,
    /// Requests have ended in a signal handler, and are still in the list of the pending ones.
    pub(super) dirty: AtomicBool,
    /// Threads that wait for any request of the library's.
    pub(super) any: Waiters,
    pub(super) polls: AtomicU64,
    pub(super) blocks: AtomicU64,
    pub(super) to_block: AtomicU64,
    pub(super) to_poll: AtomicU64,
    pub(super) interrupts: AtomicU64,
    pub(super) no_thread: AtomicU64,
    pub(super) panics: AtomicU64,
    pub(super) too_long: AtomicU64,
}

impl Common {
    pub(super) fn new(all_pending: Arc<AtomicUsize>) -> Common {
        Common { all_pending, ..Common::default() }
    }

    /// A request was taken.
    pub(super) fn submitted(&self) {
        self.submitted.fetch_add(1, SeqCst);
        self.pending.fetch_add(1, SeqCst);
        self.all_pending.fetch_add(1, SeqCst);
    }

    /// A request has ended. Once for each; signal handlers included.
    pub(super) fn ended(&self, outcome: Outcome) {
        let counter = match outcome {
            Outcome::Completed(_) => &self.completed,
            Outcome::Cancelled(_) => &self.cancelled,
            Outcome::Stopped | Outcome::Failed => &self.failed,
        };
        counter.fetch_add(1, SeqCst);
        self.pending.fetch_sub(1, SeqCst);
        self.all_pending.fetch_sub(1, SeqCst);
    }

    /// How many have ended.
    pub(super) fn ends(&self) -> u64 {
        self.completed.load(SeqCst) + self.cancelled.load(SeqCst) + self.failed.load(SeqCst)
    }

    pub(super) fn snapshot(&self) -> Counters {
        // The ends first: what is submitted later counts as pending.
        let completed = self.completed.load(SeqCst);
        let cancelled = self.cancelled.load(SeqCst);
        let failed = self.failed.load(SeqCst);
        let submitted = self.submitted.load(SeqCst);
        Counters {
            submitted,
            completed,
            cancelled,
            failed,
            pending: submitted - completed - cancelled - failed,
            polls: self.polls.load(Relaxed),
            blocks: self.blocks.load(Relaxed),
            to_block: self.to_block.load(Relaxed),
            to_poll: self.to_poll.load(Relaxed),
            interrupts: self.interrupts.load(Relaxed),
            no_thread: self.no_thread.load(Relaxed),
            panics: self.panics.load(Relaxed),
            too_long: self.too_long.load(Relaxed),
        }
    }
}
