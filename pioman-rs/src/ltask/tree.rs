//! Queues of light tasks, one for each node of the topology.
//!
//! A virtual processor runs the queue of its core, then those of the nodes above it, up to the machine
//! (thesis, algorithm 1). A queue is looked at without its lock first, then with it (algorithm 2); the lock is
//! only tried, and held for the few instructions that move a pointer. New tasks arrive on a lock-free stack, so
//! that a task can be submitted anywhere; links are in the tasks, so there is nothing to allocate and no queue
//! is ever full.

use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::*};

use marcel::topology::Topology;

use crate::ltask::Ltask;
use crate::manager::Core;

/// Tasks run in one visit of a queue, so that a visit is bounded.
const BATCH: usize = 32;

struct Queue {
    /// Newly submitted, newest first.
    submitted: AtomicPtr<Ltask>,
    locked: AtomicBool,
    /// Oldest first; under `locked`.
    ready: UnsafeCell<Ready>,
}

struct Ready {
    head: *mut Ltask,
    tail: *mut Ltask,
}

// SAFETY: `ready` is touched with `locked` held; blocks are immortal.
unsafe impl Sync for Queue {}
// SAFETY: as above.
unsafe impl Send for Queue {}

impl Queue {
    fn new() -> Queue {
        Queue {
            submitted: AtomicPtr::new(null_mut()),
            locked: AtomicBool::new(false),
            ready: UnsafeCell::new(Ready { head: null_mut(), tail: null_mut() }),
        }
    }

    fn push(&self, ltask: &'static Ltask) {
        let node = ltask as *const Ltask as *mut Ltask;
        let mut top = self.submitted.load(Relaxed);
        loop {
            ltask.next.store(top, Relaxed);
            match self.submitted.compare_exchange_weak(top, node, SeqCst, Relaxed) {
                Ok(_) => return,
                Err(seen) => top = seen,
            }
        }
    }

    /// The oldest task; `None` when there is none, or somebody else is at the queue.
    fn pop(&self) -> Option<&'static Ltask> {
        if self.locked.load(Relaxed) || self.locked.swap(true, Acquire) {
            return None;
        }
        // SAFETY: the lock is ours.
        let ready = unsafe { &mut *self.ready.get() };
        if ready.head.is_null() {
            ready.refill(self.submitted.swap(null_mut(), AcqRel));
        }
        let first = ready.head;
        // SAFETY: blocks are immortal.
        let popped = unsafe { first.as_ref() };
        if let Some(ltask) = popped {
            ready.head = ltask.next.load(Relaxed);
        }
        self.locked.store(false, Release);
        popped
    }
}

impl Ready {
    /// Takes a newest-first chain as an oldest-first list.
    fn refill(&mut self, mut chain: *mut Ltask) {
        self.tail = chain;
        // SAFETY: blocks are immortal, the chain is ours.
        while let Some(ltask) = unsafe { chain.as_ref() } {
            let next = ltask.next.load(Relaxed);
            ltask.next.store(self.head, Relaxed);
            self.head = chain;
            chain = next;
        }
    }
}

/// The queues; see the module's description.
pub(crate) struct Tree {
    topology: Topology,
    queues: Vec<Queue>,
    pending: AtomicUsize,
}

impl Tree {
    /// # Errors
    /// `MARCEL_TOPOLOGY` is not acceptable.
    pub(crate) fn new() -> Result<Tree, marcel::Error> {
        Topology::current().map(Self::over)
    }

    fn over(topology: Topology) -> Tree {
        let queues = topology.nodes().iter().map(|_| Queue::new()).collect();
        Tree { topology, queues, pending: AtomicUsize::new(0) }
    }

    /// The node for tasks of one core; without one, or for a core that is not ours, the machine.
    pub(crate) fn node_of(&self, cpu: Option<usize>) -> usize {
        cpu.and_then(|cpu| self.topology.leaf_of(cpu)).unwrap_or(0)
    }

    /// A task is about to be submitted.
    pub(crate) fn expect(&self) {
        self.pending.fetch_add(1, SeqCst);
    }

    /// A task is done.
    pub(crate) fn forget(&self) {
        self.pending.fetch_sub(1, SeqCst);
    }

    /// Whether any task is not done.
    #[inline]
    pub(crate) fn pending(&self) -> bool {
        self.pending.load(Relaxed) != 0
    }

    /// Queues a task. Progress path.
    pub(crate) fn push(&self, ltask: &'static Ltask) {
        self.queues[ltask.node.load(Relaxed)].push(ltask);
    }

    /// Runs what the virtual processor on `cpu` may run; true if anything was run. Progress path.
    #[inline]
    pub(crate) fn run(&self, cpu: Option<usize>, core: &Core) -> bool {
        self.pending() && self.run_path(cpu, core)
    }

    fn run_path(&self, cpu: Option<usize>, core: &Core) -> bool {
        let nodes = self.topology.nodes();
        let mut at = Some(self.node_of(cpu));
        let mut ran = false;
        while let Some(node) = at {
            ran |= self.run_queue(node, core);
            at = nodes[node].parent;
        }
        ran
    }

    /// Runs the tasks of every queue once, whoever they are for: for a thread that waits for one of them.
    pub(crate) fn run_all(&self, core: &Core) -> bool {
        self.pending() && (0..self.queues.len()).fold(false, |ran, n| self.run_queue(n, core) | ran)
    }

    fn run_queue(&self, node: usize, core: &Core) -> bool {
        let mut ran = false;
        for _ in 0..BATCH {
            let Some(ltask) = self.queues[node].pop() else { break };
            ran = true;
            if ltask.run(core) {
                break; // it wants to be called again: the others' turn comes at the next visit
            }
        }
        ran
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_synthetic_core_has_a_queue_of_its_own_below_that_of_its_node() {
        let shape = "numa:2 core:4".parse().unwrap();
        let tree = Tree::over(Topology::synthetic(&shape, &[0]));
        assert_eq!(tree.queues.len(), 1 + 2 + 8);
        let leaves: std::collections::HashSet<_> =
            (0..8).map(|cpu| tree.node_of(Some(cpu))).collect();
        assert_eq!(leaves.len(), 8);
        let above = |cpu| tree.topology.nodes()[tree.node_of(Some(cpu))].parent;
        assert_eq!(above(4), above(7));
        assert_ne!(above(3), above(4));
        assert_eq!((tree.node_of(None), tree.node_of(Some(8))), (0, 0));
    }
}
