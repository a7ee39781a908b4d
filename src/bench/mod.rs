//! `mad bench`: experiments of the source documents, each in a file of its own.
//!
//! A [`Bench`] declares its keys and metrics and does its work in worker processes; the rest is common:
//! command line, names and grid ([`key`], [`alias`]), starting and interleaving ([`drive`]), statistics ([`stats`]), output
//! ([`present`], [`results`]). Objects and option names are those of DESIGN §8.

mod alias;
mod bandwidth;
mod bare;
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
pub(crate) mod worker;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use crate::out::{self, Exit, INTERRUPTED, Outcome};
use crate::report::{self, Line};
use config::Config;
use key::Key;
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
    /// Sets up what its processes run in, if that is not this machine as it is; says why it cannot.
    pub(crate) staged: Option<fn() -> Result<Staged, String>>,
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
pub(crate) struct Staged {
    /// Variables set for them.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// It is there as long as this is.
    pub(crate) holds: Box<dyn std::any::Any>,
}

/// A point that cannot be measured here, by number, and why.
pub(crate) type Absent = (usize, String);

/// How much to measure.
pub(crate) struct Effort {
    /// Samples per point and round.
    pub(crate) iters: u64,
    /// Rounds.
    pub(crate) rounds: u64,
    /// Most time for one job.
    pub(crate) timeout: Duration,
    /// Where MPI libraries that came as wheels are.
    pub(crate) peers_dir: Option<PathBuf>,
}

/// Most time for one job, unless told otherwise.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Every bench.
pub(crate) static BENCHES: [&Bench; 18] = [
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

/// The bench of this name.
pub(crate) fn find(name: &str) -> Option<&'static Bench> {
    BENCHES.iter().copied().find(|bench| bench.name == name)
}

/// Options of `mad bench`.
#[derive(Args, Debug)]
#[command(after_help = "\
Every option that describes a configuration takes a comma-separated list; all combinations are measured,
interleaved over several rounds. Which options a bench has, and what its metrics mean: `mad bench --list`.

Examples:
  mad bench --list
  mad bench overlap --driver shm --size 64K,1M --compute-us 20000
  mad bench overlap --mode mono,smp --progression 0,1 --side receiver,sender
  mad bench reactivity --threads 2,8,32 --json
  mad bench latency --driver tcp --size 1 --iters 10000
  mad bench bandwidth --driver shm --library newmad,openmpi,mpich --size 64K,1M
  mad bench waiting --peers                       as mt_latency --workload turns, beside the MPI libraries that are here
  mad bench events --between processes
  mad bench idle --seconds 5
  mad bench overhead --mode smp
  mad bench threads --op yield,fib --workers 1 --library marcel,go

