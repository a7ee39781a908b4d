//! This process in the job: its session, and where it is between initialising and finalising.
//!
//! ```text
//!   before ──MPI_Init──▶ up ──MPI_Finalize──▶ over            the world model: once
//!            MPI_Session_init / _finalize, any number of times, before, meanwhile and after
//! ```
//! The newmad session is opened by whichever comes first, and closed by `MPI_Finalize`, or at the process' exit if there was
//! only the sessions model: a process manager is met once.

use core::ffi::c_int;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::abi::*;
use crate::comm::Comm;
use crate::error::Fault;
use crate::group::Group;
use crate::handle::Held;

const BEFORE: u8 = 0;
const UP: u8 = 1;
const OVER: u8 = 2;

static PHASE: AtomicU8 = AtomicU8::new(BEFORE);
/// Sessions of the sessions model that are open.
static SESSIONS: AtomicUsize = AtomicUsize::new(0);
static PROCESS: OnceLock<Process> = OnceLock::new();
static OPENING: Mutex<()> = Mutex::new(());

/// What is there once a first call has initialised something.
pub(crate) struct Process {
    pub(crate) session: newmad::Session,
    pub(crate) world: Arc<Comm>,
    pub(crate) own: Arc<Comm>,
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
    let world = Group::new((0..session.size()).collect());
    let own = Group::new(vec![session.rank()]);
    let process = Process {
        world: Comm::predefined(MPI_COMM_WORLD, &session, world)?,
        own: Comm::predefined(MPI_COMM_SELF, &session, own)?,
        session,
        started: std::time::Instant::now(),
    };
    Ok(PROCESS.get_or_init(|| process))
}

/// `MPI_Init`.
///
/// # Errors
/// It was called before.
pub(crate) fn init() -> Result<(), Fault> {
    if PHASE.load(Ordering::Acquire) != BEFORE {
        return Err(Fault::new(MPI_ERR_OTHER, "MPI was initialised before, and may be once"));
    }
    open()?;
    PHASE.store(UP, Ordering::Release);
    Ok(())
}

/// `MPI_Finalize`: waits for the others.
///
/// # Errors
/// It was not initialised, or the process manager is gone.
pub(crate) fn finalize() -> Result<(), Fault> {
    if PHASE.load(Ordering::Acquire) != UP {
        return Err(Fault::new(
            MPI_ERR_OTHER,
            "MPI_Init was not called, or MPI_Finalize was before",
        ));
    }
    let process = get()?;
    process.session.close()?;
    PHASE.store(OVER, Ordering::Release);
    Ok(())
}

/// Seconds since MPI was initialised in this process (or since now).
pub(crate) fn elapsed() -> f64 {
    static BEGIN: OnceLock<std::time::Instant> = OnceLock::new();
    let begin =
        PROCESS.get().map_or_else(|| *BEGIN.get_or_init(std::time::Instant::now), |p| p.started);
    begin.elapsed().as_secs_f64()
}

/// Ends the job: says why, and exits; the launcher ends the others.
#[cold]
pub(crate) fn fatal(class: c_int, text: &str) -> ! {
    let rank =
        PROCESS.get().map_or(String::new(), |process| format!("rank {}: ", process.session.rank()));
    eprintln!(
        "madmpi: {rank}{text}\nmadmpi: {rank}the error handler is MPI_ERRORS_ARE_FATAL, so the job ends"
    );
    exit(if class == MPI_SUCCESS { 1 } else { class })
}

/// Ends the process at once, with what it has printed.
pub(crate) fn exit(code: c_int) -> ! {
    // SAFETY: flushes what C has buffered; then the process ends without its handlers, which might wait for others.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        // An exit code has eight bits, and 0 would look like success.
        libc::_exit(if code & 0xff == 0 { 1 } else { code & 0xff })
    }
}
