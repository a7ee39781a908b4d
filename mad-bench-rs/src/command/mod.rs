//! `mad bench`: its command line, names under which experiments are found, and the run of one.
//!
//! `work` is the process that measures.

mod alias;
mod options;
pub mod work;

use std::time::Duration;

use crate::across::{self, Hosts};
use crate::campaign::ready;
use crate::experiments::{BENCHES, find};
use crate::harness::experiment::{Bench, Effort};
use crate::harness::line::{Line, read};
use crate::harness::{drive, key, mpi, present};
use crate::out::{self, Exit, INTERRUPTED, Outcome};
use crate::report;
pub use options::BenchArgs;

/// Most time for one job, unless told otherwise.
const TIMEOUT: Duration = Duration::from_secs(300);
/// The same for an MPI library, beyond ten times what newmad took: one that hangs does not hold up the others for long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a bench, or lists them, or shows one of them.
pub fn run(args: &BenchArgs) -> Outcome {
    match (args.list, &args.name) {
        (false, _) => across::join(|hosts| run_in(args, hosts)),
        (true, None) => out::print(&options::list()),
        (true, Some(name)) => out::print(&options::details(name).ok_or_else(|| unknown(name))?),
    }
}

fn unknown(name: &str) -> Exit {
    let benches = BENCHES.iter().map(|bench| bench.name);
    let known: Vec<&str> = benches.chain(alias::ALIASES.iter().map(|one| one.name)).collect();
    Exit::Usage(format!("there is no bench '{name}': there are {}", known.join(", ")))
}

/// Runs a bench, with others if a process manager has started several.
fn run_in(args: &BenchArgs, hosts: Option<&Hosts>) -> Outcome {
    let name = args.name.as_deref().unwrap_or_default();
    let alias = alias::find(name);
    let bench = find(alias.map_or(name, |alias| alias.bench)).ok_or_else(|| unknown(name))?;
    let mut given = args.given();
    if let Some(alias) = alias {
        let missing = |(option, _): &&(&str, &str)| !given.iter().any(|(name, _)| name == option);
        let added: Vec<_> = alias.given.iter().filter(missing).copied().collect();
        given.extend(added);
    }
    let all_peers = match bench.mpi.is_some() && args.peers {
        true => {
            Some(mpi::all_peers(bench, &given, args.peers_dir.as_deref()).map_err(Exit::Usage)?)
        }
        false => None,
    };
    given.extend(all_peers.iter().map(|list| ("library", list.as_str())));
    let grid = key::grid(bench.name, bench.keys, &given).map_err(Exit::Usage)?;
    let points = (bench.points)(grid);
    if points.is_empty() {
        return Err(Exit::Usage(format!(
            "bench {name}: none of these combinations can be measured (see `mad bench --list {name}`)"
        )));
    }
    let effort = Effort {
        iters: args.iters.unwrap_or(bench.iters),
        rounds: args.rounds.unwrap_or(bench.rounds),
        timeout: args.timeout.unwrap_or(bench.apart.map_or(TIMEOUT, |apart| apart.timeout)),
        timeout_option: Some("--timeout"),
        patience: args.timeout.unwrap_or(PATIENCE),
        peers_dir: args.peers_dir.clone(),
    };
    // Known to be there and understood before anything is measured.
    let earlier = args.compare.as_deref().map(read).transpose().map_err(Exit::Usage)?;
    let hosts = hosts.filter(|hosts| shares(bench, hosts));
    let mut ready = ready(bench, points, effort, args.peers && bench.mpi.is_none(), hosts)?;
    let noise = present::Noise::start(hosts.map_or("", Hosts::noise_suffix));
    let bar = drive::bar(ready.campaign.steps());
    let results = drive::measure(&mut ready.campaign, &bar);
    bar.finish_and_clear();
    let results = results?;
    if let Some(Exit::Code(INTERRUPTED)) = results.stopped {
        out::complain("mad bench: interrupted: what was measured until now follows");
    }
    let measured = results.lines(bench.name, bench.metrics);
    if args.json {
        for line in &measured {
            let line =
                serde_json::to_string(line).map_err(|e| Exit::Failed(format!("bench: {e}")))?;
            out::print(&line)?;
        }
    } else if !measured.is_empty() {
        out::print(&present::table(bench, &results.points, &measured, &noise))?;
    }
    let worse = earlier.is_some_and(|earlier| is_worse(&earlier, &measured));
    match (results.stopped, ready.absent || results.lost || worse) {
        (Some(exit), _) => Err(exit),
        (None, true) => Err(Exit::Code(1)),
        (None, false) => Ok(()),
    }
}

/// Says where the processes are; whether they are all here, since only that makes sense.
fn shares(bench: &Bench, hosts: &Hosts) -> bool {
    let why = match (bench.ranks, &bench.staged) {
        (_, Some(_)) => "needs networks of one machine",
        (1, _) => "has one process",
        _ => {
            out::complain(&format!("mad bench: {}", hosts.words(bench.ranks)));
            return true;
        }
    };
    let host = hosts.host();
    out::complain(&format!("mad bench: {} {why}: it is measured on {host}, by rank 0", bench.name));
    false
}

/// Says what has changed since an earlier run; whether something is worse.
fn is_worse(earlier: &[Line], measured: &[Line]) -> bool {
    let comparison = report::compare(earlier, measured);
    out::complain(&comparison.to_string());
    comparison.worse() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_makes_a_grid() {
        for bench in BENCHES {
            let points = (bench.points)(key::grid(bench.name, bench.keys, &[]).unwrap());
            assert!(!points.is_empty());
            for (i, point) in points.iter().enumerate() {
                assert!(!points[..i].contains(point), "{}: a point is there twice", bench.name);
                assert_eq!(point.iter().count(), bench.keys.len(), "{}: {point:?}", bench.name);
            }
        }
    }

    #[test]
    fn a_metric_has_one_unit_everywhere() {
        let all: Vec<_> = BENCHES.iter().flat_map(|bench| bench.metrics).collect();
        for a in &all {
            for b in &all {
                assert!(a.name != b.name || a.unit == b.unit, "{}", a.name);
            }
        }
    }
}
