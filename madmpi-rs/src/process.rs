//! This process in the job: its session, and where it is between initialising and finalising.
//!
//! ```text
//!   before ──MPI_Init──▶ up ──MPI_Finalize──▶ over            the world model: once
//!            MPI_Session_init / _finalize, any number of times, before, meanwhile and beyond
//! ```
//! The newmad session is opened by whichever comes first, and closed by `MPI_Finalize` (by the last session, if there are some
//! then), or at the process' exit if there was only the sessions model. A process manager is met once, so after that nothing
//! is initialised again.

use core::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::abi::*;
use crate::comm::Comm;
use crate::comm::context::Contexts;
use crate::error::Fault;
use crate::group::Group;
use crate::handle::Held;
use crate::p2p::buffer;

const BEFORE: u8 = 0;
const UP: u8 = 1;
const OVER: u8 = 2;

static PHASE: AtomicU8 = AtomicU8::new(BEFORE);
/// Sessions of the sessions model that are open.
static SESSIONS: AtomicUsize = AtomicUsize::new(0);
/// Whether the newmad session was closed.
static CLOSED: AtomicBool = AtomicBool::new(false);
static PROCESS: OnceLock<Process> = OnceLock::new();
/// The thread that called `MPI_Init`.
static MAIN: OnceLock<std::thread::ThreadId> = OnceLock::new();
static OPENING: Mutex<()> = Mutex::new(());

/// What is there once a first call has initialised something.
pub(crate) struct Process {
    pub(crate) session: newmad::Session,
    pub(crate) world: Arc<Comm>,
    pub(crate) own: Arc<Comm>,
    pub(crate) contexts: Contexts,
    /// Of the program: what `argv[0]` was.
    started: std::time::Instant,
}

/// Whether calls that need MPI may be made.
#[inline]
pub(crate) fn is_up() -> bool {
    PHASE.load(Ordering::Acquire) == UP || SESSIONS.load(Ordering::Acquire) > 0
}

/// Whether `MPI_Init` was called, and whether `MPI_Finalize` was.
pub(crate) fn phase() -> (bool, bool) {
    let phase = PHASE.load(Ordering::Acquire);
    (phase >= UP, phase == OVER)
}

pub(crate) fn is_over() -> bool {
    phase().1
}

/// The process, which is there while calls are made.
#[inline]
pub(crate) fn get() -> Result<&'static Process, Fault> {
    PROCESS.get().ok_or_else(|| Fault::new(MPI_ERR_OTHER, "MPI is not initialised"))
}

/// `MPI_COMM_WORLD` and `MPI_COMM_SELF`, while they exist.
#[inline]
pub(crate) fn predefined(comm: MPI_Comm) -> Option<Held<Comm>> {
    let process = PROCESS.get().filter(|_| PHASE.load(Ordering::Acquire) == UP)?;
    match comm {
        MPI_COMM_WORLD => Some(Held::Fixed(&process.world)),
        MPI_COMM_SELF => Some(Held::Fixed(&process.own)),
        _ => None,
    }
}

/// The communicator whose handler is told of errors that concern no object.
pub(crate) fn comm_self() -> Option<&'static Arc<Comm>> {
    PROCESS.get().filter(|_| !is_over()).map(|process| &process.own)
}

/// Opens the session if it is not open.
///
/// # Errors
/// It cannot be opened.
pub(crate) fn open() -> Result<&'static Process, Fault> {
    let _one = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(process) = PROCESS.get() {
        return Ok(process);
    }
    let session = newmad::Session::builder().ordered().open()?;
    if session.size() > 1 << 14 {
        // Contexts have bits for so many; see `comm::context`.
        return Err(Fault::new(MPI_ERR_OTHER, "madmpi is for jobs of at most 16384 processes"));
    }
    let world = Group::new((0..session.size()).collect());
    let own = Group::new(vec![session.rank()]);
    let process = Process {
        world: Comm::predefined(MPI_COMM_WORLD, &session, world)?,
        own: Comm::predefined(MPI_COMM_SELF, &session, own)?,
        contexts: Contexts::new(session.rank(), session.size()),
        session,
        started: std::time::Instant::now(),
    };
    // SAFETY: the function is for that, and this library is not unloaded while its threads run.
    unsafe { libc::atexit(at_exit) };
    Ok(PROCESS.get_or_init(|| process))
}

/// `MPI_Init`.
///
/// # Errors
/// It was called before.
pub(crate) fn init() -> Result<(), Fault> {
    let again = || Fault::new(MPI_ERR_OTHER, "MPI was initialised before, and may be once");
    if PHASE.load(Ordering::Acquire) != BEFORE {
        return Err(again());
    }
    open()?;
    still_open()?;
    let begun = PHASE.compare_exchange(BEFORE, UP, Ordering::AcqRel, Ordering::Acquire);
    begun.map_err(|_| again())?;
    MAIN.get_or_init(|| std::thread::current().id());
    Ok(())
}

