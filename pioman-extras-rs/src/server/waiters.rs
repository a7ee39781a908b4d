//! The wait lists of a request, and of any end on a server.
//!
//! A waiting thread puts a [`Waiter`] of its own into the list, looks once more whether there is an end, then sleeps. A
//! thread that ends a request writes its word first, then delegates `ENDED` to the list's lock: the holder, perhaps
//! that thread itself, wakes all waiters in the list. So either the waiter sees the end when it looks, or it is in the
//! list by then. The lock is a [`DelegationLock`], since a request may be ended in a signal handler that has
//! interrupted its holder; in there nothing is freed, for waiters leave the list by themselves.

use std::sync::Arc;

use crate::shim::{AtomicBool, Ordering::Relaxed};
use pioman::Completion;
use pioman::plumbing::{Delegated, DelegationLock};

/// The bit to delegate.
const ENDED: u64 = 1;

/// One sleep of one thread. It is woken once, for whatever reason; a thread that sleeps again makes another.
pub(super) struct Waiter {
    pub(super) woken: Completion,
    /// The role of the poller was handed to it. Written under the lock of [`super::poller::Role`].
    pub(super) chosen: AtomicBool,
}

impl Waiter {
    pub(super) fn new() -> Arc<Waiter> {
        Arc::new(Waiter { woken: Completion::new(), chosen: AtomicBool::new(false) })
    }

    pub(super) fn is_chosen(&self) -> bool {
        self.chosen.load(Relaxed)
    }
}

/// See the module's description.
pub(super) struct Waiters(DelegationLock<List>);

struct List(Vec<Arc<Waiter>>);

impl Delegated for List {
    fn run_delegated(&mut self, _: u64) {
        self.0.iter().for_each(|waiter| waiter.woken.complete());
    }
}

impl Default for Waiters {
    fn default() -> Waiters {
        Waiters(DelegationLock::new(List(Vec::new())))
    }
}

impl Waiters {
    /// Wakes all. Progress path, signal handlers included.
    pub(super) fn wake(&self) {
        self.0.delegate(ENDED);
    }

    /// In the list until what this returns is dropped. The caller looks again before it sleeps.
    pub(super) fn enlist(&self, waiter: &Arc<Waiter>) -> Enlisted<'_> {
        self.0.lock().0.push(waiter.clone());
        Enlisted { waiters: self, waiter: waiter.clone() }
    }
}

/// See [`Waiters::enlist`].
pub(super) struct Enlisted<'a> {
    waiters: &'a Waiters,
    waiter: Arc<Waiter>,
}

impl Drop for Enlisted<'_> {
    fn drop(&mut self) {
        let list = &mut self.waiters.0.lock().0;
        if let Some(place) = list.iter().position(|other| Arc::ptr_eq(other, &self.waiter)) {
            list.swap_remove(place);
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::server::word::{Outcome, Word};
    use loom::thread;

    /// Waits for the locks here are loops: more branches than loom takes by default.
    fn explore(f: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.max_branches = 50_000;
        builder.check(f);
    }

    struct Request {
        word: Word,
        waiters: Waiters,
    }

    fn wait(request: &Request) -> Outcome {
        loop {
            let waiter = Waiter::new();
            let _enlisted = request.waiters.enlist(&waiter);
            if let Some(outcome) = request.word.outcome() {
                return outcome;
            }
            waiter.woken.latch().wait("a model");
        }
    }

    /// Loom reports a deadlock if a waiter is not woken.
    #[test]
    fn of_two_ends_one_is_seen_by_every_waiter() {
        explore(|| {
            let request = Arc::new(Request { word: Word::new(), waiters: Waiters::default() });
            let end = |outcome| {
                let request = request.clone();
                thread::spawn(move || {
                    let won = request.word.end(outcome);
                    if won {
                        request.waiters.wake();
                    }
                    won
                })
            };
            let others = [end(Outcome::Completed(1)), end(Outcome::Cancelled(2))];
            let seen = wait(&request);
            let [completed, cancelled] = others.map(|t| t.join().unwrap());
            assert!(completed != cancelled);
            assert_eq!(seen == Outcome::Completed(1), completed);
        });
    }
}
