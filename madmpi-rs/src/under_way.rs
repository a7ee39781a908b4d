//! What is under way until something is closed, and the wait for its end.

use std::sync::atomic::{AtomicUsize, Ordering};

use pioman::Completion;

/// A count of messages, whose ends callbacks tell.
pub(crate) struct UnderWay {
    /// With one more until it is closed.
    count: AtomicUsize,
    /// It is closed, and nothing is under way.
    idle: Completion,
}

impl UnderWay {
    pub(crate) const fn new() -> UnderWay {
        UnderWay { count: AtomicUsize::new(1), idle: Completion::new() }
    }

    /// One more is under way, until [`UnderWay::ends`] is called.
    pub(crate) fn begins(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn ends(&self) {
        if self.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.idle.complete();
        }
    }

    /// Waits until nothing is under way. To be called once; nothing begins any more.
    ///
    /// # Blocking
    /// The calling thread.
    pub(crate) fn close(&self, session: &newmad::Session) {
        self.ends();
        while let Some(awaited) = session.awaited(&self.idle).pending() {
            awaited.wait();
        }
    }
}
