//! Kernel threads that wait for a completion while another thread leads. Without a background watcher, a leader that
//! leaves wakes one of them to take over.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::*};

use marcel::Thread;
use marcel::plumbing::{from_raw, into_raw, wake};

/// More waiters than this sleep with a time-out instead of a place.
const PLACES: usize = 64;

pub(crate) struct Followers([AtomicPtr<()>; PLACES]);

impl Default for Followers {
    fn default() -> Self {
        Followers(std::array::from_fn(|_| AtomicPtr::new(null_mut())))
    }
}

impl Followers {
    /// Registers a thread; the place to leave later, or `None` when all are taken.
    pub(crate) fn enter(&self, thread: Thread) -> Option<usize> {
        let raw = into_raw(thread);
        self.0.iter().position(|place| {
            place.load(Relaxed).is_null()
                && place.compare_exchange(null_mut(), raw, SeqCst, Relaxed).is_ok()
        })
    }

    /// Leaves a place; false if a leader that left has woken the thread through it.
    pub(crate) fn leave(&self, place: usize, thread: Thread) -> bool {
        self.0[place].compare_exchange(into_raw(thread), null_mut(), SeqCst, Relaxed).is_ok()
    }

    /// Whether no thread has a place.
    pub(crate) fn are_none(&self) -> bool {
        self.0.iter().all(|place| place.load(SeqCst).is_null())
    }

    /// Wakes one thread; false if there is none. Progress path.
    pub(crate) fn wake_one(&self) -> bool {
        for place in &self.0 {
            if place.load(SeqCst).is_null() {
                continue;
            }
            let raw = place.swap(null_mut(), SeqCst);
            if !raw.is_null() {
                // SAFETY: put there by `enter`.
                wake(&unsafe { from_raw(raw) });
                return true;
            }
        }
        false
    }
}
