//! Control variables: the knobs. Their values are text, as in the environment. A knob is read when the process enters
//! the job: a program can set it before that, never after it, and all processes should set the same value. Ranks that
//! share a process are in the job before the program begins, so they can set none.

use core::ffi::{c_char, c_int, c_void};
use std::ffi::CString;
use std::sync::Arc;

use marcel::plumbing::knob::Knob;

use super::face::{self, Answer, at, give, name, text, tool};
use crate::abi::*;
use crate::args;
use crate::args::{ArrayMut, InOut, Out, Text, array_mut};
use crate::handle::Table;
use crate::job;

/// Room for a value, zero included.
const ROOM: usize = 1024;

static HANDLES: Table<&'static Knob> = Table::new();

/// All knobs, with the number of their category.
pub(super) fn all() -> Vec<(usize, &'static Knob)> {
    let tables: [&'static [Knob]; 3] = [marcel::KNOBS, pioman::KNOBS, newmad::KNOBS];
    let of_one = |(category, knobs): (usize, &'static [Knob])| {
        knobs.iter().map(move |knob| (category, knob))
    };
    tables.into_iter().enumerate().flat_map(of_one).collect()
}

fn knob(handle: usize) -> Result<&'static Knob, c_int> {
    HANDLES.get(handle).map(|knob| *knob).ok_or(MPI_T_ERR_INVALID_HANDLE)
}

/// The meaning of a knob, in one line.
fn meaning(knob: &Knob) -> String {
    let meaning = knob.meaning.split_whitespace().collect::<Vec<_>>().join(" ");
    let unit = if knob.unit.is_empty() { String::new() } else { format!(", in {}", knob.unit) };
    format!("{meaning} (accepts {}{unit})", knob.kind)
}

fn write(knob: &Knob, value: &[u8]) -> Answer {
    if job::size().is_some() || job::session_opened().is_some() {
        return Err(MPI_T_ERR_CVAR_SET_NEVER);
    }
    let text = std::str::from_utf8(value).map_err(|_| MPI_T_ERR_INVALID)?;
    if text.len() >= ROOM || !text.trim().is_empty() && knob.check(text.trim()).is_err() {
        return Err(MPI_T_ERR_INVALID);
    }
    let name = CString::new(knob.name).map_err(|_| MPI_T_ERR_INVALID)?;
    let value = CString::new(value).map_err(|_| MPI_T_ERR_INVALID)?;
    // SAFETY: both are strings. That no other thread reads the environment now is the caller's to know, as for
    // `setenv`.
    match unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) } {
        0 => Ok(()),
        _ => Err(MPI_T_ERR_MEMORY),
    }
}

tool! {
    fn MPI_T_cvar_get_num(num_cvar: Out<c_int>) { give(num_cvar, all().len() as c_int) }

    fn MPI_T_cvar_get_index(name_: Text, cvar_index: Out<c_int>) {
        let name = name(name_)?;
        let index = all().iter().position(|(_, knob)| knob.name.as_bytes() == name);
        give(cvar_index, index.ok_or(MPI_T_ERR_INVALID_NAME)? as c_int)
    }

    fn MPI_T_cvar_get_info(
        cvar_index: c_int, name: ArrayMut<c_char>, name_len: InOut<c_int>, verbosity: Out<c_int>,
        datatype: Out<MPI_Datatype>, enumtype: Out<usize>, desc: ArrayMut<c_char>, desc_len: InOut<c_int>,
        bind: Out<c_int>, scope: Out<c_int>,
    ) {
        let all = all();
        let (_, knob) = at(&all, cvar_index)?;
        text(knob.name, name, name_len);
        text(&meaning(knob), desc, desc_len);
        verbosity.put(MPI_T_VERBOSITY_TUNER_BASIC);
        datatype.put(MPI_CHAR);
        enumtype.put(MPI_T_ENUM_NULL);
        bind.put(MPI_T_BIND_NO_OBJECT);
        scope.put(MPI_T_SCOPE_ALL_EQ);
        Ok(())
    }

    fn MPI_T_cvar_handle_alloc(
        cvar_index: c_int, _obj_handle: *mut c_void, handle: Out<usize>, count: Out<c_int>,
    ) {
        let all = all();
        let (_, knob) = at(&all, cvar_index)?;
        give(count, ROOM as c_int)?;
        give(handle, MPI_T_CVAR_HANDLE_NULL)?;
        give(handle, HANDLES.insert(Arc::new(*knob)).ok_or(MPI_T_ERR_OUT_OF_HANDLES)?)
    }

    fn MPI_T_cvar_handle_free(handle: InOut<usize>) {
        HANDLES.remove(face::handle(handle)?).ok_or(MPI_T_ERR_INVALID_HANDLE)?;
        give(handle, MPI_T_CVAR_HANDLE_NULL)
    }

    // A knob without a default has no text: its value is chosen when it is needed.
    fn MPI_T_cvar_read(handle: usize, buf: ArrayMut<c_char>) {
        let value = knob(handle)?.text().map_err(|_| MPI_T_ERR_NOT_ACCESSIBLE)?;
        let room = array_mut!(buf[ROOM as i64]).map_err(|_| MPI_T_ERR_INVALID)?;
        args::write(value.as_bytes(), room);
        Ok(())
    }

    fn MPI_T_cvar_write(handle: usize, buf: Text) { write(knob(handle)?, name(buf)?) }
}
