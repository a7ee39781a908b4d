//! Calls that return when the buffer is the program's again.

use core::ffi::{c_int, c_void};

use super::{Mode, buffer};
use crate::abi::*;
use crate::call::mpi;
use crate::comm::Comm;
use crate::datatype::{self, Data};
use crate::error::Fault;
use crate::handle::Held;
use crate::request::Outcome;
use crate::status;

/// Sends.
///
/// # Safety
/// During the call the elements are readable and unchanged.
#[inline]
unsafe fn send(
    comm: &Held<Comm>,
    (buf, count, datatype): (*const c_void, i64, MPI_Datatype),
    dest: c_int,
    tag: c_int,
    mode: Mode,
) -> Result<(), Fault> {
    // SAFETY: the caller's promise.
    let data = unsafe { Data::outgoing(buf, count, &*datatype::get(datatype)?)? };
    let Some((to, tag)) = comm.destination(dest, tag)? else { return Ok(()) };
    if mode == Mode::Buffered {
        // SAFETY: the caller's promise.
        return unsafe { buffer::send(comm, to, tag, &data) };
    }
    // SAFETY: the caller's promise.
    unsafe { comm.session.send_raw(to, tag, data.memory(), mode == Mode::Synchronous)? };
    Ok(())
}

mpi! {
    fn MPI_Send / MPI_Send_c (
        buf: *const c_void, count: N, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
    ) on comm {
        // SAFETY: the program leaves the buffer alone during the call.
        unsafe { send(&comm, (buf, count.into(), datatype), dest, tag, Mode::Standard) }
    }

    fn MPI_Ssend / MPI_Ssend_c (
        buf: *const c_void, count: N, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
    ) on comm {
        // SAFETY: as for MPI_Send.
        unsafe { send(&comm, (buf, count.into(), datatype), dest, tag, Mode::Synchronous) }
    }

    fn MPI_Bsend / MPI_Bsend_c (
        buf: *const c_void, count: N, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
    ) on comm {
        // SAFETY: as for MPI_Send.
        unsafe { send(&comm, (buf, count.into(), datatype), dest, tag, Mode::Buffered) }
    }

    fn MPI_Rsend / MPI_Rsend_c (
        buf: *const c_void, count: N, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
    ) on comm {
        // SAFETY: as for MPI_Send.
        unsafe { send(&comm, (buf, count.into(), datatype), dest, tag, Mode::Standard) }
    }

    fn MPI_Recv / MPI_Recv_c (
        buf: *mut c_void, count: N, datatype: MPI_Datatype, source: c_int, tag: c_int, comm: MPI_Comm,
        status: *mut MPI_Status,
    ) on comm {
        let data = Data::of(buf, count.into(), &*datatype::get(datatype)?)?;
        let outcome = match comm.origin(source, tag)? {
            Some((from, tag)) => {
                // SAFETY: the program leaves the buffer alone during the call.
                let result = unsafe { comm.session.recv_raw(from, tag, data.memory()) };
                Outcome::of_message(result, true, &data, &comm)
            }
            None => Outcome::NO_PROC,
        };
        status::write(status, outcome.status);
        outcome.fault.map_or(Ok(()), Err)
    }
}
