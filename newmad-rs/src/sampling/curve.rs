//! A curve: times by size, as measured; what lies between is interpolated.

/// Most points that are kept.
pub(crate) const MOST: usize = 256;

/// How fast a rail is, in two figures: good for large messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    /// What a part costs whatever its length.
    pub(crate) latency_ns: u64,
    /// Nanoseconds for a mebibyte.
    pub(crate) mib_ns: u64,
}

impl Pace {
    /// How long the bytes of such a message take, without what it costs whatever its length.
    pub(crate) fn copies_ns(self, bytes: u64) -> u64 {
        ((u128::from(bytes) * u128::from(self.mib_ns)) >> 20).min(u64::MAX.into()) as u64
    }
}

/// A rail that needs no more nanoseconds for a mebibyte (some 1.7 GB/s) is not waiting for a network, but for the core.
pub(crate) const FED_NS: u64 = 600_000;

/// Of rails that were never measured: equal ones share equally. `calls_the_kernel`: each packet is a system call.
pub(crate) fn built_in(calls_the_kernel: bool) -> Pace {
    match calls_the_kernel {
        true => Pace { latency_ns: 15_000, mib_ns: 500_000 },
        false => Pace { latency_ns: 1_000, mib_ns: 150_000 },
    }
}

/// Times by size. Longer messages never take less time: a measurement that says so is lifted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Curve {
    /// Bytes and nanoseconds, both growing.
    points: Vec<(u64, u64)>,
}

impl Curve {
    pub(crate) fn add(&mut self, bytes: u64, ns: u64) {
        match self.points.binary_search_by_key(&bytes, |point| point.0) {
            Ok(at) => self.points[at].1 = ns.max(1),
            Err(at) if self.points.len() < MOST => self.points.insert(at, (bytes, ns.max(1))),
            Err(_) => return,
        }
        let mut least = 0;
        for point in &mut self.points {
            least = point.1.max(least);
            point.1 = least;
        }
    }

    /// The points: bytes and nanoseconds.
    pub fn points(&self) -> &[(u64, u64)] {
        &self.points
    }

    /// How long a message of so many bytes takes, in nanoseconds; beyond the last point as the last two have it.
    pub fn predict(&self, bytes: u64) -> Option<u64> {
        let first = self.points.first()?;
        if bytes <= first.0 {
            return Some(first.1);
        }
        let after = self.points.partition_point(|point| point.0 < bytes);
        let Some(at) = after.min(self.points.len() - 1).checked_sub(1) else {
            return Some(first.1);
        };
        let ((x0, y0), (x1, y1)) = (self.points[at], self.points[at + 1]);
        let slope = (y1 - y0) as f64 / (x1 - x0) as f64;
        // From float to integer saturates; what it rounds must not pass the next point.
        let ns = (y0 as f64 + slope * (bytes - x0) as f64) as u64;
        Some(if bytes <= x1 { ns.clamp(y0, y1) } else { ns.max(y1) })
    }

    /// The size from which on `other` takes no longer than this one, as far as both were measured; beyond that, the
    /// largest size of both.
    pub(crate) fn crossing(&self, other: &Curve) -> Option<u64> {
        let last = self.points.last()?.0.min(other.points.last()?.0);
        let wins = |bytes: u64| other.predict(bytes) <= self.predict(bytes);
        let mut sizes: Vec<u64> =
            self.points.iter().chain(&other.points).map(|point| point.0).collect();
        sizes.retain(|&bytes| bytes <= last);
        sizes.sort_unstable();
        // Between these two it wins from somewhere on, and beyond it always does.
        let Some(lost) = sizes.iter().rposition(|&bytes| !wins(bytes)) else { return Some(0) };
        let (mut low, mut high) = (sizes[lost], *sizes.get(lost + 1).unwrap_or(&sizes[lost]));
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if wins(middle) { high = middle } else { low = middle }
        }
        Some(high)
    }

    /// Its line through the two largest sizes.
    pub(crate) fn pace(&self) -> Option<Pace> {
        let [.., (x0, y0), (x1, y1)] = self.points[..] else { return None };
        let slope = (y1 - y0) as f64 / (x1 - x0) as f64;
        let latency_ns = (y0 as f64 - slope * x0 as f64).max(self.points[0].1 as f64);
        Some(Pace {
            latency_ns: latency_ns as u64,
            mib_ns: (slope * f64::from(1 << 20)).max(1.0) as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn curve(points: &[(u64, u64)]) -> Curve {
        let mut curve = Curve::default();
        points.iter().for_each(|&(bytes, ns)| curve.add(bytes, ns));
        curve
    }

    #[test]
    fn times_between_and_beyond_the_points_follow_from_them() {
        let curve = curve(&[(1000, 2000), (100, 1000), (2000, 4000)]);
        assert_eq!(curve.predict(0), Some(1000));
        assert_eq!(curve.predict(550), Some(1500));
        assert_eq!(curve.predict(2000), Some(4000));
        assert_eq!(curve.predict(3000), Some(6000));
        assert_eq!(Curve::default().predict(1), None);
    }

    #[test]
    fn a_curve_that_always_wins_crosses_at_nothing_and_one_that_never_does_at_the_end() {
        let (slow, fast) = (curve(&[(10, 100), (1000, 1000)]), curve(&[(10, 10), (1000, 20)]));
        assert_eq!(slow.crossing(&fast), Some(0));
        assert_eq!(fast.crossing(&slow), Some(1000));
    }

    proptest! {
        #[test]
        fn more_bytes_never_take_less_time(
            points in proptest::collection::vec((any::<u64>(), any::<u64>()), 1..20), a: u64, b: u64,
        ) {
            let curve = curve(&points);
            let (less, more) = (a.min(b), a.max(b));
            prop_assert!(curve.predict(less) <= curve.predict(more));
            let _ = (curve.pace(), curve.crossing(&curve));
        }
    }
}
