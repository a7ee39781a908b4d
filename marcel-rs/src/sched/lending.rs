//! Whether a standby virtual processor may take threads that never ran: while calls that may block are in progress
//! on the one for which it stands by (`blocking::standby`).
//!
//! Its bit in the set of those to be woken for work means "lent, and asleep or about to be". The caller that
//! begins a call sets it, the end of the last one clears it, publishers of work may claim it, and the standby itself
//! clears it when it wakes and sets it again before it sleeps. The counter decides, the bit follows:
//!
//! ```text
//!   call                                    standby, about to sleep            standby, awake
//!   begin: count + 1, bit on, fence         count > 0? bit on, fence           bit off
//!          look for work, claim a bit       count still > 0? else bit off,     count > 0? take work
//!   end:   count − 1; last: bit off                          and once more
//!                                           last look, sleep
//! ```
//!
//! Invariant: a standby does not sleep with the bit on unless a call is in progress. A stale bit would absorb a wake-up
//! that another standby needs. Between its two looks at the count the bit may be stale for a moment. A standby that a
//! publisher claimed then wakes another worker before it sleeps again (`rest`).

use std::sync::atomic::Ordering::*;

use crate::os::AtomicU32;
use crate::sched::idle::IdleSet;

/// See the module's description.
#[derive(Default)]
pub(crate) struct Lending(AtomicU32);

impl Lending {
    /// Whether a call is in progress.
    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Acquire) > 0
    }

    /// A call is about to be made: the caller looks for work after this.
    pub(crate) fn begin(&self, set: &IdleSet, index: usize) {
        self.0.fetch_add(1, SeqCst);
        set.announce(index);
    }

    /// A call has returned; true if it was the last one.
    pub(crate) fn end(&self, set: &IdleSet, index: usize) -> bool {
        let last = self.0.fetch_sub(1, SeqCst) == 1;
        if last {
            set.withdraw(index);
            self.announce(set, index); // a call that another thread has begun meanwhile
        }
        last
    }

    /// The standby is about to sleep: its last look comes after this.
    pub(crate) fn announce(&self, set: &IdleSet, index: usize) {
        while self.is_on() {
            set.announce(index);
            if self.is_on() {
                return;
            }
            set.withdraw(index);
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::os::sleeper::Sleeper;
    use crate::task::latch::Latch;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    struct Runtime {
        lending: Lending,
        set: IdleSet,
        standby: Sleeper,
        work: AtomicUsize,
        stopping: AtomicUsize,
        done: Latch,
    }

    impl Runtime {
        fn new() -> Arc<Runtime> {
            Arc::new(Runtime {
                lending: Lending::default(),
                set: IdleSet::new(1),
                standby: Sleeper::new(),
                work: AtomicUsize::new(0),
                stopping: AtomicUsize::new(0),
                done: Latch::new(),
            })
        }

        fn wake_for_work(&self) {
            if self.set.claim(None, None).is_some() {
                self.standby.notify();
            }
        }

        fn has_work(&self) -> bool {
            self.lending.is_on() && self.work.load(Relaxed) > 0
        }

        /// As the scheduler's loop does it.
        fn stand_by(&self) {
            while self.stopping.load(Relaxed) == 0 {
                if self.has_work() {
                    self.work.fetch_sub(1, Relaxed);
                    self.done.set();
                    continue;
                }
                self.lending.announce(&self.set, 0);
                self.standby.sleep(None, || self.has_work() || self.stopping.load(Relaxed) > 0);
                if self.stopping.load(Relaxed) == 0 {
                    self.set.withdraw(0);
                }
            }
        }

        fn begin(&self) {
            self.lending.begin(&self.set, 0);
            if self.work.load(Relaxed) > 0 {
                self.wake_for_work();
            }
        }

        fn stop(&self) {
            self.stopping.store(1, Relaxed);
            crate::os::fence(SeqCst);
            self.standby.notify();
        }
    }

    /// The call returns only when the work is done: that which was there before, or which comes meanwhile.
    fn model(before: bool, calls: usize) {
        loom::model(move || {
            let runtime = Runtime::new();
            let standby = {
                let runtime = runtime.clone();
                thread::spawn(move || runtime.stand_by())
            };
            runtime.work.store(before as usize, Relaxed);
            let other = (!before).then(|| {
                let runtime = runtime.clone();
                thread::spawn(move || {
                    runtime.work.fetch_add(1, Relaxed);
                    runtime.wake_for_work();
                })
            });
            // Calls that return at once, then one that blocks.
            for _ in 1..calls {
                runtime.begin();
                runtime.lending.end(&runtime.set, 0);
            }
            runtime.begin();
            runtime.done.wait("a call");
            runtime.lending.end(&runtime.set, 0);
            runtime.stop();
            standby.join().unwrap();
            // Not asked before: for a moment, until the standby has looked at the count once more, the bit may be on.
            assert!(
                runtime.set.claim(None, None).is_none(),
                "the bit of a sleeper stayed on without a call"
            );
            other.into_iter().for_each(|t| t.join().unwrap());
        });
    }

    #[test]
    fn work_that_waits_when_a_call_begins_is_taken() {
        model(true, 1);
    }

    #[test]
    fn work_that_waits_when_a_later_call_begins_is_taken() {
        model(true, 2);
    }

    #[test]
    fn work_that_comes_during_a_call_is_taken() {
        model(false, 2);
    }
}
