//! The process in the job: initialising and finalising.
//!
//! `MPI_Init` or `MPI_Session_init`, whichever comes first, opens the session of newmad. `MPI_Finalize` closes it, or
//! the last session if some are open then, or the process's exit if there was only the sessions model. A process joins
//! the process manager once, so nothing can be initialised again after that.

use core::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::abi::*;
use crate::comm::circle;
use crate::error::Fault;
use crate::per_rank::per_rank;
use crate::port::spawn;
use crate::{buffer, comm, events, job, per_rank, request};
use marcel::plumbing::KernelMutex;

per_rank! {
    /// Whether the session of newmad was closed.
    static CLOSED: AtomicBool = AtomicBool::new(false);
    /// The thread that called `MPI_Init`.
    static MAIN: OnceLock<marcel::Thread> = OnceLock::new();
    static OPENING: KernelMutex<()> = KernelMutex::new(());
}

/// Opens the session of newmad and makes the predefined communicators, unless that was done before.
///
/// # Errors
/// The session cannot be opened.
fn open() -> Result<(), Fault> {
    let _one = OPENING.lock();
    if job::session().is_ok() {
        return Ok(());
    }
    let session = match job::session_opened() {
        Some(session) => session,
        None => newmad::Session::builder().ordered().open()?,
    };
    if session.size() > 1 << 14 {
        // Contexts have bits for so many processes; see `comm::context`.
        return Err(Fault::new(MPI_ERR_OTHER, "madmpi supports jobs of at most 16384 processes"));
    }
    comm::make_predefined(&session)?;
    if !per_rank::are_several() {
        // SAFETY: `at_exit` may run at exit: this library is not unloaded while its threads run.
        unsafe { libc::atexit(at_exit) };
    }
    job::keep(session);
    events::begin();
    Ok(())
}

/// Does what `MPI_Init_thread` asks for.
///
/// # Errors
/// It was called before.
pub(crate) fn init(level: c_int) -> Result<(), Fault> {
    let again = || {
        Fault::new(MPI_ERR_OTHER, "MPI was initialised before, and may be initialised only once")
    };
    if job::was_initialized() {
        return Err(again());
    }
    open()?;
    still_open()?;
    if !job::begin_world() {
        return Err(again());
    }
    MAIN.get_or_init(marcel::current);
    if let Some(world) = comm::world() {
        spawn::meet_parent(world)?;
    }
    if level == MPI_THREAD_MULTIPLE {
        job::calls_may_be_concurrent();
    }
    Ok(())
}

/// Does what `MPI_Finalize` asks for: waits for the other processes. The attributes of `MPI_COMM_SELF` are deleted
/// first, while everything still works.
///
/// # Errors
/// MPI was not initialised, or the process manager is gone. If the function of an attribute fails, the rest is done.
pub(crate) fn finalize() -> Result<(), Fault> {
    let Some(own) = comm::own().filter(|_| job::is_world_up()) else {
        let why = "MPI_Init was not called, or MPI_Finalize was called before";
        return Err(Fault::new(MPI_ERR_OTHER, why));
    };
    if job::is_observed() {
        events::deliver();
    }
    let deleted = own.attributes.delete_all(MPI_COMM_SELF.0);
    buffer::flush_of_world()?;
    let _one = OPENING.lock();
    if job::sessions() == 0 {
        close()?;
    }
    job::end_world();
    deleted.map_err(|fault| fault.on(own.clone()))
}

/// Does what `MPI_Session_init` asks for.
///
/// # Errors
/// The process has left the job.
pub(crate) fn open_session() -> Result<(), Fault> {
    open()?;
    let _one = OPENING.lock();
    still_open()?;
    job::add_session();
    Ok(())
}

/// Does what `MPI_Session_finalize` asks for. The last session after `MPI_Finalize` leaves the job.
///
/// # Errors
/// The process manager is gone.
pub(crate) fn close_session() -> Result<(), Fault> {
    job::session()?;
    let _one = OPENING.lock();
    if job::sessions() == 1 && job::is_over() {
        close()?;
    }
    job::remove_session();
    Ok(())
}

fn close() -> Result<(), Fault> {
    // The program gets its buffers back, if it has not detached them.
    buffer::flush_all()?;
    circle::close_all();
    CLOSED.store(true, Ordering::Release);
    let session = job::session()?;
    session.leave_agreements();
    session.close()?;
    request::finish_freed(session);
    Ok(())
}

fn still_open() -> Result<(), Fault> {
    if !CLOSED.load(Ordering::Acquire) {
        return Ok(());
    }
    let why = "this process left the job when it finalized MPI, and cannot come back";
    Err(Fault::new(MPI_ERR_OTHER, why))
}

/// Leaves the job in order, if the process had sessions only and finalized them all. A process that did not finalize
/// dies, and its peers see that.
extern "C" fn at_exit() {
    leave();
}

/// Leaves the job if nothing is open any more, unless that was done before.
pub(crate) fn leave() {
    let _one = OPENING.lock();
    if !job::is_world_up() && job::sessions() == 0 && !CLOSED.load(Ordering::Acquire) {
        let _ = close(); // nothing is left to report an error to
    }
}

/// Whether the calling thread is the one that called `MPI_Init`.
pub(crate) fn is_main() -> bool {
    MAIN.get().is_some_and(|main| *main == marcel::current())
}
