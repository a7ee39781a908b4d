//! Performance variables: the counters of how events are found, and how many things there are. All of them go on all the time, and
//! none can be written: to begin at zero a tool subtracts.

use core::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use pioman::Point;

use super::{Said, at, give, name, tell, text, tool};
use crate::abi::*;
use crate::handle::Table;
use crate::{comm, process};

static SESSIONS: Table<()> = Table::new();
static HANDLES: Table<Handle> = Table::new();

struct Handle {
    session: usize,
    kind: Kind,
}

/// What a variable counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Polls of sources at a point.
    Polls(Point),
    /// Those of them that found something.
    Hits(Point),
    /// How often somebody went to sleep in the front watch (0) or the spare one (1).
    Sleeps(usize),
    /// And was woken by an event.
    WakeUps(usize),
    Connections,
    Communicators,
}

/// A variable.
pub(super) struct Variable {
    kind: Kind,
    name: String,
    meaning: String,
    /// The number of its category.
    pub(super) category: usize,
    class: c_int,
}

/// All variables.
pub(super) fn all() -> Vec<Variable> {
    let variable = |kind, name: &str, meaning: &str, category, class| Variable {
        kind,
        name: name.to_owned(),
        meaning: meaning.to_owned(),
        category,
        class,
    };
    let counter = MPI_T_PVAR_CLASS_COUNTER;
    let mut all = Vec::new();
    for point in Point::ALL {
        let at = format!("{point:?}").to_lowercase();
        let meaning = format!("how often sources of events were polled at the point: {at}");
        all.push(variable(Kind::Polls(point), &format!("pioman_polls_{at}"), &meaning, 1, counter));
        let meaning = format!("how often that found an event: {at}");
        all.push(variable(Kind::Hits(point), &format!("pioman_hits_{at}"), &meaning, 1, counter));
    }
    for (watch, name) in [(0, "front"), (1, "spare")] {
        let meaning = format!("how often a kernel thread went to sleep in the {name} watch");
        let named = format!("pioman_sleeps_{name}");
        all.push(variable(Kind::Sleeps(watch), &named, &meaning, 1, counter));
        let meaning = format!("how often one that slept in the {name} watch was woken by an event");
        let named = format!("pioman_wake_ups_{name}");
        all.push(variable(Kind::WakeUps(watch), &named, &meaning, 1, counter));
    }
    let level = MPI_T_PVAR_CLASS_LEVEL;
    let meaning = "links with other processes that are open";
    all.push(variable(Kind::Connections, "newmad_connections", meaning, 2, level));
    let meaning = "communicators that the program has made and not freed";
    all.push(variable(Kind::Communicators, "madmpi_communicators", meaning, 3, level));
    all
}

/// The value now; 0 while the process is in no job.
fn value(kind: Kind) -> u64 {
    if kind == Kind::Communicators {
        return comm::count() as u64;
    }
    let Ok(process) = process::get() else { return 0 };
    if kind == Kind::Connections {
        return process.session.connections().len() as u64;
    }
    let counters = process.session.manager().counters();
    let sources = counters.sources.iter();
    match kind {
        Kind::Polls(point) => sources.map(|source| source.at(point).polls).sum(),
        Kind::Hits(point) => sources.map(|source| source.at(point).hits).sum(),
        Kind::WakeUps(watch) => sources.map(|source| source.wake_ups[watch]).sum(),
        Kind::Sleeps(watch) => counters.sleeps[watch],
        Kind::Connections | Kind::Communicators => 0,
    }
}

fn session(handle: usize) -> Said {
    SESSIONS.get(handle).map(drop).ok_or(MPI_T_ERR_INVALID_SESSION)
}

/// One handle of a session, with its variable.
fn one(in_session: usize, handle: usize) -> Result<Arc<Handle>, c_int> {
    session(in_session)?;
    let found = HANDLES.get(handle).filter(|found| found.session == in_session);
    found.ok_or(MPI_T_ERR_INVALID_HANDLE)
}

/// What no variable here can; of all of them at once those that can, which are none.
fn cannot(in_session: usize, handle: usize, code: c_int) -> Said {
    if handle == MPI_T_PVAR_ALL_HANDLES {
        return session(in_session);
    }
    one(in_session, handle)?;
    Err(code)
}

