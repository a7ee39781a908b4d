//! What threads cost: marcel's, kernel threads, and those of other libraries, side by side.
//!
//! Source: the operations by which thread libraries compare themselves (Argobots, MassiveThreads, PM2's Marcel).
//! `yield` is timed per switch of a worker, `handoff` and `channel` per turn, `fib` per thread started (kernel threads
//! compute fib(15): the kernel would not have the 121 392 threads of fib(25)).
//!
//! Each point is a process of its own, pinned to one core or to all that are allowed, and the libraries follow each
//! other in every round. marcel and kernel threads run in `mad` itself ([`green`], [`kernel`], over the programs in
//! [`ops`]); the others are programs in `peers/threads` that [`peers`] finds and builds. A library that is not here or
//! that fails is named with the reason, and the rest goes on.

mod green;
mod kernel;
mod ops;
mod peers;
mod summary;

use std::time::Duration;

use marcel::topology::{allowed_cpus, restrict_current_thread};

use crate::config::{Config, distinct};
use crate::experiments::threads::summary::{OURS, best_peer};
use crate::harness::drive;
use crate::harness::experiment::{Absent, Apart, BASE, Bench, Work};
use crate::harness::key::{Key, Takes};
use crate::harness::line::Line;
use crate::harness::results::Metric;
use crate::harness::worker::{Emit, Spec, WorkResult};
use ops::{Library, Measurement};

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "threads",
    about: "what threads, switches and locks cost (C and C++ built with -O2, Rust with --release)",
    source: "the operations by which Argobots, MassiveThreads and PM2's Marcel are compared",
    keys: &[OP, WORKERS, LIBRARY, THREADS],
    metrics: &METRICS,
    ranks: 1,
    iters: 5,
    points,
    work: Work::Process(work),
    apart: Some(&Apart {
        prepare,
        builds: true,
        vital: |point| point.text("library") == OURS,
        timeout: Duration::from_secs(60),
        // The other libraries' kernel threads have the priority of the process, too.
        knobs: &[("MARCEL_COMPUTE_NICE", "0")],
        column: "to best peer",
        ratio: to_best_peer,
    }),
    summary: Some(summary::summary),
    ..BASE
};

const OP: Key = Key {
    name: "op",
    takes: Takes::Words(&[
        "createjoin",
        "batch",
        "yield",
        "handoff",
        "mutex",
        "mutex4",
        "channel",
        "fib",
        "memory",
    ]),
    default: "createjoin,batch,yield,handoff,mutex,mutex4,channel,fib,memory",
    help: "what is timed: createjoin of one thread at a time, batch of 1000, yield of two threads per worker, \
           handoff by lock and condition, mutex alone, mutex4 by four, channel to and fro, fork-join of fib(25); \
           memory of threads that wait",
};
const WORKERS: Key = Key {
    name: "workers",
    takes: Takes::Words(&["1", "all"]),
    default: "1,all",
    help: "one core (the last that is allowed) or all",
};
const LIBRARY: Key = Key {
    name: "library",
    takes: Takes::Words(&[
        OURS,
        "kernel",
        "argobots",
        "massivethreads",
        "state-threads",
        "boost-fiber",
        "go",
        "may",
        "tokio",
    ]),
    default: "marcel,kernel,argobots,massivethreads,state-threads,boost-fiber,go,may,tokio",
    help: "whose threads; kernel: std::thread; state-threads: one worker; may, tokio: built by --peers",
};
const THREADS: Key = Key {
    name: "threads",
    takes: Takes::Int(1, 1_000_000),
    default: "100000",
    help: "waiting threads of memory (kernel: at most 10000); the other operations have as many as they have",
};
const METRICS: [Metric; 2] = [
    Metric::new("op_time", "ns", "duration of one operation"),
    Metric::new("memory", "bytes", "resident memory of one blocked thread"),
];

/// More kernel threads than this are refused on many machines (`kernel.threads-max`, `vm.max_map_count`, cgroups).
const MOST_KERNEL_THREADS: u64 = 10_000;

/// How many cores a point has.
fn cores(config: &Config) -> u64 {
    match config.text("workers") {
        "1" => 1,
        _ => allowed_cpus().len() as u64,
    }
}

