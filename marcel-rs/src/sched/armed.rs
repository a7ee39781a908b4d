//! Whether a virtual processor's tick is set: a word, and the kernel's timer that follows it.
//!
//! A request that is pending while a virtual processor computes needs its tick, else it is found only at the next
//! switch. Each side changes its own word first and reads the other's afterwards, with a fence in between; so one sees
//! the other:
//!
//! ```text
//!   handler that finds nothing left     submitter                      virtual processor that becomes busy
//!   1. disarm                           1. pending = 1                 1. busy = true
//!   2. fence                            2. fence                       2. fence
//!   3. pending after all? arm           3. busy, not armed? arm        3. pending? arm
//! ```
//!
//! Invariant: the timer runs if and only if the word is set, except while a call of [`Armed::change`] is in progress.

use std::sync::atomic::Ordering::*;

use crate::os::AtomicBool;

/// See the module's description.
#[derive(Default)]
pub(super) struct Armed(AtomicBool);

impl Armed {
    /// Has the timer run, or not; `set` sets it. Any thread, signal handlers included.
    #[inline]
    pub(super) fn change(&self, on: bool, set: impl Fn(bool)) {
        if self.0.load(Relaxed) == on || self.0.swap(on, SeqCst) == on {
            return;
        }
        // Another thread, or a handler that interrupts this one, may change the word around the system call: the last
        // one to set the timer has read the word since. (The kernel's lock orders the settings, and the words with
        // them.)
        let mut now = self.0.load(SeqCst);
        loop {
            set(now);
            let after = self.0.load(SeqCst);
            if after == now {
                return;
            }
            now = after;
        }
    }

    /// Sets the word alone, for a timer that starts (false) or is about to go (true: it will not be set any more).
    pub(super) fn reset(&self, to: bool) {
        self.0.store(to, SeqCst);
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::os::{AtomicUsize, Mutex, fence};
    use loom::sync::Arc;
    use loom::thread;

    struct Vp {
        armed: Armed,
        /// Under the kernel's lock.
        timer: Mutex<bool>,
        pending: AtomicUsize,
        busy: AtomicBool,
    }

    impl Vp {
        fn new() -> Arc<Vp> {
            Arc::new(Vp {
                armed: Armed::default(),
                timer: Mutex::new(false),
                pending: AtomicUsize::new(0),
                busy: AtomicBool::new(false),
            })
        }

        fn change(&self, on: bool) {
            self.armed.change(on, |on| *self.timer.lock() = on);
        }

        /// As `tick_handler`.
        fn tick(&self) {
            if self.pending.load(Relaxed) == 0 {
                self.change(false);
                fence(SeqCst);
                if self.pending.load(Relaxed) > 0 {
                    self.change(true);
                }
            }
        }

        /// As a submitter, and `Load::arm_ticks`.
        fn submit(&self) {
            self.pending.store(1, Relaxed);
            fence(SeqCst);
            if self.busy.load(Relaxed) {
                self.change(true);
            }
        }

        /// As `Worker::become_busy`.
        fn become_busy(&self) {
            self.busy.store(true, Relaxed);
            fence(SeqCst);
            if self.pending.load(Relaxed) > 0 {
                self.change(true);
            }
        }

        fn ticks(&self) -> bool {
            let ticks = *self.timer.lock();
            assert_eq!(ticks, self.armed.0.load(Relaxed), "word and timer differ");
            ticks
        }
    }

    #[test]
    fn the_timer_follows_the_word() {
        loom::model(|| {
            let vp = Vp::new();
            let threads = [true, false].map(|on| {
                let vp = vp.clone();
                thread::spawn(move || vp.change(on))
            });
            vp.change(true);
            threads.into_iter().for_each(|t| t.join().unwrap());
            vp.ticks();
        });
    }

    #[test]
    fn a_request_that_comes_while_the_handler_finds_none_keeps_its_tick() {
        loom::model(|| {
            let vp = Vp::new();
            vp.busy.store(true, Relaxed);
            vp.change(true);
            let submitter = {
                let vp = vp.clone();
                thread::spawn(move || vp.submit())
            };
            vp.tick();
            submitter.join().unwrap();
            assert!(vp.ticks());
        });
    }

    #[test]
    fn a_request_that_comes_while_the_processor_becomes_busy_gets_a_tick() {
        loom::model(|| {
            let vp = Vp::new();
            let submitter = {
                let vp = vp.clone();
                thread::spawn(move || vp.submit())
            };
            vp.become_busy();
            submitter.join().unwrap();
            assert!(vp.ticks());
        });
    }
}
