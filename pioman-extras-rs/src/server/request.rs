//! A request in the hands of its caller.
//!
//! That a *dropped* request is also out of the callbacks' hands is a promise that is kept by waiting: see [`Request`].

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use marcel::plumbing::budget;
use pioman::Manager;

use super::pending::{Pending, Settles};
use super::shared::Shared;
use super::word::Outcome;

/// The code with which a request is cancelled that is dropped while it is pending.
pub const DROPPED: i32 = i32::MIN;

/// A request and its owner's rights: to wait for it, and to end it by dropping it.
///
/// Dropped while pending, it is cancelled (code [`DROPPED`]), and when the drop returns no callback works on it or
/// will: a poll under way is waited for, and so is a blocking call that can be got out of (the server's *interrupt*
/// callback or a kind with time-out). A blocking call that nothing can get out is left to its thread, which sees the
/// end afterwards. Forgotten, it stays with the server until its event comes or the server stops.
pub struct Request<R: Send + Sync + 'static> {
    pub(super) pending: Pending<R>,
    pub(super) server: Arc<Shared<R>>,
    pub(super) manager: Arc<Manager>,
}

impl<R: Send + Sync + 'static> Request<R> {
    /// Waits until it ends.
    ///
    /// # Context
    /// Green and kernel threads; not in a callback of its own server.
    ///
    /// # Blocking
    /// As [`Manager::wait`].
    pub fn wait(&self) -> Outcome {
        loop {
            if let Some(outcome) = self.wait_for(None) {
                return outcome;
            }
        }
    }

    /// As [`Request::wait`], until `deadline` at the latest; `None` after a time-out: the request is still pending.
    ///
    /// # Context, Blocking
    /// As [`Request::wait`].
    pub fn wait_until(&self, deadline: Instant) -> Option<Outcome> {
        self.wait_for(Some(deadline))
    }

    /// As [`Request::wait_until`], for at most `time`.
    ///
    /// # Context, Blocking
    /// As [`Request::wait`].
    pub fn wait_timeout(&self, time: Duration) -> Option<Outcome> {
        self.wait_for(Instant::now().checked_add(time))
    }

    fn wait_for(&self, deadline: Option<Instant>) -> Option<Outcome> {
        budget::spend();
        if let Some(outcome) = self.pending.outcome() {
            return Some(outcome);
        }
        self.server.begin_wait(&self.pending);
        let hints = self.server.hints(self.options());
        let look = || self.pending.outcome();
        self.server.wait_on(&self.manager, &self.pending.0.waiters, hints, deadline, look)
    }

    /// Looks for its end once, and says whether it has ended.
    ///
    /// # Context
    /// Anywhere but a signal handler.
    ///
    /// # Blocking
    /// Never blocks, not even when another thread polls.
    pub fn test(&self) -> Option<Outcome> {
        if !self.pending.is_done() {
            self.server.test();
        }
        self.pending.outcome()
    }

    /// Cancels it. True if that is how it has ended, false if it had ended already.
    ///
    /// # Wakes
    /// All that wait for it; they are given the code.
    pub fn cancel(&self, code: i32) -> bool {
        self.pending.cancel(code)
    }

    /// A handle that can end it.
    pub fn pending(&self) -> Pending<R> {
        self.pending.clone()
    }
}

impl<R: Send + Sync + 'static> Deref for Request<R> {
    type Target = Pending<R>;
    fn deref(&self) -> &Pending<R> {
        &self.pending
    }
}

impl<R: Send + Sync + 'static> fmt::Debug for Request<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("outcome", &self.outcome()).finish_non_exhaustive()
    }
}

impl<R: Send + Sync + 'static> Drop for Request<R> {
    fn drop(&mut self) {
        if self.pending.cancel(DROPPED) {
            self.server.quiesce(Some(&self.pending));
        } else {
            self.server.settle(&self.pending); // it may have ended in a signal handler
        }
    }
}
