//! Calls that begin a message.

use core::ffi::{c_int, c_void};

use super::{Mode, checked, irecv, isend};
use crate::abi::*;
use crate::call::mpi;
use crate::error::out;

mpi! {
    fn MPI_Isend / MPI_Isend_c (
        buf: *const c_void, count: N, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
        request: *mut MPI_Request,
    ) on comm {
        checked(request, "request")?;
        // SAFETY: the program leaves the buffer alone until the request is over.
        let begun = unsafe { isend(&comm, (buf, count.into(), datatype), dest, tag, Mode::Standard)? };
        out(request, "request", begun)
    }

    fn MPI_Issend / MPI_Issend_c (
        buf: *const c_void, count: N, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
        request: *mut MPI_Request,
    ) on comm {
        checked(request, "request")?;
        // SAFETY: as for MPI_Isend.
        let begun = unsafe { isend(&comm, (buf, count.into(), datatype), dest, tag, Mode::Synchronous)? };
        out(request, "request", begun)
    }

    fn MPI_Ibsend / MPI_Ibsend_c (
        buf: *const c_void, count: N, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
        request: *mut MPI_Request,
    ) on comm {
        checked(request, "request")?;
        // SAFETY: as for MPI_Isend.
        let begun = unsafe { isend(&comm, (buf, count.into(), datatype), dest, tag, Mode::Buffered)? };
        out(request, "request", begun)
    }

    fn MPI_Irsend / MPI_Irsend_c (
        buf: *const c_void, count: N, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
        request: *mut MPI_Request,
    ) on comm {
        checked(request, "request")?;
        // SAFETY: as for MPI_Isend.
        let begun = unsafe { isend(&comm, (buf, count.into(), datatype), dest, tag, Mode::Standard)? };
        out(request, "request", begun)
    }

    fn MPI_Irecv / MPI_Irecv_c (
        buf: *mut c_void, count: N, datatype: MPI_Datatype, source: c_int, tag: c_int, comm: MPI_Comm,
        request: *mut MPI_Request,
    ) on comm {
        checked(request, "request")?;
        // SAFETY: as for MPI_Isend.
        let begun = unsafe { irecv(&comm, (buf, count.into(), datatype), source, tag)? };
        out(request, "request", begun)
    }
}
