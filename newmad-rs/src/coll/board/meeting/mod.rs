//! Where ranks of one process meet for a collective: the result goes from buffer to buffer.
//!
//! Each member leaves a *deposit* at its seat, its task and where its memory is, and sleeps. The last to come finds all
//! deposits: it does the work for all and has them woken. What is long is shared: all wake, each does its share, and all part.
//!
//! | file | what |
//! |---|---|
//! | `rounds` | the words by which members count who has come: the protocol, with its model |
//! | `neighbours` | which members count together, and wake each other |
//! | `deposit` | what members bring, and whether it fits together |
//! | `work` | copies and combinations |
//!
//! # Failures
//! A meeting fails when a member revokes its group, when a member's rank closes its session or panics
//! (`session::departures`), and when a wait at it unwinds. Then each member that waits, or comes later, gets the error. A
//! round in which all have come ends as it would.
//!
//! Rejected: a tree (members of one process read each other's memory at one price, and each level costs a switch); a
//! meeting that the group's id names (ids are used again, and members leave a group at different times).

mod deposit;
mod neighbours;
mod rounds;
#[cfg(test)]
mod tests;
mod work;

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::sync::{OnceLock, Weak};

use pioman::Completion;

use crate::coll::failure::Failure;
use crate::error::Cause;
use crate::session::departures::Watches;
pub(in crate::coll) use deposit::Deposit;
use deposit::{Deposits, Misfit, misfit};
use neighbours::Neighbours;
use rounds::{Arrival, Early, Rounds};
use work::{Worker, amount};

/// Bytes up to which the last to come moves all alone: to share the work costs a second wake-up of each member.
const ALONE: usize = 32 * 1024;

/// See the module.
pub(in crate::coll) struct Meeting {
    rounds: Rounds,
    /// How the last round goes on. Written by the last to come, before `finish`.
    verdict: UnsafeCell<Verdict>,
    /// Made in the first round, by the last to come.
    neighbours: OnceLock<Neighbours>,
    /// The seat of a member whose operator panicked in a shared round, plus one.
    spoiler: AtomicUsize,
    seats: Box<[Seat]>,
    /// Ranks in the session, in the order of seats.
    members: Box<[u32]>,
    /// Why it has failed, as members other than the failer are told.
    failure: OnceLock<Failure>,
    /// What is told, too.
    hearer: OnceLock<Weak<dyn Hears>>,
}

/// What goes on elsewhere for the members of a meeting, and ends with it.
pub(in crate::coll) trait Hears: Send + Sync {
    /// The meeting has failed.
    fn hears(&self, failure: Failure);
}

/// A member's place. The alignment keeps neighbours off its cache lines.
#[repr(align(128))]
struct Seat {
    /// Written by its owner before it arrives, read by the workers of the round.
    deposit: UnsafeCell<Option<Deposit<'static>>>,
    met: Completion,
    parted: Completion,
}

/// How a round goes on after all have come.
#[derive(Clone, Copy)]
enum Verdict {
    /// All is done.
    Done,
    /// Each does its share.
    Shared,
    /// Deposits do not fit together.
    Misfit(Misfit),
    /// The operator of the last to come, who has this seat, panicked.
    Panicked(usize),
}

/// Why a round ends without a result.
pub(in crate::coll) enum Ended {
    Failed(Failure),
    /// The member's operator panicked with this.
    Panicked(Box<dyn Any + Send>),
}

/// How a member waits for the end of a part of a round.
pub(in crate::coll) type Wait<'a> = &'a dyn Fn(&Completion);

// SAFETY: `rounds` says which thread uses the cells. A deposit is its owner's until the owner arrives and again after it
// was woken or has parted; in between workers read it. The verdict is the last arrival's until `finish`; the next round's
// last comes after all have read it.
unsafe impl Sync for Meeting {}
// SAFETY: deposits are of members that wait until the round is over; nothing belongs to one thread.
unsafe impl Send for Meeting {}

impl Meeting {
    /// Of these ranks of the session, all of this process.
    pub(in crate::coll) fn new(members: &[u32]) -> Meeting {
        let seat = |_: &u32| Seat {
            deposit: UnsafeCell::new(None),
            met: Completion::new(),
            parted: Completion::new(),
        };
        Meeting {
            rounds: Rounds::new(members.len() as u32),
            verdict: UnsafeCell::new(Verdict::Done),
            neighbours: OnceLock::new(),
            spoiler: AtomicUsize::new(0),
            seats: members.iter().map(seat).collect(),
            members: members.into(),
            failure: OnceLock::new(),
            hearer: OnceLock::new(),
        }
    }

