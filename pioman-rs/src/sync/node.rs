//! One who waits, as the lists of completions, conditions and semaphores see it.
//!
//! A node is the first field of a structure that its function `fire` knows: a sleeping thread, a member of a set, a
//! future. It is in one list at a time. Whoever takes it out to fire it calls that function, once; what the function
//! does last allows the owner to free the node.

use std::cell::Cell;
use std::ptr::null;

use marcel::plumbing::LatchNode;

use crate::shim;
use crate::sync::handover::{Handover, HandoverLock};

/// Called when everybody has been told: runs what may not run before. See [`crate::sync::deferred`].
pub(crate) type After = Option<fn()>;

/// See the module's description.
#[repr(C)]
pub(crate) struct Node {
    /// In a completion's list. The first field.
    pub(crate) in_latch: LatchNode,
    /// In a [`Queue`], under the lock of its owner.
    next: Cell<*const Node>,
    /// Bits of a condition that are waited for.
    pub(crate) mask: Cell<u64>,
    /// All of them, not any.
    pub(crate) all: Cell<bool>,
    fire: unsafe fn(*const Node) -> After,
}

// SAFETY: what is not constant is touched under the lock of the list that the node is in, or by its owner before.
unsafe impl Sync for Node {}
// SAFETY: as above.
unsafe impl Send for Node {}

impl Node {
    /// # Safety
    /// `fire` keeps the rules of the progress path, also of the tick's handler, and does last what allows the owner
    /// to free the node.
    pub(crate) unsafe fn new(fire: unsafe fn(*const Node) -> After) -> Node {
        unsafe fn of_latch(node: *const LatchNode) -> After {
            // SAFETY: the first field of a node.
            unsafe { Node::fire(node.cast()) }
        }
        Node {
            // SAFETY: the caller's promise.
            in_latch: unsafe { LatchNode::new(of_latch) },
            next: Cell::new(null()),
            mask: Cell::new(0),
            all: Cell::new(false),
            fire,
        }
    }

    /// Tells the owner.
    ///
    /// # Safety
    /// The node was taken out of its list, by the caller.
    pub(crate) unsafe fn fire(node: *const Node) -> After {
        // SAFETY: a node stays until it is fired.
        unsafe { ((*node).fire)(node) }
    }
}

/// Nodes, first come, first served.
pub(crate) struct Queue {
    head: *const Node,
    tail: *const Node,
}

// SAFETY: nodes are shared, and stay as long as they are listed.
unsafe impl Send for Queue {}

impl Queue {
    pub(crate) const fn new() -> Queue {
        Queue { head: null(), tail: null() }
    }

    #[cfg(all(test, loom))]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_null()
    }

    /// # Safety
    /// The node is in no list, and stays until it has been taken out.
    pub(crate) unsafe fn push(&mut self, node: *const Node) {
        // SAFETY: the caller's node, and a listed one.
        unsafe {
            (*node).next.set(null());
            match self.tail.as_ref() {
                Some(tail) => tail.next.set(node),
                None => self.head = node,
            }
        }
        self.tail = node;
    }

    /// Takes a node out; false if it is not there.
    pub(crate) fn remove(&mut self, node: *const Node) -> bool {
        let mut found = false;
        self.take_where(|other| {
            found |= std::ptr::eq(other, node);
            std::ptr::eq(other, node)
        });
        found
    }

    /// Takes the oldest node out.
    pub(crate) fn pop(&mut self) -> Option<*const Node> {
        let first = self.head;
        // SAFETY: listed.
        let node = unsafe { first.as_ref() }?;
        self.head = node.next.get();
        if self.head.is_null() {
            self.tail = null();
        }
        Some(first)
    }

    /// Takes those out for which `take` says so. What it is given it may fire.
    pub(crate) fn take_where(&mut self, mut take: impl FnMut(*const Node) -> bool) {
        let mut at = self.head;
        let mut kept: *const Node = null();
        // SAFETY: those that are kept stay listed; `next` is read before the node may be gone.
        unsafe {
            while let Some(node) = at.as_ref() {
                let next = node.next.get();
                if take(at) {
                    match kept.as_ref() {
                        Some(kept) => kept.next.set(next),
                        None => self.head = next,
                    }
                } else {
                    kept = at;
                }
                at = next;
            }
        }
        self.tail = kept;
    }
}

/// Calls `f` with the lock held. A holder only looks through a list, so it is gone in a moment. Not on the progress path.
pub(crate) fn locked<T: Handover, R>(lock: &HandoverLock<T>, f: impl FnOnce(&mut T) -> R) -> R {
    let result = loop {
        if let Some(mut value) = lock.try_lock() {
            break f(&mut value);
        }
        shim::yield_now();
    };
    crate::sync::deferred::settle();
    result
}
