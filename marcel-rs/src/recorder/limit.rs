//! Keeps what happens all the time from costing more than it is worth.
//!
//! A [`Limiter`] lets every event through while they come at a leisurely pace. When those let through come so fast that
//! recording them takes more than a twentieth of the time, it lets through one of 2, 4… 128; when they come slowly
//! again, all at once. What it holds back costs a decrement.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// See the module's description. Used by one kernel thread, and by handlers that interrupt it: at worst one more is
/// let through, or held back.
#[derive(Debug, Default)]
pub(crate) struct Limiter {
    /// To be held back before the next one is let through.
    left: AtomicU32,
    /// How many are held back each time.
    every: AtomicU32,
    last: AtomicU64,
}

/// Events further apart than this are all recorded: twenty times what a pair of records costs.
const NEAR_NS: u64 = 600;
const MOST: u32 = 127;

impl Limiter {
    /// Whether this one is held back.
    #[inline(always)]
    pub(crate) fn holds(&self) -> bool {
        let left = self.left.load(Relaxed);
        if left > 0 {
            self.left.store(left - 1, Relaxed);
        }
        left > 0
    }

    /// One was let through at `now`, a clock of `per_ns` counts a nanosecond; how many were held back before it.
    #[inline]
    pub(crate) fn let_through(&self, now: u64, per_ns: u64) -> u32 {
        let held = self.every.load(Relaxed);
        let apart = now.saturating_sub(self.last.load(Relaxed)) / u64::from(held + 1);
        let every = match apart {
            _ if apart < NEAR_NS * per_ns => (held * 2 + 1).min(MOST),
            _ if apart > 2 * NEAR_NS * per_ns => 0,
            _ => held,
        };
        self.every.store(every, Relaxed);
        self.last.store(now, Relaxed);
        self.left.store(every, Relaxed);
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events `apart` nanoseconds apart: how many of `n` are recorded.
    fn recorded(limiter: &Limiter, from: &mut u64, apart: u64, n: u64) -> u64 {
        let mut through = 0;
        for _ in 0..n {
            *from += apart;
            if !limiter.holds() {
                limiter.let_through(*from, 1);
                through += 1;
            }
        }
        through
    }

    #[test]
    fn slow_events_are_all_recorded_and_fast_ones_seldom() {
        let (limiter, mut now) = (Limiter::default(), 1_000_000);
        assert_eq!(recorded(&limiter, &mut now, 5_000, 100), 100);
        let fast = recorded(&limiter, &mut now, 20, 100_000);
        assert!(fast < 100_000 / 100, "{fast}");
        // Slow again: at most one batch is missed.
        let slow = recorded(&limiter, &mut now, 5_000, 1000);
        assert!(slow >= 1000 - u64::from(MOST) - 1, "{slow}");
    }

    #[test]
    fn those_held_back_are_told() {
        let limiter = Limiter::default();
        let (mut told, mut through) = (0, 0);
        for now in 0..10_000u64 {
            if !limiter.holds() {
                told += u64::from(limiter.let_through(1_000_000 + now * 20, 1));
                through += 1;
            }
        }
        assert!(told + through <= 10_000 && told + through > 10_000 - u64::from(MOST) - 1);
    }
}