    /// From now on this is told when the meeting fails; at once if it has. A member that has left in order owes nothing to
    /// the rounds that are over, which may go on there: of that it is not told. The next round fails.
    pub(in crate::coll) fn tells(&self, hearer: Weak<dyn Hears>) {
        let _ = self.hearer.set(hearer);
        // Pairs with the fence in `fail`: one of the two sees the other.
        fence(SeqCst);
        if let Some(&failure) = self.failure.get() {
            self.tell(failure);
        }
    }

    /// Told twice, the second time does nothing.
    fn tell(&self, failure: Failure) {
        if !matches!(failure, Failure::Died(_, Cause::Left))
            && let Some(hearer) = self.hearer.get().and_then(Weak::upgrade)
        {
            hearer.hears(failure);
        }
    }

    /// Ends the meeting: members that wait, and those that come, get this failure.
    pub(in crate::coll) fn fail(&self, failure: Failure) {
        let _ = self.failure.set(failure); // the first one counts
        if self.rounds.fail() {
            self.wake(usize::MAX, |seat| &seat.met);
        }
        fence(SeqCst);
        self.tell(failure);
    }

    /// Whether the members' places are known.
    pub(in crate::coll) fn is_divided(&self) -> bool {
        self.neighbours.get().is_some()
    }

    fn wake(&self, me: usize, end: impl Fn(&Seat) -> &Completion) {
        for (seat, _) in self.seats.iter().zip(0..).filter(|&(_, rank)| rank != me) {
            end(seat).complete();
        }
    }

    /// The last to come has done the work.
    fn finish(&self, me: usize) {
        let places = || (0..self.seats.len()).map(|seat| Table(self).get(seat).place);
        let neighbours = self.neighbours.get_or_init(|| Neighbours::new(places()));
        match self.rounds.finish(neighbours) {
            true => self.wake_these(neighbours.of_last(me)),
            false => self.wake(me, |seat| &seat.met),
        }
    }

    fn wake_these(&self, seats: impl Iterator<Item = usize>) {
        seats.for_each(|seat| self.seats[seat].met.complete());
    }

    fn why(&self) -> Ended {
        Ended::Failed(self.failure.get().copied().unwrap_or(Failure::Closed))
    }

    fn revoked_by(&self, seat: usize) -> Ended {
        Ended::Failed(Failure::Revoked { by: self.members[seat], gone: false })
    }

    /// Does one collective as the member with this seat. `wait` returns when its completion is done.
    ///
    /// # Safety
    /// Each member comes with its own seat, from one thread at a time. The deposit's memory is as long as its task takes it
    /// to be; until this returns or unwinds it is the meeting's.
    pub(in crate::coll) unsafe fn meet(
        &self,
        me: usize,
        deposit: &Deposit<'_>,
        wait: Wait<'_>,
    ) -> Result<(), Ended> {
        let Some(entry) = self.rounds.enter() else { return Err(self.why()) };
        let own = &self.seats[me];
        // SAFETY: the last round's wake-ups of this seat are over, since its owner waited for them. A failer may complete it
        // at any time; then the meeting has failed and is not waited at. The deposit is this thread's until it arrives;
        // others read it during the call only, which is as long as it lives.
        unsafe {
            own.met.rearm();
            own.parted.rearm();
            *own.deposit.get() =
                Some(std::mem::transmute::<Deposit<'_>, Deposit<'static>>(*deposit));
        }
        match self.rounds.arrive(entry, me, self.neighbours.get()) {
            Arrival::Failed => Err(self.why()),
            Arrival::Last => self.lead(me, deposit, wait),
            Arrival::Early(early) => {
                let sleeper = Sleeper { meeting: self, me, deposit, early };
                wait(&own.met);
                std::mem::forget(sleeper);
                self.follow(me, deposit, early, wait)
            }
        }
    }

    /// All others have come.
    fn lead(&self, me: usize, deposit: &Deposit<'_>, wait: Wait<'_>) -> Result<(), Ended> {
        let mut panicked = None;
        let verdict = match misfit(&Table(self)) {
            Some(misfit) => Verdict::Misfit(misfit),
            None if amount(deposit.task, self.seats.len()) > ALONE => Verdict::Shared,
            None => match self.work(deposit, (0, 1)) {
                Ok(later) => {
                    // SAFETY: the only worker is done.
                    later.iter().for_each(|later| unsafe { later.write() });
                    Verdict::Done
                }
                Err(panic) => {
                    panicked = Some(panic);
                    Verdict::Panicked(me)
                }
            },
        };
        // SAFETY: the others do not look before `finish`.
        unsafe { *self.verdict.get() = verdict };
        self.finish(me);
        match panicked {
            Some(panic) => Err(Ended::Panicked(panic)),
            None => self.go_on(me, deposit, verdict, wait),
        }
    }

