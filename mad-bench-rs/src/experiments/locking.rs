//! What the engine's lock costs a message without contention.
//!
//! Source: [Trahay09] 7.2.1.1, figures 7.3 and 7.4 (no protection, one coarse lock, fine ones; over InfiniBand 2.05,
//! 2.19 and 2.30 µs). The ping-pong is that of `latency`, in processes that differ in `NMAD_LOCK` alone. Coarse is
//! one lock for each call here, where that of [Trahay09] was taken twice; fine spares a short send that lock and
//! takes one of its rank's instead, over shared memory; over `tcp` it is as coarse.
//!
//! Without a lock the engine belongs to one kernel thread. So `none` is cheaper where only one uses it (modes no-thread
//! and mono); in mode smp the I/O manager's other kernel threads come, too, and take it away.
//!
//! Each trip is timed by itself, so where the clock ticks every 10 ns (some virtual machines) medians of half round
//! trips are multiples of 5 ns, and what is added by less than that is not seen.

use crate::experiments::latency::{HALF_ROUND_TRIP, measure};
use crate::harness::experiment::{BASE, Bench, Work};
use crate::harness::key::{DRIVER, Key, LOCK, MODE, SIZE};
use crate::harness::results::{ADDED_TIME, Metric};

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "locking",
    about: "what the engine's lock adds to a small message",
    source: "[Trahay09] 7.2.1.1, figures 7.3 and 7.4",
    keys: &[
        DRIVER,
        Key { default: "no-thread,mono,smp", ..MODE },
        Key { default: "none,coarse,fine", ..LOCK },
        Key { default: "4", ..SIZE },
    ],
    metrics: &METRICS,
    iters: 5000,
    rounds: 7,
    work: Work::Session(measure),
    derive: Some(|results| results.added("half_round_trip", "lock", "none")),
    ..BASE
};

const METRICS: [Metric; 2] = [HALF_ROUND_TRIP, ADDED_TIME];