With --json: one object per measured point and metric on standard output, and nothing else:
  {\"bench\":…,\"config\":{…},\"metric\":…,\"unit\":…,\"n\":…,\"mean\":…,\"min\":…,\"p10\":…,\"median\":…,\"p90\":…,\"p99\":…,\"max\":…,\"ci_low\":…,\"ci_high\":…}
ci_low and ci_high: the interval into which the median of another run falls with a probability of about 95 %.

A job that does not end within --timeout is ended, after its processes have said what their threads do. Whatever ends a bench
before its time, what was measured until then is printed.

Exit status: 0 success, 1 a run failed, 2 wrong usage, 130 interrupted (Ctrl-C).")]
pub(crate) struct BenchArgs {
    /// Which experiment
    #[arg(value_name = "NAME", required_unless_present = "list")]
    name: Option<String>,
    /// Show every experiment with its options and metrics
    #[arg(long)]
    list: bool,
    /// Driver between the processes: shm, tcp
    #[arg(long, value_name = "LIST")]
    driver: Option<String>,
    /// Mode of the thread runtime: no-thread, mono, smp
    #[arg(long, value_name = "LIST")]
    mode: Option<String>,
    /// Policy of detection: auto (the default one), always-poll, always-block, timer-only, dedicated, load-aware, adaptive
    #[arg(long, value_name = "LIST")]
    policy: Option<String>,
    /// Whether requests progress outside calls: 0, 1
    #[arg(long, value_name = "LIST")]
    progression: Option<String>,
    /// Who computes: receiver, sender, both, none
    #[arg(long, value_name = "LIST")]
    side: Option<String>,
    /// Networks between the processes: first, second, both
    #[arg(long, value_name = "LIST")]
    rails: Option<String>,
    /// Bytes of a message
    #[arg(long, value_name = "LIST")]
    size: Option<String>,
    /// Length of the computation in microseconds
    #[arg(long, value_name = "LIST")]
    compute_us: Option<String>,
    /// Green threads: computing ones of each process, or blocked ones
    #[arg(long, value_name = "LIST")]
    threads: Option<String>,
    /// Length of the wait in seconds
    #[arg(long, value_name = "LIST")]
    seconds: Option<String>,
    /// Who is measured: newmad, bare (a plain socket, a polled flag) or an MPI library; marcel, kernel or another thread library
    #[arg(long, value_name = "LIST")]
    library: Option<String>,
    /// How events are looked for: auto, poll, block, tick, dedicated; by whom: caller, wait, idle, task; how they are raised:
    /// signal, eventfd, pipe, futex, poll, uintr; what is empty: poll, task, block
    #[arg(long, value_name = "LIST")]
    method: Option<String>,
    /// What a thread does: createjoin, batch, yield, handoff, mutex, mutex4, channel, fib, memory
    #[arg(long, value_name = "LIST")]
    op: Option<String>,
    /// Who raises events: threads, processes
    #[arg(long, value_name = "LIST")]
    between: Option<String>,
    /// Where events come from: shm, eventfd and others
    #[arg(long, value_name = "LIST")]
    source: Option<String>,
    /// What happens: pingpong, bursts, silence, phases
    #[arg(long, value_name = "LIST")]
    workload: Option<String>,
    /// Whether idle cores submit what isend registers: auto, never, always
    #[arg(long, value_name = "LIST")]
    offload: Option<String>,
    /// How a session's engine is locked: auto, none, coarse
    #[arg(long, value_name = "LIST")]
    lock: Option<String>,
    /// Compute virtual processors: a number, or Nx for N times the cores
    #[arg(long, value_name = "LIST")]
    vps: Option<String>,
    /// Cores that the threads run on: 1, all
    #[arg(long, value_name = "LIST")]
    workers: Option<String>,
    /// Messages under way at once
    #[arg(long, value_name = "LIST")]
    window: Option<String>,
    /// Processes of the group: 2,4
    #[arg(long, value_name = "LIST")]
    members: Option<String>,
    /// How a collective is done: auto, or an algorithm
    #[arg(long, value_name = "LIST")]
    algorithm: Option<String>,
    /// Where MPI libraries that came as Python wheels are, each in a virtual environment: openmpi5, mpich5, impi
    #[arg(long, value_name = "DIR")]
    peers_dir: Option<PathBuf>,
    /// Beside every MPI library that is here, and madmpi: short for --library newmad,madmpi,… (for overlap, with their options
    /// for progress outside calls, too). bench threads: also build the programs of libraries that cargo has to fetch
    #[arg(long)]
    peers: bool,
    /// Samples per point and round
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    iters: Option<u64>,
    /// Rounds; each runs every configuration once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rounds: Option<u64>,
    /// Most time for one job (300, or 60 where every point is a job)
    #[arg(long, value_name = "SECONDS", value_parser = crate::run::seconds)]
    timeout: Option<Duration>,
    /// JSON lines instead of a table
    #[arg(long)]
    json: bool,
    /// Compare with the JSON lines of an earlier run; exit status 1 if something is worse than its interval allows
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
}

impl BenchArgs {
    /// The configuration's options that were given.
    fn given(&self) -> Vec<(&'static str, &str)> {
        let options = [
            ("driver", &self.driver),
            ("mode", &self.mode),
            ("policy", &self.policy),
            ("progression", &self.progression),
            ("side", &self.side),
            ("rails", &self.rails),
            ("size", &self.size),
            ("compute-us", &self.compute_us),
            ("threads", &self.threads),
            ("seconds", &self.seconds),
            ("library", &self.library),
            ("method", &self.method),
            ("between", &self.between),
            ("source", &self.source),
            ("offload", &self.offload),
            ("lock", &self.lock),
            ("workload", &self.workload),
            ("vps", &self.vps),
            ("op", &self.op),
            ("workers", &self.workers),
            ("window", &self.window),
            ("members", &self.members),
            ("algorithm", &self.algorithm),
        ];
        options.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect()
    }
}

/// Runs a bench, or lists them.
pub(crate) fn run(args: &BenchArgs) -> Outcome {
    if args.list {
        return out::print(&list());
    }
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
        peers_dir: args.peers_dir.clone(),
    };
    // Known to be there and understood before anything is measured.
    args.compare.as_deref().map(report::read).transpose().map_err(Exit::Usage)?;
    let builds = args.peers && bench.mpi.is_none();
    let (absent, results, noise) =
        measure(bench, points, &effort, builds, args.peers_dir.as_deref())?;
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
    match (results.stopped, absent || results.lost || worse) {
        (Some(exit), _) => Err(exit),
        (None, true) => Err(Exit::Code(1)),
        (None, false) => Ok(()),
    }
}

