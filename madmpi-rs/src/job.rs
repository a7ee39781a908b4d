//! The job: this process's session of newmad, and the phases that MPI goes through.
//!
//! ```text
//!   before ──MPI_Init──▶ up ──MPI_Finalize──▶ over            the world model: once
//!            MPI_Session_init / _finalize, any number of times, before, meanwhile and after
//! ```

use core::ffi::c_int;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::abi::{MPI_ERR_OTHER, MPI_ERR_PROC_ABORTED, MPI_SUCCESS};
use crate::error::Fault;
use crate::per_rank::per_rank;

const BEFORE: u8 = 0;
const OVER: u8 = 1;
const UP: u8 = 2;
/// As `UP`, and a tool observes the rank.
const OBSERVED: u8 = 3;

per_rank! {
    static PHASE: AtomicU8 = AtomicU8::new(BEFORE);
    /// Whether a tool observes the rank.
    static HAS_OBSERVER: AtomicBool = AtomicBool::new(false);
    /// Whether the program has asked for `MPI_THREAD_MULTIPLE`.
    static CONCURRENT: AtomicBool = AtomicBool::new(false);
    /// Open sessions of the sessions model.
    static SESSIONS: AtomicUsize = AtomicUsize::new(0);
    static SESSION: OnceLock<(newmad::Session, Instant)> = OnceLock::new();
    /// What was opened for the rank before its program began, where the process has several.
    static OPENED: OnceLock<newmad::Session> = OnceLock::new();
    static NUMBER: OnceLock<u64> = OnceLock::new();
    static UNIVERSE: OnceLock<Option<u32>> = OnceLock::new();
    static PROGRAM: OnceLock<Option<u32>> = OnceLock::new();
}

/// Whether the program may make calls that need MPI.
#[inline]
pub(crate) fn is_up() -> bool {
    is_world_up() || SESSIONS.load(Ordering::Acquire) > 0
}

/// Whether the process is between `MPI_Init` and `MPI_Finalize`.
#[inline]
pub(crate) fn is_world_up() -> bool {
    PHASE.load(Ordering::Acquire) >= UP
}

/// The same of the rank at this place in the process.
#[inline]
pub(crate) fn is_world_up_at(place: usize) -> bool {
    PHASE.of(place).load(Ordering::Acquire) >= UP
}

/// Whether the rank at this place is between `MPI_Init` and `MPI_Finalize`, and no tool observes it.
#[inline]
pub(crate) fn is_unobserved(place: usize) -> bool {
    PHASE.of(place).load(Ordering::Acquire) == UP
}

/// Whether a tool observes the rank.
pub(crate) fn is_observed() -> bool {
    HAS_OBSERVER.load(Ordering::Acquire)
}

/// A tool observes the rank from now on, or not any more.
pub(crate) fn observe(on: bool) {
    HAS_OBSERVER.store(on, Ordering::Release);
    let (from, to) = if on { (UP, OBSERVED) } else { (OBSERVED, UP) };
    // In another phase it is too early, or too late.
    let _ = PHASE.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
}

/// Whether `MPI_Init` was called.
pub(crate) fn was_initialized() -> bool {
    PHASE.load(Ordering::Acquire) != BEFORE
}

/// Whether `MPI_Finalize` was called.
pub(crate) fn is_over() -> bool {
    PHASE.load(Ordering::Acquire) == OVER
}

/// Enters the phase between `MPI_Init` and `MPI_Finalize`; `false` if it began before.
pub(crate) fn begin_world() -> bool {
    let begun = PHASE.compare_exchange(BEFORE, UP, Ordering::AcqRel, Ordering::Acquire).is_ok();
    if begun && is_observed() {
        observe(true);
    }
    begun
}

/// The program's threads may call MPI at the same time, and what it hands to MPI may be called at any time.
pub(crate) fn calls_may_be_concurrent() {
    CONCURRENT.store(true, Ordering::Release);
}

/// Whether the program has asked for that.
pub(crate) fn calls_are_concurrent() -> bool {
    CONCURRENT.load(Ordering::Acquire)
}

/// Ends the phase between `MPI_Init` and `MPI_Finalize`.
pub(crate) fn end_world() {
    PHASE.store(OVER, Ordering::Release);
}

/// Open sessions of the sessions model.
pub(crate) fn sessions() -> usize {
    SESSIONS.load(Ordering::Acquire)
}

/// Counts one more open session of the sessions model.
pub(crate) fn add_session() {
    SESSIONS.fetch_add(1, Ordering::AcqRel);
}

/// Counts one open session less.
pub(crate) fn remove_session() {
    SESSIONS.fetch_sub(1, Ordering::AcqRel);
}

/// The session of newmad, which stays open during calls.
///
/// # Errors
/// MPI is not initialised.
#[inline]
pub(crate) fn session() -> Result<&'static newmad::Session, Fault> {
    match SESSION.get() {
        Some((session, _)) => Ok(session),
        None => Err(not_initialised()),
    }
}

#[cold]
pub(crate) fn not_initialised() -> Fault {
    Fault::new(MPI_ERR_OTHER, "MPI is not initialised")
}

