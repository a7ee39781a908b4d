//! The bell: how a process that sleeps, or computes, is told that something came through shared memory.
//!
//! A word in the receiver's segment says whether it wants to be rung, an event counter is what is rung:
//!
//! ```text
//! receiver   word = 1; fence; look at every ring       sleep only if they are empty
//! sender     publish; fence; word == 1 && swap(word, 0) == 1  ->  write the counter
//! ```
//! One of the two sees the other, and a burst rings once. Whoever empties the counter while the bell is *wanted*
//! stores 1 again before it looks at the rings: the one who armed it may be asleep, not have noticed, and the
//! ring may have brought nothing for it (room in a full ring, say). Only [`Bell::disarm`] ends the wanting.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use super::segment::Segment;
use crate::sys;

/// The receiver's side.
pub(crate) struct Bell {
    segment: Arc<Segment>,
    counter: OwnedFd,
    wanted: AtomicBool,
}

impl Bell {
    pub(crate) fn new(segment: Arc<Segment>, counter: OwnedFd) -> Bell {
        Bell { segment, counter, wanted: AtomicBool::new(false) }
    }

    /// The event counter.
    pub(crate) fn fd(&self) -> RawFd {
        self.counter.as_raw_fd()
    }

    /// Whether somebody wants to be rung.
    #[inline]
    pub(crate) fn is_armed(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Asks to be rung. The caller then looks at the rings.
    pub(crate) fn arm(&self) {
        self.wanted.store(true, Ordering::Relaxed);
        self.segment.bell().store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Somebody polls: rings are a waste.
    #[inline]
    pub(crate) fn disarm(&self) {
        if self.wanted.load(Ordering::Relaxed) {
            self.wanted.store(false, Ordering::Relaxed);
            self.segment.bell().store(0, Ordering::Relaxed);
        }
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

    /// Empties the counter.
    pub(crate) fn answer(&self) {
        sys::unring(self.counter.as_raw_fd());
    }

    /// Asks again, if the bell has been rung and is still wanted. The caller then looks at the rings.
    pub(crate) fn keep_armed(&self) {
        if self.is_armed() && self.segment.bell().load(Ordering::Relaxed) == 0 {
            self.arm();
        }
    }
}

/// Whether a thread of the owner of `segment` waits for a large message. A hint.
pub(crate) fn waits(segment: &Segment) -> bool {
    segment.waiters().load(Ordering::Relaxed) != 0
}

/// After something was published: rings the peer that owns `segment` if it wants that.
#[inline]
pub(crate) fn ring(segment: &Segment, counter: &OwnedFd) {
    fence(Ordering::SeqCst);
    let word = segment.bell();
    if word.load(Ordering::Relaxed) == 1 && word.swap(0, Ordering::AcqRel) == 1 {
        sys::ring(counter.as_raw_fd());
    }
}
