//! Waiting threads in the order in which they came: an intrusive list of nodes on their stacks. Its owner holds the
//! lock that protects it.

use std::cell::Cell;
use std::ptr::NonNull;

use super::signal::{Signal, Wake};
use crate::list::{Linked, Links, List};

/// One wait, and what its primitive notes about it.
pub(super) struct Node<W> {
    links: Links<Node<W>>,
    signal: *const Signal,
    /// 0 where this is the waiter's only node; else which of several it is, from 1 on.
    choice: u32,
    ticket: Cell<u64>,
    pub(super) waiter: W,
}

// SAFETY: the signal is touched by one thread at a time, and so is the rest: the lock holder, or the waiter.
unsafe impl<W: Send> Send for Node<W> {}

// SAFETY: a field that nothing else touches.
unsafe impl<W> Linked for Node<W> {
    #[inline]
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

impl<W> Node<W> {
    /// A wait in one queue.
    #[inline]
    pub(super) fn new(signal: &Signal, waiter: W) -> Self {
        Node::one_of_several(signal, 0, waiter)
    }

    /// A wait that is one of several, number `choice`, of which one will be served.
    #[inline]
    pub(super) fn one_of_several(signal: &Signal, choice: u32, waiter: W) -> Self {
        Node { links: Links::new(), signal, choice, ticket: Cell::new(0), waiter }
    }

    /// Higher than that of the nodes that came before. Under the lock.
    pub(super) fn ticket(&self) -> u64 {
        self.ticket.get()
    }
}

/// See the module's description.
pub(super) struct Queue<W> {
    nodes: List<Node<W>>,
    tickets: u64,
}

impl<W> Queue<W> {
    pub(super) const fn new() -> Self {
        Queue { nodes: List::new(), tickets: 0 }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// To the end, or before all others.
    ///
    /// # Safety
    /// The node and its signal stay alive and in place until the node is out of the queue, by [`Queue::remove`] or
    /// because the signal is served; the node is in no queue now.
    #[inline]
    pub(super) unsafe fn push(&mut self, node: &Node<W>, front: bool) {
        self.tickets += 1;
        // A node before all others came before all others, as far as tickets tell.
        node.ticket.set(if front { 0 } else { self.tickets });
        // SAFETY: the caller's promise.
        unsafe {
            match front {
                true => self.nodes.push_front(NonNull::from(node)),
                false => self.nodes.push_back(NonNull::from(node)),
            }
        }
    }

    /// The waiter that is next, where no thread waits in several queues.
    #[inline]
    pub(super) fn first(&self) -> Option<&W> {
        self.nodes.front().map(|node| &node.waiter)
    }

    /// Serves the first waiter, after `hand` has had a look at it.
    #[inline]
    pub(super) fn serve_first(&mut self, hand: impl FnOnce(&W)) -> Option<Wake> {
        while let Some(node) = self.nodes.pop_front() {
            // SAFETY: the waiter has not been served, so node and signal are in place.
            let (node, signal) = unsafe { (node.as_ref(), &*node.as_ref().signal) };
            if node.choice == 0 || signal.claim() {
                hand(&node.waiter);
                return Some(signal.serve(node.choice));
            }
        }
        None
    }

    /// The ticket of the last one that came.
    pub(super) fn last_ticket(&self) -> u64 {
        self.tickets
    }

    /// Serves the first waiter if it came no later than the one with `ticket`.
    pub(super) fn serve_up_to(&mut self, ticket: u64) -> Option<Wake> {
        let first = self.nodes.front()?.ticket();
        if first <= ticket { self.serve_first(|_| ()) } else { None }
    }

    /// Takes the node out; false if it was not in the queue any more.
    ///
    /// # Safety
    /// The node is in this queue or in none.
    pub(super) unsafe fn remove(&mut self, node: &Node<W>) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.nodes.remove(node) }
    }
}
