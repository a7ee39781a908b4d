//! The same workloads under every policy of detection: how soon events are noticed, and what that costs.
//!
//! Source: [Trahay09] 5.3 (no method is the best one for all loads).
//!
//! Each policy has a process of its own; they follow each other in every round. In it a green thread waits for events
//! of one source while others compute ([`workload`]), in windows with events and windows without, in turns
//! ([`window`]), after a first one that is not counted (policies learn). What an event costs, all told, is its `score`
//! ([`score`]); `score_ratio` compares it, round by round, with that of the best fixed policy, and workload `all` is
//! the geometric mean of these.
//!
//! The claim that is printed, whether it holds or not: the adaptive policy is within 10 % of the best fixed one on each
//! workload, and better than every fixed one over all of them.

mod score;
mod summary;
mod window;
mod workload;

use std::sync::Arc;

use pioman::Manager;

use crate::config::distinct;
use crate::experiments::crunch::Crunch;
use crate::experiments::detect::stage::Raiser;
use crate::experiments::detect::{Dice, sources};
use crate::experiments::policies::summary::ALL;
use crate::experiments::spin::Speed;
use crate::harness::experiment::{BASE, Bench, Work};
use crate::harness::key::{AUTO, Key, MODE, POLICY, Takes};
use crate::harness::results::{Metric, Results};
use crate::harness::stats::median;
use crate::harness::worker::{Emit, Spec, WorkResult};
use window::Scene;
use workload::Workload;

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "policies",
    about: "latency, computation slowed down and CPU burnt under every policy of detection",
    source: "[Trahay09] 5.3",
    keys: &[
        Key { takes: Takes::Words(&["smp"]), ..MODE },
        Key {
            default: "always-poll,always-block,timer-only,dedicated,interrupt,load-aware,adaptive",
            ..POLICY
        },
        Key {
            name: "source",
            takes: Takes::Words(&["shm", "eventfd", "tcp", "pipe", "uring"]),
            default: "shm",
            help: "where events come from, as in bench detect",
        },
        WORKLOAD,
    ],
    metrics: &METRICS,
    ranks: 1,
    iters: 3,
    work: Work::Process(work),
    derive: Some(derive),
    summary: Some(summary::summary),
    ..BASE
};

const WORKLOAD: Key = Key {
    name: "workload",
    takes: Takes::Words(&["pingpong", "bursts", "silence", "phases", ALL]),
    default: "pingpong,bursts,silence,phases,all",
    help: "pingpong while every core computes, bursts while half of them do, an event after a long silence, phases \
           in which all threads or none compute; all: what follows from those that are measured",
};
const METRICS: [Metric; 9] = [
    Metric::new("detect_time", "us", "from the event to the waiting thread running again"),
    Metric::new(
        "half_round_trip",
        "us",
        "half the time of a message there and back (pingpong; the peer is a kernel thread that sleeps)",
    ),
    Metric::new(
        "slowdown",
        "ratio",
        "CPU time of a unit of computation over the same without events",
    ),
    Metric::new(
        "slowdown_wall",
        "ratio",
        "wall time of a unit of computation over the same without events",
    ),
    Metric::new(
        "cpu_time",
        "us",
        "CPU time of everything but computation and the raiser of the events, per event",
    ),
    Metric::new("lost_time", "us", "CPU time that computation has lost, per event"),
    Metric::new("burnt_time", "us", "CPU time burnt while cores were free, per event"),
    Metric::new(
        "score",
        "us",
        "what an event costs: mean detect_time + lost_time + burnt_time / 20",
    ),
    Metric::new(
        "score_ratio",
        "ratio",
        "score over that of the best fixed policy: medians of a round; workload all: geometric mean",
    ),
];

/// Length of a computing thread's unit of work: short, since what is not a whole unit is not seen.
const UNIT_US: u64 = 10;

fn work(spec: &Spec) -> WorkResult {
    let runtime = pioman::Runtime::new()?;
    let manager = runtime.manager();
    let vps = runtime.threads().load().compute_vps();
    runtime.run(|| measure(spec, manager, vps))
}