    /// Was woken.
    fn follow(
        &self,
        me: usize,
        deposit: &Deposit<'_>,
        early: Early,
        wait: Wait<'_>,
    ) -> Result<(), Ended> {
        if !self.rounds.is_over(early) {
            return Err(self.why());
        }
        // SAFETY: written before `finish`, and not again before this member comes again.
        let verdict = unsafe { *self.verdict.get() };
        if early.wakes
            && let Some(neighbours) = self.neighbours.get()
        {
            // Before anything else: no other member wakes them.
            self.wake_these(neighbours.of(me));
        }
        self.go_on(me, deposit, verdict, wait)
    }

    fn go_on(
        &self,
        me: usize,
        deposit: &Deposit<'_>,
        verdict: Verdict,
        wait: Wait<'_>,
    ) -> Result<(), Ended> {
        match verdict {
            Verdict::Done => Ok(()),
            Verdict::Shared => self.share(me, deposit, wait),
            Verdict::Panicked(seat) => Err(self.revoked_by(seat)),
            Verdict::Misfit(Misfit { taker, giver, expected, found }) => {
                let mismatch = |seat: usize, expected, found| {
                    let from = self.members[seat];
                    Err(Ended::Failed(Failure::Mismatch { from, expected, found }))
                };
                match me {
                    _ if me == taker => mismatch(giver, expected, found),
                    _ if me == giver => mismatch(taker, found, expected),
                    _ => Err(self.revoked_by(giver)),
                }
            }
        }
    }

    /// Does this worker's part; an error is what its operator panicked with.
    fn work(
        &self,
        deposit: &Deposit<'_>,
        (number, workers): (usize, usize),
    ) -> std::thread::Result<Vec<work::Later>> {
        let table = Table(self);
        let worker = Worker { all: &table, operator: deposit.operator, number, workers };
        // SAFETY: all have come, their deposits fit together, and none goes before all workers are done.
        catch_unwind(AssertUnwindSafe(|| unsafe { worker.work() }))
    }

    /// Does this member's share, and parts.
    fn share(&self, me: usize, deposit: &Deposit<'_>, wait: Wait<'_>) -> Result<(), Ended> {
        let worked = self.work(deposit, (me, self.seats.len()));
        if worked.is_err() {
            // Published by `part`.
            self.spoiler.store(me + 1, Relaxed);
        }
        let own = &self.seats[me];
        match self.rounds.part() {
            true => self.wake(me, |seat| &seat.parted),
            false => {
                let parting = Parting(&own.parted);
                wait(&own.parted);
                std::mem::forget(parting);
            }
        }
        let later = worked.map_err(Ended::Panicked)?;
        match self.spoiler.load(Relaxed) {
            0 => {
                // SAFETY: all workers have parted, and the own memory is here.
                later.iter().for_each(|later| unsafe { later.write() });
                Ok(())
            }
            spoiler => Err(self.revoked_by(spoiler - 1)),
        }
    }
}

impl Watches for Meeting {
    fn departs(&self, rank: u32, cause: Cause) {
        if self.members.contains(&rank) {
            self.fail(Failure::Died(rank, cause));
        }
    }
}

/// A member that waits for the others. If the wait unwinds (a runtime that stops), the meeting is over; the member goes
/// when its memory is used no more.
struct Sleeper<'a> {
    meeting: &'a Meeting,
    me: usize,
    deposit: &'a Deposit<'a>,
    early: Early,
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        let Sleeper { meeting, me, deposit, early } = *self;
        meeting.fail(Failure::Revoked { by: meeting.members[me], gone: false });
        // The failer wakes it, or the last of the round.
        meeting.seats[me].met.latch().wait("the end of a collective");
        let parts = |end: &Completion| end.latch().wait("the end of a collective");
        let _ = meeting.follow(me, deposit, early, &parts);
    }
}

/// A member that waits until the others are done with its memory; it does so, too, if the wait unwinds.
struct Parting<'a>(&'a Completion);

impl Drop for Parting<'_> {
    fn drop(&mut self) {
        self.0.latch().wait("the end of a collective");
    }
}

/// All deposits of a round in which all have come.
struct Table<'a>(&'a Meeting);

impl Deposits for Table<'_> {
    fn count(&self) -> usize {
        self.0.seats.len()
    }

    fn get(&self, rank: usize) -> Deposit<'_> {
        // SAFETY: all have come: no owner writes its deposit before it was woken, or has parted.
        let deposit = unsafe { *self.0.seats[rank].deposit.get() };
        deposit.expect("a member leaves a deposit before it arrives")
    }
}
