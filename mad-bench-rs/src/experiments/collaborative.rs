//! Collaborative polling ([Didelot14] 4.4): ranks that share a process, of which some compute and some wait. Who takes up the
//! messages of a rank that computes, at which point, and what does its wait cost in the end?
//!
//! ```text
//!   rank 0   receives posted │ computes, imbalance times as long │ wait_time │ both wait for each other
//!   rank 1   receives posted │ computes │ waits ... and takes up what comes for rank 0
//!   2 and 3            quiet: each sends to its rank when told, and sleeps otherwise
//! ```
//! The program is an MPI program (`peers/mpi/collaborative.c`), the same for all. Ranks 0 and 1 are one process with two workers, or
//! processes; what the I/O manager may do outside calls is switched off in parts (`way`). With `work`, an allreduce takes the
//! messages' place: begun as one (`schedule`), so that any thread can go on with its steps, or made by hand of two exchanges, the
//! second of which only its own rank can begin (`exchange`).

use crate::config::{Config, distinct};
use crate::harness::experiment::{BASE, Bench, Program};
use crate::harness::key::{DRIVER, Key, LIBRARY, NONE, SIZE, Takes};
use crate::harness::libraries;
use crate::harness::mpi;
use crate::harness::results::{Metric, Results};
use crate::harness::stats::median;

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "collaborative",
    about: "ranks that wait take up the messages of ranks that compute, in one process",
    source: "[Didelot14] 4.4: collaborative polling, by threads of one node",
    keys: &[
        Key { default: "shm", ..DRIVER },
        Key { default: "madmpi", ..LIBRARY },
        WAY,
        WORK,
        Key { default: "8K,64K", help: "bytes of a message; of the allreduce", ..SIZE },
        IMBALANCE,
        COMPUTE,
    ],
    metrics: &METRICS,
    iters: 200,
    points,
    derive: Some(derive),
    mpi: Some(program),
    outside_calls: true,
    ..BASE
};

/// Names, whether ranks 0 and 1 (and 2 and 3) share a process, and the knobs of the processes.
type Way = (&'static str, bool, &'static [(&'static str, &'static str)]);
const WORKERS: (&str, &str) = ("MARCEL_NVP", "2");
const FIRST: (&str, &str) = ("MARCEL_FIRSTCPU", "0");
const IN_CALLS: (&str, &str) = ("PIOM_ENABLE_PROGRESSION", "0");
const WAYS: [Way; 9] = [
    ("collaborative", true, &[WORKERS, FIRST]),
    ("calls", false, &[IN_CALLS]),
    ("processes", false, &[]),
    ("wait", true, &[WORKERS, FIRST, IN_CALLS]),
    ("switch", true, &[WORKERS, FIRST, ("PIOM_POINTS", "switch")]),
    ("idle", true, &[WORKERS, FIRST, ("PIOM_POINTS", "idle")]),
    ("tick", true, &[WORKERS, FIRST, ("PIOM_POINTS", "tick")]),
    ("block", true, &[WORKERS, FIRST, ("PIOM_POINTS", "block")]),
    ("nodes", true, &[WORKERS, FIRST, ("MARCEL_TOPOLOGY", "numa:2 core:1")]),
];

const WAY: Key = Key {
    name: "way",
    takes: Takes::Words(&[
        "collaborative",
        "calls",
        "processes",
        "wait",
        "switch",
        "idle",
        "tick",
        "block",
        "nodes",
    ]),
    default: "collaborative,calls,processes,wait,switch,idle,tick,block,nodes",
    help: "madmpi's ranks share a process, with everything on; with progress in waits alone, or with one more point (switch, \
           idle, tick, block) alone; on a machine of two NUMA nodes (synthetic); or are processes, with progress outside calls or \
           without (calls)",
};
const WORKS: [&str; 3] = ["messages", "schedule", "exchange"];
const WORK: Key = Key {
    name: "work",
    takes: Takes::Words(&WORKS),
    default: "messages",
    help: "8 messages; an allreduce whose steps are known from its start; an allreduce by hand",
};
const IMBALANCE: Key = Key {
    name: "imbalance",
    takes: Takes::Int(1, 15),
    default: "1,2,4",
    help: "how many times as long rank 0 computes as rank 1",
};
const COMPUTE: Key = Key {
    name: "compute_us",
    takes: Takes::Int(1, 1_000_000),
    default: "1000",
    help: "computation of rank 1",
};

