//! How long it takes to notice an event: from the moment it is raised to the waiting thread running again.
//!
//! Source: [Trahay09] 4.2 and 5.3 (methods of detection, and the load that decides between them); anchors 1–3.
//!
//! In one process a green thread waits for events of a `source`, one after the other, while `threads` green threads
//! compute and never yield. A kernel thread raises each event at a random moment, 0.1 to 4.2 ms after the waiter is
//! ready (more than a tick's period, so that ticks and events keep no step), and notes the time just before
//! ([`stage`]). `library` kernel is a kernel thread that blocks in a system call for the same kind of event,
//! kernel-short the same with the short time slice that this project asks for where it can; all of them take turns,
//! event by event, under the same load. `detect_ratio` is the quotient to `kernel`, round by round.
//!
//! Loads: `threads` 0 (idle cores), a multiple of the cores (every core computes), and `vps` 2x (more virtual
//! processors than cores). A lost event is one that is waited for until the job's time limit.

mod child;
pub(crate) mod kernel;
pub(crate) mod library;
pub(crate) mod sources;
pub(crate) mod stage;
mod summary;

use std::sync::Arc;
use std::time::Duration;

use marcel::topology::vp_count;
use pioman::Manager;

use crate::clock::now_ns;
use crate::config::{Config, distinct};
use crate::experiments::crunch::Crunch;
use crate::experiments::spin::Speed;
use crate::harness::experiment::{BASE, Bench, Work};
use crate::harness::key::{AUTO, Key, MODE, POLICY, Takes};
use crate::harness::results::{Metric, Results};
use crate::harness::worker::{Emit, Spec, WorkResult};
use stage::{Bare, Raiser, Stage};

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "detect",
    about: "the time from an event to the waiting thread running again",
    source: "[Trahay09] 4.2 and 5.3",
    keys: &[MODE, POLICY, VPS, SOURCE, METHOD, LIBRARY, THREADS],
    metrics: &METRICS,
    ranks: 1,
    iters: 100,
    points,
    work: Work::Process(work),
    derive: Some(derive),
    summary: Some(summary::summary),
    ..BASE
};

const VPS: Key = Key {
    name: "vps",
    takes: Takes::Cores(1, 1024),
    default: "1x",
    help: "compute virtual processors",
};
const SOURCE: Key = Key {
    name: "source",
    takes: Takes::Words(&["shm", "eventfd", "tcp", "pipe", "uring", "timer", "child"]),
    default: "shm,eventfd,tcp,pipe,uring,timer,child",
    help: "where events come from: a word in memory with a bell, an event descriptor (sources that the bench brings \
           along); a socket, a pipe, a read by io_uring, a deadline, the end of a child process",
};
const METHOD: Key = Key {
    name: "method",
    takes: Takes::Words(&[AUTO, "poll", "block", "tick", "dedicated", "interrupt"]),
    default: AUTO,
    help: "how events are looked for; auto: as the policy says (the only one but for shm and eventfd); interrupt: by a \
           signal to a thread that computes (shm only; otherwise, and while none computes, it is block); kernel \
           threads: always block",
};
const LIBRARY: Key = Key {
    name: "library",
    takes: Takes::Words(&["pioman", "kernel", "kernel-short"]),
    default: "pioman,kernel,kernel-short",
    help: "the waiter: a green thread, a kernel thread in a system call, one with a short time slice",
};
const THREADS: Key = Key {
    name: "threads",
    takes: Takes::Cores(0, 100_000),
    default: "0,1x,16x",
    help: "computing green threads (mode smp)",
};
const METRICS: [Metric; 3] = [
    Metric::new("detect_time", "us", "from the event to the waiting thread running again"),
    Metric::new(
        "detect_ratio",
        "ratio",
        "detect_time over that of library kernel: medians, per round",
    ),
    Metric::new(
        "detect_ratio_short",
        "ratio",
        "detect_time over that of library kernel-short: medians, per round",
    ),
];

/// Length of a computing thread's unit of work.
const UNIT_US: u64 = 50;
/// Shortest time from the wait to the event, and how much more it may be.
const GAP_US: u64 = 100;
const GAP_MORE_US: u64 = 4100;
/// Time for things to settle after the load has changed.
const SETTLE: Duration = Duration::from_millis(30);

fn points(grid: Vec<Config>) -> Vec<Config> {
    distinct(grid.into_iter().filter_map(|point| {
        let (vps, threads) = (point.number("vps"), point.number("threads"));
        // Computing threads that never yield need other kernel threads than the waiter's, and more virtual
        // processors than cores are another load only if all of them compute.
        let possible = (threads == 0 || point.text("mode") == "smp")
            && (vps <= vp_count() as u64 || threads >= vps);
        let pioman = point.text("library") == "pioman";
        let point = match pioman {
            true if sources::NAMES.contains(&point.text("source")) => point,
            true => point.with("method", AUTO),
            false => point.with("method", "block"),
        };
        possible.then_some(point)
    }))
}

fn work(spec: &Spec) -> WorkResult {
    let runtime = pioman::Runtime::new()?;
    let manager = runtime.manager();
    runtime.run(|| measure(spec, manager))
}

/// Random numbers that are good enough to keep step with nothing (xorshift).
pub(crate) struct Dice(u64);