/// The number of the job, which all its processes know, and which no other job has. The process manager is asked once.
///
/// # Errors
/// MPI is not initialised; the process manager is gone.
pub(crate) fn number() -> Result<u64, Fault> {
    if let Some(number) = known_number() {
        return Ok(number);
    }
    let session = session()?;
    let name = aside(|| session.process_manager().job())?;
    let hash = newmad::authentication::derive(&[0; newmad::authentication::KEY], name.as_bytes());
    let number = hash.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
    Ok(*NUMBER.get_or_init(|| number))
}

/// The number of the job, if [`number`] has been called: before that, this process knows of no other job.
pub(crate) fn known_number() -> Option<u64> {
    NUMBER.get().copied()
}

/// How many processes are expected to run at once: those of the job, if the launcher does not say.
///
/// # Errors
/// MPI is not initialised; the process manager is gone.
pub(crate) fn universe() -> Result<u32, Fault> {
    let session = session()?;
    let size = ask(&UNIVERSE, newmad::ProcessManager::universe)?;
    Ok(size.unwrap_or(0).max(session.size()))
}

/// Which program this is, of those that were started together, if the launcher says.
///
/// # Errors
/// As [`universe`].
pub(crate) fn program() -> Result<Option<u32>, Fault> {
    ask(&PROGRAM, newmad::ProcessManager::program)
}

/// Asks the process manager once.
fn ask(
    answer: &OnceLock<Option<u32>>,
    ask: impl FnOnce(&newmad::ProcessManager) -> Result<Option<u32>, newmad::Error> + Send,
) -> Result<Option<u32>, Fault> {
    if let Some(answer) = answer.get() {
        return Ok(*answer);
    }
    let manager = session()?.process_manager();
    let said = aside(|| ask(&manager))?;
    Ok(*answer.get_or_init(|| said))
}

/// Makes a call that blocks the kernel thread. Where ranks are green threads, another one makes it.
pub(crate) fn aside<T: Send>(call: impl FnOnce() -> T + Send) -> T {
    if marcel::is_green() { marcel::blocking::export(call) } else { call() }
}

/// A session was opened for the calling thread's rank.
pub(crate) fn opened(session: newmad::Session) {
    OPENED.get_or_init(|| session);
}

/// The session that was.
pub(crate) fn session_opened() -> Option<newmad::Session> {
    OPENED.get().cloned()
}

/// Keeps the session that the process has joined the job with.
pub(crate) fn keep(session: newmad::Session) {
    SESSION.get_or_init(|| (session, Instant::now()));
}

/// The number of processes that the job was started with, once the process has joined the job.
pub(crate) fn size() -> Option<u32> {
    session().ok().map(newmad::Session::size)
}

/// The name of this machine.
pub(crate) fn host() -> Vec<u8> {
    let mut name = [0; 256];
    // SAFETY: the buffer has that length; a name that is cut has no terminating zero, so one byte stays out of reach.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    name.split(|&byte| byte == 0).next().unwrap_or_default().to_vec()
}

/// Seconds since MPI was initialised in this process, or since the first call before that.
pub(crate) fn elapsed() -> f64 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    let begin = SESSION.get().map_or_else(|| *BEGIN.get_or_init(Instant::now), |kept| kept.1);
    begin.elapsed().as_secs_f64()
}

/// How long a process that ends because of a peer's death lets that peer end first. Its connections close some time
/// before it has ended, and launchers name the first process that ends as the cause, and give its exit status.
const CAUSE_FIRST: Duration = Duration::from_millis(300);

/// Ends the job: prints the reason and exits; the launcher ends the other processes.
#[cold]
pub(crate) fn fatal(class: c_int, text: &str, handler: &str) -> ! {
    let rank = rank_prefix();
    say(&format!("{rank}{text}\nmadmpi: {rank}the error handler is {handler}, so the job ends"));
    if class == MPI_ERR_PROC_ABORTED {
        std::thread::sleep(CAUSE_FIRST);
    }
    exit(if class == MPI_SUCCESS { 1 } else { class })
}

/// The rank, as messages to people begin, once it is known.
fn rank_prefix() -> String {
    session().map_or(String::new(), |session| format!("rank {}: ", session.rank()))
}

/// Prints a line, the last of a process, in one piece, for other ranks print too.
///
/// If it cannot be written the process still ends as it should: not by SIGPIPE, which programs in C have not ignored, nor by
/// a panic of `eprint`, by which `MPI_Abort` would return.
pub(crate) fn say(text: &str) {
    // SAFETY: no handler is installed.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let _ = std::io::stderr().write_all(format!("madmpi: {text}\n").as_bytes());
}

/// Ends the job for `MPI_Abort`.
#[cold]
pub(crate) fn abort(code: c_int) -> ! {
    say(&format!("{}MPI_Abort: the program ends the job with code {code}", rank_prefix()));
    mad_loader::flush_output();
    // An exit status would end the job only where the launcher ends it for that.
    newmad::plumbing::abort(status(code), "MPI_Abort");
    exit(code)
}

/// Ends the process, with a reason.
#[cold]
pub(crate) fn end(why: &str, status: c_int) -> ! {
    say(why);
    exit(status)
}

/// Ends the process at once, with what it has printed.
fn exit(code: c_int) -> ! {
    mad_loader::flush_output();
    // SAFETY: the process ends without its exit handlers, which might wait for peers.
    unsafe { libc::_exit(status(code)) }
}

/// An exit status has eight bits, and 0 would look like success.
fn status(code: c_int) -> c_int {
    if code & 0xff == 0 { 1 } else { code & 0xff }
}
