//! How long the program stays away between posting long messages and waiting for them.
//!
//! How a long message moves best depends on whether both sides are there ([`choose`](crate::proto::choose)), and is chosen
//! when it is matched: often in the call that posts the receive, while the program is about to post its own message and
//! then to wait. Taken at its word it computes, and the copy is made in that very call, before its own message is announced:
//! two ranks that exchange 1 MiB copied one after the other, 330 µs instead of 84. So a process whose program has come to
//! wait at once, the last times, says that it waits when it posts.
//!
//! ```text
//!   posts ──▶ (away) ──▶ posts ──▶ (away) ──▶ waits        soon: the times away together are short
//! ```
//! By the same guess the process has no thread watch its sockets for a message that its sender does not announce
//! ([`Pending`](crate::proto::pending::Pending)).
//!
//! Wrong guesses cost time, no more: a side that does not come moves its part when its watcher or a tick looks.
//! Threads and ranks of a process count together, in relaxed loads and stores.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::sys::now_ns;

/// Away for less is not away: about what a sleep costs.
const SHORT_NS: u64 = 5_000;
/// After so many short times in a row the next one is expected to be short.
const ENOUGH: u8 = 2;

/// See the module.
#[derive(Default)]
pub(crate) struct Absence {
    /// When the program left the last call that posted; 0: it has waited since.
    left_ns: AtomicU64,
    /// For how long it was away before that, since it waited last.
    away_ns: AtomicU64,
    /// Short times in a row, up to [`ENOUGH`].
    short: AtomicU8,
    /// Calls that wait for messages which they have posted: collectives.
    waiting: AtomicU32,
}

/// A call that waits for what it posts.
pub(crate) struct Waiting<'a>(&'a Absence);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

/// A call that posts a long message, or waits for one while others are posted; dropped when it returns.
pub(crate) struct Posting<'a>(&'a Absence);

impl Drop for Posting<'_> {
    fn drop(&mut self) {
        self.0.leaves(now_ns());
    }
}

