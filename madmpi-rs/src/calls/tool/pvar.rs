//! Performance variables: counters of detection, and numbers of objects. All run all the time and none can be written:
//! a tool subtracts the first value that it reads.

use core::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use marcel::plumbing::KernelMutex;
use pioman::Point;

use super::face::{self, Answer, at, give, name, text, tool};
use crate::abi::*;
use crate::args::{ArrayMut, InOut, Out, Text};
use crate::handle::Table;
use crate::{comm, job};

/// With the handles of each, which end with it.
static SESSIONS: Table<KernelMutex<Vec<usize>>> = Table::new();
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
    /// Polls at a point that found an event.
    Hits(Point),
    /// How often a leader (0) or the background watcher (1) went to sleep.
    Sleeps(usize),
    /// How often an event woke it there.
    WakeUps(usize),
    Connections,
    Communicators,
    /// Messages that were found at a point, so far from their rank: the place of that in [`DISTANCES`].
    Found(Point, usize),
}

/// Where messages of one of several ranks of the process are found; and what that means.
const DISTANCES: [(&str, &str); 4] = [
    ("own", "by its own thread"),
    ("near", "on the same NUMA node"),
    ("far", "on another NUMA node"),
    ("elsewhere", "by a thread without a core of its own"),
];

/// What newmad calls a figure.
fn figure(point: Point, distance: usize) -> String {
    let point = if point == Point::Library { "call".to_owned() } else { point.to_string() };
    format!("{point} {}", DISTANCES[distance].0)
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
        let meaning = format!("how often such a poll found an event: {at}");
        all.push(variable(Kind::Hits(point), &format!("pioman_hits_{at}"), &meaning, 1, counter));
    }
    for (watch, name, actor) in
        [(0, "leader", "a leader"), (1, "watcher", "the background watcher")]
    {
        let meaning = format!("how often {actor} went to sleep until a source has something");
        let named = format!("pioman_sleeps_{name}");
        all.push(variable(Kind::Sleeps(watch), &named, &meaning, 1, counter));
        let meaning = format!("how often an event woke {actor}");
        let named = format!("pioman_wake_ups_{name}");
        all.push(variable(Kind::WakeUps(watch), &named, &meaning, 1, counter));
    }
    let level = MPI_T_PVAR_CLASS_LEVEL;
    let meaning = "links with other processes that are open";
    all.push(variable(Kind::Connections, "newmad_connections", meaning, 2, level));
    for point in Point::ALL {
        for (number, (name, meaning)) in DISTANCES.iter().enumerate() {
            let kind = Kind::Found(point, number);
            let at = figure(point, number);
            let at = at.trim_end_matches(name).trim_end();
            let meaning = format!(
                "messages for one of several ranks of the process that were found {meaning}, at the point: {at}"
            );
            all.push(variable(kind, &format!("newmad_found_{at}_{name}"), &meaning, 2, counter));
        }
    }
    let meaning = "communicators that the program has made and not freed";
    all.push(variable(Kind::Communicators, "madmpi_communicators", meaning, 3, level));
    all
}

/// The current value; 0 while the process is in no job.
fn value(kind: Kind) -> u64 {
    if kind == Kind::Communicators {
        return comm::count() as u64;
    }
    let Ok(job) = job::session() else { return 0 };
    if kind == Kind::Connections {
        return job.connections().len() as u64;
    }
    let counters = job.manager().counters();
    let sources = counters.sources.iter();
    match kind {
        Kind::Polls(point) => sources.map(|source| source.at(point).polls).sum(),
        Kind::Hits(point) => sources.map(|source| source.at(point).hits).sum(),
        Kind::WakeUps(watch) => sources.map(|source| source.wake_ups[watch]).sum(),
        Kind::Sleeps(watch) => counters.sleeps[watch],
        Kind::Found(point, distance) => {
            let name = figure(point, distance);
            let figures = sources.flat_map(|source| &source.figures);
            figures.filter(|(known, _)| *known == name).map(|(_, figure)| figure).sum()
        }
        Kind::Connections | Kind::Communicators => 0,
    }
}

fn session(handle: usize) -> Answer {
    SESSIONS.get(handle).map(drop).ok_or(MPI_T_ERR_INVALID_SESSION)
}

