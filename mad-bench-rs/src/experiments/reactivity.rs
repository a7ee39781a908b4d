//! Reactivity of communication on machines that compute.
//!
//! Source: [Trahay09] 7.2.3.1: in each of two processes N threads compute, and the main thread plays
//! ping-pong with its peer. The computing threads are green threads that never yield; more of them than
//! virtual processors wait until an earlier one ends, and all end together, so the machine is full all the
//! time. An MPI program's are threads of the kernel, since it has no others.
//!
//! Every round trip is a sample: means and high percentiles count, medians hide the slow ones. A library that polls
//! plays thousands of trips while both sides happen to have their time slices, and none for many milliseconds after
//! that: so with computing threads a window has a fixed length, whatever the number of messages, and `peer_ratio`
//! compares means. Even these hide what a thousand fast trips outweigh; `weighted_trip` does not: each trip weighs as
//! much as it takes, so it is how long the one takes that is under way at a random moment.
//!
//! What the computation loses, per process and window of time, against the same window without messages
//! (`side` none):
//! - `compute_time`: CPU time of the computing kernel threads per unit of work. It grows when the library's
//!   work is done on their account (ticks), or disturbs their caches. `slowdown` compares it.
//! - `total_time`: wall time per unit of work, both processes together. It grows by what communication takes
//!   from the cores as well. `slowdown_wall` compares it.
//! - `cpu_time`: CPU time of everything else in both processes, per message: the price of communicating.
//!
//! Threads that never yield need kernel threads of their own beside the one that communicates: mode smp. In mode mono
//! the one thread computes, and `half_round_trip` is that of its answers ([`crate::experiments::replies`]).

use std::time::Duration;

use newmad::Session;

use crate::clock::now_ns;
use crate::config::{Config, distinct};
use crate::experiments::crunch::{Crunch, Reading};
use crate::experiments::detect::Dice;
use crate::experiments::replies;
use crate::experiments::spin::Speed;
use crate::harness::experiment::{BASE, Bench, Program, Work};
use crate::harness::key::{DRIVER, Key, LIBRARY, MODE, POLICY, PROGRESSION, SIZE, Takes};
use crate::harness::mpi;
use crate::harness::results::{Metric, Results};
use crate::harness::stats::mean;
use crate::harness::worker::{Emit, Spec, WorkResult};

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "reactivity",
    about: "4 B ping-pong between two processes in which N green threads compute and never yield; mono: answers",
    source: "[Trahay09] 7.2.3.1",
    keys: &[
        DRIVER,
        Key { takes: Takes::Words(&["mono", "smp"]), ..MODE },
        POLICY,
        PROGRESSION,
        Key { default: "newmad", ..LIBRARY },
        Key { default: "4", ..SIZE },
        THREADS,
        SIDE,
    ],
    metrics: &METRICS,
    iters: 5000,
    points,
    work: Work::Session(measure),
    derive: Some(derive),
    mpi: Some(program),
    outside_calls: true,
    ..BASE
};

const THREADS: Key = Key {
    name: "threads",
    takes: Takes::Int(0, 10_000),
    default: "2,8,32",
    help: "computing threads per process; with none, a window ends after --iters messages",
};
const SIDE: Key = Key {
    name: "side",
    takes: Takes::Words(&["both", "none"]),
    default: "both",
    help: "the side that communicates; none, the computation alone, is always measured too",
};
const METRICS: [Metric; 8] = [
    Metric::new("half_round_trip", "us", "half the time of a message there and back"),
    Metric::new(
        "weighted_trip",
        "us",
        "the same at a random moment: each weighs as much as it takes, per round",
    ),
    Metric::new("compute_time", "us", "CPU time of a unit of work (50 µs of CPU undisturbed)"),
    Metric::new("total_time", "us", "wall time of a unit of work, both processes together"),
    Metric::new("cpu_time", "us", "CPU time of communication per message (side both)"),
    Metric::new("slowdown", "ratio", "compute_time over compute_time alone, per round"),
    Metric::new("slowdown_wall", "ratio", "total_time over total_time alone, per round"),
    mpi::PEER_RATIO,
];

const DATA: u64 = 1;
const RECORD: u64 = 2;
/// Unit of work.
const UNIT_US: u64 = 50;
/// A window with messages.
const WINDOW_NS: u64 = 500_000_000;
/// Longest time to wait for the first unit of work, and how often to look.
const UNIT_LIMIT_NS: u64 = 30_000_000_000;
const UNIT_PAUSE: Duration = Duration::from_micros(200);
/// Window without messages.
const ALONE: Duration = Duration::from_millis(300);
/// Time for the computing threads to fill the machine.
const START: Duration = Duration::from_millis(30);

fn points(grid: Vec<Config>) -> Vec<Config> {
    distinct(mpi::points(grid).into_iter().flat_map(|point| {
        if point.text("mode") == "mono" {
            return std::iter::once(point.with("threads", 1)).chain(None);
        }
        let alone = (point.number("threads") > 0).then(|| point.with("side", "none"));
        std::iter::once(point).chain(alone)
    }))
}

fn program(config: &Config) -> Program {
    let messages = u64::from(config.text("side") != "none");
    let numbers = [config.number("threads"), config.number("size"), messages];
    Program { share: true, ..Program::pair("reactivity", numbers) }
}