impl Absence {
    /// As [`Absence::posts`], and then [`Absence::leaves`].
    pub(crate) fn posting(&self, first: bool) -> Posting<'_> {
        self.posts(now_ns(), first);
        Posting(self)
    }

    /// A blocking call begins: the time in it is not away. `None`: the program has posted nothing that it has not waited for.
    pub(crate) fn pausing(&self, first: bool) -> Option<Posting<'_>> {
        (self.left_ns.load(Relaxed) != 0).then(|| self.posting(first))
    }

    /// A call begins that posts a long message. `first`: no other request is outstanding.
    pub(crate) fn posts(&self, now_ns: u64, first: bool) {
        let away = if first { 0 } else { self.away(now_ns) };
        self.away_ns.store(away, Relaxed);
        self.left_ns.store(0, Relaxed); // it is in the call
    }

    /// The call that posted returns.
    pub(crate) fn leaves(&self, now_ns: u64) {
        self.left_ns.store(now_ns.max(1), Relaxed);
    }

    /// The program waits for a long message.
    pub(crate) fn waits(&self, now_ns: impl FnOnce() -> u64) {
        if self.left_ns.load(Relaxed) == 0 {
            return; // it never left
        }
        let short = match self.away(now_ns()) {
            ..SHORT_NS => (self.short.load(Relaxed) + 1).min(ENOUGH),
            _ => 0,
        };
        self.short.store(short, Relaxed);
        self.left_ns.store(0, Relaxed);
        self.away_ns.store(0, Relaxed);
    }

    /// A long message has ended for which the program has not come to wait. A program that has been away for long by then is
    /// not expected to come at once the next time.
    pub(crate) fn ended(&self, now_ns: impl FnOnce() -> u64) {
        if self.left_ns.load(Relaxed) != 0
            && self.is_expected_to_be_short()
            && self.away(now_ns()) >= SHORT_NS
        {
            self.short.store(0, Relaxed);
        }
    }

    /// A call begins that waits for what it posts.
    pub(crate) fn waiting(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Relaxed);
        Waiting(self)
    }

    /// Whether a program that posts now is in a call that waits, or is expected to make one at once.
    pub(crate) fn is_there(&self) -> bool {
        self.is_expected_to_be_short() || self.is_in_call()
    }

    /// Whether the program is in a call that waits for what it posts.
    pub(crate) fn is_in_call(&self) -> bool {
        self.waiting.load(Relaxed) > 0
    }

    /// Whether a program that posts now is expected to wait at once.
    #[inline]
    pub(crate) fn is_expected_to_be_short(&self) -> bool {
        self.short.load(Relaxed) == ENOUGH
    }

    /// The program has come to wait at once, so often that it is expected to.
    #[cfg(test)]
    pub(crate) fn comes_at_once(&self) {
        for _ in 0..ENOUGH {
            self.posts(1, true);
            self.leaves(2);
            self.waits(|| 3);
        }
    }

    /// Whether the program has left a call that posts, and has not waited since.
    #[cfg(test)]
    pub(crate) fn is_away(&self) -> bool {
        self.left_ns.load(Relaxed) != 0
    }

    fn away(&self, now_ns: u64) -> u64 {
        match self.left_ns.load(Relaxed) {
            0 => self.away_ns.load(Relaxed),
            left => self.away_ns.load(Relaxed).saturating_add(now_ns.saturating_sub(left)),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Posts as often as there are times away, each of which follows a call; then waits.
    fn comes(absence: &Absence, now: &mut u64, away: &[u64]) {
        for (number, time) in away.iter().enumerate() {
            absence.posts(*now, number == 0);
            *now += 100_000; // in the call
            absence.leaves(*now);
            *now += time;
        }
        absence.waits(|| *now);
    }

    #[test]
    fn a_program_that_came_at_once_is_expected_to_until_it_stays_away() {
        let (absence, mut now) = (Absence::default(), 0);
        let expected = |absence: &Absence| absence.is_expected_to_be_short();
        comes(&absence, &mut now, &[100, 300]);
        assert!(!expected(&absence), "once is chance");
        comes(&absence, &mut now, &[100, 300]);
        assert!(expected(&absence));
        now += 1_000_000; // between a wait and the next message it may compute
        comes(&absence, &mut now, &[4_000]);
        assert!(expected(&absence));
        absence.waits(|| unreachable!("it has not posted since"));
        comes(&absence, &mut now, &[3_000, 2_500]);
        assert!(!expected(&absence), "together they are long");
    }

    #[test]
    fn a_program_that_computes_until_its_message_has_ended_is_not_expected() {
        let (absence, mut now) = (Absence::default(), 0);
        for _ in 0..2 {
            comes(&absence, &mut now, &[100]);
        }
        absence.posts(now, true);
        absence.ended(|| unreachable!("in the call that posts"));
        absence.leaves(now);
        absence.ended(|| now + 100);
        assert!(absence.is_expected_to_be_short(), "it has just left");
        absence.ended(|| now + SHORT_NS);
        assert!(!absence.is_expected_to_be_short());
    }

    #[test]
    fn times_away_before_a_wait_do_not_count_after_it() {
        let (absence, mut now) = (Absence::default(), 0);
        for _ in 0..10 {
            absence.posts(now, false); // another request is always outstanding
            absence.leaves(now);
            now += 3_000;
            absence.waits(|| now);
        }
        assert!(absence.is_expected_to_be_short());
    }

    #[test]
    fn a_blocking_call_pauses_a_time_away_and_begins_none() {
        let absence = Absence::default();
        assert!(absence.pausing(true).is_none());
        absence.posts(1, true);
        absence.leaves(2);
        let paused = absence.pausing(true);
        assert!(paused.is_some() && !absence.is_away());
        drop(paused);
        assert!(absence.is_away());
        absence.waits(now_ns);
        assert!(absence.pausing(true).is_none());
    }

    #[test]
    fn a_time_away_without_a_wait_is_forgotten() {
        let (absence, mut now) = (Absence::default(), 0);
        for _ in 0..2 {
            absence.posts(now, true);
            absence.leaves(now);
            now += 1_000_000;
            comes(&absence, &mut now, &[100]);
        }
        assert!(absence.is_expected_to_be_short());
    }
}
