//! Threads that wait on one primitive: an intrusive list under a tiny lock.
//!
//! A waiter's node lives on its stack, and leaves the list when that is unwound. Whoever takes it off the list marks it *woken* as its last touch, then
//! unparks the thread through its control block, which is immortal. The lock is held for a few instructions
//! and never by a signal handler; a thread that finds it taken spins briefly, then lets the kernel run the
//! holder.

use std::cell::{Cell, UnsafeCell};
use std::ptr::null;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::Instant;

use crate::thread::tcb::{self, Tcb};

/// One waiting thread.
struct Node {
    tcb: &'static Tcb,
    next: Cell<*const Node>,
    woken: AtomicBool,
}

struct List {
    head: *const Node,
    tail: *const Node,
}

/// The list, and a value that the same lock protects.
pub(super) struct WaitList<S> {
    locked: AtomicBool,
    inner: UnsafeCell<(List, S)>,
}

// SAFETY: `inner` is touched with `locked` held; nodes are touched with it held or by their own thread.
unsafe impl<S: Send> Sync for WaitList<S> {}
// SAFETY: as above; a list that moves has no waiters, since they borrow it.
unsafe impl<S: Send> Send for WaitList<S> {}

/// A node that is in the list, or was: dropped when its thread's stack is unwound while it waits.
struct Listed<'a, S> {
    list: &'a WaitList<S>,
    node: &'a Node,
    pass_on: fn(&WaitList<S>),
}

impl<S> Drop for Listed<'_, S> {
    fn drop(&mut self) {
        if !self.list.with(|list, _| list.remove(self.node)) {
            (self.pass_on)(self.list);
        }
    }
}

impl<S> WaitList<S> {
    pub(super) const fn new(state: S) -> Self {
        WaitList {
            locked: AtomicBool::new(false),
            inner: UnsafeCell::new((List { head: null(), tail: null() }, state)),
        }
    }

    fn with<R>(&self, f: impl FnOnce(&mut List, &mut S) -> R) -> R {
        let mut spins = 0;
        while self.locked.swap(true, Acquire) {
            spins += 1;
            if spins < 64 {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        // SAFETY: the lock is ours.
        let (list, state) = unsafe { &mut *self.inner.get() };
        let result = f(list, state);
        self.locked.store(false, Release);
        result
    }

    /// Looks at the state under the lock.
    pub(super) fn update<R>(&self, f: impl FnOnce(&mut S) -> R) -> R {
        self.with(|_, state| f(state))
    }

    /// Unless `ready` finds that there is nothing to wait for: joins the list, runs `joined`, and sleeps
    /// until woken or `deadline`. False after a time-out. If the thread is unwound instead, because its runtime
    /// stops, and had been woken, `pass_on` gives what it was woken for to the next.
    pub(super) fn wait(
        &self,
        reason: &'static str,
        deadline: Option<Instant>,
        ready: impl FnOnce(&mut S) -> bool,
        joined: impl FnOnce(),
        pass_on: fn(&Self),
    ) -> bool {
        let node =
            Node { tcb: tcb::current(), next: Cell::new(null()), woken: AtomicBool::new(false) };
        let wait = self.with(|list, state| {
            let wait = !ready(state);
            if wait {
                list.push(&node);
            }
            wait
        });
        if !wait {
            return true;
        }
        let listed = Listed { list: self, node: &node, pass_on };
        joined();
        while !node.woken.load(Acquire) {
            if deadline.is_some_and(|d| Instant::now() >= d) || crate::is_stopping() {
                let left = self.with(|list, _| list.remove(&node));
                if left {
                    std::mem::forget(listed);
                    return false;
                }
                continue; // somebody took the node: `woken` follows at once
            }
            tcb::park_until(reason, deadline);
        }
        std::mem::forget(listed);
        true
    }

    /// Wakes the first waiter, after `f` has seen the state and whether there is one.
    pub(super) fn wake_one<R>(&self, f: impl FnOnce(&mut S, bool) -> R) -> R {
        let (result, tcb) = self.with(|list, state| {
            let node = list.pop();
            (f(state, node.is_some()), node)
        });
        if let Some(tcb) = tcb {
            tcb.unpark();
        }
        result
    }

    /// Wakes every waiter that is in the list now; how many.
    pub(super) fn wake_all(&self) -> usize {
        // One at a time, so that the lock is held shortly; those that join meanwhile come after `last`.
        let mut woken = 0;
        let waiting = self.with(|list, _| list.len());
        while woken < waiting {
            let Some(tcb) = self.with(|list, _| list.pop()) else { break };
            tcb.unpark();
            woken += 1;
        }
        woken
    }
}

impl List {
    fn push(&mut self, node: &Node) {
        // SAFETY: nodes in the list are alive: their threads wait until they are out of it.
        match unsafe { self.tail.as_ref() } {
            Some(tail) => tail.next.set(node),
            None => self.head = node,
        }
        self.tail = node;
    }

    /// Takes the first node off and marks it woken; its thread is to be unparked.
    fn pop(&mut self) -> Option<&'static Tcb> {
        // SAFETY: as in `push`.
        let node = unsafe { self.head.as_ref() }?;
        self.head = node.next.get();
        if self.head.is_null() {
            self.tail = null();
        }
        let tcb = node.tcb;
        node.woken.store(true, Release); // the last touch
        Some(tcb)
    }

    fn remove(&mut self, node: &Node) -> bool {
        let mut before: Option<&Node> = None;
        let mut at = self.head;
        // SAFETY: as in `push`.
        while let Some(here) = unsafe { at.as_ref() } {
            if std::ptr::eq(here, node) {
                match before {
                    Some(before) => before.next.set(node.next.get()),
                    None => self.head = node.next.get(),
                }
                if std::ptr::eq(self.tail, node) {
                    self.tail = before.map_or(null(), |b| b as *const Node);
                }
                return true;
            }
            before = Some(here);
            at = here.next.get();
        }
        false
    }

    fn len(&self) -> usize {
        let (mut n, mut at) = (0, self.head);
        // SAFETY: as in `push`.
        while let Some(node) = unsafe { at.as_ref() } {
            n += 1;
            at = node.next.get();
        }
        n
    }
}
