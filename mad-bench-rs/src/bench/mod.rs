//! `mad bench`: experiments of the source documents, each in a file of its own.
//!
//! A [`Bench`] declares its keys and metrics and does its work in worker processes; the rest is common:
//! command line, names and grid ([`options`], [`alias`], [`key`]), starting and interleaving ([`drive`]), statistics ([`stats`]), output
//! ([`present`], [`results`]). Objects and option names are those of DESIGN §8.

mod alias;
mod apps;
mod bandwidth;
mod bare;
mod clocks;
mod coll;
pub(crate) mod config;
mod crunch;
mod delegation;
mod detect;
pub(crate) mod drive;
mod events;
mod idle;
pub(crate) mod key;
mod latency;
mod locking;
mod mpi;
mod mt_latency;
mod multirail;
mod options;
mod overhead;
mod overlap;
mod policies;
pub(crate) mod present;
mod rate;
mod reactivity;
pub(crate) mod results;
mod rpc;
mod spin;
pub(crate) mod stats;
mod stream;
mod submit;
mod threads;
pub mod worker;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::across::{self, Company};
use crate::out::{self, Exit, INTERRUPTED, Outcome};
use crate::report::{self, Line};
use config::Config;
use drive::Campaign;
use key::Key;
pub use options::BenchArgs;
use results::{Measured, Metric, Results};
use worker::{Spec, Worked};

/// One experiment.
pub(crate) struct Bench {
    /// What it is called on the command line.
    pub(crate) name: &'static str,
    /// What it measures, in a sentence.
    pub(crate) about: &'static str,
    /// The document, section and figure that it re-creates.
    pub(crate) source: &'static str,
    /// Keys of its configurations.
    pub(crate) keys: &'static [Key],
    /// What it measures.
    pub(crate) metrics: &'static [Metric],
    /// Number of processes.
    pub(crate) ranks: u32,
    /// Samples per point and round, unless told otherwise.
    pub(crate) iters: u64,
    /// Rounds, unless told otherwise.
    pub(crate) rounds: u64,
    /// Adds the reference points that the derived metrics need, and leaves out what makes no sense.
    pub(crate) points: fn(Vec<Config>) -> Vec<Config>,
    /// The worker's side.
    pub(crate) work: fn(&Spec) -> Worked,
    /// Computes metrics that compare points.
    pub(crate) derive: Option<fn(&mut Results)>,
    /// How it differs, when each of its points needs a process of its own.
    pub(crate) apart: Option<&'static Apart>,
    /// What its processes run in, if not a machine as it is.
    pub(crate) staged: Option<Stage>,
    /// What is said below the table.
    pub(crate) summary: Option<fn(&[Measured]) -> String>,
    /// How it is done with MPI libraries.
    pub(crate) mpi: Option<mpi::With>,
}

/// A bench whose points are measured each in a process of its own. One that fails is named and left out, and the
/// rest goes on.
pub(crate) struct Apart {
    /// Gets ready what is to be measured, and gives the points that cannot be, with the reason.
    pub(crate) prepare: fn(&[Config], bool) -> Vec<Absent>,
    /// Whether that builds more if it is asked to (`--peers`).
    pub(crate) builds: bool,
    /// Whether the whole run has failed when this point has.
    pub(crate) vital: fn(&Config) -> bool,
    /// Most time for one of the processes.
    pub(crate) timeout: Duration,
    /// Knobs set for them, unless the user has set them.
    pub(crate) knobs: &'static [(&'static str, &'static str)],
    /// What the last column of the table is called.
    pub(crate) column: &'static str,
    /// Its figure for one of the lines.
    pub(crate) ratio: fn(&[Measured], usize) -> Option<f64>,
}

/// What the processes of a bench run in.
pub(crate) enum Stage {
    /// Knobs, on any machine.
    Variables(fn() -> Vec<(OsString, OsString)>),
    /// What is set up on this machine, and only here; or the reason why it cannot be.
    Machine(fn() -> Result<Staged, String>),
}

