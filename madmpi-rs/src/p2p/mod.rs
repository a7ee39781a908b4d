//! Messages between two processes: sends in every mode and receives, blocking or not.

mod blocking;
mod both;
pub(crate) mod buffer;
mod nonblocking;
pub(crate) mod partitioned;
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
    Buffered,
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
    if mode == Mode::Buffered {
        // SAFETY: the caller's promise.
        unsafe { buffer::send(comm, to, tag, &data)? };
        return Ok(SENT);
    }
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

/// Copies the bytes of a message together.
///
/// # Safety
/// What the data name is readable; so many bytes at `to` are writable, and apart from it.
unsafe fn gather(data: &Data, mut to: *mut u8) {
    let mut add = |at: *const u8, len: usize| {
        // SAFETY: the caller's promise.
        unsafe {
            to.copy_from_nonoverlapping(at, len);
            to = to.add(len);
        }
    };
    match data.memory() {
        Memory::Whole(_, 0) => {}
        Memory::Whole(at, len) => add(at, len),
        Memory::Pieces { list, count, .. } => {
            // SAFETY: the data's own list.
            for piece in unsafe { std::slice::from_raw_parts(list, count) } {
                add(piece.iov_base.cast(), piece.iov_len);
            }
        }
    }
}

/// The bytes of a message, copied together.
///
/// # Safety
/// What the data name is readable.
unsafe fn gathered(data: &Data) -> Box<[u8]> {
    let mut copy = vec![0; data.len()];
    // SAFETY: the caller's promise, and the copy has the length.
    unsafe { gather(data, copy.as_mut_ptr()) };
    copy.into()
}