tool! {
    fn MPI_T_pvar_get_num(num_pvar: *mut c_int) { give(num_pvar, all().len() as c_int) }

    fn MPI_T_pvar_get_index(name_: *const c_char, var_class: c_int, pvar_index: *mut c_int) {
        let name = name(name_)?;
        let index = all().iter().position(|it| it.name.as_bytes() == name && it.class == var_class);
        give(pvar_index, index.ok_or(MPI_T_ERR_INVALID_NAME)? as c_int)
    }

    fn MPI_T_pvar_get_info(
        pvar_index: c_int, name: *mut c_char, name_len: *mut c_int, verbosity: *mut c_int, var_class: *mut c_int,
        datatype: *mut MPI_Datatype, enumtype: *mut usize, desc: *mut c_char, desc_len: *mut c_int,
        bind: *mut c_int, readonly: *mut c_int, continuous: *mut c_int, atomic: *mut c_int,
    ) {
        let all = all();
        let variable = at(&all, pvar_index)?;
        text(&variable.name, name, name_len);
        text(&variable.meaning, desc, desc_len);
        tell(verbosity, MPI_T_VERBOSITY_TUNER_DETAIL);
        tell(var_class, variable.class);
        tell(datatype, MPI_UNSIGNED_LONG_LONG);
        tell(enumtype, MPI_T_ENUM_NULL);
        tell(bind, MPI_T_BIND_NO_OBJECT);
        tell(readonly, 1);
        tell(continuous, 1);
        tell(atomic, 0);
        Ok(())
    }

    fn MPI_T_pvar_session_create(session: *mut usize) {
        give(session, MPI_T_PVAR_SESSION_NULL)?;
        give(session, SESSIONS.insert(Arc::new(())).ok_or(MPI_T_ERR_OUT_OF_SESSIONS)?)
    }

    // Handles of it are of no use any more.
    fn MPI_T_pvar_session_free(session: *mut usize) {
        if session.is_null() {
            return Err(MPI_T_ERR_INVALID);
        }
        // SAFETY: the program's promise that it is a handle.
        SESSIONS.remove(unsafe { session.read() }).ok_or(MPI_T_ERR_INVALID_SESSION)?;
        give(session, MPI_T_PVAR_SESSION_NULL)
    }

    fn MPI_T_pvar_handle_alloc(
        session_: usize, pvar_index: c_int, _obj_handle: *mut c_void, handle: *mut usize, count: *mut c_int,
    ) {
        session(session_)?;
        let kind = at(&all(), pvar_index)?.kind;
        give(count, 1)?;
        give(handle, MPI_T_PVAR_HANDLE_NULL)?;
        let new = HANDLES.insert(Arc::new(Handle { session: session_, kind }));
        give(handle, new.ok_or(MPI_T_ERR_OUT_OF_HANDLES)?)
    }

    fn MPI_T_pvar_handle_free(session: usize, handle: *mut usize) {
        if handle.is_null() {
            return Err(MPI_T_ERR_INVALID);
        }
        // SAFETY: the program's promise that it is a handle.
        let freed = unsafe { handle.read() };
        one(session, freed)?;
        HANDLES.remove(freed);
        give(handle, MPI_T_PVAR_HANDLE_NULL)
    }

    fn MPI_T_pvar_read(session: usize, handle: usize, buf: *mut c_void) {
        let found = one(session, handle)?;
        give(buf.cast::<u64>(), value(found.kind))
    }

    fn MPI_T_pvar_start(session: usize, handle: usize) {
        cannot(session, handle, MPI_T_ERR_PVAR_NO_STARTSTOP)
    }

    fn MPI_T_pvar_stop(session: usize, handle: usize) {
        cannot(session, handle, MPI_T_ERR_PVAR_NO_STARTSTOP)
    }

    fn MPI_T_pvar_write(session: usize, handle: usize, _buf: *const c_void) {
        one(session, handle)?;
        Err(MPI_T_ERR_PVAR_NO_WRITE)
    }

    fn MPI_T_pvar_reset(session: usize, handle: usize) {
        cannot(session, handle, MPI_T_ERR_PVAR_NO_WRITE)
    }

    fn MPI_T_pvar_readreset(session: usize, handle: usize, _buf: *mut c_void) {
        one(session, handle)?;
        Err(MPI_T_ERR_PVAR_NO_ATOMIC)
    }
}