fn measure(spec: &Spec, manager: &Arc<Manager>, vps: usize) -> WorkResult {
    let emit = Emit::of(0);
    let raiser = Raiser::start()?;
    let steps = Speed::calibrate().steps(UNIT_US);
    let mut dice = Dice::new();
    let total = spec.points.len() as u64 * spec.iters;
    for (at, (number, config)) in spec.points.iter().enumerate() {
        let Some(workload) = Workload::named(config.text("workload")) else { continue };
        let stage = sources::stage(config.text("source"), AUTO, manager)?;
        let crunch = Crunch::with(workload.threads(vps), steps, workload.rhythm());
        crunch.filled(vps)?;
        let scene = Scene { workload, vps, raiser: &raiser, stage: &stage, crunch: &crunch };
        scene.warm_up(&mut dice)?;
        for i in 0..spec.iters {
            for (metric, samples) in scene.pair(&mut dice)? {
                emit.samples(*number, metric, &samples)?;
            }
            emit.progress(at as u64 * spec.iters + i + 1, total)?;
        }
        crunch.end()?;
    }
    Ok(())
}

fn derive(results: &mut Results) {
    let named = results.points.iter().map(|point| point.text("workload"));
    let workloads: Vec<String> =
        distinct(named.filter(|name| *name != ALL)).into_iter().map(str::to_owned).collect();
    let (single, all): (Vec<usize>, Vec<usize>) =
        (0..results.points.len()).partition(|&index| results.points[index].text("workload") != ALL);
    for index in single {
        let point = results.points[index].clone();
        let fixed = score::FIXED.iter().filter_map(|policy| {
            let of = results.find(&point.with("policy", *policy))?;
            Some((of, median(&results.all(of, "score"))?))
        });
        // The best of all rounds, in each of them: which one is best is not for the noise of a round to say.
        let Some((best, _)) = fixed.min_by(|(_, a), (_, b)| a.total_cmp(b)) else { continue };
        let figure = |samples: &[f64]| median(samples).filter(|&score| score > 0.0);
        let ratio = |own, best| own / best;
        results.relate((index, best), ("score", "score_ratio"), figure, ratio);
    }
    for index in all {
        let point = results.points[index].clone();
        let of: Vec<usize> = workloads
            .iter()
            .filter_map(|workload| results.find(&point.with("workload", workload.as_str())))
            .collect();
        for round in 0..results.rounds {
            let ratios: Vec<f64> = of
                .iter()
                .filter_map(|&one| results.round(one, "score_ratio", round).first().copied())
                .collect();
            let mean = score::geometric_mean(&ratios).filter(|_| ratios.len() == workloads.len());
            if let Some(mean) = mean {
                results.add(index, "score_ratio", round, &[mean]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_to_the_best_fixed_policy_of_the_workload() {
        let given =
            [("policy", "always-poll,always-block,adaptive"), ("workload", "bursts,silence,all")];
        let grid = crate::harness::key::grid("policies", BENCH.keys, &given).unwrap();
        let mut results = Results::new(grid, 2);
        for index in 0..results.points.len() {
            let point = results.points[index].clone();
            let score: f64 = match (point.text("policy"), point.text("workload")) {
                (_, "all") => continue,
                ("always-poll", "bursts") => 2.0,
                ("always-poll", _) => 80.0,
                ("always-block", _) => 8.0,
                (_, "bursts") => 4.0,
                _ => 4.0,
            };
            // In the second round everything costs twice as much: a ratio does not know.
            results.add(index, "score", 0, &[score]);
            results.add(index, "score", 1, &[2.0 * score]);
        }
        derive(&mut results);
        let ratio = |policy, workload| {
            results.median("score_ratio", |c| {
                c.text("policy") == policy && c.text("workload") == workload
            })
        };
        let all =
            results.find(&results.points[0].with("policy", "adaptive").with("workload", "all"));
        assert_eq!(results.all(all.unwrap(), "score_ratio").len(), 2);
        assert_eq!(ratio("always-poll", "bursts"), Some(1.0));
        assert_eq!(ratio("adaptive", "bursts"), Some(2.0));
        assert_eq!(ratio("adaptive", "silence"), Some(0.5));
        assert_eq!(ratio("adaptive", "all"), Some(1.0));
        let block = ratio("always-block", "all").unwrap();
        assert!((block - 2.0).abs() < 1e-9, "{block}");
    }
}
