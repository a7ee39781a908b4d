//! The time of records: the processor's counter (10 ns here) where the kernel itself goes by it, else the monotonic
//! clock (26 ns). What a count means is found out afterwards, from two moments at which both were read.

use std::time::{Duration, Instant};

pub(crate) use crate::os::clock::monotonic;

/// A moment by both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) count: u64,
    pub(crate) ns: u64,
}

/// Whether the processor's counter can be believed: the kernel, which watches it, does.
pub(crate) fn has_counter() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        std::fs::read_to_string(source).is_ok_and(|name| name.trim() == "tsc")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// The processor's counter; only where there is one.
#[inline(always)]
pub(crate) fn count() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has it, and Linux leaves it to programs.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    monotonic()
}

/// Now: of some tries, that in which the two readings were closest together.
pub(crate) fn moment(counter: bool) -> Moment {
    if !counter {
        let ns = monotonic();
        return Moment { count: ns, ns };
    }
    let tries = (0..5).map(|_| {
        let before = count();
        let ns = monotonic();
        let after = count();
        (after - before, Moment { count: before + (after - before) / 2, ns })
    });
    tries.min_by_key(|(width, _)| *width).map(|(_, moment)| moment).unwrap_or_default()
}

/// As [`moment`], and so long after `first` that the two say how fast the counter runs.
pub(crate) fn second_moment(counter: bool, first: Moment) -> Moment {
    let limit = Instant::now() + Duration::from_millis(5);
    while counter && monotonic() < first.ns + 2_000_000 && Instant::now() < limit {
        std::thread::yield_now();
    }
    moment(counter)
}
