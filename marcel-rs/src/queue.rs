//! Intrusive lists of threads: the run queue of a virtual processor and its inbox.
//!
//! Both link threads through [`Tcb::next`]; a thread is in one list at a time. Nothing is allocated, so a
//! wake-up can come from a signal handler.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::*};

use crate::tcb::Tcb;

/// First in, first out; one owner.
#[derive(Default)]
pub(crate) struct RunQueue {
    head: Option<&'static Tcb>,
    tail: Option<&'static Tcb>,
    len: usize,
}

impl RunQueue {
    #[inline]
    pub(crate) fn push(&mut self, tcb: &'static Tcb) {
        tcb.next.store(null_mut(), Relaxed);
        match self.tail {
            Some(tail) => tail.next.store(tcb as *const Tcb as *mut Tcb, Relaxed),
            None => self.head = Some(tcb),
        }
        self.tail = Some(tcb);
        self.len += 1;
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<&'static Tcb> {
        let first = self.head?;
        // SAFETY: links point to immortal blocks or are null.
        self.head = unsafe { first.next.load(Relaxed).as_ref() };
        if self.head.is_none() {
            self.tail = None;
        }
        self.len -= 1;
        Some(first)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// Threads that others made runnable: many producers (other kernel threads, signal handlers), one consumer.
///
/// A Treiber stack that the consumer takes whole, so there is no ABA and nobody waits for anybody.
#[derive(Default)]
pub(crate) struct Inbox {
    top: AtomicPtr<Tcb>,
}

impl Inbox {
    /// Adds a thread. Anywhere, signal handlers included.
    pub(crate) fn push(&self, tcb: &'static Tcb) {
        let node = tcb as *const Tcb as *mut Tcb;
        let mut top = self.top.load(Relaxed);
        loop {
            tcb.next.store(top, Relaxed);
            match self.top.compare_exchange_weak(top, node, SeqCst, Relaxed) {
                Ok(_) => return,
                Err(seen) => top = seen,
            }
        }
    }

    /// Whether there is something to take.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.top.load(SeqCst).is_null()
    }

    /// Moves everything to the end of `queue`, oldest first.
    #[inline]
    pub(crate) fn drain_into(&self, queue: &mut RunQueue) {
        if self.top.load(Relaxed).is_null() {
            return;
        }
        let mut node = self.top.swap(null_mut(), AcqRel);
        let mut oldest: *mut Tcb = null_mut();
        while !node.is_null() {
            // SAFETY: nodes are immortal blocks; the chain is ours since the swap.
            let tcb = unsafe { &*node };
            let next = tcb.next.load(Relaxed);
            tcb.next.store(oldest, Relaxed);
            oldest = node;
            node = next;
        }
        while !oldest.is_null() {
            // SAFETY: as above.
            let tcb: &'static Tcb = unsafe { &*oldest };
            oldest = tcb.next.load(Relaxed);
            queue.push(tcb);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inbox_keeps_the_order_and_empties_into_the_queue() {
        let threads: Vec<_> = (0..5).map(|_| Tcb::allocate()).collect();
        let (inbox, mut queue) = (Inbox::default(), RunQueue::default());
        queue.push(threads[0]);
        threads[1..].iter().for_each(|t| inbox.push(t));
        inbox.drain_into(&mut queue);
        assert!(inbox.is_empty());
        assert_eq!(queue.len(), 5);
        for thread in &threads {
            assert!(std::ptr::eq(queue.pop().unwrap(), *thread));
        }
        assert!(queue.pop().is_none());
    }

    #[test]
    fn concurrent_pushes_all_arrive() {
        let inbox = Inbox::default();
        let mut queue = RunQueue::default();
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..1000).for_each(|_| inbox.push(Tcb::allocate())));
            }
            while queue.len() < 4000 {
                inbox.drain_into(&mut queue);
            }
        });
    }
}
