//! Requests: what the library and its callers hold of them.
//!
//! The server, callbacks under way and every handle share one reference-counted node, so nothing dangles whatever a caller
//! drops or forgets. That a *dropped* request is also out of the callbacks' hands is one more promise, kept by waiting:
//! see [`Request`].

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::counters::Common;
use super::options::Options;
use super::shared::Shared;
use super::trace::completes;
use super::waiters::Waiters;
use super::word::{Outcome, Word};
use pioman::Manager;

/// The code with which a request is cancelled that is dropped while it is pending.
pub const DROPPED: i32 = i32::MIN;

pub(super) struct Node<R> {
    pub(super) word: Word,
    pub(super) waiters: Waiters,
    pub(super) options: Options,
    /// Nobody holds a [`Request`] of it: its end goes to [`super::Server::wait_any`].
    pub(super) of_library: bool,
    /// Its place in the server's list; under its lock. `usize::MAX`: it has left.
    pub(super) slot: AtomicUsize,
    pub(super) submitted: Instant,
    pub(super) common: Arc<Common>,
    pub(super) server: Weak<Shared<R>>,
    pub(super) value: R,
}

/// A request in the hands of whoever can end it: callbacks, other threads, a driver's own paths. Dereferences to the
/// library's value. Cheap to clone; says nothing about who owns the request.
pub struct Pending<R>(pub(super) Arc<Node<R>>);

impl<R> Clone for Pending<R> {
    fn clone(&self) -> Self {
        Pending(self.0.clone())
    }
}

impl<R> Deref for Pending<R> {
    type Target = R;
    fn deref(&self) -> &R {
        &self.0.value
    }
}

impl<R: Send + Sync + 'static> fmt::Debug for Pending<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("outcome", &self.outcome()).finish_non_exhaustive()
    }
}

impl<R: Send + Sync + 'static> Pending<R> {
    /// The request's event has come. False if it has ended already.
    ///
    /// # Context
    /// Anywhere, the tick's signal handler included (nothing is allocated or freed there).
    ///
    /// # Wakes
    /// All that wait for the request; for one of the library's, those in [`super::Server::wait_any`].
    pub fn complete(&self, code: i32) -> bool {
        self.end(Outcome::Completed(code))
    }

    /// Ends the request with this code, without its event. False if it has ended already.
    ///
    /// # Context, Wakes
    /// As [`Pending::complete`].
    pub fn cancel(&self, code: i32) -> bool {
        self.end(Outcome::Cancelled(code))
    }

    /// How it has ended, if it has.
    ///
    /// # Context
    /// Anywhere, signal handlers included.
    pub fn outcome(&self) -> Option<Outcome> {
        self.0.word.outcome()
    }

    /// Whether it has ended.
    ///
    /// # Context
    /// Anywhere, signal handlers included.
    pub fn is_done(&self) -> bool {
        self.outcome().is_some()
    }

    /// What it was submitted with.
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// Ends it, unless somebody else has.
    pub(super) fn end(&self, outcome: Outcome) -> bool {
        let node = &*self.0;
        if !node.word.end(outcome) {
            return false;
        }
        completes(node);
        node.common.ended(outcome);
        if marcel::in_tick() {
            node.common.dirty.store(true, SeqCst);
        } else if let Some(server) = node.server.upgrade() {
            server.settle(self);
        }
        node.waiters.wake();
        if node.of_library {
            node.common.any.wake();
        }
        true
    }
}

/// Requests that a callback is to look at.
pub struct Group<'a, R> {
    pub(super) requests: &'a [Pending<R>],
}

impl<R> fmt::Debug for Group<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group({} requests)", self.requests.len())
    }
}

impl<'a, R: Send + Sync + 'static> Group<'a, R> {
    /// The requests. One that has ended since the call began is still among them: to complete it again does nothing, and
    /// a call that is to be interrupted may be about nothing else any more.
    pub fn iter(&self) -> impl Iterator<Item = &'a Pending<R>> {
        self.requests.iter()
    }

    /// The interface of the first request; in a callback for a *group*, of all.
    pub fn interface(&self) -> usize {
        self.requests.first().map_or(0, |request| request.options().interface)
    }
}

/// A request and its owner's rights: to wait for it, and to end it by dropping it.
///
/// Dropped while pending, it is cancelled (code [`DROPPED`]), and when the drop returns no callback works on it or will:
/// a poll under way is waited for, and so is a blocking call that can be got out of (the server's *interrupt* callback or
/// a kind with time-out). A blocking call that nothing can get out is left to its thread, which sees the end afterwards.
/// Forgotten, it stays with the server until its event comes or the server stops.
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

    /// A handle for whoever is to end it.
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
