//! Starts N processes on this machine, serves them PMI (version 1 or 2), and sees to it that they end together.
//!
//! [`run`] is the whole of `mad run`, and what `mad bench` and `mad demo` start their workers with. One
//! thread, one `poll` over signals, PMI connections and captured output. The job's life:
//!
//! ```text
//!   Running ── all ranks ended ──▶ over
//!      │ a rank dies or fails            │ user's signal, abort, time-out, broken output
//!      ▼                                 ▼
//!   Grace (others notice by themselves) ─▶ Term (SIGTERM was sent) ─▶ Kill (SIGKILL was sent)
//! ```
//!
//! Processes of the job may spawn more (`MPI_Comm_spawn`). What is spawned together is a part with a life of its
//! own, as above: a rank that fails ends its part. The launcher ends when all parts have.
//!
//! A rank that is on another machine has a [proxy](Proxy) here, which this crate takes for the rank itself.
//!
//! Nothing remains: ranks die with the launcher (`PR_SET_PDEATHSIG`), what they leave behind is inherited by
//! the launcher (`PR_SET_CHILD_SUBREAPER`) and killed, half a second after a job that has succeeded, a second after SIGTERM
//! otherwise, and files in `/dev/shm` that carry the job's name are removed. (Only ranks die with a launcher that is killed,
//! not what a shell script runs for one.) Rejected: a process group per rank (a rank could not read the terminal), threads
//! per rank (the death signal is tied to the starting *thread*).

mod cleanup;
mod exec;
mod launcher;
mod part;
#[doc(hidden)]
pub mod pmi;
mod rank;
mod ready;
pub mod signals;
mod start;
pub mod state;
mod streams;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::time::Duration;

pub use cleanup::{Cleanup, MARK, adopt_orphans};
use launcher::Launcher;
pub use rank::{End, Rank, Start, Stream, die_with, find, own_program};
pub use ready::{Ready, poll, readable, wait};
pub use signals::Signals;
use start::Starter;

/// What they write last.
pub const DUMP_END: &[u8] = b"== marcel: end";
/// How long output is still read after the last rank has ended, and what ranks have left may end by itself.
pub const DRAIN: Duration = Duration::from_millis(500);

/// What to run.
pub struct Job {
    /// The program, as the user named it.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// How many processes.
    pub ranks: u32,
    /// What messages call a process: `rank`, or `process` where each holds several ranks.
    pub unit: &'static str,
    /// Variables set for all of them.
    pub env: Vec<(OsString, OsString)>,
    /// Where each of them is; when none is given all are here and share the cores.
    pub places: Vec<Place>,
    /// The job is ended after this time.
    pub timeout: Option<Duration>,
    /// The option by which the user sets that time, for messages; `None`: the command has none.
    pub timeout_option: Option<&'static str>,
    /// Before that, its processes are asked for what they do.
    pub dump_on_timeout: bool,
    /// How long the other ranks may go on after one has failed.
    pub grace: Duration,
    /// The others go on when a rank fails, for as long as they like: programs that survive that.
    pub keep_going: bool,
    /// The command in whose name the launcher speaks: the prefix of its messages.
    pub name: &'static str,
}

/// Where a rank is.
pub struct Place {
    /// What is started here when its process runs on another machine.
    pub proxy: Option<Proxy>,
    /// Which it is of those that share the cores of its machine, and how many do.
    pub local: (u32, u32),
}

/// A process that behaves as the one elsewhere does for which it stands: its PMI connection, its output, its end;
/// signals for it reach the other.
pub struct Proxy {
    /// Words before the program's arguments.
    pub words: Vec<OsString>,
    /// Variables for it alone.
    pub env: Vec<(OsString, OsString)>,
}

/// Where the ranks' output and the launcher's own messages go.
pub enum Words<'a> {
    /// The ranks write where the launcher does.
    Inherited,
    /// The launcher reads the ranks' output, and writes each line whole, on the same stream, with the rank's number before it:
    /// `[3] line`. A reader that pauses lets the ranks wait, and not the launcher.
    Tagged,
    /// The caller is given them.
    Given {
        /// The ranks' output.
        line: OnLine<'a>,
        /// The launcher's messages.
        message: OnMessage<'a>,
    },
}

/// Receives the ranks' output, line by line, without newlines. An error ends the job, of kind `BrokenPipe` without a
/// message.
pub type OnLine<'a> = &'a mut dyn FnMut(u32, Stream, &[u8]) -> io::Result<()>;
/// Receives the launcher's own messages.
pub type OnMessage<'a> = &'a mut dyn FnMut(&str);

/// Why a job did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// It could not be started.
    Start(String),
    /// It ran and failed; the launcher's messages have said how. The code is what `mad run` exits with.
    Run {
        /// Exit code of the first rank that failed; 1 for a signal, a time-out, an interruption.
        code: u8,
        /// The reason in one sentence.
        why: String,
        /// The user's signal ended it.
        interrupted: bool,
    },
    /// The reader of the output is gone.
    BrokenPipe,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Start(why) | Failure::Run { why, .. } => f.write_str(why),
            Failure::BrokenPipe => f.write_str("the output has no reader any more"),
        }
    }
}

/// Runs the job to its end.
///
/// # Blocking
/// Until every rank has ended, and its output is written or given up: a signal or the time limit ends the wait for a reader
/// that pauses, after the job's grace time.
///
/// # Errors
/// When a rank failed, or the job could not be started. In every case no process of the job is left.
pub fn run(job: &Job, words: Words<'_>) -> Result<(), Failure> {
    let program = rank::find(&job.program).map_err(Failure::Start)?;
    let signals = Signals::catch()
        .map_err(|e| Failure::Start(format!("signals cannot be read from a descriptor: {e}")))?;
    adopt_orphans();
    let name = job_name();
    let cleanup = Cleanup::before(name.clone());
    let mut env = job.env.clone();
    env.push((MARK.into(), (&name).into()));
    let elsewhere = job.places.iter().any(|place| place.proxy.is_some());
    let capture = !matches!(words, Words::Inherited);
    let starter = Starter { unit: job.unit, env, capture, elsewhere };
    let ranks = starter.job(job, &program).map_err(|why| {
        // What the first ranks had started when a later one could not be.
        cleanup.processes();
        Failure::Start(why)
    })?;
    let mut launcher = Launcher::new(job, name, starter, ranks, words);
    launcher.serve(&signals, &cleanup);
    launcher.wait_for_orphans(&signals, &cleanup);
    cleanup.processes();
    // Said before what is unwritten is drained.
    launcher.judge_survivors();
    launcher.drain(&signals);
    drop(cleanup);
    launcher.result()
}

/// A name that no other job on this machine has.
pub fn job_name() -> String {
    let nanos = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos());
    format!("mad-{}-{nanos:x}", std::process::id())
}
