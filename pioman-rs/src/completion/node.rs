//! A waiter, as the lists of completions, conditions and semaphores see it.
//!
//! A node is the first field of a structure that its function `fire` knows: a sleeping thread, a member of a set, a
//! future. It is in one list at a time. The thread that takes it out to fire it calls that function, once; what the
//! function does last allows the owner to free the node.

use std::cell::Cell;

use marcel::plumbing::{LatchNode, Linked, Links};

/// Called when all waiters have been told: runs what may not run before. See [`crate::completion::wakers`].
pub(crate) type After = Option<fn()>;

/// See the module's description.
#[repr(C)]
pub(crate) struct Node {
    /// In a completion's list. The first field.
    pub(crate) in_latch: LatchNode,
    /// In a queue ([`super::queue`]), under its lock.
    links: Links<Node>,
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

// SAFETY: a field that nothing else touches.
unsafe impl Linked for Node {
    fn links(&self) -> &Links<Node> {
        &self.links
    }
}

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
            links: Links::new(),
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
