//! Lists of immortal objects, such as control blocks of threads. An object is in one of them at a time.

use std::ptr::{NonNull, null_mut};
use std::sync::atomic::Ordering::*;

use crate::os::{AtomicPtr, const_unless_modelled};

/// What these lists link.
///
/// # Safety
/// [`Chained::next`] answers the same link at each call, and only a list of this module has it.
pub unsafe trait Chained: Sized {
    /// The link of the list that holds the object.
    fn next(&self) -> &AtomicPtr<Self>;
}

/// First in, first out, for one owner.
pub(crate) struct RunQueue<T: Chained + 'static> {
    head: Option<&'static T>,
    tail: Option<&'static T>,
    len: usize,
}

impl<T: Chained + 'static> Default for RunQueue<T> {
    fn default() -> Self {
        RunQueue { head: None, tail: None, len: 0 }
    }
}

impl<T: Chained + 'static> RunQueue<T> {
    #[inline]
    pub(crate) fn push(&mut self, object: &'static T) {
        object.next().store(null_mut(), Relaxed);
        match self.tail {
            Some(tail) => tail.next().store(object as *const T as *mut T, Relaxed),
            None => self.head = Some(object),
        }
        self.tail = Some(object);
        self.len += 1;
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<&'static T> {
        let first = self.head?;
        // SAFETY: links point to immortal objects or are null.
        self.head = unsafe { first.next().load(Relaxed).as_ref() };
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

    /// Takes out the first object that `wanted` finds among the first `most`. The others keep their order.
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
            let next = unsafe { here.next().load(Relaxed).as_ref() };
            if wanted(here) {
                match before {
                    Some(before) => before.next().store(here.next().load(Relaxed), Relaxed),
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

/// What any thread may add to, and one consumer takes whole: [`RawInbox`] for immortal objects.
pub struct Inbox<T: Chained + 'static>(RawInbox<T>);

impl<T: Chained + 'static> Default for Inbox<T> {
    fn default() -> Self {
        Inbox(RawInbox::default())
    }
}

impl<T: Chained + 'static> Inbox<T> {
    /// Adds an object, which is in no list.
    ///
    /// # Context
    /// Anywhere, signal handlers included.
    #[inline]
    pub fn push(&self, object: &'static T) {
        // SAFETY: an immortal object stays in place.
        unsafe { self.0.push(NonNull::from(object)) };
    }

    /// Whether there is nothing to take.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Gives everything to `put`, oldest first.
    #[inline]
    pub fn drain(&self, mut put: impl FnMut(&'static T)) {
        // SAFETY: every object was pushed as a `&'static T`.
        self.0.drain(|object| put(unsafe { object.as_ref() }));
    }
}

impl<T: Chained + 'static> std::fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Inbox")
    }
}

/// What any thread may add to, and one consumer takes whole.
///
/// A Treiber stack. The consumer takes all of it, so there is no ABA, and no thread waits for another.
pub struct RawInbox<T: Chained> {
    top: AtomicPtr<T>,
}

impl<T: Chained> Default for RawInbox<T> {
    fn default() -> Self {
        RawInbox::new()
    }
}

impl<T: Chained> RawInbox<T> {
    const_unless_modelled! {
        /// An empty one.
        pub fn new() -> Self {
            RawInbox { top: AtomicPtr::new(null_mut()) }
        }
    }

    /// Adds an object.
    ///
    /// # Context
    /// Anywhere, signal handlers included.
    ///
    /// # Safety
    /// The object is in no list, and stays alive and in place until the consumer has taken it.
    #[inline]
    pub unsafe fn push(&self, object: NonNull<T>) {
        let mut top = self.top.load(Relaxed);
        loop {
            // SAFETY: the caller's object.
            unsafe { object.as_ref() }.next().store(top, Relaxed);
            match self.top.compare_exchange_weak(top, object.as_ptr(), SeqCst, Relaxed) {
                Ok(_) => return,
                Err(seen) => top = seen,
            }
        }
    }

    /// Whether there is nothing to take.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.top.load(SeqCst).is_null()
    }

    /// Gives everything to `put`, oldest first; `put` may end an object's life.
    #[inline]
    pub fn drain(&self, put: impl FnMut(NonNull<T>)) {
        self.take().for_each(put);
    }

    /// Takes everything, oldest first.
    #[inline]
    pub fn take(&self) -> InboxItems<T> {
        if self.top.load(Relaxed).is_null() {
            return InboxItems(null_mut());
        }
        let mut newest = self.top.swap(null_mut(), AcqRel);
        let mut oldest: *mut T = null_mut();
        while let Some(object) = NonNull::new(newest) {
            // SAFETY: objects stay until they are taken; the chain is ours since the swap.
            let link = unsafe { object.as_ref() }.next();
            newest = link.load(Relaxed);
            link.store(oldest, Relaxed);
            oldest = object.as_ptr();
        }
        InboxItems(oldest)
    }
}

/// Objects that were taken from a [`RawInbox`]. The life of each may end as soon as it has been yielded.
#[derive(Debug)]
pub struct InboxItems<T: Chained>(*mut T);

impl<T: Chained> Iterator for InboxItems<T> {
    type Item = NonNull<T>;

    #[inline]
    fn next(&mut self) -> Option<NonNull<T>> {
        let oldest = NonNull::new(self.0)?;
        // SAFETY: objects stay until they are yielded, and the chain is this iterator's.
        self.0 = unsafe { oldest.as_ref() }.next().load(Relaxed);
        Some(oldest)
    }
}

impl<T: Chained> std::fmt::Debug for RawInbox<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RawInbox")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Node(AtomicPtr<Node>);
    // SAFETY: a field that nothing else touches.
    unsafe impl Chained for Node {
        fn next(&self) -> &AtomicPtr<Node> {
            &self.0
        }
    }

    fn node() -> &'static Node {
        Box::leak(Box::default())
    }

    #[test]
    fn the_inbox_keeps_the_order_and_empties_into_the_queue() {
        let threads: Vec<_> = (0..5).map(|_| node()).collect();
        let (inbox, mut queue): (Inbox<Node>, RunQueue<Node>) = Default::default();
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
            let threads: Vec<_> = (0..4).map(|_| node()).collect();
            let mut queue: RunQueue<Node> = RunQueue::default();
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
        let mut queue: RunQueue<Node> = RunQueue::default();
        (0..3).for_each(|_| queue.push(node()));
        let mut seen = 0;
        let found = queue.remove(2, |_| {
            seen += 1;
            false
        });
        assert!(found.is_none() && seen == 2);
    }

    #[test]
    fn concurrent_pushes_all_arrive() {
        let inbox: Inbox<Node> = Inbox::default();
        let mut queue: RunQueue<Node> = RunQueue::default();
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..1000).for_each(|_| inbox.push(node())));
            }
            while queue.len() < 4000 {
                inbox.drain(|t| queue.push(t));
            }
        });
    }
}
