//! The sessions model: MPI without `MPI_Init`, from named sets of processes.

use core::ffi::{c_char, c_int};
use std::ffi::CStr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::abi::*;
use crate::call::mpi;
use crate::errhandler::{self, Errhandler};
use crate::error::{Fault, out, read};
use crate::group::{self, Group};
use crate::handle::Table;
use crate::info::{self, Entries};
use crate::p2p::buffer::Buffer;
use crate::process;

static SESSIONS: Table<Session> = Table::new();
/// The sets of processes that there are.
const SETS: [&str; 2] = ["mpi://WORLD", "mpi://SELF"];

/// A session of the program's. All of them are on the one newmad session.
pub(crate) struct Session {
    handle: OnceLock<MPI_Session>,
    errhandler: Mutex<Errhandler>,
    pub(crate) buffer: Buffer,
}

impl Session {
    pub(crate) fn handle(&self) -> MPI_Session {
        self.handle.get().copied().unwrap_or(MPI_SESSION_NULL)
    }

    pub(crate) fn errhandler(&self) -> Errhandler {
        self.errhandler.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_errhandler(&self, handler: Errhandler) {
        *self.errhandler.lock().unwrap_or_else(PoisonError::into_inner) = handler;
    }
}

/// The session that a handle stands for.
///
/// # Errors
/// None.
pub(crate) fn get(session: MPI_Session) -> Result<Arc<Session>, Fault> {
    SESSIONS.get(session.0).ok_or_else(|| {
        let why = match session {
            MPI_SESSION_NULL => "MPI_SESSION_NULL is no session",
            _ => "it is not a session, or was finalized",
        };
        Fault::argument(MPI_ERR_SESSION, "session", format_args!("{:#x}", session.0), why)
    })
}

/// Runs what a call with a session does; faults go to its error handler.
pub(crate) fn on(
    session: MPI_Session,
    body: impl FnOnce(&Session) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let session = get(session)?;
    body(&session).map_err(|fault| fault.on_session(&session))
}

/// The members of a set.
fn set(name: *const c_char) -> Result<Arc<Group>, Fault> {
    if name.is_null() {
        return Err(Fault::argument(MPI_ERR_ARG, "pset_name", "null", "a name is needed"));
    }
    // SAFETY: the program's promise that it is a string.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let process = process::get()?;
    // Names are URIs, whose scheme and authority have no case.
    match SETS.iter().position(|set| set.eq_ignore_ascii_case(&name)) {
        Some(0) => Ok(process.world.group.clone()),
        Some(_) => Ok(process.own.group.clone()),
        None => {
            let why = format!("the sets of processes are {}", SETS.join(" and "));
            Err(Fault::argument(MPI_ERR_ARG, "pset_name", name, &why))
        }
    }
}

mpi! {
    anytime fn MPI_Session_init(info: MPI_Info, errhandler: MPI_Errhandler, session: *mut MPI_Session) {
        out(session, "session", MPI_SESSION_NULL)?;
        info::check(info)?;
        let errhandler = errhandler::get(errhandler, errhandler::Kind::Session)?;
        process::open_session()?;
        let new = Arc::new(Session { handle: OnceLock::new(), errhandler: Mutex::new(errhandler), buffer: Buffer::new() });
        let Some(handle) = SESSIONS.insert(new.clone()) else {
            process::close_session()?;
            return Err(Fault::new(MPI_ERR_NO_MEM, "too many sessions exist"));
        };
        let _ = new.handle.set(MPI_Session(handle));
        out(session, "session", MPI_Session(handle))
    }

    anytime fn MPI_Session_finalize(session: *mut MPI_Session) {
        let ended = read(session, "session")?;
        on(ended, |_| process::close_session())?;
        SESSIONS.remove(ended.0);
        out(session, "session", MPI_SESSION_NULL)
    }

    fn MPI_Session_get_info(session: MPI_Session, info_used: *mut MPI_Info) {
        on(session, |_| {
            let mut entries = info::memory_kinds();
            entries.set(b"thread_level", b"MPI_THREAD_MULTIPLE");
            out(info_used, "info_used", MPI_INFO_NULL)?;
            out(info_used, "info_used", info::handle(entries)?)
        })
    }

    fn MPI_Session_get_num_psets(session: MPI_Session, info: MPI_Info, npset_names: *mut c_int) {
        on(session, |_| {
            info::check(info)?;
            out(npset_names, "npset_names", SETS.len() as c_int)
        })
    }

    /// `pset_len` is the room that there is, zero included, and then the room that is needed.
    fn MPI_Session_get_nth_pset(
        session: MPI_Session, info: MPI_Info, n: c_int, pset_len: *mut c_int, pset_name: *mut c_char,
    ) {
        on(session, |_| {
            info::check(info)?;
            let name = usize::try_from(n).ok().and_then(|n| SETS.get(n));
            let name = name.ok_or_else(|| {
                Fault::argument(MPI_ERR_ARG, "n", n, &format!("there are sets 0 to {}", SETS.len() - 1))
            })?;
            let room = read(pset_len, "pset_len")?;
            if room < 0 {
                return Err(Fault::argument(MPI_ERR_ARG, "pset_len", room, "it is not negative"));
            }
            if room > 0 {
                info::write(&name.as_bytes()[..name.len().min(room as usize - 1)], pset_name, "pset_name")?;
            }
            out(pset_len, "pset_len", name.len() as c_int + 1)
        })
    }

    fn MPI_Session_get_pset_info(session: MPI_Session, pset_name: *const c_char, info: *mut MPI_Info) {
        on(session, |_| {
            let size = set(pset_name)?.size();
            let mut entries = Entries::default();
            entries.set(b"mpi_size", size.to_string().as_bytes());
            out(info, "info", MPI_INFO_NULL)?;
            out(info, "info", info::handle(entries)?)
        })
    }

    fn MPI_Group_from_session_pset(session: MPI_Session, pset_name: *const c_char, newgroup: *mut MPI_Group) {
        on(session, |_| {
            out(newgroup, "newgroup", MPI_GROUP_NULL)?;
            out(newgroup, "newgroup", group::handle(set(pset_name)?)?)
        })
    }
}
