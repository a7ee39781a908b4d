//! Conditions (\[Trahay09\], annex A.2): a set of bits that progress code sets and any number of threads wait
//! for. They decouple the application's requests from the network's: one message may be many packets, one
//! packet many messages.
//!
//! The waiters' list is protected by a [`DelegationLock`]: a signaller that finds it taken (it may have
//! interrupted the holder) leaves a *rescan* with the holder, so no wake-up is lost and no thread waits
//! for another one.
//!
//! The bits may be cleared before the holder rescans. So the thread that clears bits leaves those that were set as
//! *pulses*, and a rescan after them: they still wake waiters for any of them. The rescan has taken the pulses when
//! [`Cond::clear`] returns, or before another thread gets the lock: no later wait finds them.
//!
//! Rejected: pulses that the signaller leaves. A waiter that has seen the bit, cleared it and waits again would be woken
//! twice by one signal, if the signaller was held up in between.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::completion::node::Node;
use crate::completion::queue::{Queue, locked};
use crate::completion::wakers;
use crate::shim::{AtomicU64, Ordering::*};
use crate::sync::delegation::{Delegated, DelegationLock};

/// Bits that threads wait for.
pub struct Cond {
    words: Arc<Words>,
    waiters: DelegationLock<Waiters>,
}

/// What is written without the lock.
#[derive(Default)]
struct Words {
    bits: AtomicU64,
    /// Bits that were cleared since the last rescan.
    pulses: AtomicU64,
}

const RESCAN: u64 = 1;

struct Waiters {
    words: Arc<Words>,
    queue: Queue,
}

fn satisfied(bits: u64, mask: u64, all: bool) -> bool {
    if all { bits & mask == mask } else { bits & mask != 0 }
}

impl Delegated for Waiters {
    /// Tells waiters for all of some bits if these are set, and waiters for any if one is set, or was
    /// before it was cleared.
    fn run_delegated(&mut self, _: u64) {
        let pulses = self.words.pulses.swap(0, SeqCst);
        let bits = self.words.bits.load(SeqCst);
        self.queue.take_where(
            |node| match node.all.get() {
                true => satisfied(bits, node.mask.get(), true),
                false => satisfied(bits | pulses, node.mask.get(), false),
            },
            // SAFETY: just taken out. The unlocking thread runs what is to come after (`locked`).
            |node| _ = unsafe { Node::fire(node.as_ptr()) },
        );
    }
}

impl Cond {
    /// No bit set, no waiter.
    pub fn new() -> Cond {
        let words = Arc::<Words>::default();
        let waiters = Waiters { words: words.clone(), queue: Queue::new() };
        Cond { waiters: DelegationLock::new(waiters), words }
    }

    /// Sets bits and wakes those whose wait that ends.
    ///
    /// # Context
    /// Anywhere, the tick's handler included.
    ///
    /// # Wakes
    /// Every thread that waits for any of the bits, also if they are cleared at once; or for all of
    /// some that stay set meanwhile.
    pub fn signal(&self, mask: u64) {
        self.words.bits.fetch_or(mask, SeqCst);
        self.waiters.delegate(RESCAN);
        wakers::settle();
    }

    /// Clears bits. A waiter for all of several bits wants them to be set at the same time.
    ///
    /// # Context
    /// Anywhere, the tick's handler included.
    ///
    /// # Wakes
    /// Threads that a signal was about to wake, which set one of the bits and has not returned yet.
    pub fn clear(&self, mask: u64) {
        let cleared = self.words.bits.fetch_and(!mask, SeqCst) & mask;
        if cleared != 0 {
            self.words.pulses.fetch_or(cleared, SeqCst);
            self.waiters.delegate(RESCAN);
            wakers::settle();
        }
    }

    /// Whether any of the bits is set.
    pub fn test(&self, mask: u64) -> bool {
        self.holds(mask, false)
    }