/// What is set up on this machine for the processes of a bench.
pub(crate) struct Staged {
    /// Variables set for them.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// It is there as long as this is.
    pub(crate) holds: Box<dyn std::any::Any>,
}

/// A point that cannot be measured here, by number, and why.
pub(crate) type Absent = (usize, String);

/// How much to measure.
#[derive(Clone)]
pub(crate) struct Effort {
    /// Samples per point and round.
    pub(crate) iters: u64,
    /// Rounds.
    pub(crate) rounds: u64,
    /// Most time for one job.
    pub(crate) timeout: Duration,
    /// The same for an MPI library's, beyond ten times what newmad's took.
    pub(crate) patience: Duration,
    /// Where MPI libraries that came as wheels are.
    pub(crate) peers_dir: Option<PathBuf>,
}

/// Most time for one job, unless told otherwise.
const TIMEOUT: Duration = Duration::from_secs(300);
/// The same for an MPI library, beyond ten times what newmad took: one that hangs does not hold up the others for long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Every bench.
pub(crate) static BENCHES: [&Bench; 19] = [
    &apps::BENCH,
    &overlap::BENCH,
    &submit::BENCH,
    &reactivity::BENCH,
    &latency::BENCH,
    &locking::BENCH,
    &delegation::BENCH,
    &events::BENCH,
    &bandwidth::BENCH,
    &rate::BENCH,
    &rpc::BENCH,
    &mt_latency::BENCH,
    &multirail::BENCH,
    &coll::BENCH,
    &idle::BENCH,
    &overhead::BENCH,
    &detect::BENCH,
    &policies::BENCH,
    &threads::BENCH,
];

/// Whether the key says how a process of newmad's is made: an MPI library's points have none of it.
pub(crate) fn is_newmads(key: &str) -> bool {
    mpi::NOT_THEIRS.iter().any(|(name, of_mpi)| *name == key && *of_mpi == key::NONE)
}

/// The bench of this name.
pub(crate) fn find(name: &str) -> Option<&'static Bench> {
    BENCHES.iter().copied().find(|bench| bench.name == name)
}

/// Runs a bench, or lists them.
pub fn run(args: &BenchArgs) -> Outcome {
    match args.list {
        true => out::print(&options::list()),
        false => across::join(|company| run_in(args, company)),
    }
}

/// Runs a bench, with others if a process manager has started several.
fn run_in(args: &BenchArgs, company: Option<&Company>) -> Outcome {
    let name = args.name.as_deref().unwrap_or_default();
    let alias = alias::find(name);
    let bench = find(alias.map_or(name, |alias| alias.bench)).ok_or_else(|| {
        let benches = BENCHES.iter().map(|bench| bench.name);
        let known: Vec<&str> = benches.chain(alias::ALIASES.iter().map(|one| one.name)).collect();
        Exit::Usage(format!("there is no bench '{name}': there are {}", known.join(", ")))
    })?;
    let mut given = args.given();
    if let Some(alias) = alias {
        let missing = |(option, _): &&(&str, &str)| !given.iter().any(|(name, _)| name == option);
        let added: Vec<_> = alias.given.iter().filter(missing).copied().collect();
        given.extend(added);
    }
    let everybody = match bench.mpi.is_some() && args.peers {
        true => {
            Some(mpi::everybody(bench, &given, args.peers_dir.as_deref()).map_err(Exit::Usage)?)
        }
        false => None,
    };
    given.extend(everybody.iter().map(|list| ("library", list.as_str())));
    let grid = key::grid(bench.name, bench.keys, &given).map_err(Exit::Usage)?;
    let points = (bench.points)(grid);
    if points.is_empty() {
        return Err(Exit::Usage(format!(
            "bench {name}: none of these combinations can be measured (see `mad bench --list`)"
        )));
    }
    let effort = Effort {
        iters: args.iters.unwrap_or(bench.iters),
        rounds: args.rounds.unwrap_or(bench.rounds),
        timeout: args.timeout.unwrap_or(bench.apart.map_or(TIMEOUT, |apart| apart.timeout)),
        patience: args.timeout.unwrap_or(PATIENCE),
        peers_dir: args.peers_dir.clone(),
    };
    // Known to be there and understood before anything is measured.
    args.compare.as_deref().map(report::read).transpose().map_err(Exit::Usage)?;
    let company = company.filter(|company| shares(bench, company));
    let mut ready = ready(bench, points, effort, args.peers && bench.mpi.is_none(), company)?;
    let noise = present::Noise::start(company.map_or("", Company::beside));
    let bar = drive::bar(ready.campaign.steps());
    let results = drive::measure(&mut ready.campaign, &bar);
    bar.finish_and_clear();
    let results = results?;
    if let Some(Exit::Code(INTERRUPTED)) = results.stopped {
        out::complain("mad bench: interrupted: what was measured until now follows");
    }
    let measured = results.measured(bench.name, bench.metrics);
    if args.json {
        for line in &measured {
            let line =
                serde_json::to_string(line).map_err(|e| Exit::Failed(format!("bench: {e}")))?;
            out::print(&line)?;
        }
    } else if !measured.is_empty() {
        out::print(&present::table(bench, &results.points, &measured, &noise))?;
    }
    let worse = match &args.compare {
        Some(old) => compare(old, &measured)?,
        None => false,
    };
    match (results.stopped, ready.absent || results.lost || worse) {
        (Some(exit), _) => Err(exit),
        (None, true) => Err(Exit::Code(1)),
        (None, false) => Ok(()),
    }
}

