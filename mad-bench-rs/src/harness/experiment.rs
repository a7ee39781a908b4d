//! What an experiment declares: its keys and metrics, the worker's side, and what its processes run in.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use newmad::Session;

use super::key::Key;
use super::line::Line;
use super::results::{Metric, Results};
use super::worker::{Emit, Spec, WorkResult, with_session};
use crate::config::Config;

/// A program of `peers/mpi` and what a point is for it.
pub(crate) struct Program {
    /// Its name.
    pub(crate) name: &'static str,
    /// What its documentation calls A, B and C.
    pub(crate) numbers: [u64; 3],
    /// Whether each process may use its share of the cores, as the virtual processors of newmad's do, or only one.
    pub(crate) share: bool,
    /// How many ranks.
    pub(crate) ranks: u32,
    /// How many of them share a process, where they are madmpi's.
    pub(crate) each: u32,
    /// Variables set for their processes.
    pub(crate) knobs: &'static [(&'static str, &'static str)],
}

impl Program {
    /// Of two processes, each on a core of its own.
    pub(crate) fn pair(name: &'static str, numbers: [u64; 3]) -> Program {
        Program { name, numbers, share: false, ranks: 2, each: 1, knobs: &[] }
    }
}

/// How a bench is done with MPI.
pub(crate) type With = fn(&Config) -> Program;

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
    /// Number of processes, where the points have no key `ranks`.
    pub(crate) ranks: u32,
    /// Samples per point and round, unless told otherwise.
    pub(crate) iters: u64,
    /// Rounds, unless told otherwise.
    pub(crate) rounds: u64,
    /// Adds the reference points that the derived metrics need, and leaves out what makes no sense.
    pub(crate) points: fn(Vec<Config>) -> Vec<Config>,
    /// The worker's side.
    pub(crate) work: Work,
    /// Computes metrics that compare points.
    pub(crate) derive: Option<fn(&mut Results)>,
    /// `Some`: each of its points runs in a process of its own.
    pub(crate) apart: Option<&'static Apart>,
    /// `Some`: sets up what its processes run in, on this machine and only here. If it says why that cannot be, the bench
    /// fails before anything is measured.
    pub(crate) staged: Option<fn() -> Result<Setup, String>>,
    /// What is said below the table.
    pub(crate) summary: Option<fn(&[Line]) -> String>,
    /// How it is done with MPI libraries.
    pub(crate) mpi: Option<With>,
    /// Whether it is about progress outside calls: `--peers` then adds the MPI libraries with their options for that.
    pub(crate) outside_calls: bool,
}

impl Bench {
    /// Number of processes for points that are measured in one job with this one.
    pub(crate) fn ranks_of(&self, point: &Config) -> u32 {
        point.number_of("ranks").map_or(self.ranks, |ranks| ranks as u32)
    }

    /// Measures the points of `spec`: the worker's side.
    ///
    /// # Errors
    /// What the session says, or the bench.
    pub(crate) fn measure(&self, spec: &Spec) -> WorkResult {
        match self.work {
            Work::Session(measure) => {
                let ranks =
                    spec.points.first().map_or(self.ranks, |(_, point)| self.ranks_of(point));
                with_session(ranks, |session, emit| measure(session, emit, spec))
            }
            Work::Process(measure) => measure(spec),
        }
    }
}

/// The worker's side of a bench.
pub(crate) enum Work {
    /// In a session of all workers.
    Session(fn(&Session, &Emit, &Spec) -> WorkResult),
    /// In a process that opens by itself what it needs.
    Process(fn(&Spec) -> WorkResult),
}

/// What most benches have: two processes, five rounds, every point of the grid, and none of what is optional. A bench
/// names the rest, `..BASE` stands for these.
pub(crate) const BASE: Bench = Bench {
    name: "",
    about: "",
    source: "",
    keys: &[],
    metrics: &[],
    ranks: 2,
    iters: 1,
    rounds: 5,
    points: |grid| grid,
    work: Work::Process(|_| Err("the bench does not say how it is measured".into())),
    derive: None,
    apart: None,
    staged: None,
    summary: None,
    mpi: None,
    outside_calls: false,
};

/// A bench whose points are measured each in a process of its own. One that fails is named and left out, and the
/// rest goes on.
pub(crate) struct Apart {
    /// Gets ready what is to be measured, and gives the points that cannot be, with the reason.
    pub(crate) prepare: fn(&[Config], bool) -> Vec<Absent>,
    /// Whether that builds more if it is asked to (`--peers`).
    pub(crate) builds: bool,
    /// Whether the exit status is 1 if this point fails or cannot be measured here.
    pub(crate) vital: fn(&Config) -> bool,
    /// Most time for one of the processes.
    pub(crate) timeout: Duration,
    /// Knobs set for them, unless the user has set them.
    pub(crate) knobs: &'static [(&'static str, &'static str)],
    /// What the last column of the table is called.
    pub(crate) column: &'static str,
    /// Its figure for one of the lines.
    pub(crate) ratio: fn(&[Line], usize) -> Option<f64>,
}

/// What is set up on this machine for the processes of a bench.
pub(crate) struct Setup {
    /// Variables set for them.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Keeps the set-up alive: dropped when everything is measured.
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
    /// The option by which the user sets it, if the command has one.
    pub(crate) timeout_option: Option<&'static str>,
    /// The same for an MPI library's, beyond ten times what newmad's took.
    pub(crate) patience: Duration,
    /// Where MPI libraries that came as wheels are.
    pub(crate) peers_dir: Option<PathBuf>,
}
