//! Whether a descriptor may be ready: a count of the kernel's events for each direction, and the waiters for the next
//! one.
//!
//! There is no *ready* bit that a thread would have to clear. A thread remembers the count, tries its call, and when
//! the kernel says "not now" it waits until the count is another one:
//!
//! ```text
//!   thread:  seen = count;  read() says EAGAIN;  wait until count ≠ seen;  again
//!   poller:  an event comes:  count += 1;  wake all waiters
//! ```
//!
//! The descriptor is in the kernel's set *edge-triggered*: each change after `seen` was read gives an event, that event
//! another count, so nothing is lost between the call and the wait, and no event needs to be put back. (A bit that
//! readers clear needs the same count beside it, or else the thread that clears it loses what came meanwhile.)
//!
//! Several threads may wait, in both directions. All of them are woken, since the one that is chosen might just be
//! giving up; those that find nothing left wait again.
//!
//! The word also holds the *generation* of its place. Descriptors come and go, and an event that was on its way when
//! its descriptor went does not count for the next one. Were it to: a thread would try its call in vain, no more.

use std::ptr::NonNull;

use crate::completion::node::Node;
use crate::completion::one_shot::Completion;
use crate::completion::queue::{Queue, locked};
use crate::completion::waitable::Enlist;
use crate::shim::{AtomicU64, Ordering::*};
use crate::sync::delegation::{Delegated, DelegationLock};

const COUNT: u64 = u32::MAX as u64;

/// The only thing that is ever left with a holder of the list.
const WAKE: u64 = 1;

/// One direction of a descriptor.
pub(crate) struct Readiness {
    /// Generation of the place in the upper half, count of events in the lower.
    word: AtomicU64,
    waiters: DelegationLock<Waiters>,
}

struct Waiters(Queue);

impl Delegated for Waiters {
    /// Wakes all waiters.
    fn run_delegated(&mut self, _: u64) {
        while let Some(node) = self.0.pop_front() {
            // SAFETY: just taken out. Nothing is to come after: the waiters are threads.
            unsafe { Node::fire(node.as_ptr()) };
        }
    }
}

impl Default for Readiness {
    fn default() -> Self {
        let waiters = DelegationLock::new(Waiters(Queue::new()));
        Readiness { word: AtomicU64::new(0), waiters }
    }
}

impl Readiness {
    /// What to wait for a change of.
    #[inline]
    pub(crate) fn seen(&self) -> u64 {
        self.word.load(SeqCst)
    }

    /// What [`Readiness::seen`] was before the first event of this generation.
    pub(crate) fn fresh(&self) -> u64 {
        self.seen() & !COUNT
    }

    pub(crate) fn generation(&self) -> u32 {
        (self.seen() >> 32) as u32
    }

    /// The place becomes another descriptor's. There is no waiter.
    pub(crate) fn renew(&self) {
        let next = |word: u64| Some(((word >> 32) + 1) << 32);
        let _always = self.word.fetch_update(SeqCst, SeqCst, next);
    }

    /// The kernel has reported an event. Progress path; false if it was meant for a descriptor that has gone.
    pub(crate) fn note(&self, generation: u32) -> bool {
        let mut word = self.seen();
        loop {
            if (word >> 32) as u32 != generation {
                return false;
            }
            let next = word & !COUNT | word.wrapping_add(1) & COUNT;
            match self.word.compare_exchange(word, next, SeqCst, SeqCst) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        self.waiters.delegate(WAKE);
        true
    }

    /// Waits with `sleep` until an event has come since `seen` was read; false if `sleep` has given up.
    pub(crate) fn wait(&self, seen: u64, sleep: impl FnOnce(&Completion) -> bool) -> bool {
        Change { of: self, seen }.wait_enlisted(sleep)
    }
}

/// An event since `seen` was read.
struct Change<'a> {
    of: &'a Readiness,
    seen: u64,
}

