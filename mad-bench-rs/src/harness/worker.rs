//! The process that measures: a copy of `mad` started by `drive` with the hidden subcommand `worker`.
//!
//! What it is to measure comes as one JSON argument ([`Spec`]); what rank 0 found goes back as JSON lines on
//! its standard output ([`Record`]). Everything else that a worker writes is passed on as a message.

use std::cell::Cell;
use std::io::Write;
use std::path::PathBuf;

use newmad::Session;
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::config::Config;

/// What a worker is to measure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// Name of the bench.
    pub(crate) bench: String,
    /// Number and configuration of each point.
    pub(crate) points: Vec<(usize, Config)>,
    /// Samples to take of each.
    pub(crate) iters: u64,
    /// Where MPI libraries that came as wheels are.
    pub(crate) peers_dir: Option<PathBuf>,
}

/// What a worker reports.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Record {
    /// Samples of a metric at a point.
    Samples(usize, String, Vec<f64>),
    /// The part of the job that is done, 0 to 1.
    Progress(f64),
}

/// What a part of a worker gives. Any error ends the worker, which says it.
pub(crate) type WorkResult<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Most samples of a point in a round.
pub(crate) const MOST_ITERS: u64 = 100_000_000;
/// Samples of one record: the launcher cuts lines of more than a megabyte.
const SAMPLES_MAX: usize = 16_384;
/// How often progress is reported at most.
const PROGRESS_NS: u64 = 50_000_000;

/// Where a worker's findings go: rank 0 prints them, the others keep silent.
pub(crate) struct Emit {
    speaks: bool,
    last: Cell<u64>,
}

impl Emit {
    /// For the worker of this rank.
    pub(crate) fn of(rank: u32) -> Emit {
        Emit { speaks: rank == 0, last: Cell::new(0) }
    }

    /// Reports samples.
    ///
    /// # Errors
    /// When the reader is gone.
    pub(crate) fn samples(&self, point: usize, metric: &str, samples: &[f64]) -> WorkResult {
        samples.chunks(SAMPLES_MAX).try_for_each(|samples| {
            self.record(&Record::Samples(point, metric.to_owned(), samples.to_vec()))
        })
    }

    /// Reports progress, not too often.
    ///
    /// # Errors
    /// When the reader is gone.
    pub(crate) fn progress(&self, done: u64, of: u64) -> WorkResult {
        let now = clock::now_ns();
        if now - self.last.get() < PROGRESS_NS {
            return Ok(());
        }
        self.last.set(now);
        self.record(&Record::Progress(done as f64 / of.max(1) as f64))
    }

    fn record(&self, record: &Record) -> WorkResult {
        if !self.speaks {
            return Ok(());
        }
        let line = serde_json::to_string(record)?;
        writeln!(std::io::stdout().lock(), "{line}")
            .map_err(|e| format!("standard output: {e}"))?;
        Ok(())
    }
}

/// Runs `work` in a session of all workers, which are `ranks`.
///
/// # Errors
/// They are more or fewer; what `work` or the session says.
pub(crate) fn with_session(
    ranks: u32,
    work: impl FnOnce(&Session, &Emit) -> WorkResult + Send,
) -> WorkResult {
    newmad::run(|session: &Session| match session.size() {
        size if size == ranks => work(session, &Emit::of(session.rank())),
        size => Err(format!("it takes {ranks} processes, and this session has {size}").into()),
    })?
}

/// Keeps the calling thread on a core of its own among the processes of its machine, as launchers bind processes:
/// otherwise the kernel may put both sides of an exchange on one core, where each has to wait until the other sleeps. A
/// refusal leaves it where the kernel puts it.
pub(crate) fn own_core() {
    let (cores, (_, index)) = (marcel::topology::allowed_cpus(), marcel::topology::neighbours());
    let _ = marcel::topology::bind_current_thread(cores[index % cores.len()]);
}
