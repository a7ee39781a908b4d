//! What seldom happens at a channel: waits, positions that are given up, an end that goes.
//!
//! All of it is under one lock; `notes` is a digest that is written at each unlocking and read without it.
//!
//! ```text
//!   waiter           lock, put an entry in; fence; look at the header; nothing? sleep
//!   the other end    store the header; fence; look at the notes; an entry? lock, take it out, complete
//! ```
//! One of the two fences comes first, so one of the two sees the other.
//!
//! Invariant: a completion, which is on its waiter's stack, is touched only under the lock and while its entry is
//! there. The waiter takes the entry out before it leaves, unless the other end has taken it.
//!
//! Why a lock: the lists are short, and its holder neither sleeps nor switches.

use std::ptr::NonNull;

use crate::shim::{AtomicU64, Mutex, Ordering::*, fence};
use pioman::Completion;

/// The consumer waits.
const CONSUMER_WAITS: u64 = 1;
/// Some producer waits.
const PRODUCERS_WAIT: u64 = 2;
/// Positions have been given up that the consumer has not reached.
const HOLES: u64 = 4;
const CONSUMER_GONE: u64 = 8;
const PRODUCERS_GONE: u64 = 16;

/// See the module's description. In cache lines of its own: mostly read.
#[repr(align(128))]
pub(super) struct SlowPath {
    notes: AtomicU64,
    entries: Mutex<Entries>,
}

/// An end that waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiter {
    /// For anything to come.
    Consumer,
    /// For its position to become free, or the consumer to go.
    Producer(u64),
}

struct Entries {
    producers: usize,
    consumer_gone: bool,
    waiting: Vec<(Waiter, NonNull<Completion>)>,
    holes: Vec<u64>,
}

// SAFETY: completions are shared, and stay as long as they are listed.
unsafe impl Send for Entries {}

impl Entries {
    fn notes(&self) -> u64 {
        let note = |there: bool, bit| if there { bit } else { 0 };
        let consumer = |(waiter, _): &(Waiter, _)| *waiter == Waiter::Consumer;
        note(self.waiting.iter().any(consumer), CONSUMER_WAITS)
            | note(!self.waiting.iter().all(consumer), PRODUCERS_WAIT)
            | note(!self.holes.is_empty(), HOLES)
            | note(self.consumer_gone, CONSUMER_GONE)
            | note(self.producers == 0, PRODUCERS_GONE)
    }

    fn wake(&mut self, which: impl Fn(Waiter) -> bool) {
        self.waiting.retain(|&(waiter, done)| {
            let found = which(waiter);
            if found {
                // SAFETY: listed, so it is there; we have the lock.
                unsafe { done.as_ref() }.complete();
            }
            !found
        });
    }

    fn wake_consumer(&mut self) {
        self.wake(|waiter| waiter == Waiter::Consumer);
    }
}

impl SlowPath {
    pub(super) fn new() -> SlowPath {
        let entries =
            Entries { producers: 0, consumer_gone: false, waiting: Vec::new(), holes: Vec::new() };
        SlowPath { notes: AtomicU64::new(entries.notes()), entries: Mutex::new(entries) }
    }

    fn locked<R>(&self, f: impl FnOnce(&mut Entries) -> R) -> R {
        let mut entries = self.entries.lock();
        let result = f(&mut entries);
        self.notes.store(entries.notes(), Release);
        result
    }

    fn says(&self, bit: u64) -> bool {
        self.notes.load(Acquire) & bit != 0
    }

    pub(super) fn add_producer(&self) {
        self.locked(|entries| entries.producers += 1);
    }

    pub(super) fn remove_producer(&self) {
        self.locked(|entries| {
            entries.producers -= 1;
            if entries.producers == 0 {
                entries.wake_consumer();
            }
        });
    }

    #[inline]
    pub(super) fn no_producers(&self) -> bool {
        self.says(PRODUCERS_GONE)
    }

    pub(super) fn remove_consumer(&self) {
        self.locked(|entries| {
            entries.consumer_gone = true;
            entries.holes = Vec::new();
            entries.wake(|waiter| waiter != Waiter::Consumer);
        });
    }

    #[inline]
    pub(super) fn no_consumer(&self) -> bool {
        self.says(CONSUMER_GONE)
    }

    /// After a header says occupied, and a fence.
    #[inline]
    pub(super) fn tell_consumer(&self) {
        if self.says(CONSUMER_WAITS) {
            self.locked(Entries::wake_consumer);
        }
    }

    /// After a header says free for `position`, and a fence.
    #[inline]
    pub(super) fn tell_producer(&self, position: u64) {
        if self.says(PRODUCERS_WAIT) {
            self.locked(|entries| entries.wake(|waiter| waiter == Waiter::Producer(position)));
        }
    }

    /// Nothing will be sent at `position`. Without a consumer nobody wants to know.
    #[cold]
    pub(super) fn give_up(&self, position: u64) {
        self.locked(|entries| {
            if !entries.consumer_gone {
                entries.holes.push(position);
                entries.wake_consumer();
            }
        });
    }

    #[inline]
    pub(super) fn is_hole(&self, position: u64) -> bool {
        self.says(HOLES) && self.locked(|entries| entries.holes.contains(&position))
    }

    /// Whether `position` was given up, and forgets that.
    #[inline]
    pub(super) fn take_hole(&self, position: u64) -> bool {
        self.says(HOLES)
            && self.locked(|entries| {
                let found = entries.holes.iter().position(|&hole| hole == position);
                found.map(|index| entries.holes.swap_remove(index)).is_some()
            })
    }

    /// `done` is completed when what `waiter` waits for comes, until what this returns is dropped. Look again before
    /// you sleep.
    ///
    /// # Safety
    /// The result is dropped, not forgotten, before `done` goes.
    pub(super) unsafe fn enlist<'a>(&'a self, waiter: Waiter, done: &'a Completion) -> Listed<'a> {
        self.locked(|entries| entries.waiting.push((waiter, NonNull::from(done))));
        fence(SeqCst);
        Listed { slow_path: self, done }
    }
}

/// A waiter's entry. Dropping it takes the entry out: a wait also ends by the unwinding of a runtime that stops.
pub(super) struct Listed<'a> {
    slow_path: &'a SlowPath,
    done: &'a Completion,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.slow_path.locked(|entries| {
            entries.waiting.retain(|(_, done)| !std::ptr::eq(done.as_ptr(), self.done));
        });
    }
}

#[cfg(all(test, not(loom)))]
impl SlowPath {
    /// Calls `f` with the lock held.
    pub(super) fn while_taken(&self, f: impl FnOnce()) {
        let _entries = self.entries.lock();
        f();
    }

    /// Positions that were given up, and not passed by yet.
    pub(super) fn holes(&self) -> usize {
        self.locked(|entries| entries.holes.len())
    }
}