impl Enlist for Change<'_> {
    unsafe fn enlist(&self, node: NonNull<Node>) -> bool {
        locked(&self.of.waiters, |waiters| {
            // Under the lock: a poller that counts after this look finds the node.
            let wait = self.of.seen() == self.seen;
            if wait {
                // SAFETY: the caller's promise.
                unsafe { waiters.0.push_back(node) };
            }
            wait
        })
    }

    fn leave(&self, node: &Node) -> bool {
        // SAFETY: a node that was enlisted here is in no other list.
        locked(&self.of.waiters, |waiters| unsafe { waiters.0.remove(node) })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_a_former_generation_does_not_count() {
        let readiness = Readiness::default();
        let before = readiness.generation();
        assert!(readiness.note(before));
        readiness.renew();
        let seen = readiness.seen();
        assert!(!readiness.note(before));
        assert_eq!(readiness.seen(), seen);
        assert!(readiness.note(readiness.generation()));
        assert_ne!(readiness.seen(), seen);
        assert_eq!(readiness.fresh(), seen);
    }

    #[test]
    fn the_count_goes_round_within_its_generation() {
        let readiness = Readiness::default();
        readiness.word.store(7 << 32 | COUNT, SeqCst);
        assert!(readiness.note(7));
        assert_eq!(readiness.seen(), 7 << 32);
    }

    #[test]
    fn who_gives_up_leaves_the_list() {
        let readiness = Readiness::default();
        assert!(!readiness.wait(readiness.seen(), |_| false));
        assert!(readiness.waiters.lock().0.is_empty());
        assert!(readiness.wait(readiness.seen() + 1, |_| unreachable!("an event has come since")));
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    /// A descriptor, as far as its two ends can know: how much can be read, and an event for each change.
    struct Pipe {
        bytes: AtomicUsize,
        reads: Readiness,
        writes: Readiness,
    }

    impl Pipe {
        fn new() -> Arc<Pipe> {
            let (reads, writes) = (Readiness::default(), Readiness::default());
            Arc::new(Pipe { bytes: AtomicUsize::new(0), reads, writes })
        }

        /// What the kernel and then a poller do.
        fn arrive(&self) {
            self.bytes.fetch_add(1, SeqCst);
            self.reads.note(0);
        }

        /// System calls are read-modify-writes of the kernel's state.
        fn take(&self) -> bool {
            loop {
                let n = self.bytes.fetch_add(0, SeqCst);
                if n == 0 {
                    return false;
                }
                if self.bytes.compare_exchange(n, n - 1, SeqCst, SeqCst).is_ok() {
                    return true;
                }
            }
        }

        fn read(&self) {
            loop {
                let seen = self.reads.seen();
                if self.take() {
                    return;
                }
                sleep(&self.reads, seen);
            }
        }

        /// A read that gives up as soon as it would sleep.
        fn glance(&self) -> bool {
            let seen = self.reads.seen();
            self.take()
                || self.reads.wait(seen, |done| {
                    done.latch().register() && !done.latch().unregister() || done.is_done()
                }) && self.take()
        }
    }

    fn sleep(readiness: &Readiness, seen: u64) {
        readiness.wait(seen, |done| {
            done.latch().wait("a model");
            true
        });
    }

    /// Runs each in a thread. Loom reports a deadlock if a waiter is not woken.
    fn run(bodies: &[fn(&Pipe)]) {
        let pipe = Pipe::new();
        let start = |body: &fn(&Pipe)| {
            let (pipe, body) = (pipe.clone(), *body);
            thread::spawn(move || body(&pipe))
        };
        let threads: Vec<_> = bodies.iter().map(start).collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
    }

    #[test]
    fn two_readers_get_what_two_events_bring() {
        loom::model(|| {
            run(&[Pipe::read, Pipe::read, |pipe| {
                pipe.arrive();
                pipe.arrive();
            }]);
        });
    }

    #[test]
    fn a_reader_and_a_writer_do_not_disturb_each_other() {
        loom::model(|| {
            run(&[
                Pipe::read,
                |pipe| sleep(&pipe.writes, pipe.writes.fresh()),
                |pipe| {
                    pipe.writes.note(0);
                    pipe.arrive();
                },
            ]);
        });
    }

    /// Two pollers bring two events; a waiter that gives up does not take the other's.
    #[test]
    fn who_gives_up_takes_nobody_s_event() {
        loom::model(|| {
            let pipe = Pipe::new();
            let (a, b) = (pipe.clone(), pipe.clone());
            let poller = thread::spawn(move || a.arrive());
            let giver_up = thread::spawn(move || b.glance());
            if giver_up.join().unwrap() {
                pipe.arrive();
            }
            pipe.read();
            poller.join().unwrap();
            assert!(pipe.reads.waiters.lock().0.is_empty());
        });
    }

    /// The descriptor goes while its event is on its way, and another takes the place.
    #[test]
    fn an_event_on_its_way_does_not_count_for_the_next_generation() {
        loom::model(|| {
            let readiness = Arc::new(Readiness::default());
            let late = readiness.clone();
            let poller = thread::spawn(move || late.note(0));
            readiness.renew();
            let fresh = readiness.seen();
            let _counted = poller.join().unwrap();
            assert_eq!(readiness.seen(), fresh);
            assert_eq!(readiness.generation(), 1);
        });
    }
}
