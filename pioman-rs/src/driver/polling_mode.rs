//! Polling mode (as NAPI has it): the watcher looks every so often instead of being woken, as long as the program calls
//! all the time.
//!
//! A program that posts many requests and waits for them one after the other leaves something pending with every call,
//! and comes back at once. Each time the watch would be armed, the peer would ring, the watcher would be woken, and
//! would find the program there already: four system calls and a wake-up for nothing, several times per message. So
//! calls that leave something pending are counted; a watcher that is woken and finds that many did so a moment ago, or
//! that some did and it has been woken in vain, *joins* the pollers ([`crate::progress::pollers`]), for which no one
//! has to be armed, and polls at its pace, asleep in between. When the program calls no more, or much less often, it leaves
//! them, and arms what is to be armed, as every poller does. What the program leaves behind when it goes off to compute is
//! found a period late, once.
//!
//! A look in vain costs some tens of microseconds where the program and its watcher share a core (a timer, two switches, a
//! cold cache). So the *period* grows with the time that the mode has lasted since the last event that the watcher found: the
//! program has then called for that long without a pause, and may as well be found a part of it late ([`PART`]). (At an even
//! pace of 50 µs, one of eight exchanges of 64 KiB took 45 µs instead of 6.)
//!
//! Nor is it needed for what it finds by chance, between two calls of a program that calls all the time: it looks once more
//! after a short period, whether the program still does, or has gone off in the long one before. And what another thread
//! polls at the moment of a look is left to that; what is found there at the next look, since that thread copies, say, was
//! found by chance, too. (`MPI_Alltoall` of 1 MiB: the watcher woke 1.5 times per call, a third of the time.) (32 KiB each way, `MPI_Irecv`, `MPI_Isend` and `MPI_Waitall`: one of a
//! hundred took 25 to 60 µs instead of 7, since the looks began anew with their shortest period.)
//!
//! Wake-ups in vain count, since they may be all that keeps the program from calling more often: on a core that a
//! program and its watcher share, wake-ups took so much of the time that they did not end. (`mad bench delegation
//! --method caller`, a program that only tests, two cores: half a round trip of 2.1 to 2.5 µs; now 0.45 to 0.57.)
//!
//! A thread that polls sockets disarms first what is armed for the watcher, and arms it again when it stops: two system calls
//! and a look for each wait of a program that leaves something pending all the time, as one with a window does. The watcher is
//! hardly ever woken then. So it is called where that happens often ([`Takes`](crate::driver::background::Takes)), and joins the
//! pollers, too. If it leaves them again at once, no thread calls it for a while: a program that waits in bursts is left alone.
//! (`MPI_Fetch_and_op` over tcp: half of the runs took 18 to 32 µs instead of 11.)
//!
//! Only for sources whose policy allows passing polls.
//!
//! Rejected: leaving after some looks in vain, since the peers may ring no more (they did, and the mode began anew; a growing
//! period costs less than either); a watcher that spins for a while before it sleeps (where processes share the cores it takes
//! the core from the peer that is waited for); arming late (a thread would have to be there to do it).

use std::time::{Duration, Instant};

use crate::driver::core::{Driver, Polling};
use crate::progress::registry::Pinned;

/// Shortest and longest time between two looks. What a wake-up costs is a small part of the shortest.
const PERIODS: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(20));
/// A period is one part in so many of the time since the watcher was needed last.
const PART: u32 = 4;
/// A program that calls less often than one in so many times of before has gone off.
const RARER: u32 = 4;
/// So many must leave something pending during a period, at least,
const BUSY: u32 = 8;
/// or so many while the watcher finds nothing as often in a row.
const VAIN: u32 = 2;
/// If the mode has ended sooner than this, it is not worth what it takes to begin.
const BRIEF: Duration = Duration::from_millis(1);

/// The time between two looks, so long after the watcher was needed last.
fn period(since: Duration) -> Duration {
    (since / PART).clamp(PERIODS.0, PERIODS.1)
}

/// Calls, and in which time.
#[derive(Clone, Copy)]
struct Rate {
    calls: u32,
    time: Duration,
}

impl Rate {
    /// Whether a program that calls so often would have come by itself: what the watcher found it found by chance, between two
    /// calls.
    fn is_high(self) -> bool {
        u128::from(self.calls) * PERIODS.0.as_nanos() >= u128::from(BUSY) * self.time.as_nanos()
    }

    /// Whether these calls are much rarer than those.
    fn is_rarer_than(self, before: Rate) -> bool {
        let now = u128::from(self.calls) * before.time.as_nanos() * u128::from(RARER);
        now < u128::from(before.calls) * self.time.as_nanos()
    }
}

/// Whether the program sees to its events by itself: by the calls that left something pending in the last period, and the
/// looks of the watcher, `polling` already or not, that found nothing, one soon after the other.
fn is_busy(polling: bool, calls: u32, vain: u32) -> bool {
    let least = if polling { 1 } else { VAIN };
    calls >= BUSY || calls >= least && vain >= least
}

/// Whether the watcher is in polling mode, and what it goes by.
pub(super) struct PollingMode<'a> {
    driver: &'a Driver,
    /// Since when it counts how often something is left pending, and how often that had been then.
    counted: Instant,
    visits: u32,
    /// How often it has looked in vain in a row; not in polling mode, one look soon after the other.
    vain: u32,
    /// In the period before.
    before: Rate,
    /// When the mode began.
    began: Instant,
    /// When the mode began, or the watcher found something in it that the program would not have found as soon.
    needed: Instant,
    /// The last look has found something by chance: the next one comes soon, and sees whether the program still calls.
    again: bool,
    /// Whether the last look was at something that another thread polled, too; and what it left to that.
    shared: bool,
    left: u64,
    /// The sources that it polls, in polling mode.
    polling: Option<Polling<'a>>,
}

