//! The sessions model: MPI without `MPI_Init`, from named sets of processes.

use core::ffi::c_int;
use std::sync::{Arc, OnceLock};

use crate::abi::*;
use crate::buffer::Buffer;
use crate::errhandler::{self, Errhandler};
use crate::error::{Fault, HandlesErrors};
use crate::handle::Table;
use marcel::plumbing::KernelMutex;

static SESSIONS: Table<Session> = Table::new();
/// The names of the sets of processes.
pub(crate) const SETS: [&str; 2] = ["mpi://WORLD", "mpi://SELF"];

/// A session of the program. All of them share the one session of newmad.
pub(crate) struct Session {
    handle: OnceLock<MPI_Session>,
    errhandler: KernelMutex<Errhandler>,
    pub(crate) buffer: Buffer,
}

impl HandlesErrors for Session {
    fn handle_error(&self, class: c_int, text: &str) -> c_int {
        errhandler::invoke(&self.errhandler(), self.handle().0, class, text)
    }
}

impl Session {
    /// Makes a session with a handle.
    ///
    /// # Errors
    /// No handle is left.
    pub(crate) fn new(errhandler: Errhandler) -> Result<Arc<Session>, Fault> {
        let (handle, errhandler) = (OnceLock::new(), KernelMutex::new(errhandler));
        let new = Arc::new(Session { handle, errhandler, buffer: Buffer::new() });
        let handle = SESSIONS.insert(new.clone());
        let handle = handle.ok_or_else(|| Fault::new(MPI_ERR_NO_MEM, "too many sessions exist"))?;
        let _ = new.handle.set(MPI_Session(handle));
        Ok(new)
    }

    /// Ends the handle.
    pub(crate) fn free(&self) {
        SESSIONS.remove(self.handle().0);
    }

    pub(crate) fn handle(&self) -> MPI_Session {
        self.handle.get().copied().unwrap_or(MPI_SESSION_NULL)
    }

    pub(crate) fn errhandler(&self) -> Errhandler {
        self.errhandler.lock().clone()
    }

    pub(crate) fn set_errhandler(&self, handler: Errhandler) {
        *self.errhandler.lock() = handler;
    }
}

/// The session that a handle stands for.
///
/// # Errors
/// The handle stands for none.
pub(crate) fn get(session: MPI_Session) -> Result<Arc<Session>, Fault> {
    SESSIONS.get(session.0).ok_or_else(|| {
        let why = match session {
            MPI_SESSION_NULL => "MPI_SESSION_NULL is not a session",
            _ => "it is not a session, or was finalized",
        };
        Fault::handle(MPI_ERR_SESSION, "session", session.0, why)
    })
}

/// Runs a call with a session; its faults go to the session's error handler.
pub(crate) fn on(
    session: MPI_Session,
    body: impl FnOnce(&Arc<Session>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let session = get(session)?;
    body(&session).map_err(|fault| fault.on(session.clone()))
}
