//! Collect: the submission list, on which any thread leaves requests for the holder of the engine's lock.
//!
//! The list is an inbox ([`RawInbox`]): pushed by anyone, taken whole by the lock's holder, oldest first, so one
//! thread's requests keep their order. Nodes are the requests themselves, so nothing is allocated. The caller that
//! pushes must then delegate its work to the lock holder: the list alone wakes no thread.
//!
//! Invariant: what was pushed shows as *pending* at any time until it is over: in the list, *on its way* from the list
//! to the engine, or counted by the engine. Were there a gap, a submitter that is about to sleep could find nothing
//! pending, and no thread would watch.

#[cfg_attr(loom, allow(dead_code))]
pub(crate) mod lease;

use core::ptr::NonNull;

use marcel::plumbing::{Chained, InboxItems, RawInbox};

use crate::sync::{AtomicBool, Ordering};

/// See the module.
pub(crate) struct Submissions<T: Chained> {
    inbox: RawInbox<T>,
    /// What was taken is not counted yet.
    on_its_way: AtomicBool,
}

impl<T: Chained> Submissions<T> {
    pub(crate) fn new() -> Self {
        Submissions { inbox: RawInbox::new(), on_its_way: AtomicBool::new(false) }
    }

    /// Whether something is in the list, or on its way to its taker. If not, the caller sees what the taker has
    /// counted.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        // In this order: a thread that finds the list empty sees what was said before it was taken.
        !self.inbox.is_empty() || self.on_its_way.load(Ordering::Acquire)
    }

    /// What was taken is counted: it shows elsewhere that it is pending.
    pub(crate) fn arrived(&self) {
        self.on_its_way.store(false, Ordering::Release);
    }

    /// Whether nothing waits. A hint, unless the caller knows that no thread pushes.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.inbox.is_empty()
    }

    /// Adds a node.
    ///
    /// # Safety
    /// The node is in no list and stays valid until it has been taken.
    pub(crate) unsafe fn push(&self, node: NonNull<T>) {
        // SAFETY: the caller's promise.
        unsafe { self.inbox.push(node) }
    }

    /// Takes everything, oldest first. The caller, which has the lock, then says when it has
    /// [`arrived`](Self::arrived). A node may be freed once it has been yielded.
    pub(crate) fn take(&self) -> InboxItems<T> {
        // Even if the list seems empty: a request may come between that look and the taking.
        self.on_its_way.store(true, Ordering::Relaxed);
        self.inbox.take()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicPtr;

    struct Node {
        link: AtomicPtr<Node>,
        value: (usize, usize),
    }
    // SAFETY: one field.
    unsafe impl Chained for Node {
        fn next(&self) -> &AtomicPtr<Node> {
            &self.link
        }
    }

    #[test]
    fn each_thread_keeps_its_order() {
        const EACH: usize = 5_000;
        let list = Submissions::<Node>::new();
        let mut seen = [0; 4];
        let mut check = |list: &Submissions<Node>| {
            for node in list.take() {
                // SAFETY: made by `Box::into_raw` below and yielded once.
                let node = unsafe { Box::from_raw(node.as_ptr()) };
                let (thread, number) = node.value;
                assert_eq!(seen[thread], number);
                seen[thread] += 1;
            }
            seen.iter().sum::<usize>()
        };
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let list = &list;
                scope.spawn(move || {
                    for number in 0..EACH {
                        let node =
                            Box::new(Node { link: AtomicPtr::default(), value: (thread, number) });
                        // SAFETY: freshly boxed, freed by the taker.
                        unsafe { list.push(NonNull::from(Box::leak(node))) };
                    }
                });
            }
            while check(&list) < 4 * EACH {
                std::hint::spin_loop();
            }
        });
        assert!(list.is_empty());
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicPtr;
    use pioman::plumbing::{Delegated, DelegationLock};

    struct Node {
        link: AtomicPtr<Node>,
        value: usize,
    }
    // SAFETY: one field.
    unsafe impl Chained for Node {
        fn next(&self) -> &AtomicPtr<Node> {
            &self.link
        }
    }
    // SAFETY: plain data.
    unsafe impl Send for Node {}

    fn push(list: &Submissions<Node>, value: usize) {
        let node = Box::new(Node { link: AtomicPtr::default(), value });
        // SAFETY: freshly boxed, freed by the taker.
        unsafe { list.push(NonNull::from(Box::leak(node))) };
    }

    /// What the lock protects: it takes everything from the list.
    struct Holder {
        list: Arc<Submissions<Node>>,
        sum: usize,
        last: usize,
    }

    impl Delegated for Holder {
        fn run_delegated(&mut self, _: u64) {
            for node in self.list.take() {
                // SAFETY: boxed by `push`, yielded once.
                let node = unsafe { Box::from_raw(node.as_ptr()) };
                if node.value >= 10 {
                    assert!(self.last < node.value, "one thread's order was lost");
                    self.last = node.value;
                }
                self.sum += node.value;
            }
        }
    }

    /// What the engine counts.
    struct Counter {
        list: Arc<Submissions<Node>>,
        outstanding: Arc<loom::sync::atomic::AtomicUsize>,
    }

    impl Delegated for Counter {
        fn run_delegated(&mut self, _: u64) {
            for node in self.list.take() {
                // SAFETY: boxed by `push`, yielded once.
                drop(unsafe { Box::from_raw(node.as_ptr()) });
                self.outstanding.fetch_add(1, Ordering::Relaxed);
            }
            self.list.arrived();
        }
    }

    /// A submitter that is about to sleep finds its request pending, wherever it is.
    #[test]
    fn what_was_submitted_shows_as_pending() {
        loom::model(|| {
            let list = Arc::new(Submissions::new());
            let outstanding = Arc::new(loom::sync::atomic::AtomicUsize::new(0));
            let counter = Counter { list: list.clone(), outstanding: outstanding.clone() };
            let lock = Arc::new(DelegationLock::new(counter));
            let holder = {
                let lock = lock.clone();
                loom::thread::spawn(move || {
                    if let Some(mut held) = lock.try_lock() {
                        held.run_delegated(1);
                    }
                })
            };
            push(&list, 1);
            lock.delegate(1);
            assert!(list.is_pending() || outstanding.load(Ordering::Relaxed) > 0);
            holder.join().unwrap();
        });
    }

    /// Submitters delegate to the holder of the engine's lock: nothing is stranded, each keeps its order.
    #[test]
    fn nothing_is_stranded_and_order_is_kept() {
        loom::model(|| {
            let list = Arc::new(Submissions::new());
            let lock =
                Arc::new(DelegationLock::new(Holder { list: list.clone(), sum: 0, last: 0 }));
            let other = {
                let (list, lock) = (list.clone(), lock.clone());
                loom::thread::spawn(move || {
                    for value in [10, 20] {
                        push(&list, value);
                        lock.delegate(1);
                    }
                })
            };
            // As the engine's fast path: inline when the lock is free, else the list.
            match lock.try_lock() {
                Some(mut holder) => {
                    holder.run_delegated(1);
                    holder.sum += 1;
                }
                None => {
                    push(&list, 1);
                    lock.delegate(1);
                }
            }
            other.join().unwrap();
            assert!(list.is_empty());
            assert_eq!(lock.try_lock().unwrap().sum, 31);
        });
    }
}
