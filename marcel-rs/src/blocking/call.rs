//! Exported calls on their way to a thread: a list through their callers' stacks.

use std::cell::Cell;
use std::ptr::null;

use crate::thread::latch::Latch;

/// One call. Its owner keeps it in place until the latch is set or it is withdrawn.
pub(crate) struct Call {
    /// Links, and whether it is in the queue: under the pool's lock.
    next: Cell<*const Call>,
    before: Cell<*const Call>,
    queued: Cell<bool>,
    /// Makes the call: called once at most, must not unwind, must not set the latch.
    pub(super) run: unsafe fn(*const Call),
    pub(super) done: Latch,
}

// SAFETY: the cells are touched under the pool's lock.
unsafe impl Sync for Call {}

impl Call {
    /// A call that `run` makes, given a pointer to it.
    pub(super) fn new(run: unsafe fn(*const Call)) -> Call {
        Call {
            next: Cell::new(null()),
            before: Cell::new(null()),
            queued: Cell::new(false),
            run,
            done: Latch::new(),
        }
    }
}

/// First in, first out; any call can be taken out. Calls in it are in place.
pub(super) struct Queue {
    head: *const Call,
    tail: *const Call,
    pub(super) len: usize,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue { head: null(), tail: null(), len: 0 }
    }
}

impl Queue {
    /// # Safety
    /// The call stays in place until it is out of the queue again.
    pub(super) unsafe fn push(&mut self, call: &Call) {
        call.before.set(self.tail);
        call.next.set(null());
        call.queued.set(true);
        // SAFETY: in the queue, so in place.
        match unsafe { self.tail.as_ref() } {
            Some(tail) => tail.next.set(call),
            None => self.head = call,
        }
        self.tail = call;
        self.len += 1;
    }

    fn unlink(&mut self, call: &Call) {
        let (before, next) = (call.before.get(), call.next.get());
        // SAFETY: neighbours in the queue are in place.
        match unsafe { before.as_ref() } {
            Some(before) => before.next.set(next),
            None => self.head = next,
        }
        // SAFETY: as above.
        match unsafe { next.as_ref() } {
            Some(next) => next.before.set(before),
            None => self.tail = before,
        }
        call.queued.set(false);
        self.len -= 1;
    }

    /// Takes a call out, unless it is out already; whether it was in.
    pub(super) fn remove(&mut self, call: &Call) -> bool {
        let queued = call.queued.get();
        if queued {
            self.unlink(call);
        }
        queued
    }

    /// The oldest; it is in place until its latch is set, which is the taker's to do.
    pub(super) fn pop(&mut self) -> Option<*const Call> {
        // SAFETY: in the queue, so in place.
        let first = unsafe { self.head.as_ref() }?;
        self.unlink(first);
        Some(first)
    }
}
