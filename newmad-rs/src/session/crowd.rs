//! A thread that looks for events again and again, as a loop around `MPI_Test` does, gives its core to the process that
//! has the message.
//!
//! With a core for each process there is none to give it to, and each offer is two or three system calls: so offers are
//! seldom, one in [`SELDOM`] looks in vain. With more processes than cores the sender may be the one that waits for this
//! core; the kernel would let it wait until the looking thread's time slice is over, milliseconds later. So what came of
//! an offer decides when the next one is made: at the next look in vain if another thread has run, after twice as many
//! looks if none has.
//!
//! ```text
//!   look ──found──▶ vain = 0
//!     └──nothing──▶ vain + 1 ──= every──▶ offer ──taken──▶ every = 1
//!                                           └──not taken─▶ every = min(2 × every, SELDOM)
//! ```
//!
//! Several threads of a session may look at once: they count together, and a count that gets lost costs nothing.
//!
//! Rejected: comparing the number of ranks with that of cores (other programs, and threads, want cores too); the time
//! that an offer takes (what is long on one machine is short on the next).

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Most looks in vain from one offer of the core to the next: some microseconds.
const SELDOM: u32 = 64;

/// When a session's next offer is due.
pub(super) struct Offers {
    /// Looks in vain since the last event, or the last offer.
    vain: AtomicU32,
    /// At so many an offer is due.
    every: AtomicU32,
}

impl Default for Offers {
    fn default() -> Offers {
        Offers { vain: AtomicU32::new(0), every: AtomicU32::new(SELDOM) }
    }
}

impl Offers {
    /// A look has ended; if it found nothing, `offer` may be called, which says whether another thread has run.
    #[inline]
    pub(super) fn looked(&self, found: bool, offer: impl FnOnce() -> bool) {
        let vain = self.vain.load(Relaxed) + 1;
        if found || vain < self.every.load(Relaxed) {
            return self.vain.store(if found { 0 } else { vain }, Relaxed);
        }
        self.vain.store(0, Relaxed);
        let every = if offer() { 1 } else { (2 * self.every.load(Relaxed)).min(SELDOM) };
        self.every.store(every, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Looks in vain so often, while others run or not; how many offers were made.
    fn offers(of: &Offers, looks: u32, taken: bool) -> u32 {
        let made = Cell::new(0);
        for _ in 0..looks {
            of.looked(false, || {
                made.set(made.get() + 1);
                taken
            });
        }
        made.get()
    }

    #[test]
    fn offers_are_seldom_where_no_other_thread_wants_the_core() {
        let of = Offers::default();
        assert_eq!(offers(&of, 10 * SELDOM, false), 10);
    }

    #[test]
    fn each_look_in_vain_is_an_offer_where_others_take_them() {
        let of = Offers::default();
        assert_eq!(offers(&of, SELDOM, true), 1);
        assert_eq!(offers(&of, 50, true), 50);
        // And they become seldom again: after 1, 2, 4 ... looks.
        assert_eq!(offers(&of, SELDOM - 1, false), SELDOM.ilog2());
        assert_eq!(offers(&of, 10 * SELDOM, false), 10);
    }

    #[test]
    fn who_finds_events_offers_nothing() {
        let of = Offers::default();
        for _ in 0..10 {
            assert_eq!(offers(&of, SELDOM - 1, true), 0);
            of.looked(true, || unreachable!());
        }
    }
}
