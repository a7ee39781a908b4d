//! When the kernel is to wake a thread: the time that a timer's descriptor is set for.
//!
//! Setting it is a system call, so that two may want to at once, for different deadlines, and the later one's system
//! call could come first. One at a time, then; a thread that finds another one at it has not armed, polls, and tries
//! again.
//!
//! Invariant: while it is still to come, it is not set for a later deadline. Time-outs are mostly taken back before they
//! end: it goes off in vain then, once, which costs less than a system call for each. And another thread may have
//! inserted a deadline meanwhile, and rely on it as it is set.

use crate::shim::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// No deadline.
pub(crate) const NEVER: u64 = u64::MAX;

pub(crate) struct Alarm {
    setting: AtomicBool,
    set_for: AtomicU64,
}

impl Alarm {
    /// Not set.
    pub(crate) fn new() -> Alarm {
        Alarm { setting: AtomicBool::new(false), set_for: AtomicU64::new(NEVER) }
    }

    /// Makes sure that it goes off at `earliest` or before; what has gone off is turned off. False if another thread
    /// sets it right now, or a deadline is over. Progress path: one system call at most, in `set`.
    pub(crate) fn arm(
        &self,
        earliest: &AtomicU64,
        now: impl FnOnce() -> u64,
        set: impl FnOnce(u64),
    ) -> bool {
        let look = || (earliest.load(SeqCst), self.set_for.load(SeqCst));
        let (wanted, set_for) = look();
        // After the look: by an older time an alarm that another thread turns off would seem to come.
        let now = now();
        if wanted != NEVER && wanted <= now {
            return false;
        }
        // (Set for `NEVER`, and `NEVER` is wanted: the same.)
        let suffices = |wanted, set_for| now < set_for && set_for <= wanted;
        if suffices(wanted, set_for) {
            return true;
        }
        if self.setting.compare_exchange(false, true, SeqCst, SeqCst).is_err() {
            return false;
        }
        let (wanted, set_for) = look();
        if !suffices(wanted, set_for) {
            set(wanted);
            self.set_for.store(wanted, SeqCst);
        }
        self.setting.store(false, SeqCst);
        true
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Each inserts a deadline, then makes sure that it will be woken: a thread that is told so will be. A thread that
    /// is told to try again does so later.
    #[test]
    fn the_alarm_is_never_later_than_the_earliest_deadline() {
        loom::model(|| {
            let world = Arc::new((AtomicU64::new(NEVER), Alarm::new(), AtomicU64::new(NEVER)));
            let one = |deadline: u64| {
                let world = world.clone();
                move || {
                    let (earliest, alarm, kernel) = &*world;
                    earliest.fetch_min(deadline, SeqCst);
                    if alarm.arm(earliest, || 0, |at| kernel.store(at, SeqCst)) {
                        assert!(kernel.load(SeqCst) <= deadline);
                    }
                }
            };
            let threads = [thread::spawn(one(100)), thread::spawn(one(50))];
            threads.into_iter().for_each(|t| t.join().unwrap());
            let (earliest, alarm, kernel) = &*world;
            assert!(alarm.arm(earliest, || 0, |at| kernel.store(at, SeqCst)));
            assert_eq!(kernel.load(SeqCst), 50);
        });
    }

    /// It is set for a deadline that was taken back. One thread inserts an earlier one, another takes that back, and a
    /// third then inserts a later one, and relies on what it is set for.
    #[test]
    fn the_alarm_is_not_moved_later_while_it_is_to_come() {
        loom::model(|| {
            let alarm = Alarm { setting: AtomicBool::new(false), set_for: AtomicU64::new(10) };
            let world = Arc::new((AtomicU64::new(NEVER), alarm, AtomicU64::new(10)));
            let arms = {
                let world = world.clone();
                thread::spawn(move || {
                    let (earliest, alarm, kernel) = &*world;
                    earliest.fetch_min(5, SeqCst);
                    alarm.arm(earliest, || 0, |at| kernel.store(at, SeqCst));
                })
            };
            let takes_back = {
                let world = world.clone();
                thread::spawn(move || world.0.store(NEVER, SeqCst))
            };
            takes_back.join().unwrap();
            let (earliest, alarm, kernel) = &*world;
            earliest.fetch_min(12, SeqCst);
            let told = alarm.arm(earliest, || 0, |at| kernel.store(at, SeqCst));
            arms.join().unwrap();
            assert!(!told || kernel.load(SeqCst) <= 12);
        });
    }
}
