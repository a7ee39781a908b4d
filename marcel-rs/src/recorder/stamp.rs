//! Short times, measured at little cost: by the processor's counter where the kernel trusts it, as records are.
//!
//! How long a count is, is found out when a time is asked for, from how far both clocks have come since the first
//! stamp. Most users of stamps only want to know that it was not too long, which is a comparison of counts: a counter
//! that the kernel trusts runs at a gigahertz or more, so a nanosecond is one count or more.

use std::sync::OnceLock;
use std::time::Duration;

use super::clock::{self, Moment};

/// A moment, good for times within this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u64);

struct Base {
    counter: bool,
    first: Moment,
}

fn base() -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(|| {
        let counter = clock::has_counter();
        Base { counter, first: clock::moment(counter) }
    })
}

impl Stamp {
    /// This moment.
    ///
    /// # Context
    /// Anywhere, but the first one of a process, which finds out about the counter: not on the progress path.
    #[inline]
    pub fn now() -> Stamp {
        Stamp(if base().counter { clock::count() } else { clock::monotonic() })
    }

    /// True if `later` is surely no more than `limit` after this. False is perhaps: then ask [`Stamp::until`].
    #[inline]
    pub fn is_surely_within(self, limit: Duration, later: Stamp) -> bool {
        u128::from(later.0.saturating_sub(self.0)) <= limit.as_nanos()
    }

    /// The time from this to `later`; nothing if that was before.
    pub fn until(self, later: Stamp) -> Duration {
        let counts = later.0.saturating_sub(self.0);
        let base = base();
        if !base.counter {
            return Duration::from_nanos(counts);
        }
        let now = clock::moment(true);
        let passed = now.count.saturating_sub(base.first.count).max(1);
        let ns = u128::from(now.ns.saturating_sub(base.first.ns));
        Duration::from_nanos((u128::from(counts) * ns / u128::from(passed)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_time_is_what_the_clock_says() {
        let outer = Instant::now();
        let start = Stamp::now();
        let inner = Instant::now();
        while inner.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        let least = inner.elapsed();
        let end = Stamp::now();
        let most = outer.elapsed();
        let time = start.until(end);
        // A thousandth: the two clocks are read at slightly different moments.
        assert!(
            time >= least - least / 1000 && time <= most + most / 1000,
            "{least:?} {time:?} {most:?}"
        );
        assert!(!start.is_surely_within(Duration::from_millis(1), end));
        assert!(start.is_surely_within(Duration::MAX, end));
        assert_eq!(end.until(start), Duration::ZERO);
    }
}
