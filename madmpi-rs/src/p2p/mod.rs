//! Messages between two processes.

use core::ffi::{c_int, c_void};

use crate::abi::*;
use crate::call::mpi;
use crate::datatype::{self, Data};

mpi! {
    fn MPI_Send / MPI_Send_c (
        buf: *const c_void, count: N, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
    ) on comm {
        // SAFETY: the program's promise that the elements are there.
        let data = unsafe { Data::outgoing(buf, count.into(), &*datatype::get(datatype)?)? };
        let Some((to, tag)) = comm.destination(dest, tag)? else { return Ok(()) };
        // SAFETY: the program leaves the buffer alone during the call.
        unsafe { comm.session.send_raw(to, tag, data.memory(), false)? };
        Ok(())
    }

    fn MPI_Recv / MPI_Recv_c (
        buf: *mut c_void, count: N, datatype: MPI_Datatype, source: c_int, tag: c_int, comm: MPI_Comm,
        status: *mut MPI_Status,
    ) on comm {
        let into = Data::of(buf, count.into(), &*datatype::get(datatype)?)?;
        let result = match comm.origin(source, tag)? {
            Some((from, tag)) => {
                // SAFETY: the program leaves the buffer alone during the call.
                let status = unsafe { comm.session.recv_raw(from, tag, into.memory())? };
                // SAFETY: as above.
                unsafe { into.unpack(status.len) };
                comm.status(status)
            }
            None => MPI_Status::NO_PROC,
        };
        if !status.is_null() {
            // SAFETY: the program's promise that it is a status. MPI_ERROR is left alone by such calls.
            unsafe { status.write(MPI_Status { MPI_ERROR: (*status).MPI_ERROR, ..result }) };
        }
        Ok(())
    }
}
