//! Two rails of known capacity: each alone, and both with `split_balance`.
//!
//! The two processes are in network namespaces of their own, between which are two cables, shaped to 1 Gbit/s and 400
//! Mbit/s ([`network`]): so what two networks together can give is known, and the processor is not what is measured.
//! Each of `first`, `second` and `both` is a job of its own (`NMAD_DRIVER=tcp` or `tcp+tcp`), sampled when its
//! session opens; jobs take turns, and so do sizes within a job. The same two processes also use plain sockets, one
//! for each network ([`bare`], `library` bare), in turns with the library: what is missing there, no library can
//! give.

mod bare;
mod network;

use newmad::Session;

use crate::config::Config;
use crate::experiments::latency::{DATA, trip};
use crate::experiments::multirail::bare::{Bare, MEGABITS};
use crate::experiments::stream::Stream;
use crate::harness::experiment::{BASE, Bench, Setup, Work};
use crate::harness::key::{Key, MODE, SIZE, Takes};
use crate::harness::results::{Metric, Results};
use crate::harness::stats::median;
use crate::harness::turns;
use crate::harness::worker::{Emit, Spec, WorkResult, with_session};
use network::{CABLES, Network};

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "multirail",
    about: "bandwidth over two shaped networks, each alone and both together (needs root, ip and tc)",
    source: "[Trahay09] 7.2.4.2 (split_balance over two networks)",
    keys: &[RAILS, MODE, LIBRARY, WORKLOAD, Key { default: SIZES, ..SIZE }],
    metrics: &METRICS,
    iters: 1,
    work: Work::Process(work),
    derive: Some(derive),
    staged: Some(stage),
    ..BASE
};

const SIZES: &str = "4,1024,16384,65536,262144,1048576,4194304,16777216";
/// Messages of a stream under way at once.
const WINDOW: u64 = 4;
/// A size goes on for about so long in each block, and at least once.
const LEAST_NS: u64 = 30_000_000;
/// Where a worker finds its namespace, by rank, and its addresses, by rank and cable.
const NAMESPACES: &str = "MAD_BENCH_NAMESPACES";
const ADDRESSES: &str = "MAD_BENCH_ADDRESSES";

const RAILS: Key = Key {
    name: "rails",
    takes: Takes::Words(&["first", "second", "both"]),
    default: "first,second,both",
    help: "which networks: first (1 Gbit/s), second (400 Mbit/s), both",
};
const LIBRARY: Key = Key {
    name: "library",
    takes: Takes::Words(&["newmad", "bare"]),
    default: "newmad,bare",
    help: "the library that carries the messages; bare: plain sockets, divided by capacity",
};
const WORKLOAD: Key = Key {
    name: "workload",
    takes: Takes::Words(&["pingpong", "stream"]),
    default: "pingpong,stream",
    help: "pingpong: one message there and back; stream: windows of 4 one way",
};
const METRICS: [Metric; 3] = [
    Metric::new("bandwidth", "MB/s", "bytes over the time that they took one way"),
    Metric::new("of_the_sum", "ratio", "both rails over the sum of each alone: medians of a round"),
    Metric::new("of_the_best", "ratio", "both rails over the better one alone: medians of a round"),
];

/// Makes the networks; they are there until the value is dropped.
fn stage() -> Result<Setup, String> {
    let network = Network::new(MEGABITS)?;
    let join = |of: &dyn Fn(usize) -> String| format!("{};{}", of(0), of(1));
    let addresses =
        |side| (0..CABLES).map(|cable| network.address(side, cable)).collect::<Vec<_>>().join(",");
    let env = vec![
        (NAMESPACES.into(), join(&|side| network.path(side)).into()),
        (ADDRESSES.into(), join(&addresses).into()),
        ("NMAD_STRATEGY".into(), "split_balance".into()),
        ("NMAD_SAMPLING".into(), "now".into()),
    ];
    Ok(Setup { env, holds: Box::new(network) })
}

fn work(spec: &Spec) -> WorkResult {
    let rails = spec.points.first().map_or("both", |(_, config)| config.text("rails"));
    let addresses = settle(rails)?;
    with_session(BENCH.ranks, |session, emit| measure(session, emit, spec, &addresses))
}

