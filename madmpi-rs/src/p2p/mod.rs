//! Messages between two processes.

use core::ffi::{c_int, c_void};

use newmad::raw::Memory;

use crate::abi::*;
use crate::call::mpi;
use crate::datatype;
use crate::error::Fault;

/// The memory of `count` elements at `at`.
///
/// # Errors
/// The count is negative, the type is none or not committed.
#[inline]
fn memory(at: *mut c_void, count: i64, datatype: MPI_Datatype) -> Result<Memory, Fault> {
    let datatype = datatype::get(datatype)?;
    if count < 0 {
        return Err(Fault::argument(MPI_ERR_COUNT, "count", count, "it is not negative"));
    }
    if !datatype.committed {
        let why = "MPI_Type_commit comes before its use in a message";
        return Err(Fault::argument(MPI_ERR_TYPE, "datatype", "not committed", why));
    }
    let Some(len) = (count as usize).checked_mul(datatype.size) else {
        return Err(Fault::argument(
            MPI_ERR_COUNT,
            "count",
            count,
            "so much memory does not exist",
        ));
    };
    Ok(Memory::Whole(at.cast(), len))
}

mpi! {
    fn MPI_Send / MPI_Send_c (
        buf: *const c_void, count: N, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
    ) on comm {
        let data = memory(buf.cast_mut(), count.into(), datatype)?;
        let Some((to, tag)) = comm.destination(dest, tag)? else { return Ok(()) };
        // SAFETY: the program leaves the buffer alone during the call.
        unsafe { comm.session.send_raw(to, tag, data, false)? };
        Ok(())
    }

    fn MPI_Recv / MPI_Recv_c (
        buf: *mut c_void, count: N, datatype: MPI_Datatype, source: c_int, tag: c_int, comm: MPI_Comm,
        status: *mut MPI_Status,
    ) on comm {
        let into = memory(buf, count.into(), datatype)?;
        let result = match comm.origin(source, tag)? {
            // SAFETY: the program leaves the buffer alone during the call.
            Some((from, tag)) => comm.status(unsafe { comm.session.recv_raw(from, tag, into)? }),
            None => MPI_Status::NO_PROC,
        };
        if !status.is_null() {
            // SAFETY: the program's promise that it is a status. MPI_ERROR is left alone by such calls.
            unsafe { status.write(MPI_Status { MPI_ERROR: (*status).MPI_ERROR, ..result }) };
        }
        Ok(())
    }
}
