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
//! A rank that is on another machine has a [proxy](Proxy) here, which this crate takes for the rank itself.
//!
//! Nothing remains: ranks die with the launcher (`PR_SET_PDEATHSIG`), what they leave behind is inherited by
//! the launcher (`PR_SET_CHILD_SUBREAPER`) and killed, and files in `/dev/shm` that carry the job's name are
//! removed. Rejected: a process group per rank (a rank could not read the terminal), threads per rank (the
//! death signal is tied to the starting *thread*).

mod cleanup;
#[doc(hidden)]
pub mod pmi;
mod rank;
mod ready;
pub mod signals;
pub mod state;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

pub use cleanup::{Cleanup, MARK, adopt_orphans};
use pmi::{Request, Server};
pub use rank::{End, Rank, Start, Stream, die_with, find};
pub use ready::{Ready, poll, readable, wait};
pub use signals::Signals;

/// Time between SIGTERM and SIGKILL.
const TERM_TO_KILL: Duration = Duration::from_secs(1);
/// How long the launcher waits for the exit status of a rank that has closed its PMI connection: the status, if it
/// comes, explains more than the close.
const CLOSED: Duration = Duration::from_millis(200);
/// How long processes may take to write what their threads do, where that cannot be seen.
const DUMP: Duration = Duration::from_secs(5);
/// The same, where their last line is waited for. Naming the functions of a backtrace takes seconds of CPU time in a
/// debug build, and a process that hangs may do so on a busy machine.
const DUMP_SEEN: Duration = Duration::from_secs(30);
/// What they write last.
pub const DUMP_END: &[u8] = b"== marcel: end";
/// How long output is still read after the last rank has ended.
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

/// Receives the ranks' output, line by line, without newlines. An error ends the job.
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

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Running,
    Grace,
    Term,
    Kill,
}

struct Launcher<'a> {
    name: &'static str,
    unit: &'static str,
    grace: Duration,
    keep_going: bool,
    dump_on_timeout: bool,
    /// The ranks' output comes here.
    captured: bool,
    /// Ranks that were asked for what their threads do, and have not said all of it.
    asked: Option<Vec<usize>>,
    ranks: Vec<Rank>,
    server: Server,
    phase: Phase,
    /// When the next phase begins.
    turn: Option<Instant>,
    failure: Option<(u8, String)>,
    interrupted: bool,
    broken: bool,
    message: OnMessage<'a>,
}

/// Runs the job to its end. With `on_line`, the ranks' output is captured and given to it; without, they
/// write where the launcher does.
///
/// # Blocking
/// Until every rank has ended.
///
/// # Errors
/// When a rank failed, or the job could not be started. In every case no process of the job is left.
pub fn run(
    job: &Job,
    mut on_line: Option<OnLine<'_>>,
    message: OnMessage<'_>,
) -> Result<(), Failure> {
    let program = rank::find(&job.program).map_err(Failure::Start)?;
    let signals = Signals::catch()
        .map_err(|e| Failure::Start(format!("signals cannot be read from a descriptor: {e}")))?;
    adopt_orphans();
    let name = job_name();
    let mut launcher = Launcher {
        name: job.name,
        unit: job.unit,
        grace: job.grace,
        keep_going: job.keep_going,
        dump_on_timeout: job.dump_on_timeout,
        captured: on_line.is_some(),
        asked: None,
        ranks: Vec::with_capacity(job.ranks as usize),
        server: Server::new(name.clone(), job.ranks),
        phase: Phase::Running,
        turn: None,
        failure: None,
        interrupted: false,
        broken: false,
        message,
    };
    let cleanup = Cleanup::before(name.clone());
    let mut env = job.env.clone();
    env.push((MARK.into(), name.into()));
    for rank in 0..job.ranks {
        let place = job.places.get(rank as usize);
        let (mut args, mut env) = (job.args.clone(), env.clone());
        if let Some(proxy) = place.and_then(|place| place.proxy.as_ref()) {
            args.splice(..0, proxy.words.iter().cloned());
            env.extend(proxy.env.iter().cloned());
        }
        let start = Start {
            program: &program,
            name: &job.program,
            args: &args,
            env: &env,
            rank,
            size: job.ranks,
            local: place.map_or((rank, job.ranks), |place| place.local),
            capture: on_line.is_some(),
        };
        match Rank::start(&start) {
            Ok(rank) => launcher.ranks.push(rank),
            Err(e) => {
                launcher.phase = Phase::Kill;
                launcher.signal(libc::SIGKILL);
                launcher.wait_for_all();
                return Err(Failure::Start(start_error(job, rank, &e)));
            }
        }
    }
    let deadline = job.timeout.map(|timeout| Instant::now() + timeout);
    launcher.serve(&signals, deadline, &mut on_line);
    cleanup.processes();
    launcher.drain(&mut on_line);
    drop(cleanup);
    launcher.judge_survivors();
    if launcher.broken {
        return Err(Failure::BrokenPipe);
    }
    match launcher.failure.take() {
        None => Ok(()),
        Some((code, why)) => Err(Failure::Run { code, why, interrupted: launcher.interrupted }),
    }
}

