//! How long waits have taken: a decayed histogram, and what it says about polling.
//!
//! Bucket *i* counts waits of 2^(i+7) to 2^(i+8) ns (the first one everything shorter as well, the last one everything
//! longer). When [`WINDOW`] waits are in, all counts are halved, so that a new phase of the program counts as much as
//! all before it after some thirty waits.
//!
//! With `C` the price of a sleep in the kernel, polling for `x` before one sleeps costs
//!
//! ```text
//!   cost(x) = Σ_{T ≤ x} T + Σ_{T > x} (x + C)
//! ```
//!
//! over the waits `T` seen. [`History::best_spin`] takes the `x` that makes it least. That is only as good as history:
//! in the worst case every wait is a little longer than `x`. So an *account* is kept beside: what was paid, and what
//! would have been paid with knowledge of the future, Σ min(T, C). While more than twice that has been paid, `x = C` is
//! taken, which never pays more than twice by itself (ski rental). So over any number of waits
//!
//! > paid ≤ 2 · least possible + one slip,
//!
//! a slip being the longest time ever polled plus `2 C`. (Karlin, Manasse, McGeoch, Owicki 1994 prove e/(e−1) for
//! randomised times; a bound that holds whatever happens is worth more here than 0.42 on average.)
//!
//! Polling may also be in vain *because* a waiter polls: a peer that shares the core runs when the poller sleeps and
//! not before. Times do not show that (asleep at once, the same waits are short; so history would choose polling
//! again). So the *hit streak* of polls is kept as well: after [`IN_VAIN`] polls in a row that found nothing before
//! they had to sleep, the next waits sleep at once, twice as many each time, up to [`MOST_SKIPPED`]; then one polls
//! again, and if it finds its event all do. (Two processes of an echo on one core: 128 µs a round with polls of 50 µs
//! on either side, 22 µs without. Rejected: `sched_yield` between polls, which on a busy machine hands the core to
//! another process for milliseconds, where a sleeper is woken at once.)
//!
//! And waits may be long *because* nobody polls: where the next event answers what this one has caused, each sleep is part of
//! the next wait. Times do not show that either. So where no poll has paid, one wait in [`TRIAL`] polls for the price of a
//! sleep; if that finds its event, the next one does as well, and so on, until history has seen what waits are like then.
//! (Puts to the memory of a rank that waits, over TCP: 85 µs each, for ever; now 24 to 48, with what else was found there.)
//!
//! All of it is relaxed loads and stores: counts that two waits write at once may be lost, and nothing but the choice
//! of a duration hangs on them.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Number of buckets: from 128 ns to 2 s and more.
pub(crate) const BUCKETS: usize = 25;
const FIRST_BIT: u32 = 7;
/// Waits after which the past counts half.
const WINDOW: u32 = 64;
/// With fewer than this nothing is concluded.
const ENOUGH: u32 = 8;

/// Polls in vain, one after the other, after which some waits do not poll.
const IN_VAIN: u32 = 3;
/// Most waits that sleep at once, until one polls again.
const MOST_SKIPPED: u32 = 128;
/// Where no poll has paid, one wait in so many polls all the same.
const TRIAL: u32 = 16;
/// The last trial has found its event: the next wait is one, too.
const AGAIN: u32 = u32::MAX;

/// How long the waits for one source have taken; see the module's description.
#[derive(Debug, Default)]
pub struct History {
    counts: [AtomicU32; BUCKETS],
    total: AtomicU32,
    /// Waits so far, never decayed.
    ever: AtomicU64,
    paid_ns: AtomicU64,
    least_ns: AtomicU64,
    /// Polls since the last one that found what it was for.
    vain: AtomicU32,
    /// Waits that are still to sleep at once.
    skips: AtomicU32,
    /// Waits since the last trial, or [`AGAIN`].
    trial: AtomicU32,
    /// The present wait is a trial.
    trying: AtomicBool,
}

