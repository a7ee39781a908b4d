//! Messages between two processes: sends in every mode and receives, blocking or not.

mod blocking;
mod both;
mod nonblocking;
mod persistent;
mod probe;

use core::ffi::{c_int, c_void};

use newmad::raw::Memory;

use crate::abi::*;
use crate::comm::Comm;
use crate::datatype::{self, Data};
use crate::error::Fault;
use crate::handle::Held;
use crate::request::{self, NOBODY, SENT};

/// How a message is sent. A ready one is a standard one: that its receive is there already is no help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Standard,
    Synchronous,
}

/// A place that something can be written to later: checked before anything is begun.
#[inline]
fn checked<T>(place: *mut T, name: &str) -> Result<(), Fault> {
    if place.is_null() {
        return Err(Fault::argument(MPI_ERR_ARG, name, "null", "the result has nowhere to go"));
    }
    Ok(())
}

/// Begins to send.
///
/// # Safety
/// The elements stay readable and unchanged until the request is over.
#[inline]
unsafe fn isend(
    comm: &Held<Comm>,
    (buf, count, datatype): (*const c_void, i64, MPI_Datatype),
    dest: c_int,
    tag: c_int,
    mode: Mode,
) -> Result<MPI_Request, Fault> {
    // SAFETY: the caller's promise.
    let data = unsafe { Data::outgoing(buf, count, &*datatype::get(datatype)?)? };
    let Some((to, tag)) = comm.destination(dest, tag)? else { return Ok(NOBODY) };
    let session = &comm.session;
    // SAFETY: the caller's promise.
    if mode == Mode::Standard && unsafe { session.send_at_once(to, tag, data.memory())? } {
        return Ok(SENT);
    }
    // SAFETY: the caller's promise; the request keeps the list of pieces.
    request::new_message(comm, data, false, |place, data| unsafe {
        place.send(session, to, tag, data, mode == Mode::Synchronous)
    })
}

/// Begins to receive.
///
/// # Safety
/// The elements stay writable, and nobody else touches them, until the request is over.
#[inline]
unsafe fn irecv(
    comm: &Held<Comm>,
    (buf, count, datatype): (*mut c_void, i64, MPI_Datatype),
    source: c_int,
    tag: c_int,
) -> Result<MPI_Request, Fault> {
    let data = Data::of(buf, count, &*datatype::get(datatype)?)?;
    let Some((from, tag)) = comm.origin(source, tag)? else { return Ok(NOBODY) };
    let session = &comm.session;
    // SAFETY: the caller's promise; the request keeps the list of pieces.
    request::new_message(comm, data, true, |place, into| unsafe {
        place.recv(session, from, tag, into)
    })
}

/// The bytes of a message, copied together.
///
/// # Safety
/// What the data name is readable.
unsafe fn gather(data: &Data) -> Box<[u8]> {
    let mut copy = Vec::with_capacity(data.len());
    let mut add = |at: *const u8, len: usize| {
        if len > 0 {
            // SAFETY: the caller's promise.
            copy.extend_from_slice(unsafe { std::slice::from_raw_parts(at, len) });
        }
    };
    match data.memory() {
        Memory::Whole(at, len) => add(at, len),
        Memory::Pieces { list, count, .. } => {
            // SAFETY: the data's own list.
            for piece in unsafe { std::slice::from_raw_parts(list, count) } {
                add(piece.iov_base.cast(), piece.iov_len);
            }
        }
    }
    copy.into()
}