/// A bench that is ready to be measured.
pub(crate) struct Ready<'a> {
    pub(crate) campaign: Campaign<'a>,
    /// Something vital cannot be measured here.
    absent: bool,
    /// What its processes run in.
    _held: Option<Box<dyn std::any::Any>>,
}

/// Leaves out what cannot be measured here, and sets up what the rest runs in.
fn ready<'a>(
    bench: &'static Bench,
    mut points: Vec<Config>,
    effort: Effort,
    peers: bool,
    company: Option<&'a Company>,
) -> Result<Ready<'a>, Exit> {
    let absent = absent(bench, peers, effort.peers_dir.as_deref(), &mut points, company)?;
    let cannot = |why| Exit::Failed(format!("bench {} cannot run here: {why}", bench.name));
    let (env, held) = match &bench.staged {
        None => (Vec::new(), None),
        Some(Stage::Variables(variables)) => (variables(), None),
        Some(Stage::Machine(stage)) => {
            let stage = stage().map_err(cannot)?;
            (stage.env, Some(stage.holds))
        }
    };
    let campaign = Campaign::new(bench, points, effort, env).among(company);
    Ok(Ready { campaign, absent, _held: held })
}

/// As `mad bench NAME` with these options: for `mad report`. Libraries that are missing are left out.
pub(crate) fn ready_for_report(
    name: &str,
    given: &[(&'static str, &str)],
    mut effort: Effort,
) -> Result<Ready<'static>, Exit> {
    let bench = find(name).ok_or_else(|| Exit::Failed(format!("there is no bench '{name}'")))?;
    let grid = key::grid(bench.name, bench.keys, given).map_err(Exit::Failed)?;
    effort.peers_dir = effort.peers_dir.filter(|_| bench.mpi.is_some());
    ready(bench, (bench.points)(grid), effort, false, None)
}

/// The lines of what was measured until now, and why that is not all.
pub(crate) fn lines_of(campaign: &Campaign<'_>) -> (Vec<Line>, Option<Exit>) {
    let (bench, results) = (campaign.bench(), campaign.results());
    (lines(&results.measured(bench.name, bench.metrics)), results.stopped)
}

fn lines(measured: &[Measured]) -> Vec<Line> {
    let line = |line: &Measured| serde_json::to_value(line).and_then(serde_json::from_value).ok();
    measured.iter().filter_map(line).collect()
}

/// Says where the processes are; whether they are all here, since only that makes sense.
fn shares(bench: &Bench, company: &Company) -> bool {
    let why = match (bench.ranks, &bench.staged) {
        (_, Some(Stage::Machine(_))) => "sets up its own networks on one machine",
        (1, _) => "has one process",
        _ => {
            out::complain(&format!("mad bench: {}", company.words(bench.ranks)));
            return true;
        }
    };
    let host = company.host();
    out::complain(&format!("mad bench: {} {why}: it is measured on {host}, by rank 0", bench.name));
    false
}

/// What several ranks of a process manager cannot measure.
fn elsewhere(bench: &Bench, company: &Company, points: &[Config]) -> Vec<Absent> {
    let refused = |point: &Config| {
        match mpi::is(point) {
        true => Some(
            "MPI libraries: they have launchers of their own; `mad bench` without a process manager measures them, on one machine"
                .to_owned(),
        ),
        false => company.refuses(point, bench.ranks),
    }
    };
    let points = points.iter().enumerate();
    points.filter_map(|(index, point)| Some((index, refused(point)?))).collect()
}

/// Says what has changed since an earlier run; whether something is worse.
fn compare(old: &Path, measured: &[Measured]) -> Result<bool, Exit> {
    let comparison = report::compare(old, &lines(measured)).map_err(Exit::Usage)?;
    out::complain(&comparison.to_string());
    Ok(comparison.worse() > 0)
}

/// Takes out the points that cannot be measured here, after saying why. True if one of them is vital.
fn absent(
    bench: &Bench,
    peers: bool,
    peers_dir: Option<&Path>,
    points: &mut Vec<Config>,
    company: Option<&Company>,
) -> Result<bool, Exit> {
    for (given, option, has) in [
        (peers, "--peers", bench.apart.is_some_and(|apart| apart.builds)),
        (peers_dir.is_some(), "--peers-dir", bench.mpi.is_some()),
    ] {
        if given && !has {
            let has =
                |one: &&&Bench| one.mpi.is_some() || one.apart.is_some_and(|apart| apart.builds);
            let others: Vec<&str> = BENCHES.iter().filter(has).map(|bench| bench.name).collect();
            return Err(Exit::Usage(format!(
                "bench {} has no option '{option}': that is for {}",
                bench.name,
                others.join(", ")
            )));
        }
    }
    let absent = match (company, bench.apart, bench.mpi) {
        (Some(company), ..) => elsewhere(bench, company, points),
        (None, Some(apart), _) => (apart.prepare)(points, peers),
        (None, None, Some(with)) => mpi::prepare(points, with, peers_dir),
        (None, None, None) => return Ok(false),
    };
    let mut said: Vec<&str> = Vec::new();
    for (_, why) in &absent {
        if !said.contains(&why.as_str()) {
            out::complain(&format!("mad bench: left out: {why}"));
            said.push(why);
        }
    }
    let is_vital = |point| bench.apart.is_some_and(|apart| (apart.vital)(point));
    let vital = absent.iter().any(|(index, _)| is_vital(&points[*index]));
    let mut index = 0;
    points.retain(|_| {
        index += 1;
        !absent.iter().any(|(gone, _)| *gone == index - 1)
    });
    match points.is_empty() {
        false => Ok(vital),
        true => Err(Exit::Failed("bench: nothing is left to be measured".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_an_option_and_every_default_makes_a_grid() {
        let options = [
            "driver",
            "mode",
            "policy",
            "progression",
            "side",
            "rails",
            "size",
            "compute-us",
            "threads",
            "seconds",
            "library",
            "method",
            "between",
            "source",
            "offload",
            "lock",
            "workload",
            "vps",
            "op",
            "workers",
            "window",
            "members",
            "algorithm",
        ];
        for bench in BENCHES {
            for key in bench.keys {
                assert!(options.contains(&key.option().as_str()), "{}: {}", bench.name, key.name);
            }
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
