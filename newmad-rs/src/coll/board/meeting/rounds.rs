//! The words by which the members of a meeting count who has come.
//!
//! ```text
//! member   deposit;  arrive: count += 1
//!            the last  ▶ works with all deposits;  finish: round += 1, count = 0;  wakes the others
//!            earlier   ▶ sleeps until woken;  is_over(round): the result is there, or the meeting has failed
//! failer   fail: FAILED is set;  fewer than all have come: wakes all
//! ```
//! All of it is in one word, so that the last to come and a failer cannot both go ahead:
//!
//! - Invariant: deposits of a round are read only between the arrival that makes the count full and `finish`, or, where
//!   members share the work, until all have parted. A failer that comes before the count is full ends the meeting: no later
//!   arrival is the last. One that comes after lets the round end.
//! - Where the members share the work, each *parts* when it is done with the others' memory. The last to part wakes the
//!   others. A failure does not cut this short: between arriving and parting members compute and wait for nothing.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The meeting is over for good.
const FAILED: u64 = 1 << 31;
const COUNT: u64 = FAILED - 1;
const ROUND: u64 = 1 << 32;

/// See the module.
pub(crate) struct Rounds {
    /// `round << 32 | FAILED | count`
    word: AtomicU64,
    parted: AtomicU32,
    size: u32,
}

/// What a member is that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// All others have come.
    Last,
    /// Others come in this round.
    Early(u32),
    /// The meeting has failed.
    Failed,
}

impl Rounds {
    pub(crate) fn new(size: u32) -> Rounds {
        Rounds { word: AtomicU64::new(0), parted: AtomicU32::new(0), size }
    }

    /// The caller has written its deposit, and its latches are fresh.
    #[inline]
    pub(crate) fn arrive(&self) -> Arrival {
        // Acquire: the last reads all deposits, and writes to what earlier rounds have read. Release: this deposit.
        let before = self.word.fetch_add(1, Ordering::AcqRel);
        match before & FAILED != 0 {
            true => Arrival::Failed,
            false if before & COUNT == u64::from(self.size) - 1 => Arrival::Last,
            false => Arrival::Early((before / ROUND) as u32),
        }
    }

    /// The last has worked: the next round begins, and the caller wakes the others after this.
    #[inline]
    pub(crate) fn finish(&self) {
        self.word.fetch_add(ROUND - u64::from(self.size), Ordering::AcqRel);
    }

    /// Whether a round has been finished, for a member that was woken: the wake-up comes after `finish`, or after a failure, and
    /// makes the result visible.
    #[inline]
    pub(crate) fn is_over(&self, round: u32) -> bool {
        (self.word.load(Ordering::Relaxed) / ROUND) as u32 != round
    }

    /// Ends the meeting. True: the caller wakes all members. False: another failer did; or all have come, and the last of
    /// them finishes the round.
    pub(crate) fn fail(&self) -> bool {
        let before = self.word.fetch_or(FAILED, Ordering::AcqRel);
        before & FAILED == 0 && before & COUNT != u64::from(self.size)
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.word.load(Ordering::Acquire) & FAILED != 0
    }

