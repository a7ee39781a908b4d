//! What the progress path knows of the background watcher: its `epoll` set, and how often callers come by.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

use crate::driver::epoll_set::EpollSet;

/// See the module's description.
pub(super) struct Background {
    pub(super) set: EpollSet,
    /// How often something was left pending.
    pub(super) visits: Visits,
    /// How often a thread that polls has disarmed what was armed for the watcher.
    pub(super) taken: Visits,
    /// The watcher looks now and then at what is pending.
    seldom: AtomicBool,
}

impl Background {
    pub(super) fn new() -> io::Result<Background> {
        Ok(Background {
            set: EpollSet::new(1)?,
            visits: Visits::default(),
            taken: Visits::default(),
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

/// How often callers have done something.
#[derive(Debug, Default)]
pub(super) struct Visits(AtomicU32);

impl Visits {
    /// Once more; how often now. Several at once may count as one: it is an estimate, and cheap.
    #[inline]
    pub(super) fn count(&self) -> u32 {
        let now = self.now().wrapping_add(1);
        self.0.store(now, Relaxed);
        now
    }

    pub(super) fn now(&self) -> u32 {
        self.0.load(Relaxed)
    }
}
