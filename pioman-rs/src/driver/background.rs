//! What the progress path knows of the background watcher: its `epoll` set, and how often callers come by.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

use crate::driver::epoll_set::EpollSet;

/// See the module's description.
pub(super) struct Background {
    pub(super) set: EpollSet,
    /// How often something was left pending.
    pub(super) visits: Visits,
    /// How often threads that poll disarm what is armed for it.
    pub(super) takes: Takes,
    /// The watcher looks now and then at what is pending.
    seldom: AtomicBool,
}

impl Background {
    pub(super) fn new() -> io::Result<Background> {
        Ok(Background {
            set: EpollSet::new(1)?,
            visits: Visits::default(),
            takes: Takes::new(),
            seldom: AtomicBool::new(false),
        })
    }

    /// Asks for looks now and then; true if they begin with this call, and the watcher is to be woken.
    #[inline]
    pub(super) fn ask_seldom(&self) -> bool {
        !self.seldom.load(Relaxed) && !self.seldom.swap(true, SeqCst)
    }

    /// Whether the watcher looks now and then.
    pub(super) fn looks_seldom(&self) -> bool {
        self.seldom.load(SeqCst)
    }

    /// The looks end, or go on after all.
    pub(super) fn set_seldom(&self, on: bool) {
        self.seldom.store(on, SeqCst);
    }
}

/// How often something was left pending.
#[derive(Debug, Default)]
pub(super) struct Visits(AtomicU32);

impl Visits {
    /// Once more. Several at once may count as one: it is an estimate, and cheap.
    #[inline]
    pub(super) fn count(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_add(1), Relaxed);
    }

    pub(super) fn now(&self) -> u32 {
        self.0.load(Relaxed)
    }
}

/// After so many times that threads have disarmed what was armed for the watcher, one of them may wake it.
const TAKES: u32 = 16;
/// It does so if [`TAKES`] have come within this time: 50 µs each, which is about what a look of the watcher costs.
const OFTEN: Duration = Duration::from_micros(50 * TAKES as u64);

/// How often threads that poll disarm what is armed for the watcher, and arm it again when they stop. An estimate, as
/// [`Visits`].
#[derive(Debug)]
pub(super) struct Takes {
    count: AtomicU32,
    epoch: Instant,
    /// When the last [`TAKES`] had come, or a time to come, before which no thread wakes the watcher. In nanoseconds since `epoch`.
    since: AtomicU64,
    /// They came often, which the watcher does not know yet.
    often: AtomicBool,
}

impl Takes {
    fn new() -> Takes {
        Takes {
            count: AtomicU32::new(0),
            epoch: Instant::now(),
            since: AtomicU64::new(0),
            often: AtomicBool::new(false),
        }
    }

    fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// A thread has done so once more. True: they do so often, and the caller wakes the watcher to tell it.
    pub(super) fn again(&self) -> bool {
        let count = self.count.load(Relaxed).wrapping_add(1);
        self.count.store(count, Relaxed);
        count.is_multiple_of(TAKES) && self.are_often(self.now())
    }

    /// [`TAKES`] more have come.
    fn are_often(&self, now: u64) -> bool {
        let since = self.since.load(Relaxed);
        if now < since {
            return false;
        }
        self.since.store(now, Relaxed);
        let often = now - since <= OFTEN.as_nanos() as u64;
        if often {
            self.often.store(true, Relaxed);
        }
        often
    }

    /// Whether they came often since the watcher has asked this last.
    pub(super) fn were_often(&self) -> bool {
        self.often.load(Relaxed) && self.often.swap(false, Relaxed)
    }

    /// No thread wakes the watcher for so long.
    pub(super) fn rest(&self, time: Duration) {
        self.since.store(self.now() + time.as_nanos() as u64, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = OFTEN.as_nanos() as u64;

    #[test]
    fn the_watcher_is_told_of_what_comes_often() {
        let takes = Takes::new();
        takes.since.store(LIMIT, Relaxed);
        assert!(takes.are_often(2 * LIMIT) && takes.were_often() && !takes.were_often());
        assert!(!takes.are_often(3 * LIMIT + 1) && !takes.were_often(), "it came seldom");
        assert!(takes.are_often(3 * LIMIT + 2), "the next ones came soon after");
    }

    #[test]
    fn a_rest_is_kept_and_ends() {
        let takes = Takes::new();
        takes.since.store(10 * LIMIT, Relaxed);
        assert!(!takes.are_often(9 * LIMIT), "it rests");
        assert!(takes.are_often(11 * LIMIT), "the rest is over");
        takes.rest(Duration::from_secs(3600));
        assert!((0..2 * TAKES).all(|_| !takes.again()));
    }
}
