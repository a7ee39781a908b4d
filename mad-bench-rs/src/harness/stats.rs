//! What is said about a set of samples: count, mean, extremes and percentiles.
//!
//! Percentiles interpolate between the two closest ranks (the definition that numpy and R use by default), so
//! the median of an even number of samples is the middle of the two in the middle.

/// Summary of a non-empty set of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
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
}

/// Where a median lies: an interval that the median of another run of the same kind is to fall into, with a
/// probability of about 95 %.
///
/// It needs no assumption on the shape of the distribution, and joins two: the order statistics that enclose the
/// median of the samples (binomial), which is what samples of one round say; and the least and the largest of the
/// rounds' own medians, which is what drift between rounds says (with five rounds or more another median lies between
/// them with a probability of 94 %). Outliers move neither. Both are widened by the root of two about the median:
/// what is predicted is another run's median, which varies as this one does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    /// Its lower end.
    pub(crate) low: f64,
    /// Its upper end.
    pub(crate) high: f64,
}

impl Interval {
    /// Of samples by round; rounds may be empty. Without samples it is nothing: from 0 to 0.
    pub(crate) fn of(rounds: &[&[f64]]) -> Interval {
        let mut all: Vec<f64> = rounds.iter().flat_map(|round| round.iter().copied()).collect();
        if all.is_empty() {
            return Interval { low: 0.0, high: 0.0 };
        }
        all.sort_unstable_by(f64::total_cmp);
        let n = all.len();
        let half = 1.96 * (n as f64).sqrt() / 2.0;
        let below = (n as f64 / 2.0 - half).floor().max(0.0) as usize;
        let mut interval =
            Interval { low: all[below.min(n - 1)], high: all[n - 1 - below.min(n - 1)] };
        if interval.low > interval.high {
            std::mem::swap(&mut interval.low, &mut interval.high);
        }
        for median in rounds.iter().filter_map(|round| median(round)) {
            interval.low = interval.low.min(median);
            interval.high = interval.high.max(median);
        }
        let middle = median(&all).unwrap_or(interval.low);
        let widen = |end: f64| middle + (end - middle) * std::f64::consts::SQRT_2;
        Interval { low: widen(interval.low), high: widen(interval.high) }
    }
}

/// To a ten-thousandth; of what is less than a tenth, three digits.
pub(crate) fn rounded(x: f64) -> f64 {
    let unit = match x.abs() {
        small if small > 0.0 && small < 0.1 => 10f64.powi(2 - small.log10().floor() as i32),
        _ => 1e4,
    };
    // Denormal figures have no such unit.
    if unit.is_finite() { (x * unit).round() / unit } else { 0.0 }
}

/// The median; `None` without samples.
pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    Stats::of(samples).map(|stats| stats.median)
}

/// The mean; `None` without samples.
pub(crate) fn mean(samples: &[f64]) -> Option<f64> {
    Stats::of(samples).map(|stats| stats.mean)
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
        let stats = Stats::of(&samples).unwrap();
        let percentiles = [stats.p10, stats.median, stats.p90, stats.p99].map(rounded);
        assert_eq!(percentiles, [1.9, 5.5, 9.1, 9.91]);
        assert_eq!((stats.mean, stats.min, stats.max), (5.5, 1.0, 10.0));
    }

    #[test]
    fn small_figures_keep_three_digits() {
        let figures = [0.00012344, 0.0999999, 0.123456, -0.00012344, 0.0, 5e-324, 12.34567];
        assert_eq!(figures.map(rounded), [0.000123, 0.1, 0.1235, -0.000123, 0.0, 0.0, 12.3457]);
    }

    #[test]
    fn another_run_falls_into_the_interval_nineteen_times_of_twenty() {
        // Two hundred pairs of runs of five rounds, each round with a drift of its own, by a small generator.
        let mut state = 1u64;
        let mut uniform = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let mut run = || -> Vec<Vec<f64>> {
            (0..5)
                .map(|_| {
                    let drift = uniform() * 0.2;
                    (0..20).map(|_| 1.0 + drift + uniform() * 0.1).collect()
                })
                .collect()
        };
        let inside = (0..200).filter(|_| {
            let (first, second) = (run(), run());
            let rounds: Vec<&[f64]> = first.iter().map(Vec::as_slice).collect();
            let interval = Interval::of(&rounds);
            let median = median(&second.concat()).unwrap();
            interval.low <= median && median <= interval.high
        });
        let inside = inside.count();
        assert!(inside >= 184, "{inside} of 200");
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
        fn the_interval_holds_the_median_and_no_outlier_moves_it(
            samples in proptest::collection::vec(1.0..2.0f64, 40..200),
        ) {
            let half = samples.len() / 2;
            let rounds = [&samples[..half], &samples[half..]];
            let interval = Interval::of(&rounds);
            let middle = median(&samples).unwrap();
            prop_assert!(interval.low <= middle && middle <= interval.high);
            let mut spoilt = samples.clone();
            spoilt[0] = 1e9;
            let after = Interval::of(&[&spoilt[..half], &spoilt[half..]]);
            prop_assert!(after.high < 3.0, "{after:?}");
        }

        #[test]
        fn the_order_of_the_samples_does_not_matter(mut samples in proptest::collection::vec(0.0..1e6f64, 1..50)) {
            let before = Stats::of(&samples);
            samples.reverse();
            prop_assert_eq!(before, Stats::of(&samples));
        }
    }
}