const WAIT_TIME: &str = "wait_time";
const TOTAL_TIME: &str = "total_time";
const WAIT_RATIO: &str = "wait_ratio";
const METRICS: [Metric; 15] = [
    Metric::new(WAIT_TIME, "us", "of rank 0 for its messages, once it has computed"),
    Metric::new("compute_time", "us", "of rank 0"),
    Metric::new(TOTAL_TIME, "us", "of a step"),
    Metric::new(
        WAIT_RATIO,
        "ratio",
        "wait_time with polling in calls only, by processes, over this one, per round",
    ),
    mpi::PEER_RATIO,
    Metric::new("found_own", "ratio", "messages that their rank has found itself"),
    Metric::new("found_near", "ratio", "found on their rank's NUMA node, not by it"),
    Metric::new("found_far", "ratio", "found on another NUMA node"),
    Metric::new("found_elsewhere", "ratio", "found by a thread without a core of its own"),
    Metric::new("found_in_wait", "ratio", "found in a wait"),
    Metric::new("found_in_call", "ratio", "found in another call"),
    Metric::new("found_at_switch", "ratio", "found at a context switch"),
    Metric::new("found_idle", "ratio", "found in the idle loop"),
    Metric::new("found_at_tick", "ratio", "found in a tick"),
    Metric::new("found_blocking", "ratio", "found by the thread that blocks"),
];

/// Those of MPI libraries; the others' processes are as they are.
fn points(grid: Vec<Config>) -> Vec<Config> {
    let theirs = mpi::points(grid).into_iter().filter(mpi::is);
    distinct(theirs.map(|point| match libraries::is_foreign(point.text("library")) {
        true => point.with("way", NONE),
        false => point,
    }))
}

fn program(config: &Config) -> Program {
    let kind = WORKS.iter().position(|work| *work == config.text("work")).unwrap_or(0) as u64;
    let way = WAYS.iter().find(|(name, ..)| *name == config.text("way"));
    let (_, shared, knobs) = way.copied().unwrap_or(("", false, &[]));
    let size = config.number("size").next_multiple_of(8).max(8);
    let numbers = [size, config.number("compute_us"), config.number("imbalance") + 16 * kind];
    let base = Program::pair("collaborative", numbers);
    Program { ranks: 4, each: if shared { 2 } else { 1 }, knobs, ..base }
}

/// Adds what polling in calls only takes longer, and how madmpi with everything on compares with other libraries.
fn derive(results: &mut Results) {
    for index in 0..results.points.len() {
        let (way, point) = (results.points[index].text("way"), &results.points[index]);
        if !libraries::is_ours(point.text("library")) || way == "calls" {
            continue;
        }
        let same = |other: &Config| {
            other.text("way") == "calls"
                && other.only(|key| key != "way") == point.only(|key| key != "way")
        };
        let base = results.points.iter().position(same);
        if let Some(base) = base {
            let ratio = |this: f64, calls: f64| calls / this;
            results.relate((index, base), (WAIT_TIME, WAIT_RATIO), median, ratio);
        }
    }
    // By the whole step: a library may wait less since it has taken from the computation.
    mpi::compare_among(results, &["way"], |_| Some(TOTAL_TIME), median, false);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::key::grid;

    #[test]
    fn every_way_is_a_value_of_its_key_and_names_known_knobs() {
        let Takes::Words(words) = WAY.takes else { panic!("words") };
        assert_eq!(WAYS.map(|(name, ..)| name), words);
        for (variable, _) in WAYS.iter().flat_map(|(.., knobs)| *knobs) {
            assert!(crate::knobs::find(variable).is_some(), "{variable}");
        }
    }

    #[test]
    fn others_have_one_way_and_ours_are_started_as_it_says() {
        let chosen = [
            ("library", "madmpi,mpich"),
            ("way", "calls,tick"),
            ("size", "100"),
            ("imbalance", "2"),
        ];
        let all = points(grid("collaborative", BENCH.keys, &chosen).unwrap());
        let shown: Vec<_> = all.iter().map(|p| (p.text("library"), p.text("way"))).collect();
        assert_eq!(shown, [("madmpi", "calls"), ("madmpi", "tick"), ("mpich", NONE)]);
        let [calls, tick, theirs] = [0, 1, 2].map(|index| program(&all[index]));
        assert_eq!(tick.numbers, [104, 1000, 2]);
        assert_eq!([calls.each, theirs.each, tick.each], [1, 1, 2]);
        assert_eq!(calls.knobs, [IN_CALLS]);
        assert!(theirs.knobs.is_empty() && tick.knobs.contains(&("PIOM_POINTS", "tick")));
        let exchange = all[1].clone().with("work", "exchange");
        assert_eq!(program(&exchange).numbers[2], 2 + 32);
    }

    #[test]
    fn a_way_is_compared_with_polling_in_calls() {
        let point = |way: &str| {
            Config::default().with("library", "madmpi").with("way", way).with("size", 8)
        };
        let other = Config::default().with("library", "mpich").with("way", NONE).with("size", 8);
        let mut results = Results::new(vec![point("collaborative"), point("calls"), other], 1);
        for (index, wait) in [10.0, 30.0, 50.0].into_iter().enumerate() {
            results.add(index, WAIT_TIME, 0, &[wait]);
            results.add(index, TOTAL_TIME, 0, &[wait * 2.0]);
        }
        derive(&mut results);
        assert_eq!(results.all(0, WAIT_RATIO), [3.0]);
        assert!(results.all(1, WAIT_RATIO).is_empty());
        assert_eq!(results.all(0, "peer_ratio"), [0.2]);
    }
}
