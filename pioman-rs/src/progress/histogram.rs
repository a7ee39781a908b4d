//! Times by their logarithm.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Number of buckets: up to 64 ns, then each twice as long, the last one from 34 s on.
pub const BUCKETS: usize = 31;
const FIRST_BIT: u32 = 6;

fn bucket(time: Duration) -> usize {
    let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let bits = 64 - (ns >> FIRST_BIT).leading_zeros();
    (bits as usize).min(BUCKETS - 1)
}

/// A histogram that many count in. Not on any fast path.
#[derive(Debug)]
pub(crate) struct Buckets([AtomicU64; BUCKETS]);

impl Default for Buckets {
    fn default() -> Self {
        Buckets([const { AtomicU64::new(0) }; BUCKETS])
    }
}

impl Buckets {
    pub(crate) fn add(&self, time: Duration) {
        self.0[bucket(time)].fetch_add(1, Relaxed);
    }

    pub(crate) fn reset(&self) {
        self.0.iter().for_each(|count| count.store(0, Relaxed));
    }

    pub(crate) fn get(&self) -> Histogram {
        Histogram { counts: std::array::from_fn(|at| self.0[at].load(Relaxed)) }
    }
}

/// How long something took, how often. Bucket 0 holds what was shorter than 64 ns, bucket *i* what was shorter than
/// 2^(*i*+6) ns and not in one before, the last one all the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// By bucket.
    pub counts: [u64; BUCKETS],
}

impl Histogram {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The end of the bucket in which this share of them (0.5: the median) has been counted; `None` without any. The
    /// last bucket has no end in fact.
    pub fn within(&self, share: f64) -> Option<Duration> {
        let all = self.count();
        let wanted = ((all as f64 * share.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0;
        let at = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some(Duration::from_nanos(1 << (at as u32 + FIRST_BIT)))
    }

    pub(crate) fn add(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(other.counts).for_each(|(own, other)| *own += other);
    }
}

impl fmt::Display for Histogram {
    /// Median, 99 % and how many.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.within(0.5), self.within(0.99)) {
            (Some(median), Some(most)) => write!(f, "≤ {median:?}, 99 % ≤ {most:?}"),
            _ => f.write_str("–"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_below_the_end_of_its_bucket_and_not_below_the_one_before() {
        for ns in [0, 1, 63, 64, 65, 127, 128, 1000, 1 << 20, 1 << 36, u64::MAX] {
            let at = bucket(Duration::from_nanos(ns));
            assert!(at == BUCKETS - 1 || ns < 1 << (at as u32 + FIRST_BIT), "{ns}");
            assert!(at == 0 || ns >= 1 << (at as u32 + FIRST_BIT - 1), "{ns}");
        }
    }

    #[test]
    fn shares_are_ends_of_buckets() {
        let buckets = Buckets::default();
        assert_eq!(buckets.get().within(0.5), None);
        (0..99).for_each(|_| buckets.add(Duration::from_nanos(100)));
        buckets.add(Duration::from_millis(1));
        let got = buckets.get();
        assert_eq!(got.count(), 100);
        assert_eq!(got.within(0.5), Some(Duration::from_nanos(128)));
        assert_eq!(got.within(0.99), Some(Duration::from_nanos(128)));
        assert_eq!(got.within(1.0), Some(Duration::from_nanos(1 << 20)));
    }
}
