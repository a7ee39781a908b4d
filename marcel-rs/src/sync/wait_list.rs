//! Threads that wait on one primitive, and the state that the same tiny lock protects.
//!
//! A waiter's node lives on its stack. Under the lock it finds that there is nothing to wait for, or joins the queue.
//! It leaves the queue in one of three ways, and the lock decides which:
//!
//! * it is *served*: taken out by a thread that has something for it, then woken;
//! * it *leaves*: a time-out, an interruption or the end of its runtime came first;
//! * its stack is unwound while it sleeps: it leaves, or, had it been served by then, passes on what it was given.
//!
//! A waiter that leaves may have held up those behind it: [`Primitive::left`] and [`Primitive::unblocked`] see to
//! them.

use std::sync::atomic::Ordering::*;

use super::queue::{Node, Queue};
use super::signal::{Limits, Outcome, Signal, Wake, Wakes};
use super::spin::Spin;
use crate::list::{Leave, Listed};
use crate::os::{AtomicBool, const_unless_modelled};

/// See the module's description.
pub(super) struct WaitList<S, W = ()> {
    inner: Spin<Inner<S, W>>,
    /// Whether the queue holds a waiter, for callers that look without the lock.
    occupied: AtomicBool,
}

/// What the lock protects.
pub(super) struct Inner<S, W> {
    pub(super) queue: Queue<W>,
    pub(super) state: S,
}

/// Where a waiter joins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Join {
    /// Nowhere: there is nothing to wait for.
    No,
    /// Behind all others.
    Back,
    /// Before all others.
    Front,
}

/// What threads wait on.
pub(super) trait Primitive {
    /// Protected by the list's lock.
    type State;
    /// Noted for each waiter.
    type Waiter;

    fn list(&self) -> &WaitList<Self::State, Self::Waiter>;

    /// The waiter with this ticket has left without being served. Under the lock. False: what it waited for has come,
    /// and it would have been served next.
    fn left(_: &mut Self::State, _ticket: u64) -> bool {
        true
    }

    /// As [`Primitive::left`], after it and without the lock: waiters behind it may go on now.
    fn unblocked(&self) {}

    /// A waiter was served, and its stack is unwound before it could know.
    fn pass_on(&self, waiter: &Self::Waiter);

    /// Unless `ready` finds, under the lock, that there is nothing to wait for: joins the queue, runs `joined` and
    /// sleeps until served or a limit is reached. Not [`Outcome::Woken`] means that the caller has not been served.
    fn wait_in_turn(
        &self,
        reason: &'static str,
        limits: &Limits,
        waiter: Self::Waiter,
        ready: impl FnOnce(&mut Inner<Self::State, Self::Waiter>) -> Join,
        joined: impl FnOnce(),
    ) -> (Outcome, Self::Waiter) {
        let signal = Signal::new();
        let node = Node::new(&signal, waiter);
        let list = self.list();
        let wait = list.inner.with(|inner| {
            let front = match ready(inner) {
                Join::No => return false,
                Join::Back => false,
                Join::Front => true,
            };
            // SAFETY: `node` and `signal` stay where they are until `listed` below has taken the node out, or it has
            // been served.
            unsafe { inner.queue.push(&node, front) };
            list.occupied.store(true, Relaxed);
            true
        });
        if !wait {
            return (Outcome::Woken, node.waiter);
        }
        let listed = Listed::new(Waiting { primitive: self, node: &node });
        joined();
        (signal.sleep_listed(listed, reason, limits), node.waiter)
    }
}

/// A waiter whose node is in the queue, or was.
struct Waiting<'a, P: Primitive + ?Sized> {
    primitive: &'a P,
    node: &'a Node<P::Waiter>,
}

impl<P: Primitive + ?Sized> Leave for Waiting<'_, P> {
    /// True if the node was still in the queue, and has not got what it waited for.
    fn leave(&self) -> bool {
        let list = self.primitive.list();
        let left = list.inner.with(|inner| {
            // SAFETY: the node is in no other queue.
            if !unsafe { inner.queue.remove(self.node) } {
                return false;
            }
            list.note(&inner.queue);
            P::left(&mut inner.state, self.node.ticket())
        });
        if left {
            self.primitive.unblocked();
        }
        left
    }

    fn pass_on(&self) {
        self.primitive.pass_on(&self.node.waiter);
    }
}

impl<S, W> WaitList<S, W> {
    const_unless_modelled! {
        pub(super) fn new(state: S) -> Self {
            WaitList {
                inner: Spin::new(Inner { queue: Queue::new(), state }),
                occupied: AtomicBool::new(false),
            }
        }
    }

    fn note(&self, queue: &Queue<W>) {
        if queue.is_empty() {
            self.occupied.store(false, Relaxed);
        }
    }

    /// Whether a thread waits: exact for what happened before the caller's last synchronisation with it.
    #[inline]
    pub(super) fn is_occupied(&self) -> bool {
        self.occupied.load(Relaxed)
    }

    /// Looks at the state and at the waiters; the caller afterwards wakes the waiters that `f` has served.
    #[inline]
    pub(super) fn with<R>(&self, section: impl FnOnce(&mut Inner<S, W>) -> R) -> R {
        self.inner.with(|inner| {
            let result = section(inner);
            self.note(&inner.queue);
            result
        })
    }

    /// Wakes the first waiter.
    #[inline]
    pub(super) fn wake_one(&self) {
        Wake::any(self.with(|inner| inner.queue.serve_first(|_| ())));
    }

    /// Wakes every waiter that is in the queue now.
    pub(super) fn wake_all(&self) {
        let last = self.with(|inner| inner.queue.last_ticket());
        self.wake_up_to(last);
    }

    /// Wakes the waiters up to the one with the ticket `last`: the lock is held for a few at a time, and waiters that
    /// come meanwhile are not meant.
    pub(super) fn wake_up_to(&self, last: u64) {
        self.serve_while(|inner| inner.queue.serve_up_to(last));
    }

    /// Serves waiters as long as `serve` finds one.
    pub(super) fn serve_while(&self, mut serve: impl FnMut(&mut Inner<S, W>) -> Option<Wake>) {
        let mut more = true;
        while more {
            let mut wakes = Wakes::default();
            self.with(|inner| {
                while !wakes.is_full() {
                    match serve(inner) {
                        Some(wake) => wakes.push(wake),
                        None => {
                            more = false;
                            break;
                        }
                    }
                }
            });
            wakes.up();
        }
    }
}
