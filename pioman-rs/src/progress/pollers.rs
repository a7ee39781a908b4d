//! How many threads poll each source: while the count is not 0, no thread has to be woken for its events.
//!
//! A poller *joins*. When it stops it *leaves*, then looks for pending sources whose count is 0. A submitter that
//! leaves something pending checks the count as well:
//!
//! ```text
//!   poller                                    submitter
//!   1. leave: count -= 1                      1. something pends
//!   2. (fence)                                2. (fence)
//!   3. does something pend? and count = 0?    3. count = 0?
//!      then arm, set ticks, …                    then arm, set ticks, …
//! ```
//!
//! One of the two fences comes first, so at least one of the two threads sees the other's store. Invariant: a pending
//! source is polled, or a thread has found out that it is not. A change of the method of a pending request needs no
//! more, in either direction: the poller and the submitter never each rely on the other. Modelled below, with a policy
//! that is replaced meanwhile.
//!
//! Rejected: one count for all sources (then a poller of one source has to poll all, and the dear poll of a source that
//! is rarely ready delays the others).

use crate::shim::{AtomicU64, Ordering::*, fence, fence_after_rmw};

/// See the module's description.
pub(crate) struct Pollers<const N: usize>([AtomicU64; N]);

/// The bits of a word that are set.
#[inline]
pub(crate) fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros() as usize;
        word &= word.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}

impl<const N: usize> Pollers<N> {
    pub(crate) fn new() -> Self {
        Pollers(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// The caller polls these sources, from now on.
    #[inline]
    pub(crate) fn join(&self, mask: u64) {
        for slot in bits(mask) {
            self.0[slot].fetch_add(1, SeqCst);
        }
    }

    /// It does not any more. What pends is to be looked at after this: see [`Pollers::unpolled`].
    #[inline]
    pub(crate) fn leave(&self, mask: u64) {
        for slot in bits(mask) {
            self.0[slot].fetch_sub(1, SeqCst);
        }
        fence_after_rmw();
    }

    /// Those of `pending` that no thread polls.
    #[inline]
    pub(crate) fn unpolled(&self, pending: u64) -> u64 {
        fence(SeqCst);
        self.seems_unpolled(pending)
    }

    /// As [`Pollers::unpolled`], where nothing hangs on it.
    #[inline]
    pub(crate) fn seems_unpolled(&self, pending: u64) -> u64 {
        let is_unpolled = |slot: &usize| self.0[*slot].load(Relaxed) == 0;
        bits(pending).filter(is_unpolled).fold(0, |mask, slot| mask | 1 << slot)
    }

    /// Whether each of these, which the caller has joined, seems to be polled by another thread, too.
    #[inline]
    pub(crate) fn seem_polled_by_others(&self, mask: u64) -> bool {
        self.shared(mask) == mask
    }

    /// Those of these, which the caller has joined, that another thread seems to poll, too.
    pub(crate) fn shared(&self, mask: u64) -> u64 {
        let is_shared = |slot: &usize| self.0[*slot].load(Relaxed) > 1;
        bits(mask).filter(is_shared).fold(0, |shared, slot| shared | 1 << slot)
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::shim::AtomicBool;
    use loom::sync::Arc;
    use loom::thread;

    const BLOCK: u64 = 0;
    const POLL: u64 = 1;

    /// One source, what its policy says, and whether a kernel thread sleeps on it.
    struct World {
        pollers: Pollers<1>,
        pending: AtomicBool,
        method: AtomicU64,
        armed: AtomicBool,
        /// A poller has been called (a dedicated kernel thread, an idle virtual processor).
        called: AtomicBool,
    }

    impl World {
        fn new(method: u64) -> Arc<World> {
            Arc::new(World {
                pollers: Pollers::new(),
                pending: AtomicBool::new(false),
                method: AtomicU64::new(method),
                armed: AtomicBool::new(false),
                called: AtomicBool::new(false),
            })
        }

        /// As `Driver::arm`.
        fn cover(&self) {
            if self.pending.load(Relaxed) && self.pollers.unpolled(1) != 0 {
                match self.method.load(Relaxed) {
                    BLOCK => self.armed.store(true, Relaxed),
                    _ => self.called.store(true, Relaxed),
                }
            }
        }

        fn submit(&self) {
            self.pending.store(true, Relaxed);
            self.cover();
        }

        fn switch_to(&self, method: u64) {
            self.method.store(method, Relaxed);
            self.cover();
        }

        /// A look at a pending event would end it: there is none here, so it pends to the end.
        fn poll_a_while(&self) {
            self.pollers.join(1);
            self.pollers.leave(1);
            self.cover();
        }

        /// As a dedicated kernel thread: polls while it is to, then sleeps.
        fn dedicated(&self) -> bool {
            if self.method.load(Relaxed) == POLL {
                self.pollers.join(1);
                if self.method.load(Relaxed) == POLL {
                    return true; // and goes on
                }
                self.pollers.leave(1);
                self.cover();
            }
            false
        }

        fn is_covered(&self, polling: bool) -> bool {
            polling || self.armed.load(Relaxed) || self.called.load(Relaxed)
        }
    }

    #[test]
    fn what_pends_is_armed_when_the_last_one_stops_polling() {
        loom::model(|| {
            let world = World::new(BLOCK);
            let poller = {
                let world = world.clone();
                thread::spawn(move || world.poll_a_while())
            };
            let other = {
                let world = world.clone();
                thread::spawn(move || world.poll_a_while())
            };
            world.submit();
            poller.join().unwrap();
            other.join().unwrap();
            assert!(world.is_covered(false));
        });
    }

    #[test]
    fn a_switch_of_method_leaves_nothing_uncovered() {
        for (from, to) in [(BLOCK, POLL), (POLL, BLOCK)] {
            loom::model(move || {
                let world = World::new(from);
                let dedicated = {
                    let world = world.clone();
                    thread::spawn(move || world.dedicated())
                };
                let switcher = {
                    let world = world.clone();
                    thread::spawn(move || world.switch_to(to))
                };
                world.submit();
                switcher.join().unwrap();
                let polling = dedicated.join().unwrap();
                assert!(world.is_covered(polling));
            });
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_two_threads_poll_is_shared() {
        let pollers = Pollers::<4>::new();
        pollers.join(0b0111);
        pollers.join(0b0010);
        assert_eq!(pollers.shared(0b0111), 0b0010);
        assert!(!pollers.seem_polled_by_others(0b0011) && pollers.seem_polled_by_others(0b0010));
        pollers.leave(0b0010);
        assert_eq!(pollers.shared(0b0111), 0);
        assert_eq!(pollers.unpolled(0b1111), 0b1000);
    }
}