impl<'a> PollingMode<'a> {
    pub(super) fn new(driver: &'a Driver) -> PollingMode<'a> {
        // The kernel may be late by this much; otherwise by as much as the period.
        // SAFETY: no memory is passed.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 5_000, 0, 0, 0) };
        let visits = driver.background.visits.now();
        let (now, before) = (Instant::now(), Rate { calls: 0, time: PERIODS.0 });
        PollingMode {
            driver,
            counted: now,
            visits,
            vain: 0,
            before,
            began: now,
            needed: now,
            again: false,
            shared: false,
            left: 0,
            polling: None,
        }
    }

    /// When it is to look next, in polling mode.
    pub(super) fn next(&self) -> Option<Instant> {
        let since = self.counted.saturating_duration_since(self.needed);
        let period = if self.again { PERIODS.0 } else { period(since) };
        self.polling.as_ref().map(|_| self.counted + period)
    }

    /// The watcher was woken, or its time has come, and it has looked, and `found` something: begins polling mode, or
    /// ends it. The caller then arms.
    pub(super) fn looked(&mut self, sources: &Pinned<'_>, found: bool) {
        let now = Instant::now();
        let time = now - self.counted;
        let visits = self.driver.background.visits.now();
        let rate = Rate { calls: visits.wrapping_sub(self.visits), time };
        let by_chance = found && (rate.is_high() || self.shared);
        if found && !by_chance {
            self.needed = now;
        }
        let alone = found || time >= 4 * PERIODS.0 && self.polling.is_none();
        let before = if alone { 0 } else { self.vain };
        self.vain = before.saturating_add(u32::from(!found));
        if time < PERIODS.0 {
            return;
        }
        let called = self.driver.background.takes.were_often();
        (self.counted, self.visits) = (now, visits);
        self.again = by_chance && !self.again;
        let before = std::mem::replace(&mut self.before, rate);
        let polls = self.polling.is_some();
        let goes_on = if polls { !rate.is_rarer_than(before) } else { time < 4 * PERIODS.0 };
        let busy = goes_on && is_busy(polls, rate.calls, self.vain) || called && !polls;
        if !busy {
            self.end(now);
        } else if called || !polls {
            self.begin(sources, now);
        }
    }

    /// Polls all that is unattended now, beside what it polls already.
    fn begin(&mut self, sources: &Pinned<'_>, now: Instant) {
        let before = self.polls();
        let polls = before | sources.unattended_of(self.driver.advisor.passed());
        if polls == before {
            return;
        }
        self.needed = now;
        let polling = self.driver.begin_polling(sources, polls);
        match self.polling.replace(polling) {
            Some(less) => less.stop().paid_by_parking(), // what it polled is polled on
            None => self.began = now,
        }
    }

    fn end(&mut self, now: Instant) {
        if let Some(polling) = self.polling.take() {
            polling.stop().paid_by_parking(); // the caller arms
            if now - self.began < BRIEF {
                self.driver.background.takes.rest(PERIODS.1);
            }
        }
    }

    /// What is polled, in polling mode.
    pub(super) fn polls(&self) -> u64 {
        self.polling.as_ref().map_or(0, Polling::mask)
    }

    /// Of that, what is left to another thread, which polls it at this moment: not twice in a row, since that thread may have
    /// no core; and not to an idle virtual processor, which leaves it to the watcher (`idle`).
    pub(super) fn left_to_others(&mut self) -> u64 {
        let shared = self.driver.pollers.shared(self.polls()) & !self.driver.idle.mask();
        self.left = shared & !self.left;
        self.shared = shared != 0;
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_woken_in_vain_while_somebody_calls_polls() {
        assert!(is_busy(false, BUSY, 0), "many calls");
        assert!(is_busy(false, VAIN, VAIN) && !is_busy(false, VAIN - 1, 100), "some calls");
        assert!(!is_busy(false, BUSY - 1, 1), "it finds what no other thread does");
        assert!(is_busy(true, 1, 1), "it goes on as long as it is not needed");
        assert!(!is_busy(true, 0, 1) && !is_busy(true, BUSY - 1, 0), "it is needed again");
    }

    #[test]
    fn periods_grow_with_the_time_without_need() {
        let us = Duration::from_micros;
        assert_eq!(period(us(0)), us(50));
        assert_eq!(period(us(10_000)), us(2_500));
        assert_eq!(period(us(60_000_000)), us(20_000));
        // Looks in a second in which the watcher is never needed.
        let (mut time, mut looks) = (us(0), 0);
        while time < us(1_000_000) {
            time += period(time);
            looks += 1;
        }
        assert!(looks <= 90, "{looks}");
    }

    #[test]
    fn what_is_found_between_two_of_many_calls_was_not_needed() {
        let rate = |calls, us| Rate { calls, time: Duration::from_micros(us) };
        assert!(rate(8, 50).is_high() && rate(320, 2_000).is_high());
        assert!(!rate(7, 50).is_high() && !rate(8, 2_000).is_high(), "it computes in between");
    }

    #[test]
    fn a_program_that_calls_much_less_often_has_gone_off() {
        let rate = |calls, us| Rate { calls, time: Duration::from_micros(us) };
        assert!(rate(0, 100).is_rarer_than(rate(8, 50)));
        assert!(rate(3, 100).is_rarer_than(rate(8, 50)), "it went off in the middle");
        assert!(!rate(4, 100).is_rarer_than(rate(8, 50)));
        assert!(
            !rate(100, 2_000).is_rarer_than(rate(8, 50)) && !rate(1, 50).is_rarer_than(rate(0, 50))
        );
    }
}
