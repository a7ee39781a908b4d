//! How a request ends: one word, written once.
//!
//! ```text
//!   PENDING ──complete(code)──▶ COMPLETED, code
//!      ├──────cancel(code)────▶ CANCELLED, code
//!      └──stop, panic─────────▶ STOPPED, FAILED
//! ```
//!
//! Every arrow is the same compare-exchange from PENDING, so of a poll, a blocking call, a cancellation and a
//! completion by another thread exactly one wins, and only the winner counts the end and wakes the waiters.

use crate::shim::{AtomicU64, Ordering::*};

/// How a request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its event has come; the code is the one given to [`super::Pending::complete`].
    Completed(i32),
    /// It was cancelled, with this code.
    Cancelled(i32),
    /// Its server was stopped.
    Stopped,
    /// A callback panicked over it, or none is left that could find its end.
    Failed,
}

const PENDING: u64 = 0;
const COMPLETED: u64 = 1;
const CANCELLED: u64 = 2;
const STOPPED: u64 = 3;
const FAILED: u64 = 4;

/// See the module's description.
pub(super) struct Word(AtomicU64);

impl Word {
    pub(super) fn new() -> Word {
        Word(AtomicU64::new(PENDING))
    }

    /// Ends the request; false if it has ended already. Progress path.
    #[must_use]
    pub(super) fn end(&self, outcome: Outcome) -> bool {
        let (kind, code) = match outcome {
            Outcome::Completed(code) => (COMPLETED, code),
            Outcome::Cancelled(code) => (CANCELLED, code),
            Outcome::Stopped => (STOPPED, 0),
            Outcome::Failed => (FAILED, 0),
        };
        let word = (code as u32 as u64) << 32 | kind;
        self.0.compare_exchange(PENDING, word, AcqRel, Acquire).is_ok()
    }

    /// How it has ended, if it has; then what was written before the end is visible. Progress path.
    #[inline]
    pub(super) fn outcome(&self) -> Option<Outcome> {
        let word = self.0.load(Acquire);
        let code = (word >> 32) as u32 as i32;
        match word & 0xff {
            PENDING => None,
            COMPLETED => Some(Outcome::Completed(code)),
            CANCELLED => Some(Outcome::Cancelled(code)),
            STOPPED => Some(Outcome::Stopped),
            _ => Some(Outcome::Failed),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_end_is_the_only_one_and_keeps_its_code() {
        for outcome in [
            Outcome::Completed(-1),
            Outcome::Completed(i32::MAX),
            Outcome::Cancelled(i32::MIN),
            Outcome::Stopped,
            Outcome::Failed,
        ] {
            let word = Word::new();
            assert_eq!(word.outcome(), None);
            assert!(word.end(outcome));
            assert!(!word.end(Outcome::Completed(7)));
            assert_eq!(word.outcome(), Some(outcome));
        }
    }
}
