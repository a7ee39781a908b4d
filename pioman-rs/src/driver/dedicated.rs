//! What the progress path knows of the dedicated threads.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use marcel::plumbing::Sleeper;

use crate::progress::policy::select::MOST;
use crate::progress::source::MAX;

/// Where they sleep, and whether they end.
#[derive(Default)]
pub(super) struct Dedicated {
    pub(super) stopping: AtomicBool,
    sleepers: [OnceLock<&'static Sleeper>; MOST],
}

impl Dedicated {
    /// Where the thread of this number sleeps.
    pub(super) fn sleeper(&self, index: usize) -> &'static Sleeper {
        self.sleepers[index].get_or_init(|| Box::leak(Box::new(Sleeper::new())))
    }

    /// Wakes the threads that poll these sources, of the `on` that are switched on; false if there are none. Progress
    /// path.
    pub(super) fn call(&self, slots: u64, on: usize) -> bool {
        for (index, sleeper) in self.sleepers[..on].iter().enumerate() {
            if slots & share(index, on) != 0
                && let Some(sleeper) = sleeper.get()
            {
                sleeper.notify();
            }
        }
        on > 0
    }

    /// Wakes all.
    pub(super) fn call_all(&self) {
        self.sleepers.iter().filter_map(OnceLock::get).for_each(|sleeper| sleeper.notify());
    }
}

/// The sources of one of `of` threads.
pub(super) fn share(index: usize, of: usize) -> u64 {
    (0..MAX).filter(|slot| slot % of.max(1) == index).fold(0, |mask, slot| mask | 1 << slot)
}
