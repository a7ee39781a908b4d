//! Of all threads that wait on a server, one polls: the role of the poller, and how it changes hands.
//!
//! ```text
//!   enter         the role is free?  the caller is the Poller  :  it is a Follower, last in the queue, and sleeps
//!   leave         the first follower that still sleeps is chosen as poller, and woken; without one the role is free
//!   leave_queue   (a follower was woken, or gives up)  chosen?  it is the Poller  :  it leaves the queue
//! ```
//!
//! A follower is woken by the thread that ends its request, by the poller that leaves, or by its deadline. In each case
//! it asks under the lock whether it was chosen: if so the role is its own, to use or to hand on.
//!
//! Invariant: while a thread waits, the role is with a thread that polls, is awake, or has been woken. The guards keep
//! it when they are dropped, since a wait also ends by unwinding.
//!
//! Compared with the algorithm of \[Didelot14\], 5.4.3.1: the role is given up explicitly; a thread that only tests
//! does not come here; the poller waits by [`pioman::Manager::wait`], so it sees its own end whichever thread brings
//! it, gives way to other green threads and sleeps when polling does not pay; there is no flag that several waiters
//! share.
//!
//! Rejected: waking all followers when the poller leaves (all but one would sleep again); all waiters poll under
//! a try-lock (the losers spin, and on a busy machine on the winner's core).

use std::collections::VecDeque;
use std::sync::Arc;

use super::waiters::Waiter;
use crate::shim::{Mutex, MutexGuard, Ordering::Relaxed};

/// See the module's description.
pub(super) struct Role(Mutex<Inner>);

struct Inner {
    poller: Option<Arc<Waiter>>,
    queue: VecDeque<Arc<Waiter>>,
}

/// What [`Role::enter`] gives.
pub(super) enum Entry<'a> {
    Poller(Poller<'a>),
    Follower(Follower<'a>),
}

impl Role {
    pub(super) fn new() -> Role {
        Role(Mutex::new(Inner { poller: None, queue: VecDeque::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock()
    }

    /// Takes the role, or a place in the queue.
    pub(super) fn enter(&self, waiter: &Arc<Waiter>) -> Entry<'_> {
        let mut inner = self.lock();
        if inner.poller.is_none() {
            inner.poller = Some(waiter.clone());
            Entry::Poller(Poller { role: self })
        } else {
            inner.queue.push_back(waiter.clone());
            Entry::Follower(Follower { role: self, waiter: Some(waiter.clone()) })
        }
    }

    /// Whether the poller has been woken, and others wait: it is about to hand the role on.
    pub(super) fn is_changing_hands(&self) -> bool {
        let inner = self.lock();
        !inner.queue.is_empty() && inner.poller.as_ref().is_some_and(|p| p.woken.is_done())
    }

    /// Hands the role on; false if no follower takes it.
    fn leave(&self) -> bool {
        let mut inner = self.lock();
        inner.poller = None;
        while let Some(next) = inner.queue.pop_front() {
            if next.woken.is_done() {
                continue; // its request has ended: it is about to leave
            }
            next.chosen.store(true, Relaxed);
            inner.poller = Some(next.clone());
            drop(inner);
            next.woken.complete();
            return true;
        }
        false
    }
}

/// The role; handed on when this is dropped.
pub(super) struct Poller<'a> {
    role: &'a Role,
}

impl Poller<'_> {
    /// It waits as this one now.
    pub(super) fn becomes(&self, waiter: &Arc<Waiter>) {
        self.role.lock().poller = Some(waiter.clone());
    }
}

impl Drop for Poller<'_> {
    fn drop(&mut self) {
        self.role.leave();
    }
}

/// A place in the queue.
pub(super) struct Follower<'a> {
    role: &'a Role,
    /// `None` when it has left.
    waiter: Option<Arc<Waiter>>,
}

impl<'a> Follower<'a> {
    /// Leaves the queue; with the role, if it was chosen meanwhile.
    pub(super) fn leave_queue(mut self) -> Option<Poller<'a>> {
        let waiter = self.waiter.take()?;
        self.role.withdraw(&waiter)
    }
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter.take() {
            drop(self.role.withdraw(&waiter));
        }
    }
}

