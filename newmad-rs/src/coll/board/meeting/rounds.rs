//! The words by which the members of a meeting count who has come.
//!
//! ```text
//! member   deposit;  gather: count of its neighbours += 1
//!            the last of them  ▶ arrive: count of groups += 1
//!              the last        ▶ works with all deposits;  finish: round += 1, count = 0;  wakes the last of each other
//!                                group, and then its own neighbours
//!              earlier         ▶ sleeps until woken;  is_over(round): the result is there, or the meeting has failed;
//!                                wakes its neighbours
//!            earlier           ▶ sleeps until woken;  is_over(round)
//! failer   fail: FAILED is set;  fewer than all have come: wakes all
//! ```
//! Whether all have come, and whether the meeting has failed, is in one word, so that the last to come and a failer cannot
//! both go ahead:
//!
//! - Invariant: deposits of a round are read only between the arrival that makes the count full and `finish`, or, where
//!   members share the work, until all have parted. A failer that comes before the count is full ends the meeting: no later
//!   arrival is the last. One that comes after lets the round end, and says so (ENDS) to those that look later.
//! - In the first round each member is a group of its own: where the members are is known at its end (`neighbours`).
//! - A member that is not the last of its neighbours does not change that word. It looks at it after it has gathered, and
//!   the failer looks at its latch after it has changed the word: one of the two sees the other.
//! - Where the members share the work, each *parts* when it is done with the others' memory. The last to part wakes the
//!   others. A failure does not cut this short: between arriving and parting members compute and wait for nothing.

#[cfg(not(loom))]
use super::neighbours::Neighbours;
#[cfg(loom)]
use crate::neighbours::Neighbours;
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// The meeting is over for good.
const FAILED: u64 = 1 << 31;
/// It failed when all had come to this round, which ends nevertheless.
const ENDS: u64 = 1 << 30;
/// Groups are counted, no longer members.
const GROUPED: u64 = 1 << 29;
const COUNT: u64 = GROUPED - 1;
const ROUND: u64 = 1 << 32;

/// See the module.
pub(crate) struct Rounds {
    /// `round << 32 | FAILED | ENDS | GROUPED | count`
    word: AtomicU64,
    /// Groups, once they are counted.
    groups: AtomicU32,
    parted: AtomicU32,
    size: u32,
}

/// What a member is that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// All others have come.
    Last,
    /// Others come in this round.
    Early(Early),
    /// The meeting has failed.
    Failed,
}

/// A member that waits for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Early {
    round: u32,
    /// It is the last of its neighbours, and wakes them when it is woken.
    pub(crate) wakes: bool,
}

/// A member that is about to leave its deposit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    round: u32,
    grouped: bool,
}

impl Rounds {
    pub(crate) fn new(size: u32) -> Rounds {
        let (word, groups) = (AtomicU64::new(0), AtomicU32::new(0));
        Rounds { word, groups, parted: AtomicU32::new(0), size }
    }

    /// A member that has parted from its last round comes to the next one, which is not over before it arrives. `None`: the
    /// meeting has failed.
    #[inline]
    pub(crate) fn enter(&self) -> Option<Entry> {
        let word = self.word.load(Ordering::Acquire);
        let entry = Entry { round: (word / ROUND) as u32, grouped: word & GROUPED != 0 };
        (word & FAILED == 0).then_some(entry)
    }

    /// The member with this seat has written its deposit, and its latches are fresh. The neighbours are known where groups
    /// are counted.
    #[inline]
    pub(crate) fn arrive(
        &self,
        entry: Entry,
        me: usize,
        neighbours: Option<&Neighbours>,
    ) -> Arrival {
        let Entry { round, grouped } = entry;
        let neighbours = neighbours.filter(|_| grouped);
        if let Some(neighbours) = neighbours
            && !neighbours.gather(me)
        {
            // Pairs with the one in `fail`: the failer wakes this member, or this one sees the failure.
            fence(Ordering::SeqCst);
            let word = self.word.load(Ordering::Acquire);
            let is_on = (word / ROUND) as u32 == round;
            return match is_on && word & (FAILED | ENDS) == FAILED {
                true => Arrival::Failed,
                false => Arrival::Early(Early { round, wakes: false }),
            };
        }
        // Acquire: the last reads all deposits, and writes to what earlier rounds have read. Release: this deposit, and
        // those of the neighbours, which have gathered before.
        let before = self.word.fetch_add(1, Ordering::AcqRel);
        match before & FAILED != 0 {
            true => Arrival::Failed,
            false if (before & COUNT) + 1 == self.full(before) => Arrival::Last,
            false => Arrival::Early(Early { round, wakes: grouped }),
        }
    }

    /// How many arrivals make the count full.
    #[inline]
    fn full(&self, word: u64) -> u64 {
        match word & GROUPED {
            0 => u64::from(self.size),
            // Written before the mark was set.
            _ => u64::from(self.groups.load(Ordering::Relaxed)),
        }
    }

