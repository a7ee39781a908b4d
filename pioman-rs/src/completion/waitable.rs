//! What can be waited for, and how one thread waits for one of them.
//!
//! A thread never sleeps on a condition, a semaphore or a descriptor itself: it enlists a node with a completion of its
//! own, on its stack, and waits for that one with its manager. So there is one mixed wait, for one kind of word.
//!
//! Rejected: such a wait as a set of one ([`super::set`]). The last touch of a set's member comes after its completion,
//! so the woken thread would have to wait for the one that wakes it.

use std::ptr::NonNull;

use marcel::plumbing::{Leave, Listed};

use crate::completion::cond::Cond;
use crate::completion::node::{After, Node};
use crate::completion::one_shot::Completion;
use crate::completion::semaphore::Semaphore;
use crate::shim::yield_now;

/// One thing to wait for: alone ([`Waitable::wait`]), among several ([`crate::Manager::wait_any`],
/// [`crate::Manager::wait_all`]), or as a future (`.await`).
#[derive(Clone, Copy, Debug)]
pub enum Waitable<'a> {
    /// The completion is complete.
    Done(&'a Completion),
    /// Any of the bits is set.
    Any(&'a Cond, u64),
    /// All of the bits are set at the same time.
    All(&'a Cond, u64),
    /// A permit, which the waiter gets.
    Permit(&'a Semaphore),
}

impl<'a> From<&'a Completion> for Waitable<'a> {
    fn from(completion: &'a Completion) -> Self {
        Waitable::Done(completion)
    }
}

impl Cond {
    /// To wait until any of the bits is set; it is also a future.
    pub fn any(&self, mask: u64) -> Waitable<'_> {
        Waitable::Any(self, mask)
    }

    /// To wait until all of the bits are set at the same time; it is also a future.
    pub fn all(&self, mask: u64) -> Waitable<'_> {
        Waitable::All(self, mask)
    }
}

impl Semaphore {
    /// To wait for a permit; it is also a future.
    pub fn permit(&self) -> Waitable<'_> {
        Waitable::Permit(self)
    }
}

/// What tells the nodes that are enlisted with it.
pub(crate) trait Enlist {
    /// Joins those that are told, unless it is there already (false). A permit is taken then.
    ///
    /// # Safety
    /// The node is in no list, and stays until it has left or was fired.
    unsafe fn enlist(&self, node: NonNull<Node>) -> bool;

    /// Leaves; false if it was fired, or is about to be. The node was enlisted here.
    fn leave(&self, node: &Node) -> bool;

    /// It was fired, but is not wanted any more.
    fn give_back(&self) {}

    /// Leaves; false if it was fired, which `fired` says: no thread touches the node any more when this returns.
    fn leave_or_fired(&self, node: &Node, fired: impl Fn() -> bool) -> bool {
        let left = !fired() && self.leave(node);
        while !left && !fired() {
            yield_now(); // the thread that took it out is about to fire it
        }
        left
    }

    /// Waits for it. `sleep` sleeps until the completion is complete, or gives up (false).
    fn wait_enlisted(&self, sleep: impl FnOnce(&Completion) -> bool) -> bool
    where
        Self: Sized,
    {
        let own = Sleeping::new();
        // SAFETY: `own` stays until `listed` has seen to it.
        if !unsafe { self.enlist(NonNull::from(&own).cast()) } {
            return true;
        }
        let listed = Listed::new(Waiting { what: self, own: &own });
        if sleep(&own.done) {
            listed.served();
            return true;
        }
        !listed.leave()
    }
}

/// A thread that waits, on its own stack.
#[repr(C)]
struct Sleeping {
    node: Node,
    done: Completion,
}

impl Sleeping {
    fn new() -> Sleeping {
        unsafe fn fire(node: *const Node) -> After {
            // SAFETY: the first field of a `Sleeping`, which stays until it is done: the last touch.
            unsafe { &(*node.cast::<Sleeping>()).done }.complete();
            None
        }
        // SAFETY: to complete a completion is allowed anywhere.
        Sleeping { node: unsafe { Node::new(fire) }, done: Completion::new() }
    }
}

/// A thread whose node is in a list, or was.
struct Waiting<'a, W> {
    what: &'a W,
    own: &'a Sleeping,
}

impl<W: Enlist> Leave for Waiting<'_, W> {
    fn leave(&self) -> bool {
        self.what.leave_or_fired(&self.own.node, || self.own.done.is_done())
    }

    fn pass_on(&self) {
        self.what.give_back();
    }
}

impl Enlist for Waitable<'_> {
    unsafe fn enlist(&self, node: NonNull<Node>) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Waitable::Done(completion) => completion.latch().enlist(node.as_ptr().cast()),
                Waitable::Any(cond, mask) => cond.enlist(node, *mask, false),
                Waitable::All(cond, mask) => cond.enlist(node, *mask, true),
                Waitable::Permit(semaphore) => semaphore.enlist(node),
            }
        }
    }

    fn leave(&self, node: &Node) -> bool {
        match self {
            Waitable::Done(completion) => completion.latch().leave(&node.in_latch),
            Waitable::Any(cond, _) | Waitable::All(cond, _) => cond.leave(node),
            Waitable::Permit(semaphore) => semaphore.leave(node),
        }
    }

    fn give_back(&self) {
        if let Waitable::Permit(semaphore) = self {
            semaphore.release();
        }
    }
}

impl Waitable<'_> {
    /// Whether it is there already. A permit is taken.
    pub(crate) fn take(&self) -> bool {
        match self {
            Waitable::Done(completion) => completion.is_done(),
            Waitable::Any(cond, mask) => cond.holds(*mask, false),
            Waitable::All(cond, mask) => cond.holds(*mask, true),
            Waitable::Permit(semaphore) => semaphore.try_acquire(),
        }
    }

    /// Waits for it. `sleep` as for [`Enlist::wait_enlisted`].
    pub(crate) fn wait_with(&self, sleep: impl FnOnce(&Completion) -> bool) -> bool {
        self.take() || self.wait_enlisted(sleep)
    }
}
