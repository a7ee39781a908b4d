//! Scheduling policies: in which order a virtual processor runs its threads.
//!
//! Each virtual processor has a policy of its own, called on its kernel thread only, between two threads, or by the
//! running one when it wakes another: no locks, no atomics. A policy keeps the threads that have run before and can run again ([`Ready`]); those that
//! never ran are where thieves can see them, and the policy says when to take one ([`Fresh`]).
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

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

pub use bubbles::Bubbles;
pub use fair::Fair;

pub use crate::tcb::traits::{Bubble, Priority};

use crate::list::RunQueue;
use crate::sched::here;
use crate::tcb::block::{self, Tcb, ThreadId};

/// A thread that has run before and can run now. To run it is its owner's only duty.
pub struct Ready(&'static Tcb);

impl Ready {
    pub(crate) fn new(tcb: &'static Tcb) -> Ready {
        Ready(tcb)
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
pub enum From {
    /// Those that the virtual processor has spawned itself, the newest first. Costs next to nothing.
    Own,
    /// Its own, else those that all may take, else its neighbours'.
    Anywhere,
    /// Those that all may take, else its own, among which the oldest has its turn now and then. To be asked for
    /// regularly, so that nobody waits for ever.
    OthersFirst,
}

/// Threads that never ran and that the virtual processor may take.
pub trait Fresh {
    /// Takes one of this priority. Those of an unusual one are never its own.
    fn take(&mut self, priority: Priority, from: From) -> Option<Ready>;
}

/// See the module's description.
///
/// # Safety
/// A [`Ready`] is the right to run a thread on the virtual processor of the policy that was given it. The policy gives
/// to nobody else what it was given (not through another [`ReadyList`] either), returns each but once, and keeps none
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

    /// Takes out `thread`, if it is here and easily found: somebody yields to it.
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

/// The policy of one virtual processor; the usual one is called directly.
pub(crate) enum Order {
    Fair(Fair),
    Other(Box<dyn Policy>),
}

/// A policy of the program's own gets it.
fn kept(ready: Ready) -> Ready {
    let here = here::vp().map_or(std::ptr::null(), std::ptr::from_ref);
    ready.0.own.kept.store(here.cast_mut().cast(), Relaxed);
    ready
}

/// Threads that never ran, for a policy of the program's own.
struct Kept<'a>(&'a mut dyn Fresh);

impl Fresh for Kept<'_> {
    fn take(&mut self, priority: Priority, from: From) -> Option<Ready> {
        self.0.take(priority, from).map(kept)
    }
}

/// What a policy of the program's own gives back.
fn returned(ready: Option<Ready>) -> Option<&'static Tcb> {
    let tcb = ready?.into_tcb();
    tcb.own.kept.store(std::ptr::null_mut(), Relaxed);
    Some(tcb)
}

impl Default for Order {
    fn default() -> Order {
        Order::Fair(Fair::new())
    }
}

impl Order {
    #[inline]
    pub(crate) fn put(&mut self, tcb: &'static Tcb, why: Why) {
        match self {
            Order::Fair(fair) => fair.put(Ready(tcb), why),
            Order::Other(policy) => policy.put(kept(Ready(tcb)), why),
        }
    }

    #[inline(always)]
    pub(crate) fn next<F: Fresh>(&mut self, fresh: &mut F) -> Option<&'static Tcb> {
        match self {
            Order::Fair(fair) => fair.next(fresh).map(Ready::into_tcb),
            Order::Other(policy) => returned(policy.next(&mut Kept(fresh))),
        }
    }

    pub(crate) fn take(&mut self, tcb: &'static Tcb) -> Option<&'static Tcb> {
        match self {
            Order::Fair(fair) => fair.take(tcb.id()).map(Ready::into_tcb),
            Order::Other(policy) => returned(policy.take(tcb.id())),
        }
    }

    pub(crate) fn spare(&mut self, movable: fn(&Tcb) -> bool) -> Option<&'static Tcb> {
        let mut movable = |ready: &Ready| movable(ready.0);
        match self {
            Order::Fair(fair) => fair.spare(&mut movable).map(Ready::into_tcb),
            Order::Other(policy) => returned(policy.spare(&mut movable)),
        }
    }

    /// From here on it is the usual one, with all threads that the policy returns, and those that it has forgotten:
    /// they are marked as kept still.
    pub(crate) fn dismiss(&mut self) {
        struct Nobody;
        impl Fresh for Nobody {
            fn take(&mut self, _: Priority, _: From) -> Option<Ready> {
                None
            }
        }
        if matches!(self, Order::Other(_)) {
            let mut dismissed = std::mem::take(self);
            while let Some(tcb) = dismissed.next(&mut Nobody) {
                self.put(tcb, Why::Woken);
            }
            drop(dismissed);
            let Some(here) = here::vp() else { return };
            let forgotten = |tcb: &&Tcb| std::ptr::eq(tcb.own.kept.load(Relaxed).cast(), here);
            for tcb in block::all().filter(forgotten) {
                tcb.own.kept.store(std::ptr::null_mut(), Relaxed);
                self.put(tcb, Why::Woken);
            }
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Order::Fair(fair) => fair.len(),
            Order::Other(policy) => policy.len(),
        }
    }
}