impl Dice {
    /// Other numbers in each run.
    pub(crate) fn new() -> Dice {
        Dice(now_ns() | 1)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound.max(1)
    }
}

/// One point being measured.
struct Measured {
    number: usize,
    library: String,
    stage: Arc<dyn Stage>,
    samples: Vec<f64>,
}

fn measure(spec: &Spec, manager: &Arc<Manager>) -> WorkResult {
    let emit = Emit::of(0);
    let raiser = Arc::new(Raiser::start()?);
    let plain = Bare::start(raiser.clone(), false)?;
    let short = Bare::start(raiser.clone(), true)?;
    let steps = Speed::calibrate().steps(UNIT_US);
    let mut dice = Dice::new();
    let mut loads: Vec<u64> = spec.points.iter().map(|(_, c)| c.number("threads")).collect();
    loads.sort_unstable();
    loads.dedup();
    let total = spec.points.len() as u64 * spec.iters;
    let mut taken = 0;
    for threads in loads {
        let mut points = Vec::new();
        for (number, config) in &spec.points {
            if config.number("threads") == threads {
                let library = config.text("library").to_owned();
                let stage = match library.as_str() {
                    "pioman" => {
                        sources::stage(config.text("source"), config.text("method"), manager)?
                    }
                    _ => kernel::stage(config.text("source"))?,
                };
                points.push(Measured { number: *number, library, stage, samples: Vec::new() });
            }
        }
        let crunch = Crunch::start(threads as usize, steps);
        crunch.filled(spec.points[0].1.number("vps") as usize)?;
        marcel::sleep(SETTLE);
        for _ in 0..spec.iters {
            for point in &mut points {
                let after = Duration::from_micros(GAP_US + dice.below(GAP_MORE_US));
                let ns = match point.library.as_str() {
                    "pioman" => raiser.sample(&point.stage, after)?,
                    "kernel" => plain.sample(&point.stage, after)?,
                    _ => short.sample(&point.stage, after)?,
                };
                point.samples.push(ns as f64 / 1000.0);
                taken += 1;
                emit.progress(taken, total)?;
            }
        }
        crunch.end()?;
        for point in &points {
            emit.samples(point.number, "detect_time", &point.samples)?;
        }
    }
    Ok(())
}

/// What a point is compared with.
fn bare(point: &Config, library: &str) -> Config {
    point.with("library", library).with("method", "block")
}

fn derive(results: &mut Results) {
    for index in 0..results.points.len() {
        let point = results.points[index].clone();
        for (library, ratio) in [("kernel", "detect_ratio"), ("kernel-short", "detect_ratio_short")]
        {
            let other = results.find(&bare(&point, library));
            let Some(other) = other.filter(|_| point.text("library") == "pioman") else { continue };
            results.ratio((index, other), "detect_time", ratio);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(given: &[(&str, &str)]) -> Vec<Config> {
        points(crate::harness::key::grid("detect", BENCH.keys, given).unwrap())
    }

    #[test]
    fn kernel_threads_have_one_method_and_loads_need_smp() {
        let shown: Vec<_> = grid(&[("source", "shm"), ("mode", "mono,smp"), ("threads", "0,3")])
            .iter()
            .map(|p| format!("{} {} {}", p.text("mode"), p.text("library"), p.number("threads")))
            .collect();
        assert_eq!(shown.len(), 9, "{shown:?}");
        assert!(!shown.iter().any(|p| p.starts_with("mono") && p.ends_with('3')));
    }

    #[test]
    fn every_source_is_one() {
        let Takes::Words(words) = SOURCE.takes else { panic!() };
        for word in words {
            assert!(sources::NAMES.contains(word) || library::NAMES.contains(word), "{word}");
        }
        let given = [("source", "tcp,shm"), ("method", "poll,tick"), ("threads", "0")];
        let methods: Vec<_> = grid(&given)
            .iter()
            .filter(|p| p.text("library") == "pioman")
            .map(|p| format!("{} {}", p.text("source"), p.text("method")))
            .collect();
        assert_eq!(methods, ["tcp auto", "shm poll", "shm tick"]);
    }

    #[test]
    fn more_virtual_processors_than_cores_all_compute() {
        for point in grid(&[("vps", "1x,2x")]) {
            let (vps, threads) = (point.number("vps"), point.number("threads"));
            assert!(vps == vp_count() as u64 || threads >= vps, "{point:?}");
        }
    }

    #[test]
    fn ratios_are_to_the_kernel_thread_under_the_same_load() {
        let mut results = Results::new(grid(&[("source", "shm"), ("threads", "0,1x")]), 2);
        for index in 0..results.points.len() {
            let point = &results.points[index];
            let busy = 1.0 + point.number("threads").min(1) as f64;
            let time = match point.text("library") {
                "pioman" => 6.0 * busy,
                "kernel" => 4.0 * busy * busy,
                _ => 2.0,
            };
            results.add(index, "detect_time", 1, &[time]);
        }
        derive(&mut results);
        let ratio = |threads: bool, name| {
            results.median(name, |c| {
                c.text("library") == "pioman" && (c.number("threads") > 0) == threads
            })
        };
        assert_eq!(ratio(false, "detect_ratio"), Some(1.5));
        assert_eq!(ratio(true, "detect_ratio"), Some(0.75));
        assert_eq!(ratio(true, "detect_ratio_short"), Some(6.0));
    }
}
