//! Waiting threads in the order in which they came: an intrusive list of nodes on their stacks. Whoever has the list
//! holds the lock that protects it.

use std::cell::Cell;
use std::ptr::null;

use super::signal::{Signal, Wake};

/// One wait, and what its primitive notes about it.
pub(super) struct Node<W> {
    signal: *const Signal,
    /// 0 where this is the waiter's only node; else which of several it is, from 1 on.
    choice: u32,
    linked: Cell<bool>,
    previous: Cell<*const Node<W>>,
    next: Cell<*const Node<W>>,
    ticket: Cell<u64>,
    pub(super) waiter: W,
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
        Node {
            signal,
            choice,
            linked: Cell::new(false),
            previous: Cell::new(null()),
            next: Cell::new(null()),
            ticket: Cell::new(0),
            waiter,
        }
    }
}

impl<W> Node<W> {
    /// Higher than that of those who came before. Under the lock.
    pub(super) fn ticket(&self) -> u64 {
        self.ticket.get()
    }
}

/// See the module's description.
pub(super) struct Queue<W> {
    head: *const Node<W>,
    tail: *const Node<W>,
    tickets: u64,
}

// SAFETY: the nodes are touched by whoever has the queue exclusively; what they hold goes from thread to thread.
unsafe impl<W: Send> Send for Queue<W> {}

impl<W> Queue<W> {
    pub(super) const fn new() -> Self {
        Queue { head: null(), tail: null(), tickets: 0 }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head.is_null()
    }

    /// To the end, or before all others.
    ///
    /// # Safety
    /// The node and its signal stay alive and in place until the node is out of the queue, by [`Queue::remove`] or
    /// because the signal is served; the node is in no queue now.
    #[inline]
    pub(super) unsafe fn push(&mut self, node: &Node<W>, front: bool) {
        self.tickets += 1;
        // Who goes before all others came before all others, as far as tickets tell.
        node.ticket.set(if front { 0 } else { self.tickets });
        node.linked.set(true);
        let (previous, next) = if front { (null(), self.head) } else { (self.tail, null()) };
        self.connect(previous, node);
        self.connect(node, next);
    }

    /// Makes two nodes neighbours; null is an end of the queue.
    #[inline]
    fn connect(&mut self, one: *const Node<W>, other: *const Node<W>) {
        // SAFETY: nodes in the queue are alive.
        match unsafe { one.as_ref() } {
            Some(one) => one.next.set(other),
            None => self.head = other,
        }
        // SAFETY: as above.
        match unsafe { other.as_ref() } {
            Some(other) => other.previous.set(one),
            None => self.tail = one,
        }
    }

    /// The waiter that is next, where nobody waits in several queues.
    #[inline]
    pub(super) fn first(&self) -> Option<&W> {
        // SAFETY: nodes in the queue are alive.
        unsafe { self.head.as_ref() }.map(|node| &node.waiter)
    }

    /// Serves the first waiter, after `hand` has had a look at it.
    #[inline]
    pub(super) fn serve_first(&mut self, hand: impl FnOnce(&W)) -> Option<Wake> {
        // SAFETY: nodes in the queue are alive, and so are their signals.
        while let Some(node) = unsafe { self.head.as_ref() } {
            self.unlink(node);
            // SAFETY: as above.
            let signal = unsafe { &*node.signal };
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
        // SAFETY: nodes in the queue are alive.
        let node = unsafe { self.head.as_ref() }?;
        if node.ticket.get() <= ticket { self.serve_first(|_| ()) } else { None }
    }

    /// Takes the node out; false if it was not in the queue any more.
    pub(super) fn remove(&mut self, node: &Node<W>) -> bool {
        let linked = node.linked.get();
        if linked {
            self.unlink(node);
        }
        linked
    }

    #[inline]
    fn unlink(&mut self, node: &Node<W>) {
        node.linked.set(false);
        self.connect(node.previous.get(), node.next.get());
    }
}
