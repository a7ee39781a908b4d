//! Conditions (annex A.2 of the thesis): a set of bits that progress code sets and any number of threads wait
//! for. They decouple the application's requests from the network's: one message may be many packets, one
//! packet many messages.
//!
//! The waiters' list is protected by a [`HandoverLock`]: a signaller that finds it taken (it may have
//! interrupted the holder) leaves a *rescan* with the holder, so no wake-up is lost and nobody waits for
//! anybody.

use std::ptr::null_mut;
#[cfg(not(loom))]
use std::time::Instant;

use crate::shim::{self, AtomicU64, Ordering::*};
use crate::sync::completion::Completion;
use crate::sync::handover::{Handover, HandoverLock};

/// Bits that threads wait for.
pub struct Cond {
    bits: std::sync::Arc<AtomicU64>,
    waiters: HandoverLock<Waiters>,
}

const RESCAN: u64 = 1;

/// A waiting thread's node; on its stack.
struct Node {
    mask: u64,
    next: *mut Node,
    done: Completion,
}

struct Waiters {
    bits: std::sync::Arc<AtomicU64>,
    head: *mut Node,
}

// SAFETY: nodes are touched under the lock; each outlives its time in the list, since its thread waits.
unsafe impl Send for Waiters {}

impl Handover for Waiters {
    /// Wakes every waiter whose bits are set.
    fn work(&mut self, _: u64) {
        let bits = self.bits.load(SeqCst);
        let mut link: *mut *mut Node = &mut self.head;
        // SAFETY: see `Send`; `complete` is the last touch of a node, which is out of the list by then.
        unsafe {
            while let Some(node) = (*link).as_mut() {
                if node.mask & bits != 0 {
                    *link = node.next;
                    node.done.complete();
                } else {
                    link = &mut node.next;
                }
            }
        }
    }
}

/// A node that may be in the list. It leaves when this is dropped: a wait also ends by the unwinding of a
/// runtime that stops.
struct Listed<'a> {
    cond: &'a Cond,
    node: *mut Node,
}

impl Listed<'_> {
    /// Takes the node off; false if it has been completed instead.
    fn leave(&self) -> bool {
        let mut left = false;
        self.cond.with_list(|list| {
            let mut link: *mut *mut Node = &mut list.head;
            // SAFETY: see `Waiters`.
            unsafe {
                while let Some(other) = (*link).as_mut() {
                    if std::ptr::eq(other, self.node) {
                        *link = other.next;
                        left = true;
                        break;
                    }
                    link = &mut other.next;
                }
            }
        });
        left
    }
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Cond {
    /// No bit set, nobody waits.
    pub fn new() -> Cond {
        let bits = std::sync::Arc::new(AtomicU64::new(0));
        Cond { waiters: HandoverLock::new(Waiters { bits: bits.clone(), head: null_mut() }), bits }
    }

    /// Sets bits and wakes those who wait for any of them.
    ///
    /// # Context
    /// Anywhere, signal handlers included. # Wakes: every thread that waits for one of the bits.
    pub fn signal(&self, mask: u64) {
        self.bits.fetch_or(mask, SeqCst);
        self.waiters.leave(RESCAN);
    }

    /// Clears bits.
    pub fn clear(&self, mask: u64) {
        self.bits.fetch_and(!mask, SeqCst);
    }

    /// Whether any of the bits is set.
    pub fn test(&self, mask: u64) -> bool {
        self.bits.load(SeqCst) & mask != 0
    }

    /// Waits until one of the bits is set.
    ///
    /// # Context
    /// Green and kernel threads; not the progress path. # Blocking: as [`crate::Manager::wait`].
    #[cfg(not(loom))]
    pub fn wait(&self, manager: &crate::Manager, mask: u64) {
        self.wait_on(mask, |done| {
            manager.wait(done, crate::Hint::Short);
            true
        });
    }

    /// As [`Cond::wait`], until `deadline` at the latest; false after a time-out.
    #[cfg(not(loom))]
    pub fn wait_until(&self, manager: &crate::Manager, mask: u64, deadline: Instant) -> bool {
        self.wait_on(mask, |done| manager.wait_until(done, crate::Hint::Short, deadline))
    }

    fn wait_on(&self, mask: u64, wait: impl FnOnce(&Completion) -> bool) -> bool {
        if self.test(mask) {
            return true;
        }
        let mut node = Node { mask, next: null_mut(), done: Completion::new() };
        let listed = Listed { cond: self, node: &raw mut node };
        self.with_list(|list| {
            // SAFETY: the node lives until `listed` has gone; the list's lock is held.
            unsafe { (*listed.node).next = list.head };
            list.head = listed.node;
            list.work(RESCAN); // the bit may have come since the test
        });
        // SAFETY: as above; others only complete it.
        if wait(unsafe { &(*listed.node).done }) {
            std::mem::forget(listed); // completed, so taken off the list
            return true;
        }
        let left = listed.leave();
        std::mem::forget(listed);
        !left
    }

    /// A holder only scans the list, so it is gone in a moment.
    fn with_list(&self, f: impl FnOnce(&mut Waiters)) {
        loop {
            if let Some(mut list) = self.waiters.try_lock() {
                return f(&mut list);
            }
            shim::yield_now();
        }
    }
}

impl Default for Cond {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Cond {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cond({:#x})", self.bits.load(Relaxed))
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    fn wait(cond: &Cond, mask: u64) {
        cond.wait_on(mask, |done| {
            done.latch().wait("a model");
            true
        });
        assert!(cond.test(mask));
    }

    /// A wait that gives up at once.
    fn glance(cond: &Cond, mask: u64) -> bool {
        cond.wait_on(mask, |done| {
            done.latch().register() && !done.latch().unregister() || done.is_done()
        })
    }

    /// Loom reports a deadlock if somebody is not woken.
    #[test]
    fn a_signal_reaches_two_waiters() {
        loom::model(|| {
            let cond = Arc::new(Cond::new());
            let others: Vec<_> = [false, true]
                .into_iter()
                .map(|signals| {
                    let cond = cond.clone();
                    thread::spawn(move || if signals { cond.signal(1) } else { wait(&cond, 1) })
                })
                .collect();
            wait(&cond, 1);
            others.into_iter().for_each(|t| t.join().unwrap());
        });
    }

    /// The second signaller finds the list taken by the first, or by the waiter.
    #[test]
    fn two_signallers_and_a_waiter_for_each_bit() {
        loom::model(|| {
            let cond = Arc::new(Cond::new());
            let others: Vec<_> = [1, 2]
                .into_iter()
                .map(|bit| {
                    let cond = cond.clone();
                    thread::spawn(move || cond.signal(bit))
                })
                .collect();
            wait(&cond, 2);
            wait(&cond, 1);
            others.into_iter().for_each(|t| t.join().unwrap());
        });
    }

    #[test]
    fn who_gives_up_leaves_the_list_in_order() {
        loom::model(|| {
            let cond = Arc::new(Cond::new());
            let (signaller, other) = (cond.clone(), cond.clone());
            let signaller = thread::spawn(move || signaller.signal(1));
            let other = thread::spawn(move || wait(&other, 1));
            if glance(&cond, 1) {
                assert!(cond.test(1));
            }
            signaller.join().unwrap();
            other.join().unwrap();
            assert!(glance(&cond, 1) && !glance(&cond, 2));
            assert!(cond.waiters.try_lock().unwrap().head.is_null());
        });
    }
}