/// Gets ready and measures; whether something vital is missing, the results, and what else the machine did.
fn measure(
    bench: &Bench,
    mut points: Vec<Config>,
    effort: &Effort,
    peers: bool,
    peers_dir: Option<&Path>,
) -> Result<(bool, Results, present::Noise), Exit> {
    let absent = absent(bench, peers, peers_dir, &mut points)?;
    let stage = bench.staged.map(|stage| stage()).transpose();
    let stage = stage
        .map_err(|why| Exit::Failed(format!("bench {} cannot run here: {why}", bench.name)))?;
    let (env, held) = stage.map_or((Vec::new(), None), |stage| (stage.env, Some(stage.holds)));
    let noise = present::Noise::start();
    let bar = drive::bar(drive::steps(bench, &points, effort));
    let results = drive::measure(bench, points, effort, &env, &bar);
    drop(held);
    bar.finish_and_clear();
    Ok((absent, results?, noise))
}

/// As `mad bench NAME` with these options: for `mad report`. Libraries that are missing are left out. What was measured, and why
/// that is not all.
pub(crate) fn measure_for_report(
    name: &str,
    given: &[(&'static str, &str)],
    effort: &Effort,
) -> Result<(Vec<Line>, Option<Exit>), Exit> {
    let bench = find(name).ok_or_else(|| Exit::Failed(format!("there is no bench '{name}'")))?;
    let grid = key::grid(bench.name, bench.keys, given).map_err(Exit::Failed)?;
    let peers_dir = effort.peers_dir.as_deref().filter(|_| bench.mpi.is_some());
    let (_, results, _) = measure(bench, (bench.points)(grid), effort, false, peers_dir)?;
    Ok((lines(&results.measured(bench.name, bench.metrics)), results.stopped))
}

fn lines(measured: &[Measured]) -> Vec<Line> {
    let line = |line: &Measured| serde_json::to_value(line).and_then(serde_json::from_value).ok();
    measured.iter().filter_map(line).collect()
}

/// Says what has changed since an earlier run; whether something is worse.
fn compare(old: &Path, measured: &[Measured]) -> Result<bool, Exit> {
    let comparison = report::compare(old, &lines(measured)).map_err(Exit::Usage)?;
    out::complain(&comparison.to_string());
    Ok(!comparison.worse.is_empty())
}

/// Takes out the points that cannot be measured here, after saying why. True if one of them is vital.
fn absent(
    bench: &Bench,
    peers: bool,
    peers_dir: Option<&Path>,
    points: &mut Vec<Config>,
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
    let absent = match (bench.apart, bench.mpi) {
        (Some(apart), _) => (apart.prepare)(points, peers),
        (None, Some(with)) => mpi::prepare(points, with, peers_dir),
        (None, None) => return Ok(false),
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

fn list() -> String {
    let mut text = String::new();
    for bench in BENCHES {
        text.push_str(&format!("{}: {}\n  source: {}\n", bench.name, bench.about, bench.source));
        for key in bench.keys {
            text.push_str(&format!(
                "  --{:<12} {} ({}; default {})\n",
                key.option(),
                key.help,
                key.accepts(),
                key.default
            ));
        }
        text.push_str(&format!(
            "  default: {} samples a round, {} rounds\n",
            bench.iters, bench.rounds
        ));
        for metric in bench.metrics {
            text.push_str(&format!("  {:<14} [{}] {}\n", metric.name, metric.unit, metric.help));
        }
        text.push('\n');
    }
    for alias in &alias::ALIASES {
        text.push_str(&format!("{alias}\n"));
    }
    text
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