fn points(grid: Vec<Config>) -> Vec<Config> {
    // State Threads have one kernel thread.
    let possible =
        |point: &Config| point.text("library") != "state-threads" || point.text("workers") == "1";
    distinct(grid.into_iter().filter(possible).map(|point| {
        let threads = match point.text("op") {
            "createjoin" | "mutex" => 1,
            "batch" => ops::BATCH,
            "yield" => 2 * cores(&point),
            "mutex4" => 4,
            "handoff" | "channel" => 2,
            "fib" if point.text("library") == "kernel" => ops::fibonacci(kernel::Kernel::FIB).1,
            "fib" => ops::fibonacci(green::Marcel::FIB).1,
            _ if point.text("library") == "kernel" => {
                point.number("threads").min(MOST_KERNEL_THREADS)
            }
            _ => point.number("threads"),
        };
        point.with("threads", threads)
    }))
}

fn prepare(points: &[Config], with_cargo: bool) -> Vec<Absent> {
    let wanted = distinct(points.iter().map(|point| point.text("library")));
    let bar = drive::bar(wanted.len() as u64);
    let mut absent = Vec::new();
    for library in wanted {
        bar.set_message(format!("building the program of {library}"));
        let built = peers::find(library).map_or(Ok(()), |peer| peers::build(peer, with_cargo));
        if let Err(why) = built {
            let of_it = |(_, point): &(usize, &Config)| point.text("library") == library;
            absent.extend(points.iter().enumerate().filter(of_it).map(|(i, _)| (i, why.clone())));
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    absent
}

fn work(spec: &Spec) -> WorkResult {
    let emit = Emit::of(0);
    for (number, config) in &spec.points {
        let workers = cores(config);
        let cpus = allowed_cpus();
        let first = cpus.len() - (workers as usize).min(cpus.len());
        restrict_current_thread(&cpus[first..])
            .map_err(|e| format!("cores {:?}: {e}", &cpus[first..]))?;
        let (op, threads) = (config.text("op"), config.number("threads"));
        let measurement = Measurement { op, workers, samples: spec.iters, threads };
        let metric = if op == "memory" { "memory" } else { "op_time" };
        let report =
            |sample: f64| emit.samples(*number, metric, &[sample]).map_err(|e| e.to_string());
        match config.text("library") {
            OURS => green::run(measurement, report).map_err(Into::into),
            "kernel" => ops::measure::<kernel::Kernel>(measurement, report).map_err(Into::into),
            other => peers::run(other, measurement, report),
        }
        .map_err(|why| format!("{}, {op}: {why}", config.text("library")))?;
    }
    Ok(())
}

/// The median of a line over that of the best of the others.
fn to_best_peer(lines: &[Line], index: usize) -> Option<f64> {
    let best = best_peer(lines, index)?.median;
    (best > 0.0).then(|| lines[index].median / best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{key, line};

    fn grid(given: &[(&str, &str)]) -> Vec<Config> {
        points(key::grid("threads", BENCH.keys, given).unwrap())
    }

    #[test]
    fn only_memory_has_a_choice_of_threads() {
        let points = grid(&[("op", "createjoin,memory"), ("threads", "5,20000"), ("workers", "1")]);
        let of = |library: &str, op: &str| -> Vec<u64> {
            let which = |p: &&Config| p.text("library") == library && p.text("op") == op;
            points.iter().filter(which).map(|p| p.number("threads")).collect()
        };
        assert_eq!(of("marcel", "createjoin"), [1]);
        assert_eq!(of("marcel", "memory"), [5, 20000]);
        assert_eq!(of("kernel", "memory"), [5, 10000]);
    }

    #[test]
    fn every_library_is_ours_or_the_kernels_or_has_a_program() {
        let Takes::Words(libraries) = LIBRARY.takes else { panic!("words") };
        for library in libraries {
            assert!(
                [OURS, "kernel"].contains(library) != peers::find(library).is_some(),
                "{library}"
            );
        }
    }

    pub(super) fn line(library: &str, op: &str, median: f64) -> Line {
        let keys = [("op", op), ("workers", "1"), ("library", library)];
        Line { unit: "ns".into(), ..line::tests::line("op_time", &keys, median) }
    }

    #[test]
    fn the_ratio_is_to_the_best_of_the_others() {
        let lines = [
            line("marcel", "yield", 20.0),
            line("go", "yield", 80.0),
            line("may", "yield", 40.0),
            line("marcel", "fib", 1.0),
        ];
        let ratios: Vec<_> = (0..4).map(|index| to_best_peer(&lines, index)).collect();
        assert_eq!(ratios, [Some(0.5), Some(2.0), Some(1.0), None]);
    }
}