    /// The last has worked: the next round begins, and the caller wakes the others after this: all, or, true: the last of
    /// each other group and its own neighbours. In the next round groups are counted.
    #[inline]
    pub(crate) fn finish(&self, neighbours: &Neighbours) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        let grouped = word & GROUPED != 0;
        let full = self.full(word);
        if !grouped {
            self.groups.store(neighbours.groups() as u32, Ordering::Relaxed);
        }
        let mark = if grouped { 0 } else { GROUPED };
        self.word.fetch_add(ROUND + mark - full, Ordering::AcqRel);
        grouped
    }

    /// Whether the round of a member that was woken has been finished: the wake-up comes after `finish`, or after a failure,
    /// and makes the result visible.
    #[inline]
    pub(crate) fn is_over(&self, early: Early) -> bool {
        (self.word.load(Ordering::Relaxed) / ROUND) as u32 != early.round
    }

    /// Ends the meeting. True: the caller wakes all members. False: another failer did; or all have come, and the last of
    /// them finishes the round.
    pub(crate) fn fail(&self) -> bool {
        let failed = self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
            let ends = word & COUNT == self.full(word);
            (word & FAILED == 0).then_some(word | FAILED | if ends { ENDS } else { 0 })
        });
        fence(Ordering::SeqCst);
        failed.is_ok_and(|before| before & COUNT != self.full(before))
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
        neighbours: Neighbours,
        /// Why it has failed.
        reason: AtomicU32,
    }

    impl Meeting {
        fn new(places: &[usize]) -> Arc<Meeting> {
            let size = places.len() as u32;
            let seat = || Seat {
                deposit: UnsafeCell::new(0),
                result: UnsafeCell::new(0),
                met: Latch::new(),
                parted: Latch::new(),
            };
            let seats = (0..size).map(|_| seat()).collect();
            let rounds = Rounds::new(size);
            let reason = AtomicU32::new(0);
            let neighbours = Neighbours::new(places.iter().copied());
            Arc::new(Meeting { rounds, seats, neighbours, reason })
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
            let Some(entry) = self.rounds.enter() else { return failed() };
            own.met.rearm();
            own.parted.rearm();
            // SAFETY: the protocol.
            own.deposit.with_mut(|deposit| unsafe { *deposit = value });
            match self.rounds.arrive(entry, me, Some(&self.neighbours)) {
                Arrival::Failed => return failed(),
                Arrival::Early(early) => {
                    own.met.wait();
                    if !self.rounds.is_over(early) {
                        // Its deposit is its own again.
                        own.deposit.with_mut(|deposit| unsafe { *deposit = 0 });
                        return failed();
                    }
                    if early.wakes {
                        self.neighbours.of(me).for_each(|seat| self.seats[seat].met.set());
                    }
                }
                Arrival::Last => {
                    if !shared {
                        let sum = self.sum();
                        for seat in &self.seats {
                            seat.result.with_mut(|result| unsafe { *result = sum });
                        }
                    }
                    match self.rounds.finish(&self.neighbours) {
                        false => self.wake(me, |seat| &seat.met),
                        true => {
                            let woken = self.neighbours.of_last(me);
                            woken.for_each(|seat| self.seats[seat].met.set());
                        }
                    }
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
            let meeting = Meeting::new(&[1, 2]);
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

    /// Members at these places after their first round, and a failer or none, in so many rounds.
    fn neighbours(places: &'static [usize], rounds: u64, fails: bool) {
        loom::model(move || {
            let meeting = Meeting::new(places);
            for me in 0..places.len() {
                let entry = meeting.rounds.enter().unwrap();
                meeting.rounds.arrive(entry, me, None);
            }
            assert!(!meeting.rounds.finish(&meeting.neighbours));
            let count = places.len() as u64;
            let member = |me: usize| {
                let meeting = meeting.clone();
                move || {
                    (0..rounds).all(|round| {
                        let sum = meeting.meet(me, 10 * round + 1 + me as u64, false);
                        let whole = count * 10 * round + count * (count + 1) / 2;
                        assert!(sum.is_some_and(|sum| sum == whole) || fails && sum.is_none());
                        sum.is_some()
                    })
                }
            };
            let failer = fails.then(|| {
                let meeting = meeting.clone();
                thread::spawn(move || meeting.fail())
            });
            let others: Vec<_> = (1..places.len()).map(|me| thread::spawn(member(me))).collect();
            let first = member(0)();
            for other in others {
                assert_eq!(other.join().unwrap(), first, "a round is over for all or for none");
            }
            if let Some(failer) = failer {
                failer.join().unwrap();
            }
        });
    }

    #[test]
    fn neighbours_gather_and_wake_each_other() {
        neighbours(&[1, 1], 2, false);
    }

    #[test]
    fn two_groups_of_neighbours_meet() {
        neighbours(&[1, 2, 2], 1, false);
    }

    #[test]
    fn a_failure_ends_a_round_of_a_group_and_another_member_for_all_or_for_none() {
        neighbours(&[1, 2], 1, true);
    }

    #[test]
    fn a_failure_ends_a_round_of_neighbours_for_all_or_for_none() {
        neighbours(&[1, 1], 1, true);
    }

    #[test]
    fn members_that_share_the_work_part_when_all_are_done() {
        rounds(true);
    }

    /// A failer comes at any time: a member has the result or learns of the failure, and none waits for ever.
    fn failer(shared: bool) {
        loom::model(move || {
            let meeting = Meeting::new(&[1, 2]);
            let member = |me: usize| {
                let meeting = meeting.clone();
                move || {
                    let first = meeting.meet(me, 1, shared);
                    assert!(first.is_none_or(|sum| sum == 2));
                    // A failure between two rounds is the same where the work is not shared.
                    if shared {
                        return first.is_some();
                    }
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
