//! Whether a thread stands still: what makes it possible to look at one from outside.
//!
//! ```text
//!   even ──resumed──▶ odd ──suspended──▶ even
//! ```
//!
//! One kernel thread at a time writes, with plain stores. What is written while it is odd, and seen between two reads
//! of the same even value, is of one moment: a reader that has seen any of it also sees the odd value, or a later one,
//! at its second read (the fences pair: release after the odd store, acquire before that read).

use std::sync::atomic::Ordering::*;

use crate::os::{AtomicU64, fence};

/// See the module's description.
#[repr(transparent)]
#[derive(Default)]
pub(crate) struct SeqCount(AtomicU64);

impl SeqCount {
    /// The thread is about to run: what is written from here on is of no moment.
    #[inline]
    pub(crate) fn resumed(&self) {
        self.0.store(self.0.load(Relaxed) + 1, Relaxed);
        fence(Release);
    }

    /// The thread is suspended, its context saved, and no worker can resume it yet.
    #[inline]
    pub(crate) fn suspended(&self) {
        self.0.store(self.0.load(Relaxed) + 1, Release);
    }

    /// The block changes hands: as `resumed` and `suspended` around `change`, whether the last user ran or not.
    #[inline]
    pub(crate) fn reused(&self, change: impl FnOnce()) {
        let odd = self.0.load(Relaxed) | 1;
        self.0.store(odd, Relaxed);
        fence(Release);
        change();
        self.0.store(odd + 1, Release);
    }

    /// Whether the thread runs, asked by itself.
    pub(crate) fn is_odd(&self) -> bool {
        self.0.load(Relaxed) % 2 == 1
    }

    /// Where it is now, for [`SeqCount::is_still`].
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.0.load(Acquire)
    }

    /// Whether it has not moved since `then`.
    #[inline]
    pub(crate) fn is_still(&self, then: u64) -> bool {
        fence(Acquire);
        self.0.load(Relaxed) == then
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::os::AtomicU32;
    use loom::sync::Arc;
    use loom::thread;

    /// A block whose thread runs once, and that is reused, with two words that are written each time; a reader that
    /// believes what stood still.
    #[test]
    fn what_stood_still_is_of_one_moment() {
        loom::model(|| {
            let thread = Arc::new((SeqCount::default(), AtomicU32::new(0), AtomicU32::new(0)));
            let reader = {
                let thread = thread.clone();
                thread::spawn(move || {
                    let (moves, one, other) = &*thread;
                    let then = moves.now();
                    let seen = (one.load(Relaxed), other.load(Relaxed));
                    if then % 2 == 0 && moves.is_still(then) {
                        assert_eq!(seen.0, seen.1);
                        assert_eq!(u64::from(seen.0), then / 2);
                    }
                })
            };
            let (moves, one, other) = &*thread;
            let write = |n| {
                one.store(n, Relaxed);
                other.store(n, Relaxed);
            };
            moves.resumed();
            write(1);
            moves.suspended();
            moves.reused(|| write(2));
            reader.join().unwrap();
        });
    }
}
