//! The sessions model.

use core::ffi::{c_char, c_int};
use std::sync::Arc;

use super::entry::mpi;
use crate::abi::*;
use crate::args::{ArrayMut, InOut, Out, Text, array_mut, not_negative, out, read, write};
use crate::error::Fault;
use crate::group::{self, Group};
use crate::info::{self, Entries};
use crate::session::{self, SETS, Session};
use crate::{comm, errhandler, job, process};

/// The members of a set.
fn set(name: Text) -> Result<&'static Arc<Group>, Fault> {
    let name = name
        .bytes()
        .ok_or_else(|| Fault::argument(MPI_ERR_ARG, "pset_name", "null", "a name is needed"))?;
    let name = String::from_utf8_lossy(name);
    // Names are URIs: case makes no difference in scheme and authority.
    match SETS.iter().position(|set| set.eq_ignore_ascii_case(&name)) {
        Some(set) => comm::predefined_group(set),
        None => {
            let why = format!("the sets of processes are {}", SETS.join(" and "));
            Err(Fault::argument(MPI_ERR_ARG, "pset_name", name, &why))
        }
    }
}

/// Whether the info of a new session asks for `MPI_THREAD_MULTIPLE`.
fn wants_concurrent_calls(info: MPI_Info) -> Result<bool, Fault> {
    if info == MPI_INFO_NULL {
        return Ok(false);
    }
    let info = info::get(info)?;
    Ok(info.entries().get(b"thread_level").is_some_and(|level| *level == *b"MPI_THREAD_MULTIPLE"))
}

mpi! {
    anytime fn MPI_Session_init(info: MPI_Info, errhandler: MPI_Errhandler, session: Out<MPI_Session>) {
        let null = out(session, "session", MPI_SESSION_NULL);
        let errhandler = errhandler::get(errhandler, errhandler::Kind::Session)?;
        errhandler::under(&errhandler, MPI_SESSION_NULL.0, || {
            null?;
            info::check(info)?;
            let concurrent = wants_concurrent_calls(info)?;
            process::open_session()?;
            if concurrent {
                job::calls_may_be_concurrent();
            }
            let new = match Session::new(errhandler.clone()) {
                Ok(new) => new,
                Err(fault) => {
                    process::close_session()?;
                    return Err(fault);
                }
            };
            out(session, "session", new.handle())
        })
    }

    anytime fn MPI_Session_finalize(session: InOut<MPI_Session>) {
        let ended = read(session, "session")?;
        session::on(ended, |ended| {
            ended.buffer.flush()?;
            process::close_session()?;
            ended.free();
            Ok(())
        })?;
        out(session, "session", MPI_SESSION_NULL)
    }

    fn MPI_Session_get_info(session: MPI_Session, info_used: Out<MPI_Info>) {
        session::on(session, |_| {
            let mut entries = info::memory_kinds();
            entries.set(b"thread_level", b"MPI_THREAD_MULTIPLE");
            info_used.made("info_used", MPI_INFO_NULL, || info::handle(entries))
        })
    }

    fn MPI_Session_get_num_psets(session: MPI_Session, info: MPI_Info, npset_names: Out<c_int>) {
        session::on(session, |_| {
            info::check(info)?;
            out(npset_names, "npset_names", SETS.len() as c_int)
        })
    }

    /// `pset_len` holds the room that the program has, with the terminating zero, and takes the room that is needed.
    fn MPI_Session_get_nth_pset(
        session: MPI_Session, info: MPI_Info, n: c_int, pset_len: InOut<c_int>, pset_name: ArrayMut<c_char>,
    ) {
        session::on(session, |_| {
            info::check(info)?;
            let name = usize::try_from(n).ok().and_then(|n| SETS.get(n));
            let name = name.ok_or_else(|| {
                Fault::argument(MPI_ERR_ARG, "n", n, &format!("there are sets 0 to {}", SETS.len() - 1))
            })?;
            let room = read(pset_len, "pset_len")?;
            not_negative(MPI_ERR_ARG, "pset_len", room)?;
            if room > 0 {
                write(name.as_bytes(), array_mut!(pset_name[room])?);
            }
            out(pset_len, "pset_len", name.len() as c_int + 1)
        })
    }

    fn MPI_Session_get_pset_info(session: MPI_Session, pset_name: Text, info: Out<MPI_Info>) {
        session::on(session, |_| {
            let size = set(pset_name)?.size();
            let mut entries = Entries::default();
            entries.set(b"mpi_size", size.to_string().as_bytes());
            info.made("info", MPI_INFO_NULL, || info::handle(entries))
        })
    }

    fn MPI_Group_from_session_pset(session: MPI_Session, pset_name: Text, newgroup: Out<MPI_Group>) {
        session::on(session, |session| {
            newgroup.made("newgroup", MPI_GROUP_NULL, || group::handle(set(pset_name)?.of(session)))
        })
    }
}
