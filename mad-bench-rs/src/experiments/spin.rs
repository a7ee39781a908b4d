//! A computation of known length that calls nothing: no library, no allocator, no kernel.
//!
//! A fixed number of dependent steps, so that a computation which is interrupted becomes *longer* (a loop
//! that watches the clock would hide it). Calibrated at its undisturbed speed: the fastest of many trials.

use crate::clock;

/// Steps per trial: about 0.1 ms.
const TRIAL: u64 = 100_000;
const TRIALS: u32 = 60;

/// How fast this core computes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speed {
    steps_per_us: f64,
}

impl Speed {
    /// Measures it; takes some 10 ms.
    pub(crate) fn calibrate() -> Speed {
        let fastest = (0..TRIALS).map(|_| {
            let start = clock::now_ns();
            compute(TRIAL);
            clock::now_ns() - start
        });
        let fastest = fastest.min().unwrap_or(1).max(1);
        Speed { steps_per_us: TRIAL as f64 * 1000.0 / fastest as f64 }
    }

    /// Steps that take this long.
    pub(crate) fn steps(self, us: u64) -> u64 {
        (us as f64 * self.steps_per_us) as u64
    }
}

/// Computes.
#[inline(never)]
pub(crate) fn compute(steps: u64) {
    let mut x = std::hint::black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..steps {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    std::hint::black_box(x);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_computation_takes_about_as_long_as_it_should() {
        let speed = Speed::calibrate();
        let start = clock::thread_cpu_ns();
        compute(speed.steps(20_000));
        let took = (clock::thread_cpu_ns() - start) as f64 / 1e6;
        // Wide: another machine's load can change the clock rate between the two.
        assert!((10.0..80.0).contains(&took), "{took} ms instead of 20");
    }
}
