//! A first-in first-out list threaded through the requests themselves: the engine's queues never allocate.

use crate::request::{Place, Ref};

/// See the module. A request is in at most one queue at a time; its `place` says in which kind.
#[derive(Default)]
pub(crate) struct Queue {
    head: Option<Ref>,
    tail: Option<Ref>,
}

impl Queue {
    /// The oldest.
    #[inline]
    pub(crate) fn front(&self) -> Option<Ref> {
        self.head
    }

    /// The oldest that `which` points at.
    #[inline]
    pub(crate) fn find(&self, mut which: impl FnMut(Ref) -> bool) -> Option<Ref> {
        let mut at = self.head;
        while let Some(request) = at {
            if which(request) {
                break;
            }
            at = request.next.get();
        }
        at
    }

    /// All of them, the oldest first. The one that was given last may be taken out meanwhile.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Ref> + use<> {
        core::iter::successors(self.head, |request| request.next.get())
    }

    /// Whether one request is queued, and no other.
    #[inline]
    pub(crate) fn has_one(&self) -> bool {
        self.head.is_some() && self.head == self.tail
    }

    /// Whether nothing is queued.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    /// Adds a request at the end.
    #[inline]
    pub(crate) fn push(&mut self, request: Ref, place: Place) {
        debug_assert_eq!(request.place.get(), Place::Nowhere);
        request.place.set(place);
        request.next.set(None);
        request.prev.set(self.tail);
        match self.tail {
            Some(tail) => tail.next.set(Some(request)),
            None => self.head = Some(request),
        }
        self.tail = Some(request);
    }

    /// Adds a request before all others.
    #[inline]
    pub(crate) fn push_front(&mut self, request: Ref, place: Place) {
        debug_assert_eq!(request.place.get(), Place::Nowhere);
        request.place.set(place);
        request.prev.set(None);
        request.next.set(self.head);
        match self.head {
            Some(head) => head.prev.set(Some(request)),
            None => self.tail = Some(request),
        }
        self.head = Some(request);
    }

    /// Takes out a request that is in this queue.
    #[inline]
    pub(crate) fn remove(&mut self, request: Ref) {
        let (prev, next) = (request.prev.take(), request.next.take());
        match prev {
            Some(prev) => prev.next.set(next),
            None => self.head = next,
        }
        match next {
            Some(next) => next.prev.set(prev),
            None => self.tail = prev,
        }
        request.place.set(Place::Nowhere);
    }

    /// Takes out the oldest.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Ref> {
        let head = self.head?;
        self.remove(head);
        Some(head)
    }
}