    /// The caller is done with the others' memory in a round whose work is shared. True: so are all, and the caller wakes
    /// them.
    #[inline]
    pub(crate) fn part(&self) -> bool {
        let before = self.parted.fetch_add(1, Ordering::AcqRel);
        let last = before == self.size - 1;
        if last {
            // The others arrive at the next round after they have been woken.
            self.parted.store(0, Ordering::Relaxed);
        }
        last
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::sync::{Arc, UnsafeCell};
    use loom::sync::Notify;
    use loom::thread;

    /// A latch, as a seat has one.
    struct Latch {
        set: AtomicU32,
        notify: Notify,
    }

    impl Latch {
        fn new() -> Latch {
            Latch { set: AtomicU32::new(0), notify: Notify::new() }
        }

        fn rearm(&self) {
            self.set.store(0, Ordering::Relaxed);
        }

        fn set(&self) {
            self.set.store(1, Ordering::Release);
            self.notify.notify();
        }

        fn wait(&self) {
            while self.set.load(Ordering::Acquire) == 0 {
                self.notify.wait();
            }
        }
    }

    struct Seat {
        deposit: UnsafeCell<u64>,
        result: UnsafeCell<u64>,
        met: Latch,
        parted: Latch,
    }

    struct Meeting {
        rounds: Rounds,
        seats: Vec<Seat>,
        /// Why it has failed.
        reason: AtomicU32,
    }

    impl Meeting {
        fn new(size: u32) -> Arc<Meeting> {
            let seat = || Seat {
                deposit: UnsafeCell::new(0),
                result: UnsafeCell::new(0),
                met: Latch::new(),
                parted: Latch::new(),
            };
            let seats = (0..size).map(|_| seat()).collect();
            let rounds = Rounds::new(size);
            Arc::new(Meeting { rounds, seats, reason: AtomicU32::new(0) })
        }

        fn wake(&self, me: usize, latch: impl Fn(&Seat) -> &Latch) {
            for (_, seat) in self.seats.iter().enumerate().filter(|&(rank, _)| rank != me) {
                latch(seat).set();
            }
        }

        fn sum(&self) -> u64 {
            // SAFETY: the protocol, which loom checks here.
            self.seats.iter().map(|seat| seat.deposit.with(|value| unsafe { *value })).sum()
        }

        /// The sum of what all give. `None`: the meeting has failed. `shared`: each member makes its own result.
        fn meet(&self, me: usize, value: u64, shared: bool) -> Option<u64> {
            let own = &self.seats[me];
            let failed = || {
                assert_eq!(self.reason.load(Ordering::Relaxed), 7);
                None
            };
            if self.rounds.has_failed() {
                return failed();
            }
            own.met.rearm();
            own.parted.rearm();
            // SAFETY: the protocol.
            own.deposit.with_mut(|deposit| unsafe { *deposit = value });
            match self.rounds.arrive() {
                Arrival::Failed => return failed(),
                Arrival::Early(round) => {
                    own.met.wait();
                    if !self.rounds.is_over(round) {
                        // Its deposit is its own again.
                        own.deposit.with_mut(|deposit| unsafe { *deposit = 0 });
                        return failed();
                    }
                }
                Arrival::Last => {
                    if !shared {
                        let sum = self.sum();
                        for seat in &self.seats {
                            seat.result.with_mut(|result| unsafe { *result = sum });
                        }
                    }
                    self.rounds.finish();
                    self.wake(me, |seat| &seat.met);
                }
            }
            if shared {
                let sum = self.sum();
                own.result.with_mut(|result| unsafe { *result = sum });
                match self.rounds.part() {
                    true => self.wake(me, |seat| &seat.parted),
                    false => own.parted.wait(),
                }
            }
            own.deposit.with_mut(|deposit| unsafe { *deposit = 0 });
            Some(own.result.with(|result| unsafe { *result }))
        }

        fn fail(&self) {
            self.reason.store(7, Ordering::Relaxed);
            if self.rounds.fail() {
                self.wake(usize::MAX, |seat| &seat.met);
            }
        }
    }

    fn rounds(shared: bool) {
        loom::model(move || {
            let meeting = Meeting::new(2);
            let member = |me: usize| {
                let meeting = meeting.clone();
                move || {
                    for round in 0..2 {
                        let value = 10 * round + 1 + me as u64;
                        assert_eq!(meeting.meet(me, value, shared), Some(20 * round + 3));
                    }
                }
            };
            let other = thread::spawn(member(1));
            member(0)();
            other.join().unwrap();
        });
    }

    #[test]
    fn the_last_to_come_works_for_all_round_after_round() {
        rounds(false);
    }

    #[test]
    fn members_that_share_the_work_part_when_all_are_done() {
        rounds(true);
    }

    /// A failer comes at any time: a member has the result or learns of the failure, and none waits for ever.
    fn failer(shared: bool) {
        loom::model(move || {
            let meeting = Meeting::new(2);
            let member = |me: usize| {
                let meeting = meeting.clone();
                move || {
                    let first = meeting.meet(me, 1, shared);
                    assert!(first.is_none_or(|sum| sum == 2));
                    let second = first.and_then(|_| meeting.meet(me, 2, shared));
                    assert!(second.is_none_or(|sum| sum == 4));
                    second.is_some()
                }
            };
            let other = thread::spawn(member(1));
            let failer = {
                let meeting = meeting.clone();
                thread::spawn(move || meeting.fail())
            };
            let one = member(0)();
            let both = [one, other.join().unwrap()];
            failer.join().unwrap();
            assert_eq!(both[0], both[1], "a round is over for all or for none");
        });
    }

    #[test]
    fn a_failure_ends_a_round_for_all_or_for_none() {
        failer(false);
    }

    #[test]
    fn a_failure_does_not_cut_a_shared_round_short() {
        failer(true);
    }
}
