//! What can be waited for, and how one thread waits for one of them.
//!
//! A thread never sleeps on a condition or semaphore itself: it enlists a node with a completion of its own, on its
//! stack, and waits for that one with its manager. So there is one mixed wait, for one kind of word.

use crate::completion::cond::Cond;
use crate::completion::node::{After, Node};
use crate::completion::one_shot::Completion;
use crate::completion::semaphore::Semaphore;

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

    fn node(&self) -> *const Node {
        (&raw const *self).cast()
    }
}

/// A node that may be listed. It leaves when this is dropped: a wait also ends by the unwinding of a runtime that
/// stops.
struct Listed<'a, 'w> {
    what: Waitable<'w>,
    own: &'a Sleeping,
}

impl Listed<'_, '_> {
    /// False if it has been fired instead.
    fn leave(&self) -> bool {
        let left = self.what.leave(self.own.node());
        while !left && !self.own.done.is_done() {
            crate::shim::yield_now(); // the thread that took it out is about to fire it
        }
        left
    }
}

impl Drop for Listed<'_, '_> {
    fn drop(&mut self) {
        if !self.leave() {
            self.what.give_back();
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

    /// Joins those that are told, unless it is there already (false). A permit is taken then.
    ///
    /// # Safety
    /// The node is in no list, and stays until it has left or was fired.
    pub(crate) unsafe fn enlist(&self, node: *const Node) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Waitable::Done(completion) => completion.latch().enlist(node.cast()),
                Waitable::Any(cond, mask) => cond.enlist(node, *mask, false),
                Waitable::All(cond, mask) => cond.enlist(node, *mask, true),
                Waitable::Permit(semaphore) => semaphore.enlist(node),
            }
        }
    }

    /// Leaves; false if it was fired, or is about to be.
    pub(crate) fn leave(&self, node: *const Node) -> bool {
        match self {
            Waitable::Done(completion) => completion.latch().leave(node.cast()),
            Waitable::Any(cond, _) | Waitable::All(cond, _) => cond.leave(node),
            Waitable::Permit(semaphore) => semaphore.leave(node),
        }
    }

    /// It was fired, but is not wanted any more.
    pub(crate) fn give_back(&self) {
        if let Waitable::Permit(semaphore) = self {
            semaphore.release();
        }
    }

    /// Waits for it. `sleep` sleeps until the completion is complete, or gives up (false).
    pub(crate) fn wait_with(&self, sleep: impl FnOnce(&Completion) -> bool) -> bool {
        if self.take() {
            return true;
        }
        let own = Sleeping::new();
        // SAFETY: `own` stays until `listed` has seen to it.
        if !unsafe { self.enlist(own.node()) } {
            return true;
        }
        let listed = Listed { what: *self, own: &own };
        let got = sleep(&own.done) || !listed.leave();
        std::mem::forget(listed);
        got
    }
}
