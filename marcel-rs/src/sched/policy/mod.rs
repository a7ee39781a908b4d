//! Scheduling policies: in which order a virtual processor runs its threads.
//!
//! Each virtual processor has a policy of its own, called on its kernel thread only, between two threads, or by the
//! running one when it wakes another: no locks, no atomics. A policy keeps the threads that have run before and can run
//! again ([`Ready`]); those that never ran are where thieves can see them, and the policy says when to take one
//! ([`Fresh`]).
//!
//! | policy | `MARCEL_POLICY` | order |
//! |---|---|---|
//! | [`Fair`] | `fair` (default) | by priority; within one, first come, first served |
//! | [`Bubbles`] | `bubbles` | threads of one bubble run together, for a number of turns |
//!
//! A policy is on the progress path: it must not allocate for each thread (link them in a [`ReadyList`]), block,
//! or panic. One that forgets threads (drops a [`Ready`]) suspends them: they end with the runtime.

mod bubbles;
mod fair;
mod order;

use std::fmt;

pub use bubbles::Bubbles;
pub use fair::Fair;
pub(crate) use order::Order;

pub use crate::tcb::traits::{Bubble, Priority};

use crate::list::RunQueue;
use crate::tcb::block::{Tcb, ThreadId};

/// A thread that has run before and can run now. To run it is its owner's only duty.
pub struct Ready(&'static Tcb);

impl Ready {
    pub(crate) fn new(tcb: &'static Tcb) -> Ready {
        Ready(tcb)
    }

    pub(crate) fn tcb(&self) -> &'static Tcb {
        self.0
    }

    pub(crate) fn into_tcb(self) -> &'static Tcb {
        self.0
    }

    /// Its priority.
    #[inline]
    pub fn priority(&self) -> Priority {
        self.0.own.traits.get().priority
    }

    /// The bubble that it belongs to.
    #[inline]
    pub fn bubble(&self) -> Bubble {
        self.0.own.traits.get().bubble
    }

    /// What tells the thread from others.
    pub fn id(&self) -> ThreadId {
        self.0.id()
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ready({:?})", self.id())
    }
}

/// Threads, first in, first out. Allocates nothing: they are linked through their control blocks.
#[derive(Default)]
pub struct ReadyList(RunQueue<Tcb>);

impl ReadyList {
    /// At the end.
    #[inline]
    pub fn push(&mut self, thread: Ready) {
        self.0.push(thread.0);
    }

    /// From the front.
    #[inline]
    pub fn pop(&mut self) -> Option<Ready> {
        self.0.pop().map(Ready)
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// Takes out the first thread that `wanted` finds, of the first `most`; keeps the others' order.
    pub fn take(&mut self, most: usize, mut wanted: impl FnMut(&Ready) -> bool) -> Option<Ready> {
        self.0.remove(most, |tcb| wanted(&Ready(tcb))).map(Ready)
    }
}

impl fmt::Debug for ReadyList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadyList({})", self.len())
    }
}

/// Why a thread can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It waited, and was woken.
    Woken,
    /// It lets others run first.
    Yielded,
}

/// Which threads that never ran a policy asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Those that the virtual processor has spawned itself, the newest first. Costs next to nothing.
    Own,
    /// Its own, else those that all may take, else its neighbours'.
    Anywhere,
    /// Those that all may take, else its own, among which the oldest has its turn now and then. To be asked for
    /// regularly, so that none waits for ever.
    OthersFirst,
}

/// Threads that never ran and that the virtual processor may take.
pub trait Fresh {
    /// Takes one of this priority. Those of an unusual one are never its own.
    fn take(&mut self, priority: Priority, from: Source) -> Option<Ready>;
}

/// See the module's description.
///
/// # Safety
/// A [`Ready`] is the right to run a thread on the virtual processor of the policy that was given it. The policy gives
/// to no other what it was given (not through another [`ReadyList`] either), returns each but once, and keeps none
/// when it is dropped. It may drop them.
///
/// Its methods, and what drops it, call nothing of this crate but what this module offers: the virtual processor is
/// borrowed meanwhile.
pub unsafe trait Policy: Send {
    /// `thread` can run. It has not been given to the policy before, or been taken from it since.
    fn put(&mut self, thread: Ready, why: Why);

    /// The thread to run next: one that was [`put`](Policy::put), or one from `fresh`. `None` sends the virtual
    /// processor to sleep, and must mean that there is nothing to run.
    fn next(&mut self, fresh: &mut dyn Fresh) -> Option<Ready>;

    /// Takes out `thread`, if it is here and easily found: the running thread yields to it.
    fn take(&mut self, thread: ThreadId) -> Option<Ready>;

    /// Takes out a thread that is `movable`, if there are two or more: where threads migrate, another virtual
    /// processor may run it. A policy that keeps all its threads need not have this.
    fn spare(&mut self, movable: &mut dyn FnMut(&Ready) -> bool) -> Option<Ready> {
        let _ = movable;
        None
    }

    /// How many threads have been put and not taken.
    fn len(&self) -> usize;

    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
