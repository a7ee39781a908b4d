//! Who polls which source: as long as somebody does, nobody has to be woken for it.
//!
//! A count for each source. Whoever begins to poll *joins*; whoever stops *leaves*, and then looks whether something
//! pends that nobody polls any more. Whoever makes something pending and goes away looks whether nobody polls it:
//!
//! ```text
//!   poller                                    submitter
//!   1. leave: count -= 1                      1. something pends
//!   2. (fence)                                2. (fence)
//!   3. does something pend? and count = 0?    3. count = 0?
//!      then somebody is to be armed, ticked…     then somebody is to be armed, ticked…
//! ```
//!
//! One of the two fences comes first, so at least one of them sees that it is its turn: **what pends is polled, or
//! somebody has found out that it is not**. That is all that a change of the method of a pending request needs, in either
//! direction: the next one polls before the last one sleeps or not, but never does each rely on the other. Modelled below,
//! with a policy that is replaced meanwhile.
//!
//! Rejected: one count for all sources (then all have to be polled by whoever polls one, and the dear poll of a source
//! that is rarely ready delays the others).

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

    /// Those of `pending` that nobody polls.
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

    /// Whether each of these, which the caller has joined, is polled by somebody else, too, as it seems.
    #[inline]
    pub(crate) fn seem_polled_by_others(&self, mask: u64) -> bool {
        bits(mask).all(|slot| self.0[slot].load(Relaxed) > 1)
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
        /// Somebody who polls has been called (a dedicated kernel thread, an idle virtual processor).
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