impl Role {
    fn withdraw(&self, waiter: &Arc<Waiter>) -> Option<Poller<'_>> {
        let mut inner = self.lock();
        if waiter.is_chosen() {
            return Some(Poller { role: self });
        }
        if let Some(place) = inner.queue.iter().position(|other| Arc::ptr_eq(other, waiter)) {
            inner.queue.remove(place);
        }
        None
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::server::waiters::Waiters;
    use crate::server::word::{Outcome, Word};
    use crate::shim::{AtomicBool, Ordering::SeqCst};
    use loom::thread;

    /// Waits for the locks here are loops: more branches than loom takes by default.
    fn explore(f: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.max_branches = 50_000;
        builder.check(f);
    }

    struct Request {
        /// Its event has come, but only a poll finds that.
        event: AtomicBool,
        word: Word,
        waiters: Waiters,
    }

    struct Server {
        requests: [Request; 2],
        role: Role,
        polling: AtomicBool,
    }

    impl Server {
        fn new() -> Arc<Server> {
            let request = || Request {
                event: AtomicBool::new(false),
                word: Word::new(),
                waiters: Waiters::default(),
            };
            Arc::new(Server {
                requests: [request(), request()],
                role: Role::new(),
                polling: AtomicBool::new(false),
            })
        }

        fn complete(&self, i: usize) {
            if self.requests[i].word.end(Outcome::Completed(0)) {
                self.requests[i].waiters.wake();
            }
        }

        fn poll(&self) {
            assert!(!self.polling.swap(true, SeqCst), "two pollers");
            for (i, request) in self.requests.iter().enumerate() {
                if request.event.load(SeqCst) {
                    self.complete(i);
                }
            }
            self.polling.store(false, SeqCst);
        }

        /// As `Shared::wait_on` does it; the poller's wait is a loop of polls.
        fn wait(&self, i: usize) {
            let request = &self.requests[i];
            let mut poller: Option<Poller<'_>> = None;
            loop {
                let waiter = Waiter::new();
                let _enlisted = request.waiters.enlist(&waiter);
                if request.word.outcome().is_some() {
                    return;
                }
                match &poller {
                    Some(role) => role.becomes(&waiter),
                    None => match self.role.enter(&waiter) {
                        Entry::Poller(role) => poller = Some(role),
                        Entry::Follower(follower) => {
                            waiter.woken.latch().wait("a model");
                            poller = follower.leave_queue();
                            continue;
                        }
                    },
                }
                while !waiter.woken.is_done() {
                    self.poll();
                    thread::yield_now();
                }
            }
        }

        /// A wait whose time is over at once.
        fn glance(&self, i: usize) {
            let waiter = Waiter::new();
            let _enlisted = self.requests[i].waiters.enlist(&waiter);
            match self.role.enter(&waiter) {
                Entry::Poller(_role) => self.poll(),
                Entry::Follower(follower) => drop(follower.leave_queue()),
            }
        }
    }

    fn model(threads: Vec<fn(&Server)>) {
        explore(move || {
            let server = Server::new();
            let others: Vec<_> = threads[1..]
                .iter()
                .map(|&f| {
                    let server = server.clone();
                    thread::spawn(move || f(&server))
                })
                .collect();
            threads[0](&server);
            others.into_iter().for_each(|t| t.join().unwrap());
            let inner = server.role.lock();
            assert!(inner.poller.is_none() && inner.queue.is_empty());
        });
    }

    /// The second request's event is found by a poll only, and the first poller may be gone by then.
    #[test]
    fn the_role_is_handed_over_when_the_poller_s_request_ends() {
        model(vec![
            |s| s.wait(0),
            |s| {
                s.requests[1].event.store(true, SeqCst);
                s.wait(1);
            },
            |s| s.complete(0),
        ]);
    }

    #[test]
    fn the_role_is_handed_over_by_one_that_gives_up() {
        model(vec![|s| s.wait(0), |s| s.glance(1), |s| s.requests[0].event.store(true, SeqCst)]);
    }

    /// Chosen and completed at the same time: it must hand the role on.
    #[test]
    fn a_chosen_one_whose_end_comes_by_another_way_hands_the_role_on() {
        model(vec![
            |s| {
                s.requests[0].event.store(true, SeqCst);
                s.wait(0);
            },
            |s| s.wait(1),
            |s| s.complete(1),
        ]);
    }
}
