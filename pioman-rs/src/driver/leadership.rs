//! The leader's role: a try-lock, the `epoll` set that its holder sleeps in, and the threads that may take it next.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::*};

use crate::driver::epoll_set::EpollSet;
use crate::driver::followers::Followers;

/// See the module's description.
pub(super) struct Leadership {
    pub(super) set: EpollSet,
    pub(super) followers: Followers,
    taken: AtomicBool,
    /// A virtual processor has no eventfd that would get it out of the set.
    blind: AtomicBool,
}

impl Leadership {
    pub(super) fn new() -> io::Result<Leadership> {
        Ok(Leadership {
            set: EpollSet::new(0)?,
            followers: Followers::default(),
            taken: AtomicBool::new(false),
            blind: AtomicBool::new(false),
        })
    }

    /// Takes the role; false if another thread leads.
    pub(super) fn take(&self) -> bool {
        !self.taken.load(Relaxed) && !self.taken.swap(true, SeqCst)
    }

    pub(super) fn release(&self) {
        self.taken.store(false, SeqCst);
    }

    /// Whether a thread leads: arming its set wakes it.
    #[inline]
    pub(super) fn has_leader(&self) -> bool {
        self.taken.load(SeqCst)
    }

    /// A virtual processor has no eventfd; true if that is new.
    pub(super) fn becomes_blind(&self) -> bool {
        !self.blind.swap(true, SeqCst)
    }

    /// Whether a leader has to look around at the pace of the tick, since it cannot always be called.
    pub(super) fn is_blind(&self) -> bool {
        self.blind.load(Relaxed)
    }
}