/// What [`History::best_spin`] has concluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spin {
    /// Poll for so long, then sleep.
    pub time: Duration,
    /// What a wait is then expected to cost; zero where there is no history.
    pub expected: Duration,
    /// Why.
    pub why: &'static str,
}

fn bucket(ns: u64) -> usize {
    (64 - (ns >> FIRST_BIT).leading_zeros()).saturating_sub(1).min(BUCKETS as u32 - 1) as usize
}

/// Upper end of a bucket; the last one has none, in fact.
fn upper_ns(bucket: usize) -> u64 {
    1 << (bucket as u32 + FIRST_BIT + 1)
}

/// What stands for a wait in this bucket.
fn middle_ns(bucket: usize) -> u64 {
    if bucket == 0 { 1 << FIRST_BIT } else { 3 << (bucket as u32 + FIRST_BIT - 1) }
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos().min(u64::MAX as u128 / 4) as u64
}

impl History {
    /// A wait has taken this long.
    pub fn note(&self, time: Duration) {
        let add = |count: &AtomicU32| count.store(count.load(Relaxed).saturating_add(1), Relaxed);
        add(&self.counts[bucket(nanos(time))]);
        add(&self.total);
        self.ever.store(self.ever.load(Relaxed) + 1, Relaxed);
        if self.total.load(Relaxed) >= WINDOW {
            self.halve();
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        self.counts
            .iter()
            .chain([&self.total, &self.vain, &self.skips, &self.trial])
            .for_each(|count| count.store(0, Relaxed));
        self.trying.store(false, Relaxed);
        [&self.ever, &self.paid_ns, &self.least_ns].into_iter().for_each(|n| n.store(0, Relaxed));
    }

    /// A wait has polled, and it was over before it had to sleep, or not.
    #[inline]
    pub(crate) fn polled(&self, lucky: bool) {
        if self.trying.load(Relaxed) {
            self.trying.store(false, Relaxed);
            self.trial.store(if lucky { AGAIN } else { 0 }, Relaxed);
        }
        let vain = self.vain.load(Relaxed);
        if lucky && vain == 0 {
            return;
        }
        let vain = if lucky { 0 } else { vain.saturating_add(1) };
        let skips = match vain.checked_sub(IN_VAIN) {
            None => 0,
            Some(more) => 2u32.saturating_pow(more + 1).min(MOST_SKIPPED),
        };
        self.vain.store(vain, Relaxed);
        self.skips.store(skips, Relaxed);
    }

    /// Whether the polls of late give hope for another one.
    #[inline]
    pub(crate) fn is_hopeful(&self) -> bool {
        self.skips.load(Relaxed) == 0
    }

    /// As [`History::is_hopeful`], by a wait that will do as is said here: some that do without, and one tries again.
    #[inline]
    pub(crate) fn tries(&self) -> bool {
        let skips = self.skips.load(Relaxed);
        if skips > 0 {
            self.skips.store(skips - 1, Relaxed);
        }
        skips == 0
    }

    /// A trial has ended without an answer: its wait has expired, or gives way to others.
    pub(crate) fn drop_trial(&self) {
        if self.trying.load(Relaxed) {
            self.trying.store(false, Relaxed);
            self.trial.store(0, Relaxed);
        }
    }

    /// Whether a wait for which no poll has paid polls all the same. `begins`: it begins with this question.
    #[inline]
    pub(crate) fn is_trial(&self, begins: bool) -> bool {
        if begins {
            let trial = self.trial.load(Relaxed);
            let tries = trial == AGAIN || trial + 1 >= TRIAL;
            if !tries {
                self.trial.store(trial + 1, Relaxed);
            }
            self.trying.store(tries, Relaxed);
        }
        self.trying.load(Relaxed)
    }

    fn halve(&self) {
        let mut total = 0;
        for count in &self.counts {
            let half = count.load(Relaxed) / 2;
            count.store(half, Relaxed);
            total += half;
        }
        self.total.store(total, Relaxed);
    }

    /// Books a wait that took `time`, of which up to `polled` was polled before a sleep of the price `sleep` (if it
    /// was not over then).
    pub fn settle(&self, time: Duration, polled: Duration, sleep: Duration) {
        let (time, polled, sleep) = (nanos(time), nanos(polled), nanos(sleep));
        let paid = if time <= polled { time } else { polled + sleep };
        let (mut all, mut least) = (self.paid_ns.load(Relaxed), self.least_ns.load(Relaxed));
        all = all.saturating_add(paid);
        least = least.saturating_add(time.min(sleep));
        if least > sleep.saturating_mul(WINDOW as u64) {
            (all, least) = (all / 2, least / 2);
        }
        self.paid_ns.store(all, Relaxed);
        self.least_ns.store(least, Relaxed);
    }

    /// Waits in the window.
    pub fn len(&self) -> u32 {
        self.total.load(Relaxed)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits seen so far.
    pub fn ever(&self) -> u64 {
        self.ever.load(Relaxed)
    }

    /// The buckets that are not empty: upper end and number of waits.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u32)> + '_ {
        let of = |(i, count): (usize, &AtomicU32)| {
            (Duration::from_nanos(upper_ns(i)), count.load(Relaxed))
        };
        self.counts.iter().enumerate().map(of).filter(|(_, count)| *count > 0)
    }

    /// More than twice the least possible has been paid.
    pub fn is_overdrawn(&self, sleep: Duration) -> bool {
        let (paid, least) = (self.paid_ns.load(Relaxed), self.least_ns.load(Relaxed));
        paid > least.saturating_mul(2).saturating_add(nanos(sleep))
    }

    /// How long to poll, at most `limit`, when a sleep has the price `sleep`.
    pub fn best_spin(&self, sleep: Duration, limit: Duration) -> Spin {
        let (price, most) = (nanos(sleep), nanos(limit));
        if self.len() < ENOUGH {
            let time = sleep.min(limit);
            return Spin {
                time,
                expected: Duration::ZERO,
                why: "no history: as long as a sleep costs",
            };
        }
        let counts: [u64; BUCKETS] = std::array::from_fn(|i| self.counts[i].load(Relaxed).into());
        let all: u64 = counts.iter().sum();
        let mut best = (price.saturating_mul(all), 0);
        let (mut within, mut time_within) = (0, 0u64);
        for (i, count) in counts.into_iter().enumerate() {
            let x = upper_ns(i);
            if x > most {
                break;
            }
            within += count;
            time_within = time_within.saturating_add(count.saturating_mul(middle_ns(i)));
            let cost = (x.saturating_add(price)).saturating_mul(all - within);
            let cost = cost.saturating_add(time_within);
            if count > 0 && cost < best.0 {
                best = (cost, x);
            }
        }
        let expected = Duration::from_nanos(best.0 / all.max(1));
        if self.is_overdrawn(sleep) {
            let why = "history has misled: as long as a sleep costs";
            return Spin { time: sleep.min(limit), expected, why };
        }
        let why = if best.1 == 0 { "polling has not paid" } else { "least expected cost" };
        Spin { time: Duration::from_nanos(best.1), expected, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn buckets_hold_what_is_between_their_ends() {
        assert_eq!((bucket(0), bucket(128), bucket(255), bucket(256)), (0, 0, 0, 1));
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        for ns in (0..40).map(|bit| 1u64 << bit).flat_map(|ns| [ns, ns + 1]) {
            let i = bucket(ns);
            assert!(ns < upper_ns(i) || i == BUCKETS - 1);
            assert!(i == 0 || ns >= upper_ns(i - 1));
        }
    }

    #[test]
    fn a_wait_now_and_then_finds_out_whether_polling_would_make_it_shorter() {
        let history = History::default();
        let trials = |waits: u32| (0..waits).filter(|_| history.is_trial(true)).count();
        assert_eq!(trials(TRIAL), 1, "the last one");
        assert!(history.is_trial(false) && history.is_trial(false), "until it has polled");
        history.polled(true);
        assert!(!history.is_trial(false));
        for _ in 0..3 {
            assert!(history.is_trial(true), "as long as it finds something");
            history.polled(true);
        }
        assert!(history.is_trial(true));
        history.polled(false);
        assert_eq!(trials(TRIAL - 1), 0);
    }

    #[test]
    fn without_history_the_time_is_the_competitive_one() {
        assert_eq!(History::default().best_spin(us(5), us(50)).time, us(5));
        assert_eq!(History::default().best_spin(us(100), us(50)).time, us(50));
    }

    #[test]
    fn short_waits_are_polled_for_and_long_ones_slept_through() {
        let short = History::default();
        (0..40).for_each(|_| short.note(us(3)));
        assert!((us(3)..us(10)).contains(&short.best_spin(us(5), us(50)).time));
        let long = History::default();
        (0..40).for_each(|_| long.note(us(1000)));
        assert_eq!(long.best_spin(us(5), us(50)).time, Duration::ZERO);
        // Three quarters short: the polls in vain of the others are worth it.
        let mixed = History::default();
        (0..40).for_each(|i| mixed.note(if i % 4 == 0 { us(1000) } else { us(1) }));
        assert!((us(1)..us(4)).contains(&mixed.best_spin(us(5), us(50)).time));
        // Never longer than allowed.
        assert_eq!(short.best_spin(us(5), us(1)).time, Duration::ZERO);
    }

    #[test]
    fn polls_in_vain_make_waits_sleep_at_once_until_one_is_lucky() {
        let history = History::default();
        let polls = |lucky: bool| {
            let tries = history.tries();
            if tries {
                history.polled(lucky);
            }
            tries
        };
        assert!((0..100).all(|i| polls(i % 3 == 0)), "two of three in vain");
        let tries = (0..1000).filter(|_| polls(false)).count();
        assert!((8..30).contains(&tries), "{tries} of 1000, all in vain");
        let skipped = (0..=MOST_SKIPPED).position(|_| polls(true));
        assert!(skipped.is_some(), "it tries again");
        assert!((0..100).all(|_| polls(true)));
    }

    #[test]
    fn a_new_phase_is_noticed_within_two_windows() {
        let history = History::default();
        (0..1000).for_each(|_| history.note(us(1)));
        (0..2 * WINDOW).for_each(|_| history.note(us(5000)));
        assert_eq!(history.best_spin(us(5), us(50)).time, Duration::ZERO);
        (0..2 * WINDOW).for_each(|_| history.note(us(1)));
        assert!(history.best_spin(us(5), us(50)).time >= us(1));
    }

    /// Whatever the waits are, also when each is a little longer than what history has made us poll for.
    #[test]
    fn no_sequence_costs_more_than_twice_the_least_and_a_slip() {
        let (sleep, limit) = (us(5), us(100));
        let adversary: [&dyn Fn(u64, Duration) -> Duration; 4] = [
            &|_, x| x + Duration::from_nanos(1),
            &|i, _| if i % 64 < 32 { us(1) } else { us(1000) },
            &|i, x| if i % 3 == 0 { x + us(1) } else { x.saturating_sub(us(1)) },
            &|i, _| Duration::from_nanos(i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 46),
        ];
        for next in adversary {
            let history = History::default();
            let (mut paid, mut least, mut longest) = (Duration::ZERO, Duration::ZERO, us(0));
            for i in 0..20_000 {
                let spin = history.best_spin(sleep, limit).time;
                longest = longest.max(spin);
                let wait = next(i, spin);
                paid += if wait <= spin { wait } else { spin + sleep };
                least += wait.min(sleep);
                history.note(wait);
                history.settle(wait, spin, sleep);
            }
            // The account forgets by halves; each halving may let one more slip through.
            let halvings = (least.as_nanos() / (sleep.as_nanos() * 32)) as u32 + 1;
            let slip = longest + 2 * sleep;
            assert!(paid <= 2 * least + slip * halvings, "{paid:?} against {least:?}");
        }
    }
}