fn measure(session: &Session, emit: &Emit, spec: &Spec) -> WorkResult {
    let steps = Speed::calibrate().steps(UNIT_US);
    let count = spec.points.len() as u64;
    let mut dice = Dice::new();
    for (at, (number, config)) in spec.points.iter().enumerate() {
        if config.text("mode") == "mono" {
            let trips = replies::window(session, config.number("size") as usize, &mut dice)?;
            emit.samples(*number, "half_round_trip", &trips)?;
            continue;
        }
        let threads = config.number("threads") as usize;
        let crunch = Crunch::start(threads, steps);
        let window = window(session, emit, config, &crunch, spec.iters, (at as u64, count));
        crunch.end()?;
        let (trips, mine) = window?;
        if session.rank() != 0 {
            session.send(0, RECORD, &mine.to_bytes())?;
            continue;
        }
        let mut bytes = [0; 32];
        session.recv(1, RECORD, &mut bytes)?;
        report(emit, *number, &trips, mine, Reading::from_bytes(&bytes))?;
    }
    Ok(())
}

/// One window of time: the trips (rank 0) and what this process did meanwhile.
fn window(
    session: &Session,
    emit: &Emit,
    config: &Config,
    crunch: &Crunch,
    iters: u64,
    (at, count): (u64, u64),
) -> WorkResult<(Vec<f64>, Reading)> {
    let mut buffer = vec![0u8; config.number("size") as usize];
    let mut trips = Vec::new();
    marcel::sleep(START);
    session.barrier()?;
    let start = crunch.read();
    if config.text("side") == "none" {
        marcel::sleep(ALONE);
    } else if session.rank() == 0 {
        let mut before = now_ns();
        for i in 1.. {
            let since = before - start.wall_ns;
            let last = if crunch.is_empty() { i == iters } else { since > WINDOW_NS };
            buffer[0] = u8::from(last);
            session.send(1, DATA, &buffer)?;
            session.recv(1, DATA, &mut buffer)?;
            let now = now_ns();
            trips.push((now - before) as f64 / 2000.0);
            before = now;
            if last {
                break;
            }
            emit.progress(at * WINDOW_NS + since.min(WINDOW_NS), count * WINDOW_NS)?;
        }
    } else {
        while buffer[0] == 0 {
            session.recv(0, DATA, &mut buffer)?;
            session.send(0, DATA, &buffer)?;
        }
    }
    // On a machine that is busy with other things a short window may pass without one unit of work.
    while !crunch.is_empty() && crunch.read().units == start.units {
        if now_ns() - start.wall_ns > UNIT_LIMIT_NS {
            return Err("the computing threads got no CPU time: the machine is too busy".into());
        }
        marcel::sleep(UNIT_PAUSE);
    }
    Ok((trips, crunch.read().since(start)))
}

fn report(emit: &Emit, point: usize, trips: &[f64], mine: Reading, theirs: Reading) -> WorkResult {
    let us = |ns: u64| ns as f64 / 1000.0;
    emit.samples(point, "half_round_trip", trips)?;
    for process in [mine, theirs] {
        if process.units > 0 {
            let each = us(process.compute_ns) / process.units as f64;
            emit.samples(point, "compute_time", &[each])?;
        }
    }
    let units = mine.units + theirs.units;
    if units > 0 {
        let wall = us(mine.wall_ns + theirs.wall_ns) / 2.0;
        emit.samples(point, "total_time", &[wall / units as f64])?;
    }
    if !trips.is_empty() {
        let rest = |r: Reading| us(r.process_ns.saturating_sub(r.compute_ns));
        let messages = 2.0 * trips.len() as f64;
        emit.samples(point, "cpu_time", &[(rest(mine) + rest(theirs)) / messages])?;
    }
    Ok(())
}

/// The mean of times, each as many times as it is long.
fn weighted(times: &[f64]) -> Option<f64> {
    let sum: f64 = times.iter().sum();
    (sum > 0.0).then(|| times.iter().map(|time| time * time).sum::<f64>() / sum)
}

fn derive(results: &mut Results) {
    for index in 0..results.points.len() {
        let point = results.points[index].clone();
        for round in 0..results.rounds {
            if let Some(weighted) = weighted(results.round(index, "half_round_trip", round)) {
                results.add(index, "weighted_trip", round, &[weighted]);
            }
        }
        let alone = results.find(&point.with("side", "none"));
        let Some(alone) = alone.filter(|&alone| alone != index) else { continue };
        for (of, ratio) in [("compute_time", "slowdown"), ("total_time", "slowdown_wall")] {
            results.ratio((index, alone), of, ratio);
        }
    }
    mpi::compare_by(results, |_| Some("half_round_trip"), mean, false);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_long_trip_outweighs_many_short_ones() {
        let mut trips = vec![1.0; 1000];
        assert_eq!(weighted(&trips), Some(1.0));
        trips.push(1000.0);
        assert_eq!(weighted(&trips), Some(500.5));
        assert_eq!(weighted(&[]), None);
    }

    #[test]
    fn mode_mono_has_one_thread_that_computes_and_answers() {
        let given = [("mode", "mono"), ("threads", "0,2,8"), ("driver", "shm")];
        let grid = crate::harness::key::grid("reactivity", BENCH.keys, &given).unwrap();
        let points = points(grid);
        assert_eq!((points.len(), points[0].number("threads")), (1, 1));
    }

    #[test]
    fn computation_alone_is_measured_beside() {
        let given = [("threads", "0,2"), ("driver", "shm")];
        let grid = crate::harness::key::grid("reactivity", BENCH.keys, &given).unwrap();
        let shown: Vec<_> =
            points(grid).iter().map(|p| (p.number("threads"), p.text("side").to_owned())).collect();
        assert_eq!(shown, [(0, "both".into()), (2, "both".into()), (2, "none".into())]);
    }
}
