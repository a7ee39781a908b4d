//! The waiters of a condition or a semaphore: first come, first served.

use std::ptr::null;

use crate::completion::node::Node;
use crate::completion::wakers;
use crate::shim;
use crate::sync::delegation::{Delegated, DelegationLock};

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
pub(crate) fn locked<T: Delegated, R>(lock: &DelegationLock<T>, f: impl FnOnce(&mut T) -> R) -> R {
    let result = loop {
        if let Some(mut value) = lock.try_lock() {
            break f(&mut value);
        }
        shim::yield_now();
    };
    wakers::settle();
    result
}