/// `MPI_Finalize`: waits for the others. The attributes of `MPI_COMM_SELF` go first, while everything still works.
///
/// # Errors
/// It was not initialised, or the process manager is gone; the function of an attribute said no, and all the rest was done.
pub(crate) fn finalize() -> Result<(), Fault> {
    if PHASE.load(Ordering::Acquire) != UP {
        return Err(Fault::new(
            MPI_ERR_OTHER,
            "MPI_Init was not called, or MPI_Finalize was before",
        ));
    }
    let process = get()?;
    let deleted = process.own.attributes.delete_all(MPI_COMM_SELF.0);
    let _one = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    if SESSIONS.load(Ordering::Acquire) == 0 {
        close(process)?;
    }
    PHASE.store(OVER, Ordering::Release);
    deleted.map_err(|fault| fault.on_comm(&Held::Fixed(&process.own)))
}

/// `MPI_Session_init`.
///
/// # Errors
/// The process has left the job.
pub(crate) fn open_session() -> Result<(), Fault> {
    open()?;
    let _one = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    still_open()?;
    SESSIONS.fetch_add(1, Ordering::AcqRel);
    Ok(())
}

/// `MPI_Session_finalize`. The last session after `MPI_Finalize` leaves the job.
///
/// # Errors
/// The process manager is gone.
pub(crate) fn close_session() -> Result<(), Fault> {
    let process = get()?;
    let _one = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    if SESSIONS.load(Ordering::Acquire) == 1 && is_over() {
        close(process)?;
    }
    SESSIONS.fetch_sub(1, Ordering::AcqRel);
    Ok(())
}

fn close(process: &Process) -> Result<(), Fault> {
    // The program gets its buffers back, if it has not taken them.
    buffer::flush_all()?;
    CLOSED.store(true, Ordering::Release);
    Ok(process.session.close()?)
}

fn still_open() -> Result<(), Fault> {
    if !CLOSED.load(Ordering::Acquire) {
        return Ok(());
    }
    let why = "this process has left the job when it finalized MPI, and cannot come back";
    Err(Fault::new(MPI_ERR_OTHER, why))
}

/// A process that had sessions only, and finalized them all, leaves the job in order. One that did not finalize dies, for the
/// others.
extern "C" fn at_exit() {
    let Ok(process) = get() else { return };
    let _one = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    let ended = PHASE.load(Ordering::Acquire) != UP && SESSIONS.load(Ordering::Acquire) == 0;
    if ended && !CLOSED.load(Ordering::Acquire) {
        let _ = close(process); // nobody is left to be told
    }
}

/// Whether the calling thread is the one that called `MPI_Init`.
pub(crate) fn is_main() -> bool {
    MAIN.get().is_some_and(|main| *main == std::thread::current().id())
}

/// How many processes the job was started with, once that is known.
pub(crate) fn started_with() -> Option<u32> {
    PROCESS.get().map(|process| process.session.size())
}

/// The name of this machine.
pub(crate) fn host() -> Vec<u8> {
    let mut name = [0; 256];
    // SAFETY: the buffer has that length; a name that is cut has no terminating zero, so one byte stays out of reach.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    name.split(|&byte| byte == 0).next().unwrap_or_default().to_vec()
}

/// Seconds since MPI was initialised in this process (or since now).
pub(crate) fn elapsed() -> f64 {
    static BEGIN: OnceLock<std::time::Instant> = OnceLock::new();
    let begin =
        PROCESS.get().map_or_else(|| *BEGIN.get_or_init(std::time::Instant::now), |p| p.started);
    begin.elapsed().as_secs_f64()
}

/// A process that goes because another one is gone lets that one end first: its connections close some time before it has
/// ended, and launchers name the first that ends as the cause, and give its exit status.
const CAUSE_FIRST: Duration = Duration::from_millis(300);

/// Ends the job: says why, and exits; the launcher ends the others.
#[cold]
pub(crate) fn fatal(class: c_int, text: &str, handler: &str) -> ! {
    let who = who();
    say(&format!("{who}{text}\nmadmpi: {who}the error handler is {handler}, so the job ends"));
    if class == MPI_ERR_PROC_ABORTED {
        std::thread::sleep(CAUSE_FIRST);
    }
    exit(if class == MPI_SUCCESS { 1 } else { class })
}

/// The rank, as messages to people begin, once it is known.
fn who() -> String {
    PROCESS.get().map_or(String::new(), |process| format!("rank {}: ", process.session.rank()))
}

/// Tells people something, in one piece: other ranks may do so too.
fn say(text: &str) {
    let text = format!("madmpi: {text}\n");
    eprint!("{text}");
}

/// `MPI_Abort`.
#[cold]
pub(crate) fn abort(code: c_int) -> ! {
    say(&format!("{}MPI_Abort: the program ends the job with code {code}", who()));
    exit(code)
}

/// Ends the process at once, with what it has printed.
fn exit(code: c_int) -> ! {
    // SAFETY: flushes what C has buffered; then the process ends without its handlers, which might wait for others.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        // An exit code has eight bits, and 0 would look like success.
        libc::_exit(if code & 0xff == 0 { 1 } else { code & 0xff })
    }
}
