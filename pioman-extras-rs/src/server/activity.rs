//! What is known of a server's pollers: since when threads poll, when one last tested, whether one is about to wait.
//!
//! Hints for the choice of a method, by relaxed loads and stores: a lost update delays a change of method.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A thread that has tested within this time is expected to test again.
pub(super) const TESTED: Duration = Duration::from_millis(1);
/// The policy is asked this often about what is polled…
const ASK: u64 = 100_000;
/// …and this much more rarely for each request.
const ASK_EACH: u64 = 2_000;
/// Polled for so long without a pause, requests are not blocked on any more if the policy agrees. Shorter, and a thread
/// that polls before it sleeps would call the pool thread back each time.
const BACK_AFTER: u64 = 500_000;

/// See the module's description. Times are in nanoseconds of [`Activity::now`]; 0: never.
pub(super) struct Activity {
    start: Instant,
    polled_since: AtomicU64,
    tested_at: AtomicU64,
    ask_at: AtomicU64,
    submitted: AtomicBool,
}

impl Activity {
    pub(super) fn new() -> Activity {
        Activity {
            start: Instant::now(),
            polled_since: AtomicU64::new(0),
            tested_at: AtomicU64::new(0),
            ask_at: AtomicU64::new(0),
            submitted: AtomicBool::new(false),
        }
    }

    /// Begins at [`TESTED`]: a time of 0 is long ago from the first moment on.
    fn now(&self) -> u64 {
        (TESTED + self.start.elapsed()).as_nanos() as u64
    }

    /// A request was submitted to be polled: its submitter is likely to wait for it at once.
    pub(super) fn submits(&self) {
        self.submitted.store(true, Relaxed);
    }

    /// A submitter waits.
    pub(super) fn waits(&self) {
        self.submitted.store(false, Relaxed);
    }

    /// Whether a submitter is likely to wait soon. True once for each submission.
    pub(super) fn take_submission(&self) -> bool {
        self.submitted.swap(false, Relaxed)
    }

    /// A thread tests.
    pub(super) fn tests(&self) {
        self.tested_at.store(self.now(), Relaxed);
    }

    /// Whether a thread has tested lately, and is expected to test again.
    pub(super) fn is_tested(&self) -> bool {
        let since = self.now().saturating_sub(self.tested_at.load(Relaxed));
        since < TESTED.as_nanos() as u64
    }

    /// A thread polls. The time, if the policy is to be asked again about what is polled.
    pub(super) fn polls(&self) -> Option<u64> {
        let now = self.now();
        if self.polled_since.load(Relaxed) == 0 {
            self.polled_since.store(now, Relaxed);
        }
        (now >= self.ask_at.load(Relaxed)).then_some(now)
    }

    /// Takes the turn to ask about `requests` at the time `now`; false if another poller has it.
    pub(super) fn take_turn(&self, now: u64, requests: usize) -> bool {
        let at = self.ask_at.load(Relaxed);
        let next = now + ASK + ASK_EACH * requests as u64;
        now >= at && self.ask_at.compare_exchange(at, next, Relaxed, Relaxed).is_ok()
    }

    /// Whether threads poll.
    pub(super) fn is_polled(&self) -> bool {
        self.polled_since.load(Relaxed) != 0
    }

    /// Whether threads have polled without a pause for so long that no pool thread is needed.
    pub(super) fn is_polled_for_long(&self, now: u64) -> bool {
        let since = self.polled_since.load(Relaxed);
        since != 0 && now.saturating_sub(since) >= BACK_AFTER
    }

    /// The last poller has left.
    pub(super) fn pauses(&self) {
        self.polled_since.store(0, Relaxed);
    }
}