fn start_error(job: &Job, rank: u32, e: &io::Error) -> String {
    let program = job.program.to_string_lossy();
    match e.raw_os_error() {
        Some(libc::ENOENT) => format!(
            "program {program} is there but cannot be started: the interpreter or loader that it names is missing"
        ),
        Some(libc::ENOEXEC) => {
            format!("program {program} is neither a program nor a script with a #! line")
        }
        Some(libc::EAGAIN) => format!(
            "no more processes for this user after {} {rank} of {}: raise `ulimit -u`, or start fewer",
            job.unit, job.ranks
        ),
        Some(libc::EMFILE | libc::ENFILE) => format!(
            "no more file descriptors after {} {rank} of {}: raise `ulimit -n`, or start fewer",
            job.unit, job.ranks
        ),
        _ => format!("{} {rank} of {program} cannot be started: {e}", job.unit),
    }
}

/// A name that no other job on this machine has.
pub fn job_name() -> String {
    let nanos = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos());
    format!("mad-{}-{nanos:x}", std::process::id())
}

impl Launcher<'_> {
    fn say(&mut self, text: &str) {
        (self.message)(&format!("{}: {text}", self.name));
    }

    fn signal(&self, signal: i32) {
        for rank in &self.ranks {
            rank.signal(signal);
        }
    }

    fn serve(
        &mut self,
        signals: &Signals,
        mut deadline: Option<Instant>,
        on_line: &mut Option<OnLine<'_>>,
    ) {
        let mut stops = 0;
        // A rank may have ended before its SIGCHLD could be read.
        self.reap();
        while self.ranks.iter().any(|rank| rank.ended.is_none()) {
            let now = Instant::now();
            if deadline.is_some_and(|at| at <= now) {
                deadline = None;
                self.fail(1, "the job did not end within its time limit (--timeout)".into());
                match self.dump_on_timeout && self.phase == Phase::Running {
                    true => self.dump(),
                    false => self.terminate(),
                }
            }
            if self.turn.is_some_and(|at| at <= now) || self.have_said_all() {
                match self.phase {
                    Phase::Running | Phase::Grace => self.terminate(),
                    Phase::Term | Phase::Kill => self.kill(),
                }
            }
            for index in 0..self.ranks.len() {
                if self.ranks[index].closed.is_some_and(|at| at <= now) {
                    self.ranks[index].closed = None;
                    self.left(index, format!("{} {index} closed its PMI connection", self.unit));
                }
            }
            let closed = self.ranks.iter().filter_map(|rank| rank.closed).min();
            let next = [deadline, self.turn, closed].into_iter().flatten().min();
            let left = next.map(|at| at.saturating_duration_since(Instant::now()));
            for ready in poll(signals, None, &self.ranks, left) {
                match ready {
                    Ready::Signals => {
                        while let Some(signal) = signals.next() {
                            if signals::STOP.contains(&signal.number) {
                                stops += 1;
                                self.stopped(signal, stops);
                            } else if signal.number != libc::SIGCHLD && !signal.from_terminal {
                                self.signal(signal.number);
                            }
                        }
                    }
                    Ready::Output(rank, fd) => self.output(rank, fd, on_line),
                    Ready::Connection(rank) => drop(self.talk(rank)),
                    Ready::Own => {}
                }
            }
            self.reap();
        }
    }

    fn stopped(&mut self, signal: signals::Signal, count: u32) {
        let name = signals::name(signal.number);
        self.interrupted = true;
        if count == 1 {
            self.fail(1, format!("interrupted by {name}"));
            if !signal.from_terminal {
                self.signal(signal.number);
            }
            self.phase = self.phase.max(Phase::Grace);
            self.turn = Some(Instant::now() + self.grace);
        } else {
            self.say("interrupted again: killing the job");
            self.kill();
        }
    }

    /// Has every process write what its threads do, and ends the job when they have had the time. Of those that the
    /// signal would end, the kernel's word is passed on.
    fn dump(&mut self) {
        let running = self.ranks.iter().enumerate().filter(|(_, rank)| rank.ended.is_none());
        let (mut asked, mut words) = (Vec::new(), Vec::new());
        for (number, rank) in running {
            match state::catches(rank.pid(), libc::SIGQUIT) {
                true => {
                    rank.signal(libc::SIGQUIT);
                    asked.push(number);
                }
                false => words.push(format!("{} {number}: {}", self.unit, state::of(rank.pid()))),
            }
        }
        for text in &words {
            self.say(text);
        }
        self.asked = Some(asked);
        self.phase = Phase::Grace;
        self.turn = Some(Instant::now() + if self.captured { DUMP_SEEN } else { DUMP });
    }

    /// Whether they were asked for what their threads do, and all that live have said it.
    fn have_said_all(&mut self) -> bool {
        let said = |asked: &Vec<usize>| asked.iter().all(|&at| self.ranks[at].ended.is_some());
        match self.asked.as_ref().is_some_and(said) {
            true => {
                self.asked = None;
                self.phase == Phase::Grace
            }
            false => false,
        }
    }

    /// Notes the first failure and says it.
    fn fail(&mut self, code: u8, why: String) {
        self.say(&why);
        self.failure.get_or_insert((code, why));
    }

    fn terminate(&mut self) {
        if self.phase < Phase::Term {
            self.phase = Phase::Term;
            self.turn = Some(Instant::now() + TERM_TO_KILL);
            self.signal(libc::SIGTERM);
        }
    }

    fn kill(&mut self) {
        self.phase = Phase::Kill;
        self.turn = None;
        self.signal(libc::SIGKILL);
    }

    /// Collects the ranks that have ended. Of those that have ended meanwhile, one that was killed comes first:
    /// it is the cause, and an exit status often what a peer made of it.
    fn reap(&mut self) {
        let ranks = &mut self.ranks;
        let mut ended: Vec<usize> = (0..ranks.len()).filter(|&i| ranks[i].reap()).collect();
        ended.sort_by_key(|&i| !matches!(self.ranks[i].ended, Some(End::Signal(_))));
        for index in ended {
            let Some(end) = self.ranks[index].ended else { continue };
            // What it still said on its connection counts (abort, finalize).
            while self.ranks[index].connection.is_some() && self.talk(index) {}
            self.ranks[index].connection = None;
            self.ranks[index].closed = None;
            let words = end.words();
            let pid = self.ranks[index].pid();
            match end {
                End::Code(0) => {}
                // What the launcher itself did to it is no news.
                End::Signal(libc::SIGTERM) if self.phase >= Phase::Term => {}
                End::Signal(libc::SIGKILL) if self.phase == Phase::Kill => {}
                _ if self.keep_going && self.phase == Phase::Running => self.lost(index, end),
                _ if self.failure.is_some() => {
                    self.say(&format!("then {} {index} {words}", self.unit))
                }
                _ => {
                    let code = match end {
                        End::Code(code) => u8::try_from(code).unwrap_or(1),
                        End::Signal(_) => 1,
                    };
                    self.fail(code, format!("{} {index} (process {pid}) {words}", self.unit));
                    if self.ranks.iter().any(|rank| rank.ended.is_none()) {
                        self.phase = self.phase.max(Phase::Grace);
                        self.turn.get_or_insert(Instant::now() + self.grace);
                    }
                }
            }
            self.left(index, format!("{} {index} {words}", self.unit));
        }
    }

    /// A rank has failed, and the others go on. One that was killed is what they are to survive; one that says by its exit
    /// status that it has failed has the job fail in the end.
    fn lost(&mut self, index: usize, end: End) {
        let what =
            format!("{} {index} (process {}) {}", self.unit, self.ranks[index].pid(), end.words());
        match end {
            End::Code(code) => self.fail(u8::try_from(code).unwrap_or(1), what),
            End::Signal(_) => self.say(&format!("{what}; the others go on (--keep-going)")),
        }
    }

    /// A job that keeps going has failed if no rank has ended well.
    fn judge_survivors(&mut self) {
        let ended_well = |rank: &Rank| matches!(rank.ended, Some(End::Code(0)));
        if self.keep_going && self.failure.is_none() && !self.ranks.iter().any(ended_well) {
            self.fail(1, "no rank is left that has ended well".into());
        }
    }

    /// Reads what a rank says on its PMI connection and answers. False: nothing (more) was there.
    fn talk(&mut self, index: usize) -> bool {
        let Some(connection) = &mut self.ranks[index].connection else { return false };
        let _ = connection.send(b"");
        let Some(bytes) = connection.read() else {
            self.ranks[index].connection = None;
            self.ranks[index].closed = Some(Instant::now() + CLOSED);
            return false;
        };
        let mut replies = Vec::new();
        let mut abort = None;
        let server = &mut self.server;
        let rank = index as u32;
        let treated = connection.frames.feed(&bytes, |message| {
            match server.message(rank, message, &mut |to, text| replies.push((to, text)))? {
                Request::Nothing => {}
                Request::Abort { code, message } => abort = Some((code, message)),
            }
            Ok(server.version(rank))
        });
        self.reply(replies);
        if let Err(refused) = treated {
            self.give_up(index, &refused.to_string());
        }
        if let Some((code, message)) = abort {
            let colon = if message.is_empty() { "" } else { ": " };
            self.fail(code, format!("{} {index} aborted the job{colon}{message}", self.unit));
            self.terminate();
        }
        !bytes.is_empty()
    }

    fn reply(&mut self, replies: Vec<(u32, String)>) {
        for (to, text) in replies {
            let to = to as usize;
            if let Some(connection) = &mut self.ranks[to].connection
                && !connection.send(text.as_bytes())
            {
                self.give_up(to, "it reads none of the answers on its PMI connection");
            }
        }
    }

    /// Ends a rank that broke the protocol.
    fn give_up(&mut self, index: usize, why: &str) {
        self.fail(1, format!("{} {index} is ended: {why}", self.unit));
        self.ranks[index].connection = None;
        self.ranks[index].signal(libc::SIGKILL);
        self.phase = self.phase.max(Phase::Grace);
        self.turn.get_or_insert(Instant::now() + self.grace);
        self.left(index, format!("{} {index} was ended", self.unit));
    }

    fn left(&mut self, index: usize, why: String) {
        let mut replies = Vec::new();
        self.server.left(index as u32, why, &mut |to, text| replies.push((to, text)));
        self.reply(replies);
    }

    fn output(&mut self, index: usize, fd: RawFd, on_line: &mut Option<OnLine<'_>>) {
        let (Some(on_line), rank) = (on_line, &mut self.ranks[index]) else { return };
        let Some(at) = rank.outputs.iter().position(|output| output.fd() == fd) else { return };
        let stream = rank.outputs[at].stream();
        let asked = &mut self.asked;
        let read = rank.outputs[at].read(|line| {
            if let Some(asked) = asked.as_mut().filter(|_| line == DUMP_END) {
                asked.retain(|&other| other != index);
            }
            on_line(index as u32, stream, line)
        });
        match read {
            Ok(false) => {}
            Ok(true) => drop(rank.outputs.swap_remove(at)),
            Err(_) => {
                // As SIGPIPE would: quietly, and the whole job.
                self.broken = true;
                self.terminate();
            }
        }
    }

    /// Passes on what the ranks wrote before they ended.
    fn drain(&mut self, on_line: &mut Option<OnLine<'_>>) {
        let until = Instant::now() + DRAIN;
        for index in 0..self.ranks.len() {
            while !self.broken
                && let Some(fd) = self.ranks[index].last_output(until)
            {
                self.output(index, fd, on_line);
            }
        }
    }

    fn wait_for_all(&mut self) {
        while self.ranks.iter_mut().any(|rank| !rank.reap() && rank.ended.is_none()) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
