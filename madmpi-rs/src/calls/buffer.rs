//! The buffers of buffered sends: those of the process, of a communicator, of a session.

use core::ffi::{c_int, c_void};

use super::entry::mpi;
use crate::abi::*;
use crate::args::{Out, out, size_or_undefined};
use crate::buffer::{Buffer, PROCESS, add_of_session};
use crate::error::Fault;
use crate::p2p::iflush;
use crate::session;

/// Detaches a buffer, and tells the program where it was; its size is `MPI_UNDEFINED` if there is no room for it.
fn detach<N: TryFrom<usize> + From<c_int>>(
    buffer: &Buffer,
    address: Out<*mut c_void>,
    size: Out<N>,
) -> Result<(), Fault> {
    address.check("buffer_addr")?;
    size.check("size")?;
    let (at, len) = buffer.detach()?;
    out(address, "buffer_addr", at)?;
    size_or_undefined(size, len)
}

mpi! {
    fn MPI_Buffer_attach / MPI_Buffer_attach_c (buffer: *mut c_void, size: N) {
        PROCESS.attach(buffer, size.into()).map(drop)
    }

    fn MPI_Buffer_detach / MPI_Buffer_detach_c (buffer_addr: Out<*mut c_void>, size: Out<N>) {
        detach(&PROCESS, buffer_addr, size)
    }

    fn MPI_Buffer_flush() { PROCESS.flush() }

    fn MPI_Buffer_iflush(request: Out<MPI_Request>) {
        request.make(|| iflush(&PROCESS))
    }

    fn MPI_Comm_attach_buffer / MPI_Comm_attach_buffer_c (comm: MPI_Comm, buffer: *mut c_void, size: N) on comm {
        comm.buffer.attach(buffer, size.into()).map(drop)
    }

    fn MPI_Comm_detach_buffer / MPI_Comm_detach_buffer_c (
        comm: MPI_Comm, buffer_addr: Out<*mut c_void>, size: Out<N>,
    ) on comm {
        detach(&comm.buffer, buffer_addr, size)
    }

    fn MPI_Comm_flush_buffer(comm: MPI_Comm) on comm { comm.buffer.flush() }

    fn MPI_Comm_iflush_buffer(comm: MPI_Comm, request: Out<MPI_Request>) on comm {
        request.make(|| iflush(&comm.buffer))
    }

    fn MPI_Session_attach_buffer / MPI_Session_attach_buffer_c (
        session: MPI_Session, buffer: *mut c_void, size: N,
    ) {
        session::on(session, |session| {
            add_of_session(session.buffer.attach(buffer, size.into())?);
            Ok(())
        })
    }

    fn MPI_Session_detach_buffer / MPI_Session_detach_buffer_c (
        session: MPI_Session, buffer_addr: Out<*mut c_void>, size: Out<N>,
    ) {
        session::on(session, |session| detach(&session.buffer, buffer_addr, size))
    }

    fn MPI_Session_flush_buffer(session: MPI_Session) {
        session::on(session, |session| session.buffer.flush())
    }

    fn MPI_Session_iflush_buffer(session: MPI_Session, request: Out<MPI_Request>) {
        session::on(session, |session| {
            request.make(|| iflush(&session.buffer))
        })
    }
}
