//! Messages that are made once and started many times.

use core::ffi::{c_int, c_void};
use std::sync::Arc;

use super::{Mode, checked};
use crate::abi::*;
use crate::call::mpi;
use crate::comm::Comm;
use crate::datatype::{self, Data};
use crate::error::{Fault, out};
use crate::handle::Held;
use crate::request::{Again, Letter, Way, new_persistent};

fn make(
    comm: &Held<Comm>,
    (buf, count, datatype): (*const c_void, i64, MPI_Datatype),
    way: Option<Way>,
) -> Result<MPI_Request, Fault> {
    let datatype = datatype::get(datatype)?;
    // What is wrong with the data is said now, not at each start.
    Data::of(buf, count, &datatype)?;
    let Some(way) = way else { return new_persistent(Again::Nobody) };
    let buf = buf.expose_provenance();
    let letter = Letter { comm: comm.clone(), buf, count, datatype, way };
    new_persistent(Again::Message(Arc::new(letter)))
}

fn send(
    comm: &Held<Comm>,
    data: (*const c_void, i64, MPI_Datatype),
    dest: c_int,
    tag: c_int,
    mode: Mode,
) -> Result<MPI_Request, Fault> {
    let way = comm.destination(dest, tag)?.map(|(to, tag)| Way::To(to, tag, mode));
    make(comm, data, way)
}

mpi! {
    fn MPI_Send_init / MPI_Send_init_c (
        buf: *const c_void, count: N, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
        request: *mut MPI_Request,
    ) on comm {
        checked(request, "request")?;
        out(request, "request", send(&comm, (buf, count.into(), datatype), dest, tag, Mode::Standard)?)
    }

    fn MPI_Ssend_init / MPI_Ssend_init_c (
        buf: *const c_void, count: N, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
        request: *mut MPI_Request,
    ) on comm {
        checked(request, "request")?;
        out(request, "request", send(&comm, (buf, count.into(), datatype), dest, tag, Mode::Synchronous)?)
    }

    fn MPI_Bsend_init / MPI_Bsend_init_c (
        buf: *const c_void, count: N, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
        request: *mut MPI_Request,
    ) on comm {
        checked(request, "request")?;
        out(request, "request", send(&comm, (buf, count.into(), datatype), dest, tag, Mode::Buffered)?)
    }

    fn MPI_Rsend_init / MPI_Rsend_init_c (
        buf: *const c_void, count: N, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
        request: *mut MPI_Request,
    ) on comm {
        checked(request, "request")?;
        out(request, "request", send(&comm, (buf, count.into(), datatype), dest, tag, Mode::Standard)?)
    }

    fn MPI_Recv_init / MPI_Recv_init_c (
        buf: *mut c_void, count: N, datatype: MPI_Datatype, source: c_int, tag: c_int, comm: MPI_Comm,
        request: *mut MPI_Request,
    ) on comm {
        checked(request, "request")?;
        let way = comm.origin(source, tag)?.map(|(from, tag)| Way::From(from, tag));
        out(request, "request", make(&comm, (buf, count.into(), datatype), way)?)
    }
}