/// Enters this rank's namespace, and says over which of its addresses the session goes. Rank 0's, separated by commas.
fn settle(rails: &str) -> WorkResult<String> {
    let of_rank = |variable: &str, rank: Option<usize>| -> WorkResult<String> {
        let value = std::env::var(variable).map_err(|e| format!("{variable}: {e}"))?;
        let its = rank.and_then(|rank| value.split(';').nth(rank));
        Ok(its.ok_or_else(|| format!("{variable} says nothing of this rank"))?.to_owned())
    };
    let rank = std::env::var("PMI_RANK").ok().and_then(|rank| rank.parse().ok());
    network::enter(&of_rank(NAMESPACES, rank)?)?;
    let of_rails = |rank| -> WorkResult<String> {
        let all = of_rank(ADDRESSES, rank)?;
        Ok(match (rails, all.split_once(',')) {
            ("first", Some((first, _))) => first.to_owned(),
            ("second", Some((_, second))) => second.to_owned(),
            _ => all,
        })
    };
    let driver = if rails == "both" { "tcp+tcp" } else { "tcp" };
    for (variable, value) in [("NMAD_DRIVER", driver), ("NMAD_TCP_ADDRESS", &of_rails(rank)?)] {
        // SAFETY: a worker has one thread until it opens its session.
        unsafe { std::env::set_var(variable, value) };
    }
    of_rails(Some(0))
}

fn measure(session: &Session, emit: &Emit, spec: &Spec, addresses: &str) -> WorkResult {
    let addresses: Vec<&str> = addresses.split(',').collect();
    let mut bare = Bare::connect(session, &addresses)?;
    let mut samples = vec![Vec::new(); spec.points.len()];
    // A block for each sample: how many messages it is made of is for the network's capacity to say.
    turns::turns(
        session,
        emit,
        spec,
        spec.iters,
        |_| spec.iters,
        |at, config, _| {
            let size = config.number("size");
            let bare = (config.text("library") == "bare").then_some(&mut bare);
            samples[at].extend(match config.text("workload") {
                "stream" => streamed(session, bare, size)?,
                _ => thrown(session, bare, size)?,
            });
            Ok(())
        },
    )?;
    for ((number, _), samples) in spec.points.iter().zip(&samples) {
        emit.samples(*number, "bandwidth", samples)?;
    }
    Ok(())
}

/// How often a message of this size goes on: by the slower rail's capacity, so that both ranks come to the same.
fn times(size: u64) -> u64 {
    let one_ns = 20_000 + size * 8_000 / u64::from(MEGABITS[1]);
    (LEAST_NS / one_ns).clamp(1, 1000)
}

fn thrown(session: &Session, bare: Option<&mut Bare>, size: u64) -> WorkResult<Vec<f64>> {
    let (mut buffer, mut bare) = (vec![0; size as usize], bare);
    let times = turns::timed(1, times(2 * size), || match &mut bare {
        Some(bare) => bare.trip(&mut buffer),
        None => trip(session, DATA, &mut buffer),
    })?;
    Ok(times.iter().map(|us| 2.0 * size as f64 / us).collect())
}

fn streamed(session: &Session, bare: Option<&mut Bare>, size: u64) -> WorkResult<Vec<f64>> {
    let bytes = (size * WINDOW) as f64;
    let count = times(size * WINDOW);
    let times = match bare {
        Some(bare) => bare.windows(&mut vec![vec![0; size as usize]; WINDOW as usize], count)?,
        None => Stream::new(session, size, WINDOW).windows(1, count)?,
    };
    Ok(times.iter().map(|us| bytes / us).collect())
}

/// Compares both rails with each alone, round by round.
fn derive(results: &mut Results) {
    for index in 0..results.points.len() {
        let point = results.points[index].clone();
        if point.text("rails") != "both" {
            continue;
        }
        let alone = |rails: &str, results: &Results, round| {
            let alone: Config = point.with("rails", rails);
            median(results.round(results.find(&alone)?, "bandwidth", round))
        };
        for round in 0..results.rounds {
            let both = median(results.round(index, "bandwidth", round));
            let (first, second) = (alone("first", results, round), alone("second", results, round));
            if let (Some(both), Some(first), Some(second)) = (both, first, second) {
                results.add(index, "of_the_sum", round, &[both / (first + second)]);
                results.add(index, "of_the_best", round, &[both / first.max(second)]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_rails_are_compared_with_each_alone() {
        let point = |rails: &str| Config::default().with("rails", rails).with("size", 4);
        let mut results = Results::new(["both", "first", "second"].map(point).to_vec(), 1);
        for (index, figures) in [[130.0, 131.0, 132.0], [100.0; 3], [40.0; 3]].iter().enumerate() {
            results.add(index, "bandwidth", 0, figures);
        }
        derive(&mut results);
        assert_eq!(results.all(0, "of_the_sum"), [131.0 / 140.0]);
        assert_eq!(results.all(0, "of_the_best"), [1.31]);
        assert!(results.all(1, "of_the_sum").is_empty());
    }

    #[test]
    fn a_block_takes_its_time_and_no_more() {
        assert_eq!(times(4), 1000);
        assert_eq!(times(32 << 20), 1);
        assert!(times(256 << 10) > 3);
    }
}