/// A handle of a session, with its variable.
fn one(in_session: usize, handle: usize) -> Result<Arc<Handle>, c_int> {
    session(in_session)?;
    let found = HANDLES.get(handle).filter(|found| found.session == in_session);
    found.ok_or(MPI_T_ERR_INVALID_HANDLE)
}

/// Refuses what no variable allows. For all handles at once it concerns those that allow it, which are none.
fn cannot(in_session: usize, handle: usize, code: c_int) -> Answer {
    if handle == MPI_T_PVAR_ALL_HANDLES {
        return session(in_session);
    }
    one(in_session, handle)?;
    Err(code)
}

tool! {
    fn MPI_T_pvar_get_num(num_pvar: Out<c_int>) { give(num_pvar, all().len() as c_int) }

    fn MPI_T_pvar_get_index(name_: Text, var_class: c_int, pvar_index: Out<c_int>) {
        let name = name(name_)?;
        let index = all().iter().position(|it| it.name.as_bytes() == name && it.class == var_class);
        give(pvar_index, index.ok_or(MPI_T_ERR_INVALID_NAME)? as c_int)
    }

    fn MPI_T_pvar_get_info(
        pvar_index: c_int, name: ArrayMut<c_char>, name_len: InOut<c_int>, verbosity: Out<c_int>, var_class: Out<c_int>,
        datatype: Out<MPI_Datatype>, enumtype: Out<usize>, desc: ArrayMut<c_char>, desc_len: InOut<c_int>,
        bind: Out<c_int>, readonly: Out<c_int>, continuous: Out<c_int>, atomic: Out<c_int>,
    ) {
        let all = all();
        let variable = at(&all, pvar_index)?;
        text(&variable.name, name, name_len);
        text(&variable.meaning, desc, desc_len);
        verbosity.put(MPI_T_VERBOSITY_TUNER_DETAIL);
        var_class.put(variable.class);
        datatype.put(MPI_UNSIGNED_LONG_LONG);
        enumtype.put(MPI_T_ENUM_NULL);
        bind.put(MPI_T_BIND_NO_OBJECT);
        readonly.put(1);
        continuous.put(1);
        atomic.put(0);
        Ok(())
    }

    fn MPI_T_pvar_session_create(session: Out<usize>) {
        give(session, MPI_T_PVAR_SESSION_NULL)?;
        give(session, SESSIONS.insert(Arc::default()).ok_or(MPI_T_ERR_OUT_OF_SESSIONS)?)
    }

    fn MPI_T_pvar_session_free(session: InOut<usize>) {
        let ended = SESSIONS.remove(face::handle(session)?).ok_or(MPI_T_ERR_INVALID_SESSION)?;
        ended.lock().drain(..).for_each(|handle| drop(HANDLES.remove(handle)));
        give(session, MPI_T_PVAR_SESSION_NULL)
    }

    fn MPI_T_pvar_handle_alloc(
        session_: usize, pvar_index: c_int, _obj_handle: *mut c_void, handle: Out<usize>, count: Out<c_int>,
    ) {
        let of = SESSIONS.get(session_).ok_or(MPI_T_ERR_INVALID_SESSION)?;
        let kind = at(&all(), pvar_index)?.kind;
        give(count, 1)?;
        give(handle, MPI_T_PVAR_HANDLE_NULL)?;
        let new = HANDLES.insert(Arc::new(Handle { session: session_, kind }));
        let new = new.ok_or(MPI_T_ERR_OUT_OF_HANDLES)?;
        of.lock().push(new);
        give(handle, new)
    }

    fn MPI_T_pvar_handle_free(session: usize, handle: InOut<usize>) {
        let freed = face::handle(handle)?;
        one(session, freed)?;
        HANDLES.remove(freed);
        if let Some(of) = SESSIONS.get(session) {
            of.lock().retain(|&other| other != freed);
        }
        give(handle, MPI_T_PVAR_HANDLE_NULL)
    }

    fn MPI_T_pvar_read(session: usize, handle: usize, buf: Out<u64>) {
        let found = one(session, handle)?;
        give(buf, value(found.kind))
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
