//! Looking at messages before they are received, and receiving one that a probe has taken hold of.

use core::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use super::checked;
use crate::abi::*;
use crate::call::mpi;
use crate::comm::Comm;
use crate::datatype::{self, Data};
use crate::error::{Fault, out, read};
use crate::handle::{Held, Table};
use crate::request::{self, NOBODY};
use crate::status;

static MESSAGES: Table<Matched> = Table::new();

/// A message that a probe has taken hold of.
struct Matched {
    message: Mutex<Option<newmad::Message>>,
    comm: Held<Comm>,
}

fn matched(comm: &Held<Comm>, message: newmad::Message) -> Result<MPI_Message, Fault> {
    let matched = Matched { message: Mutex::new(Some(message)), comm: comm.clone() };
    let handle = MESSAGES.insert(Arc::new(matched));
    // A message that is dropped goes back where it was.
    handle
        .map(MPI_Message)
        .ok_or_else(|| Fault::new(MPI_ERR_OTHER, "two million messages are held already"))
}

/// What is received, and its communicator. `None`: a message from nobody.
fn take(message: *mut MPI_Message) -> Result<Option<(newmad::Message, Held<Comm>)>, Fault> {
    let handle = read(message.cast_const(), "message")?;
    if handle == MPI_MESSAGE_NO_PROC {
        return Ok(None);
    }
    let wrong = || {
        let why = match handle {
            MPI_MESSAGE_NULL => "MPI_MESSAGE_NULL is no message",
            _ => "it is not a message, or was received before",
        };
        Fault::argument(MPI_ERR_REQUEST, "message", format_args!("{:#x}", handle.0), why)
    };
    let matched = MESSAGES.remove(handle.0).ok_or_else(wrong)?;
    let taken = matched.message.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(Some((taken.ok_or_else(wrong)?, matched.comm.clone())))
}

/// The communicator that errors of such a call belong to, as far as it is known.
fn comm_of(message: *const MPI_Message) -> Option<Held<Comm>> {
    let handle = read(message, "message").ok()?;
    MESSAGES.get(handle.0).map(|matched| matched.comm.clone())
}

fn on<T>(comm: Option<Held<Comm>>, result: Result<T, Fault>) -> Result<T, Fault> {
    result.map_err(|fault| match &comm {
        Some(comm) => fault.on_comm(comm),
        None => fault,
    })
}

mpi! {
    fn MPI_Probe(source: c_int, tag: c_int, comm: MPI_Comm, status: *mut MPI_Status) on comm {
        let found = match comm.origin(source, tag)? {
            Some((from, tag)) => comm.status(comm.session.probe(from, tag)?),
            None => MPI_Status::NO_PROC,
        };
        status::write(status, found);
        Ok(())
    }

    fn MPI_Iprobe(source: c_int, tag: c_int, comm: MPI_Comm, flag: *mut c_int, status: *mut MPI_Status) on comm {
        let found = match comm.origin(source, tag)? {
            Some((from, tag)) => comm.session.iprobe(from, tag)?.map(|found| comm.status(found)),
            None => Some(MPI_Status::NO_PROC),
        };
        out(flag, "flag", c_int::from(found.is_some()))?;
        if let Some(found) = found {
            status::write(status, found);
        }
        Ok(())
    }

    fn MPI_Mprobe(
        source: c_int, tag: c_int, comm: MPI_Comm, message: *mut MPI_Message, status: *mut MPI_Status,
    ) on comm {
        checked(message, "message")?;
        let (found, handle) = match comm.origin(source, tag)? {
            Some((from, tag)) => {
                let found = comm.session.mprobe(from, tag)?;
                (comm.status(found.status()), matched(&comm, found)?)
            }
            None => (MPI_Status::NO_PROC, MPI_MESSAGE_NO_PROC),
        };
        out(message, "message", handle)?;
        status::write(status, found);
        Ok(())
    }

    fn MPI_Improbe(
        source: c_int, tag: c_int, comm: MPI_Comm, flag: *mut c_int, message: *mut MPI_Message,
        status: *mut MPI_Status,
    ) on comm {
        checked(message, "message")?;
        checked(flag, "flag")?;
        let (found, handle) = match comm.origin(source, tag)? {
            Some((from, tag)) => {
                let Some(found) = comm.session.improbe(from, tag)? else { return out(flag, "flag", 0) };
                (comm.status(found.status()), matched(&comm, found)?)
            }
            None => (MPI_Status::NO_PROC, MPI_MESSAGE_NO_PROC),
        };
        out(flag, "flag", 1)?;
        out(message, "message", handle)?;
        status::write(status, found);
        Ok(())
    }

    fn MPI_Mrecv / MPI_Mrecv_c (
        buf: *mut c_void, count: N, datatype: MPI_Datatype, message: *mut MPI_Message, status: *mut MPI_Status,
    ) {
        let comm = comm_of(message);
        on(comm, (|| {
            let mut request = imrecv((buf, count.into(), datatype), message)?;
            let outcome = request::wait(&mut request)?;
            status::write(status, outcome.status);
            outcome.fault.map_or(Ok(()), Err)
        })())
    }

    fn MPI_Imrecv / MPI_Imrecv_c (
        buf: *mut c_void, count: N, datatype: MPI_Datatype, message: *mut MPI_Message, request: *mut MPI_Request,
    ) {
        on(comm_of(message), (|| {
            checked(request, "request")?;
            out(request, "request", imrecv((buf, count.into(), datatype), message)?)
        })())
    }
}

/// Begins to receive a message that is held. The handle is null then.
fn imrecv(
    (buf, count, datatype): (*mut c_void, i64, MPI_Datatype),
    message: *mut MPI_Message,
) -> Result<MPI_Request, Fault> {
    let data = Data::of(buf, count, &*datatype::get(datatype)?)?;
    let taken = take(message)?;
    out(message, "message", MPI_MESSAGE_NULL)?;
    let Some((taken, comm)) = taken else { return Ok(NOBODY) };
    // SAFETY: the program leaves the buffer alone until the request is over; the request keeps the list of pieces.
    request::new_message(&comm, data, true, |place, into| unsafe {
        place.recv_message(taken, into)
    })
}