    /// Whether all of the bits are set.
    pub fn test_all(&self, mask: u64) -> bool {
        self.holds(mask, true)
    }

    pub(crate) fn holds(&self, mask: u64, all: bool) -> bool {
        satisfied(self.words.bits.load(SeqCst), mask, all)
    }

    /// Joins the queue, unless the bits are set (false).
    ///
    /// # Safety
    /// As [`Queue::push_back`].
    pub(crate) unsafe fn enlist(&self, node: NonNull<Node>, mask: u64, all: bool) -> bool {
        locked(&self.waiters, |waiters| {
            if self.holds(mask, all) {
                return false;
            }
            // SAFETY: the caller's promise; a signal from now on leaves a rescan with us.
            unsafe {
                node.as_ref().mask.set(mask);
                node.as_ref().all.set(all);
                waiters.queue.push_back(node);
            }
            true
        })
    }

    /// Leaves the queue; false if it has been fired.
    pub(crate) fn leave(&self, node: &Node) -> bool {
        // SAFETY: a node that was enlisted here is in no other list.
        locked(&self.waiters, |waiters| unsafe { waiters.queue.remove(node) })
    }
}

impl Default for Cond {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Cond {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cond({:#x})", self.words.bits.load(Relaxed))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::shim::{AtomicUsize, yield_now};

    /// The holder of the list's lock stands for a thread that was interrupted, or is held up.
    #[test]
    fn a_signal_wakes_although_its_bits_are_cleared_before_the_list_is_told() {
        let (cond, calls) = (Cond::new(), Arc::new(AtomicUsize::new(0)));
        let count = || {
            let calls = calls.clone();
            move || _ = calls.fetch_add(1, SeqCst)
        };
        let _first = cond.any(0b11).on_ready(count());
        let _other = cond.any(0b100).on_ready(count());
        let held = cond.waiters.lock();
        cond.signal(0b10);
        cond.clear(0b110);
        drop(held);
        wakers::settle();
        while calls.load(SeqCst) == 0 {
            yield_now(); // the library's kernel thread may call it
        }
        assert!(!cond.test(0b111));
        let _second = cond.any(0b11).on_ready(count());
        cond.signal(0b1000);
        assert_eq!(calls.load(SeqCst), 1, "one signal, one call");
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::thread;

    fn wait(cond: &Cond, mask: u64) {
        cond.any(mask).wait_with(|done| {
            done.latch().wait("a model");
            true
        });
        assert!(cond.test(mask));
    }

    /// A wait that gives up at once.
    fn glance(cond: &Cond, mask: u64) -> bool {
        cond.any(mask).wait_with(|done| done.is_done())
    }

    /// Loom reports a deadlock if a waiter is not woken.
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

    /// The signal may find the list taken by the waiter that gives up.
    #[test]
    fn a_signal_that_is_cleared_at_once_wakes_who_waits() {
        loom::model(|| {
            let cond = Arc::new(Cond::new());
            let (signaller, other) = (cond.clone(), cond.clone());
            let woken = Arc::new(loom::sync::Notify::new());
            let wakes = woken.clone();
            let callback = cond.any(1).on_ready(move || wakes.notify());
            let signaller = thread::spawn(move || {
                signaller.signal(1);
                signaller.clear(1);
            });
            let other = thread::spawn(move || _ = glance(&other, 2));
            woken.wait(); // loom reports a deadlock if it is not called
            signaller.join().unwrap();
            other.join().unwrap();
            assert!(!glance(&cond, 1), "one signal, one wake-up");
            drop(callback);
        });
    }

    /// The second signaller finds the list taken by the first, or by the waiter.
    #[test]
    fn two_signallers_and_a_waiter_for_both_bits() {
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
            cond.all(3).wait_with(|done| {
                done.latch().wait("a model");
                true
            });
            assert!(cond.test_all(3));
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
            assert!(cond.waiters.lock().queue.is_empty());
        });
    }
}
