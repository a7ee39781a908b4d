//! Partitioned messages.

use core::ffi::{c_int, c_void};

use super::entry::mpi;
use crate::abi::*;
use crate::args::{Array, Out, array, out};
use crate::datatype::choice;
use crate::error::Fault;
use crate::info;
use crate::p2p::partitioned::{Partitions, recv_init, send_init};
use crate::request;

/// Marks partitions of a partitioned send as ready.
fn ready(request: MPI_Request, mut all: impl Iterator<Item = c_int>) -> Result<(), Fault> {
    let Some(operation) = request::operation(request)? else {
        let why = "it is not a partitioned send that was started";
        return Err(Fault::handle(MPI_ERR_REQUEST, "request", request.0, why));
    };
    all.try_for_each(|partition| operation.ready(partition))
}

mpi! {
    fn MPI_Psend_init(
        buf: *const c_void, partitions: c_int, count: MPI_Count, datatype: MPI_Datatype, dest: c_int, tag: c_int,
        comm: MPI_Comm, info: MPI_Info, request: Out<MPI_Request>,
    ) on comm {
        request.make(|| {
            info::check(info)?;
            let partitions = Partitions::new(&comm, choice!(buf, count, datatype), partitions)?;
            send_init(partitions, dest, tag)
        })
    }

    fn MPI_Precv_init(
        buf: *mut c_void, partitions: c_int, count: MPI_Count, datatype: MPI_Datatype, source: c_int, tag: c_int,
        comm: MPI_Comm, info: MPI_Info, request: Out<MPI_Request>,
    ) on comm {
        request.make(|| {
            info::check(info)?;
            let partitions = Partitions::new(&comm, choice!(buf, count, datatype), partitions)?;
            recv_init(partitions, source, tag)
        })
    }

    fn MPI_Pready(partition: c_int, request: MPI_Request) {
        ready(request, std::iter::once(partition))
    }

    fn MPI_Pready_range(partition_low: c_int, partition_high: c_int, request: MPI_Request) {
        ready(request, partition_low..=partition_high)
    }

    fn MPI_Pready_list(length: c_int, array_of_partitions: Array<c_int>, request: MPI_Request) {
        ready(request, array!(array_of_partitions[length])?.iter().copied())
    }

    /// All partitions of no request, and of one that is not under way, have arrived.
    fn MPI_Parrived(request: MPI_Request, partition: c_int, flag: Out<c_int>) {
        if request == MPI_REQUEST_NULL {
            return out(flag, "flag", 1);
        }
        let Some(operation) = request::operation(request)? else { return out(flag, "flag", 1) };
        let mut arrived = operation.arrived(partition)?;
        if !arrived {
            request::poll()?;
            arrived = operation.arrived(partition)?;
        }
        out(flag, "flag", c_int::from(arrived))
    }
}
