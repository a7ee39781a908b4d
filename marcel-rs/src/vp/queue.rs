//! Intrusive lists of threads: the run queue of a virtual processor, its inbox, and a plain stack.
//!
//! All link threads through [`Linked::link`]; a thread is in one list at a time. Nothing is allocated, so a
//! wake-up can come from a signal handler.

use std::ptr::null_mut;
use std::sync::atomic::Ordering::*;

use crate::shim::AtomicPtr;
use crate::thread::tcb::Tcb;

/// What can be in a list.
pub(crate) trait Linked: Sized + 'static {
    /// Link in whichever list holds it.
    fn link(&self) -> &AtomicPtr<Self>;
}

/// First in, first out; one owner.
pub(crate) struct RunQueue<T: Linked = Tcb> {
    head: Option<&'static T>,
    tail: Option<&'static T>,
    len: usize,
}

impl<T: Linked> Default for RunQueue<T> {
    fn default() -> Self {
        RunQueue { head: None, tail: None, len: 0 }
    }
}

impl<T: Linked> RunQueue<T> {
    #[inline]
    pub(crate) fn push(&mut self, tcb: &'static T) {
        tcb.link().store(null_mut(), Relaxed);
        match self.tail {
            Some(tail) => tail.link().store(tcb as *const T as *mut T, Relaxed),
            None => self.head = Some(tcb),
        }
        self.tail = Some(tcb);
        self.len += 1;
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<&'static T> {
        let first = self.head?;
        // SAFETY: links point to immortal blocks or are null.
        self.head = unsafe { first.link().load(Relaxed).as_ref() };
        if self.head.is_none() {
            self.tail = None;
        }
        self.len -= 1;
        Some(first)
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Takes out the first that `wanted` finds among the first `most`; the others keep their order.
    pub(crate) fn remove(
        &mut self,
        most: usize,
        mut wanted: impl FnMut(&'static T) -> bool,
    ) -> Option<&'static T> {
        let mut before: Option<&'static T> = None;
        let mut at = self.head;
        for _ in 0..most {
            let here = at?;
            // SAFETY: as in `pop`.
            let next = unsafe { here.link().load(Relaxed).as_ref() };
            if wanted(here) {
                match before {
                    Some(before) => before.link().store(here.link().load(Relaxed), Relaxed),
                    None => self.head = next,
                }
                if next.is_none() {
                    self.tail = before;
                }
                self.len -= 1;
                return Some(here);
            }
            (before, at) = (at, next);
        }
        None
    }
}

/// Last in, first out; one owner.
pub(crate) struct Stack<T: Linked = Tcb> {
    top: Option<&'static T>,
}

impl<T: Linked> Default for Stack<T> {
    fn default() -> Self {
        Stack { top: None }
    }
}

impl<T: Linked> Stack<T> {
    pub(crate) const fn new() -> Self {
        Stack { top: None }
    }

    #[inline]
    pub(crate) fn push(&mut self, tcb: &'static T) {
        let below = self.top.map_or(null_mut(), |top| top as *const T as *mut T);
        tcb.link().store(below, Relaxed);
        self.top = Some(tcb);
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<&'static T> {
        let top = self.top?;
        // SAFETY: links point to immortal blocks or are null.
        self.top = unsafe { top.link().load(Relaxed).as_ref() };
        Some(top)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.top.is_none()
    }
}

/// Threads that others made runnable: many producers (other kernel threads, signal handlers), one consumer.
///
/// A Treiber stack that the consumer takes whole, so there is no ABA and nobody waits for anybody.
pub(crate) struct Inbox<T: Linked = Tcb> {
    top: AtomicPtr<T>,
}

impl<T: Linked> Default for Inbox<T> {
    fn default() -> Self {
        Inbox { top: AtomicPtr::new(null_mut()) }
    }
}

impl<T: Linked> Inbox<T> {
    /// Adds a thread. Anywhere, signal handlers included.
    pub(crate) fn push(&self, tcb: &'static T) {
        let node = tcb as *const T as *mut T;
        let mut top = self.top.load(Relaxed);
        loop {
            tcb.link().store(top, Relaxed);
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

    /// Gives everything to `put`, oldest first.
    #[inline]
    pub(crate) fn drain(&self, mut put: impl FnMut(&'static T)) {
        if self.top.load(Relaxed).is_null() {
            return;
        }
        let mut node = self.top.swap(null_mut(), AcqRel);
        let mut oldest: *mut T = null_mut();
        while !node.is_null() {
            // SAFETY: nodes are immortal blocks; the chain is ours since the swap.
            let tcb = unsafe { &*node };
            let next = tcb.link().load(Relaxed);
            tcb.link().store(oldest, Relaxed);
            oldest = node;
            node = next;
        }
        while !oldest.is_null() {
            // SAFETY: as above.
            let tcb: &'static T = unsafe { &*oldest };
            oldest = tcb.link().load(Relaxed);
            put(tcb);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_inbox_keeps_the_order_and_empties_into_the_queue() {
        let threads: Vec<_> = (0..5).map(|_| Tcb::allocate()).collect();
        let (inbox, mut queue): (Inbox, RunQueue) = Default::default();
        queue.push(threads[0]);
        threads[1..].iter().for_each(|t| inbox.push(t));
        inbox.drain(|t| queue.push(t));
        assert!(inbox.is_empty());
        assert_eq!(queue.len(), 5);
        for thread in &threads {
            assert!(std::ptr::eq(queue.pop().unwrap(), *thread));
        }
        assert!(queue.pop().is_none());
    }

    #[test]
    fn what_is_taken_out_of_the_queue_leaves_the_others_in_order() {
        for out in 0..4 {
            let threads: Vec<_> = (0..4).map(|_| Tcb::allocate()).collect();
            let mut queue: RunQueue = RunQueue::default();
            threads.iter().for_each(|t| queue.push(t));
            let found = queue.remove(4, |t| std::ptr::eq(t, threads[out]));
            assert!(std::ptr::eq(found.unwrap(), threads[out]));
            assert!(queue.remove(4, |t| std::ptr::eq(t, threads[out])).is_none());
            queue.push(threads[out]);
            let left = threads.iter().enumerate().filter(|(i, _)| *i != out).map(|(_, t)| *t);
            for thread in left.chain([threads[out]]) {
                assert!(std::ptr::eq(queue.pop().unwrap(), thread));
            }
            assert!(queue.pop().is_none() && queue.len() == 0);
        }
    }

    #[test]
    fn it_is_looked_for_as_far_as_told() {
        let mut queue: RunQueue = RunQueue::default();
        (0..3).for_each(|_| queue.push(Tcb::allocate()));
        let mut seen = 0;
        let found = queue.remove(2, |_| {
            seen += 1;
            false
        });
        assert!(found.is_none() && seen == 2);
    }

    #[test]
    fn concurrent_pushes_all_arrive() {
        let inbox: Inbox = Inbox::default();
        let mut queue: RunQueue = RunQueue::default();
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..1000).for_each(|_| inbox.push(Tcb::allocate())));
            }
            while queue.len() < 4000 {
                inbox.drain(|t| queue.push(t));
            }
        });
    }
}
