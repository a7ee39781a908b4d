//! One message, blocking, with a request, or with a persistent request.

use core::ffi::c_int;
use std::sync::Arc;

use newmad::{Origin, RecvOptions, Tag};

use crate::abi::*;
use crate::comm::Comm;
use crate::datatype::{Choice, Data, Described};
use crate::error::Fault;
use crate::handle::Ref;
use crate::message::{Mode, Route, send_at_once};
use crate::request::{Outcome, PROC_NULL, Restart, SENT, Template, new_message, new_persistent};

/// Sends; returns when the elements are the program's again.
#[inline]
pub(crate) fn send(
    comm: &Ref<Comm>,
    choice: Choice,
    dest: c_int,
    tag: c_int,
    mode: Mode,
) -> Result<(), Fault> {
    let Some((to, tag)) = comm.destination(dest, tag)? else { return Ok(()) };
    let data = choice.outgoing()?;
    // SAFETY: the program leaves the elements alone during the call.
    match unsafe { data.memory().bytes() } {
        Some(bytes) if mode == Mode::Standard => Ok(comm.session.send(to, tag, bytes)?),
        _ => send_with(comm, to, tag, mode, &data),
    }
}

/// As [`send`], of what is not plain bytes in the standard mode.
#[inline(never)]
fn send_with(comm: &Ref<Comm>, to: u32, tag: u64, mode: Mode, data: &Data) -> Result<(), Fault> {
    if mode == Mode::Buffered {
        return send_at_once(comm, to, tag, mode, data).map(drop);
    }
    // SAFETY: the program leaves the elements alone during the call.
    let data = unsafe { data.memory().trusted() };
    Ok(comm.session.send_with(to, tag, data, mode.options())?)
}

/// Begins to send.
#[inline]
pub(crate) fn isend(
    comm: &Ref<Comm>,
    choice: Choice,
    dest: c_int,
    tag: c_int,
    mode: Mode,
) -> Result<MPI_Request, Fault> {
    let Some((to, tag)) = comm.destination(dest, tag)? else { return Ok(PROC_NULL) };
    match choice.row() {
        Some(row) if mode == Mode::Standard => {
            // SAFETY: the program leaves the elements alone during the call.
            let memory = unsafe { row.memory().trusted() };
            if comm.session.send_at_once(to, tag, &memory)? {
                return Ok(SENT);
            }
            begin_send(comm, row.into(), to, tag, mode)
        }
        _ => {
            let data = choice.outgoing()?;
            if send_at_once(comm, to, tag, mode, &data)? {
                return Ok(SENT);
            }
            begin_send(comm, data, to, tag, mode)
        }
    }
}

/// Begins a send that has not left at once.
#[inline(never)]
fn begin_send(
    comm: &Ref<Comm>,
    data: Data,
    to: u32,
    tag: u64,
    mode: Mode,
) -> Result<MPI_Request, Fault> {
    new_message(comm, data, false, |place, memory| {
        place.start_send(&comm.session, to, tag, memory, mode.options())
    })
}

/// Receives.
#[inline]
pub(crate) fn recv(
    comm: &Ref<Comm>,
    choice: Choice,
    source: c_int,
    tag: c_int,
) -> Result<Outcome, Fault> {
    let Some((from, tag)) = comm.origin(source, tag)? else { return Ok(Outcome::NO_PROC) };
    Ok(receive(comm, from, tag, &choice.data()?))
}

/// Waits for a message of checked arguments.
#[inline]
pub(super) fn receive(comm: &Ref<Comm>, from: Origin, tag: Tag, data: &Data) -> Outcome {
    // SAFETY: the program leaves the elements alone during the call.
    let into = unsafe { data.memory().trusted() };
    let result = comm.session.recv_with(from, tag, into, RecvOptions::new());
    Outcome::of_message(result, true, data, comm)
}

/// Begins to receive.
#[inline]
pub(crate) fn irecv(
    comm: &Ref<Comm>,
    choice: Choice,
    source: c_int,
    tag: c_int,
) -> Result<MPI_Request, Fault> {
    let Some((from, tag)) = comm.origin(source, tag)? else { return Ok(PROC_NULL) };
    match choice.row() {
        Some(row) => begin_receive(comm, row, from, tag),
        None => begin_scattered_receive(comm, choice.data()?, from, tag),
    }
}

#[inline(always)]
fn begin_receive(
    comm: &Ref<Comm>,
    data: impl Described,
    from: Origin,
    tag: Tag,
) -> Result<MPI_Request, Fault> {
    new_message(comm, data, true, |place, memory| {
        place.start_recv(&comm.session, from, tag, memory)
    })
}

/// As [`begin_receive`], out of the way of most receives.
#[inline(never)]
fn begin_scattered_receive(
    comm: &Ref<Comm>,
    data: Data,
    from: Origin,
    tag: Tag,
) -> Result<MPI_Request, Fault> {
    begin_receive(comm, data, from, tag)
}

/// Makes a persistent request for a send.
pub(crate) fn send_init(
    comm: &Ref<Comm>,
    choice: Choice,
    dest: c_int,
    tag: c_int,
    mode: Mode,
) -> Result<MPI_Request, Fault> {
    let to = comm.destination(dest, tag)?;
    persistent(comm, choice, to.map(|(to, tag)| Route::To(to, tag, mode)))
}

/// Makes a persistent request for a receive.
pub(crate) fn recv_init(
    comm: &Ref<Comm>,
    choice: Choice,
    source: c_int,
    tag: c_int,
) -> Result<MPI_Request, Fault> {
    let from = comm.origin(source, tag)?;
    persistent(comm, choice, from.map(|(from, tag)| Route::From(from, tag)))
}

fn persistent(
    comm: &Ref<Comm>,
    choice: Choice,
    route: Option<Route>,
) -> Result<MPI_Request, Fault> {
    let Some(route) = route else { return new_persistent(Restart::NoProc) };
    // Faults of the elements belong to this call, not to each start.
    let elements = choice.elements()?.checked()?;
    new_persistent(Restart::Message(Arc::new(Template { comm: comm.clone(), elements, route })))
}
