//! Conditions (annex A.2 of the thesis): a set of bits that progress code sets and any number of threads wait
//! for. They decouple the application's requests from the network's: one message may be many packets, one
//! packet many messages.
//!
//! The waiters' list is protected by a [`HandoverLock`]: a signaller that finds it taken (it may have
//! interrupted the holder) leaves a *rescan* with the holder, so no wake-up is lost and nobody waits for
//! anybody.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Instant;

use crate::completion::Completion;
use crate::handover::{Handover, HandoverLock};

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
    pub fn wait(&self, manager: &crate::Manager, mask: u64) {
        self.wait_on(mask, |done| {
            manager.wait(done, crate::Hint::Short);
            true
        });
    }

    /// As [`Cond::wait`], until `deadline` at the latest; false after a time-out.
    pub fn wait_until(&self, manager: &crate::Manager, mask: u64, deadline: Instant) -> bool {
        self.wait_on(mask, |done| manager.wait_until(done, crate::Hint::Short, deadline))
    }

    fn wait_on(&self, mask: u64, wait: impl FnOnce(&Completion) -> bool) -> bool {
        if self.test(mask) {
            return true;
        }
        let mut node = Node { mask, next: null_mut(), done: Completion::new() };
        self.with_list(|list| {
            node.next = list.head;
            list.head = &raw mut node;
            list.work(RESCAN); // the bit may have come since the test
        });
        if wait(&node.done) {
            return true;
        }
        let mut left = false;
        self.with_list(|list| {
            let mut link: *mut *mut Node = &mut list.head;
            // SAFETY: see `Waiters`.
            unsafe {
                while let Some(other) = (*link).as_mut() {
                    if std::ptr::eq(other, &raw const node) {
                        *link = node.next;
                        left = true;
                        break;
                    }
                    link = &mut other.next;
                }
            }
        });
        !left
    }

    /// A holder only scans the list, so it is gone in a moment.
    fn with_list(&self, f: impl FnOnce(&mut Waiters)) {
        loop {
            if let Some(mut list) = self.waiters.try_lock() {
                return f(&mut list);
            }
            std::thread::yield_now();
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
