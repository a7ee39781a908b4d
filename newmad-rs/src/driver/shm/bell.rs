//! The bell: how a process that sleeps, or computes, is told that something came through shared memory.
//!
//! A word in the receiver's segment says for what it wants to be rung ([`Rings`], [`word`]), an event counter is what is
//! rung. The counter is watched edge-triggered and never emptied. As long as the bell is *wanted*, the lock's holder stores the
//! word again before it looks at the rings: the thread that armed it may be asleep, not have noticed, and the ring may have
//! brought nothing for it (room in a full ring, say). Only [`Bell::disarm`] ends the wanting.
//!
//! Between taking the word and writing the counter lies a system call. A receiver that finds the message meanwhile, and leaves
//! the watch to another thread, would have that one woken in vain. So the receiver notes a ring that is *under way*, and
//! whoever slept, or was about to, waits a moment for it ([`Bell::is_under_way`]). A hint: what is missed costs a wake-up.
//!
//! A program of short messages arms before it computes, for what needs an answer, and disarms when it waits, and nothing of
//! the kind ever comes. To write the word each time takes its line away from all who send. So it is left *standing*, unless
//! that has been a waste lately ([`PATIENCE`]): a ring for somebody who polled.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use marcel::trace::{self, Kind};

use super::segment::Segment;
use super::word;
use crate::driver::Rings;
use crate::sys;

/// So many times the word is cleared, after somebody has rung while it was left standing.
const PATIENCE: u32 = 256;

/// The receiver's side.
pub(crate) struct Bell {
    segment: Arc<Segment>,
    counter: OwnedFd,
    /// For what; nothing: it is not wanted.
    wanted: AtomicU32,
    /// The word was left as it was although nobody wants anything.
    standing: AtomicBool,
    /// So many times more it is not.
    patience: AtomicU32,
    /// A peer has taken the word, and nobody has seen the counter written.
    under_way: AtomicBool,
    /// How often this side has rung its peers.
    rung: AtomicU64,
}

impl Bell {
    pub(crate) fn new(segment: Arc<Segment>, counter: OwnedFd) -> Bell {
        Bell {
            segment,
            counter,
            wanted: AtomicU32::new(0),
            standing: AtomicBool::new(false),
            patience: AtomicU32::new(0),
            under_way: AtomicBool::new(false),
            rung: AtomicU64::new(0),
        }
    }

    /// The event counter.
    pub(crate) fn fd(&self) -> RawFd {
        self.counter.as_raw_fd()
    }

    /// Whether somebody wants to be rung.
    #[inline]
    pub(crate) fn is_armed(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) != 0
    }

    /// Asks to be rung for these, and for what was asked for before: a thread that asked for more may be asleep. True: the
    /// caller then looks at the rings; it need not if that was what needs an answer alone, and nothing of that has come.
    pub(crate) fn arm(&self, rings: Rings) -> bool {
        let before = self.wanted.load(Ordering::Relaxed);
        let rings = rings.and(Rings(before));
        self.wanted.store(rings.0, Ordering::Relaxed);
        let armed = word::arm(self.segment.bell(), rings.0);
        if armed.rung && before != 0 {
            self.under_way.store(true, Ordering::Relaxed);
        }
        if self.standing.load(Ordering::Relaxed) {
            self.standing.store(false, Ordering::Relaxed);
            if armed.rung {
                self.patience.store(PATIENCE, Ordering::Relaxed);
            }
        }
        armed.called || rings != Rings::CONTROL
    }

    /// The caller looks at every ring, to its end, or gives it back ([`Bell::set_called`]).
    pub(crate) fn clear_called(&self) {
        word::clear_called(self.segment.bell());
    }

    /// What needs an answer may have been left in a ring.
    pub(crate) fn set_called(&self) {
        word::set_called(self.segment.bell());
    }

    /// Somebody polls: rings are a waste.
    #[inline]
    pub(crate) fn disarm(&self) {
        let wanted = self.wanted.load(Ordering::Relaxed);
        if wanted != 0 {
            self.wanted.store(0, Ordering::Relaxed);
            if wanted == word::CONTROL && self.leaves_standing() {
                return;
            }
            if word::leave(self.segment.bell()) {
                self.under_way.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Whether the word, which asks for what needs an answer alone, is left as it is.
    fn leaves_standing(&self) -> bool {
        let patience = self.patience.load(Ordering::Relaxed);
        let stands = patience == 0 && !word::is_taken(self.segment.bell());
        if patience > 0 {
            self.patience.store(patience - 1, Ordering::Relaxed);
        }
        self.standing.store(stands, Ordering::Relaxed);
        stands
    }

    /// Whether a peer is about to write the counter, as it seems. Asked once: the caller waits a moment for it, or has seen it.
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) && self.under_way.swap(false, Ordering::Relaxed)
    }

    /// A thread of this process waits for a large message from now on, or does no more.
    pub(crate) fn waiter(&self, comes: bool) {
        let waiters = self.segment.waiters();
        if comes {
            waiters.fetch_add(1, Ordering::Relaxed);
        } else {
            waiters.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether the bell has been rung and is still wanted.
    #[inline]
    pub(crate) fn was_rung(&self) -> bool {
        self.is_armed() && word::is_taken(self.segment.bell())
    }

    /// Asks again, if the bell has been rung and is still wanted. The caller then looks at the rings.
    pub(crate) fn keep_armed(&self) {
        if self.was_rung() {
            self.arm(Rings(self.wanted.load(Ordering::Relaxed)));
        }
    }

    /// After something was published: rings the peer `to`, which owns `segment`, if it wants that for one of these.
    #[inline]
    pub(crate) fn ring(&self, to: u32, segment: &Segment, counter: &OwnedFd, rings: Rings) {
        if word::call(segment.bell(), rings.0) {
            self.write(to, counter);
        }
    }

    #[cold]
    #[inline(never)]
    fn write(&self, to: u32, counter: &OwnedFd) {
        sys::ring(counter.as_raw_fd());
        self.rung.fetch_add(1, Ordering::Relaxed);
        trace::record(Kind::Ring, 0, to.into());
    }

    /// As a peer that is to write the counter next; what it was wanted for.
    #[cfg(test)]
    pub(crate) fn taken_by_a_peer(&self) -> u32 {
        self.segment.bell().swap(0, Ordering::AcqRel)
    }

    /// How often this side has rung its peers.
    pub(crate) fn rung(&self) -> u64 {
        self.rung.load(Ordering::Relaxed)
    }
}

/// Whether a thread of the owner of `segment` waits for a large message. A hint.
pub(crate) fn waits(segment: &Segment) -> bool {
    segment.waiters().load(Ordering::Relaxed) != 0
}
