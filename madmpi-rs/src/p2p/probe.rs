//! Probes: looking at messages before they are received, and receiving a message that a probe has matched.

use core::ffi::c_int;
use std::sync::Arc;

use crate::abi::*;
use crate::comm::Comm;
use crate::datatype::Choice;
use crate::error::Fault;
use crate::failure::has_left;
use crate::handle::{Ref, Table};
use crate::per_rank;
use crate::request::{self, PROC_NULL};
use marcel::plumbing::KernelMutex;

static MESSAGES: Table<MatchedMessage> = Table::new();

/// A message that a probe has matched: no other receive gets it.
struct MatchedMessage {
    message: KernelMutex<Option<newmad::Message>>,
    comm: Ref<Comm>,
}

fn matched(comm: &Ref<Comm>, message: newmad::Message) -> Result<MPI_Message, Fault> {
    let matched = MatchedMessage { message: KernelMutex::new(Some(message)), comm: comm.clone() };
    let handle = MESSAGES.insert(Arc::new(matched));
    // A message that is dropped goes back where it was.
    handle
        .map(MPI_Message)
        .ok_or_else(|| Fault::new(MPI_ERR_OTHER, "two million matched messages exist already"))
}

/// Takes a matched message, with its communicator. `None`: a message from `MPI_PROC_NULL`.
fn take(handle: MPI_Message) -> Result<Option<(newmad::Message, Ref<Comm>)>, Fault> {
    if handle == MPI_MESSAGE_NO_PROC {
        return Ok(None);
    }
    let wrong = || {
        let why = match handle {
            MPI_MESSAGE_NULL => "MPI_MESSAGE_NULL is not a message",
            _ => "it is not a message, or was received before",
        };
        Fault::handle(MPI_ERR_REQUEST, "message", handle.0, why)
    };
    let matched = MESSAGES.remove(handle.0).ok_or_else(wrong)?;
    let taken = matched.message.lock().take();
    Ok(Some((taken.ok_or_else(wrong)?, matched.comm.clone())))
}

/// Runs a call with a matched message; its faults concern the message's communicator.
pub(crate) fn on<T>(
    message: MPI_Message,
    body: impl FnOnce() -> Result<T, Fault>,
) -> Result<T, Fault> {
    let comm = MESSAGES.get(message.0).map(|matched| matched.comm.clone());
    body().map_err(|fault| match &comm {
        Some(comm) => fault.on(comm.share()),
        None => fault,
    })
}

/// Waits for a message that could be received.
pub(crate) fn probe(comm: &Ref<Comm>, source: c_int, tag: c_int) -> Result<MPI_Status, Fault> {
    Ok(match comm.origin(source, tag)? {
        Some((from, tag)) => comm.status(comm.session.probe(from, tag)?),
        None => MPI_Status::NO_PROC,
    })
}

/// What a look has found: nothing, if the sender has left the job in order.
fn unless_it_has_left<T>(
    found: Result<Option<T>, newmad::Error>,
) -> Result<Option<T>, newmad::Error> {
    found.or_else(|error| if has_left(&error) { Ok(None) } else { Err(error) })
}

/// Looks for a message that could be received.
pub(crate) fn iprobe(
    comm: &Ref<Comm>,
    source: c_int,
    tag: c_int,
) -> Result<Option<MPI_Status>, Fault> {
    Ok(match comm.origin(source, tag)? {
        Some((from, tag)) => {
            let found = unless_it_has_left(comm.session.iprobe(from, tag))?;
            if found.is_none() {
                per_rank::give_way();
            }
            found.map(|found| comm.status(found))
        }
        None => Some(MPI_Status::NO_PROC),
    })
}

/// Waits for a message, and matches it.
pub(crate) fn mprobe(
    comm: &Ref<Comm>,
    source: c_int,
    tag: c_int,
) -> Result<(MPI_Message, MPI_Status), Fault> {
    match comm.origin(source, tag)? {
        Some((from, tag)) => {
            let message = comm.session.mprobe(from, tag)?;
            let status = comm.status(message.status());
            Ok((matched(comm, message)?, status))
        }
        None => Ok((MPI_MESSAGE_NO_PROC, MPI_Status::NO_PROC)),
    }
}

/// Looks for a message, and matches it if there is one.
pub(crate) fn improbe(
    comm: &Ref<Comm>,
    source: c_int,
    tag: c_int,
) -> Result<Option<(MPI_Message, MPI_Status)>, Fault> {
    let Some((from, tag)) = comm.origin(source, tag)? else {
        return Ok(Some((MPI_MESSAGE_NO_PROC, MPI_Status::NO_PROC)));
    };
    let Some(message) = unless_it_has_left(comm.session.improbe(from, tag))? else {
        per_rank::give_way();
        return Ok(None);
    };
    let status = comm.status(message.status());
    Ok(Some((matched(comm, message)?, status)))
}

/// Begins to receive a matched message. `taken` is called once its handle stands for it no more.
pub(crate) fn imrecv(
    choice: Choice,
    message: MPI_Message,
    taken: impl FnOnce() -> Result<(), Fault>,
) -> Result<MPI_Request, Fault> {
    let data = choice.elements()?.data()?;
    let found = take(message)?;
    taken()?;
    let Some((message, comm)) = found else { return Ok(PROC_NULL) };
    request::new_message(&comm, data, true, |place, into| place.start_message(message, into))
}
