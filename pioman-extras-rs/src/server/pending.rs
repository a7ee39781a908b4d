//! A request in the hands of those that can end it.
//!
//! The server, callbacks under way and every handle share one reference-counted node, so nothing dangles whatever a
//! caller drops or forgets.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::counters::Common;
use super::options::Options;
use super::waiters::Waiters;
use super::word::{Outcome, Word};
use pioman::plumbing::completes;

/// The server, as far as a request needs it.
pub(super) trait Settles<R>: Send + Sync {
    /// Takes a request that has ended out of the list.
    fn settle(&self, request: &Pending<R>);
}

pub(super) struct Node<R> {
    pub(super) word: Word,
    pub(super) waiters: Waiters,
    pub(super) options: Options,
    /// No [`super::Request`] of it exists: its end goes to [`super::Server::wait_any`].
    pub(super) of_library: bool,
    /// Its place in the server's list; under its lock. `usize::MAX`: it has left.
    pub(super) slot: AtomicUsize,
    pub(super) submitted: Instant,
    pub(super) common: Arc<Common>,
    /// Takes it out of the list when it has ended.
    pub(super) server: Weak<dyn Settles<R>>,
    pub(super) value: R,
}

/// A handle that can end a request: for callbacks, other threads, a driver's own paths. Dereferences to the library's
/// value. Cheap to clone; it does not own the request.
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

    /// Ends it; false if it has ended already.
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
    /// The requests. One that has ended since the call began is still among them: to complete it again does nothing,
    /// and a call that is to be interrupted may be about nothing else any more.
    pub fn iter(&self) -> impl Iterator<Item = &'a Pending<R>> {
        self.requests.iter()
    }

    /// The interface of the first request; in a callback for a *group*, of all.
    pub fn interface(&self) -> usize {
        self.requests.first().map_or(0, |request| request.options().interface)
    }
}
