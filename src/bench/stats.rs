//! What is said about a set of samples: count, mean, extremes and percentiles.
//!
//! Percentiles interpolate between the two closest ranks (the definition that numpy and R use by default), so
//! the median of an even number of samples is the middle of the two in the middle.

use serde::Serialize;

/// Summary of a non-empty set of samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Stats {
    /// Number of samples.
    pub(crate) n: usize,
    /// Arithmetic mean.
    pub(crate) mean: f64,
    /// Smallest sample.
    pub(crate) min: f64,
    /// A tenth of the samples is below.
    pub(crate) p10: f64,
    /// Half of the samples is below.
    pub(crate) median: f64,
    /// A tenth of the samples is above.
    pub(crate) p90: f64,
    /// A hundredth of the samples is above.
    pub(crate) p99: f64,
    /// Largest sample.
    pub(crate) max: f64,
}

impl Stats {
    /// The summary; `None` without samples.
    pub(crate) fn of(samples: &[f64]) -> Option<Stats> {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let at = |p: f64| {
            let place = p * (sorted.len() - 1) as f64;
            let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
            low + (high - low) * place.fract()
        };
        Some(Stats {
            n: sorted.len(),
            // Clamped: rounding may carry the mean of equal samples past them.
            mean: (sorted.iter().sum::<f64>() / sorted.len() as f64).clamp(min, max),
            min,
            p10: at(0.10),
            median: at(0.50),
            p90: at(0.90),
            p99: at(0.99),
            max,
        })
    }

    /// The same, each figure rounded to a ten-thousandth: what is printed.
    pub(crate) fn rounded(self) -> Stats {
        let round = |x: f64| (x * 1e4).round() / 1e4;
        Stats {
            n: self.n,
            mean: round(self.mean),
            min: round(self.min),
            p10: round(self.p10),
            median: round(self.median),
            p90: round(self.p90),
            p99: round(self.p99),
            max: round(self.max),
        }
    }
}

/// The median; `None` without samples.
pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    Stats::of(samples).map(|stats| stats.median)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_has_no_summary_and_one_sample_is_its_own() {
        assert_eq!(Stats::of(&[]), None);
        let one = Stats::of(&[3.0]).unwrap();
        assert_eq!(
            (one.n, one.min, one.median, one.p99, one.max, one.mean),
            (1, 3.0, 3.0, 3.0, 3.0, 3.0)
        );
    }

    #[test]
    fn known_percentiles() {
        // numpy.percentile(range(1, 11), [10, 50, 90, 99]) = 1.9, 5.5, 9.1, 9.91
        let samples: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        let stats = Stats::of(&samples).unwrap().rounded();
        assert_eq!((stats.p10, stats.median, stats.p90, stats.p99), (1.9, 5.5, 9.1, 9.91));
        assert_eq!((stats.mean, stats.min, stats.max), (5.5, 1.0, 10.0));
    }

    /// The definition taken literally: the smallest value x such that the interpolated rank of x is p,
    /// found by walking the sorted samples.
    fn naive(samples: &[f64], p: f64) -> f64 {
        let mut sorted = samples.to_vec();
        for i in 0..sorted.len() {
            for j in 1..sorted.len() - i {
                if sorted[j] < sorted[j - 1] {
                    sorted.swap(j, j - 1);
                }
            }
        }
        let mut place = p * (sorted.len() as f64 - 1.0);
        let mut i = 0;
        while place >= 1.0 {
            place -= 1.0;
            i += 1;
        }
        match sorted.get(i + 1) {
            Some(next) => sorted[i] * (1.0 - place) + next * place,
            None => sorted[i],
        }
    }

    proptest! {
        #[test]
        fn percentiles_agree_with_the_naive_ones(samples in proptest::collection::vec(-1e6..1e6f64, 1..200)) {
            let stats = Stats::of(&samples).unwrap();
            for (p, got) in [(0.1, stats.p10), (0.5, stats.median), (0.9, stats.p90), (0.99, stats.p99)] {
                let expected = naive(&samples, p);
                prop_assert!((got - expected).abs() <= 1e-6 * (1.0 + expected.abs()), "{p}: {got} {expected}");
            }
            let ordered = [stats.min, stats.p10, stats.median, stats.p90, stats.p99, stats.max];
            prop_assert!(ordered.windows(2).all(|pair| pair[0] <= pair[1] + 1e-9));
            prop_assert!(stats.min <= stats.mean && stats.mean <= stats.max);
        }

        #[test]
        fn the_order_of_the_samples_does_not_matter(mut samples in proptest::collection::vec(0.0..1e6f64, 1..50)) {
            let before = Stats::of(&samples);
            samples.reverse();
            prop_assert_eq!(before, Stats::of(&samples));
        }
    }
}
