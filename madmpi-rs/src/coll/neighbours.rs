//! Collectives of neighbours in a topology: `MPI_Neighbor_allgather(v)`, `MPI_Neighbor_alltoall(v,w)`.
//!
//! Between two processes there may be several edges. In a graph, messages of one pair meet in the order in which both list them.
//! In a grid, what goes in a direction comes from that direction: with two processes round a ring, what was sent to the
//! left comes from the right. So messages there have a tag for each direction.

use core::ffi::{c_int, c_void};

use super::check::Call;
use super::exchange::{Exchange, Message, NEIGHBOURS};
use super::inter::{repeated, spread};
use super::side::{self, Block, Whole};
use super::{Plan, collective};
use crate::abi::*;
use crate::comm::Comm;
use crate::error::Fault;
use crate::handle::Held;
use crate::topology::{Neighbours, Topology};

type Elements<P> = (P, i64, MPI_Datatype);
type Blocks = Result<Vec<Block>, Fault>;

/// Messages to or from those neighbours that there are.
fn messages(
    comm: &Comm,
    neighbours: &[c_int],
    blocks: Vec<Block>,
    tag: impl Fn(u32) -> u32,
) -> Result<Vec<Message>, Fault> {
    let mut all = Vec::with_capacity(blocks.len());
    for (index, (&rank, block)) in neighbours.iter().zip(blocks).enumerate() {
        if rank == MPI_PROC_NULL {
            continue;
        }
        let process = u32::try_from(rank).ok().and_then(|rank| comm.group.process(rank));
        let process = process.ok_or_else(|| comm.bad_rank("neighbour", rank))?;
        let tag = comm.internal_tag(NEIGHBOURS + tag(index as u32));
        all.push(Message { process, tag, block });
    }
    Ok(all)
}

fn plan(
    comm: &Held<Comm>,
    sends: impl FnOnce(u32) -> Blocks,
    receives: impl FnOnce(u32) -> Blocks,
) -> Result<Plan, Fault> {
    let Neighbours { sources, destinations } = comm.neighbours()?;
    let grid = matches!(comm.topology(), Some(Topology::Cart(_)));
    // Directions are numbered in pairs: what leaves in one arrives from the other.
    let leaving = |index: u32| if grid { index ^ 1 } else { 0 };
    let arriving = |index: u32| if grid { index } else { 0 };
    let sends = messages(comm, &destinations, sends(destinations.len() as u32)?, leaving)?;
    let receives = messages(comm, &sources, receives(sources.len() as u32)?, arriving)?;
    Ok(Plan::Exchange(Exchange { comm: comm.clone(), receives, sends }))
}

fn to_all(buf: Elements<*const c_void>) -> impl FnOnce(u32) -> Blocks {
    move |count| repeated(buf.0, buf.1, buf.2, count)
}

fn apart<P: Into<*const c_void>>(
    (buf, count, datatype): Elements<P>,
) -> impl FnOnce(u32) -> Blocks {
    let buf = buf.into();
    move |neighbours| spread(buf, count, datatype, neighbours)
}

fn described<N: Whole, D: Whole>(
    buf: *const c_void,
    counts: *const N,
    displs: *const D,
    datatype: MPI_Datatype,
) -> impl FnOnce(u32) -> Blocks {
    move |neighbours| side::described(buf, counts, displs, neighbours, datatype)
}

collective! {
    MPI_Neighbor_allgather MPI_Neighbor_allgather_c MPI_Ineighbor_allgather MPI_Ineighbor_allgather_c
    MPI_Neighbor_allgather_init MPI_Neighbor_allgather_init_c
    (sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcount: N, recvtype: MPI_Datatype) comm {
        let sends = to_all((sendbuf, sendcount.wide(), sendtype));
        let receives = apart((recvbuf.cast_const(), recvcount.wide(), recvtype));
        (Call::new("MPI_Neighbor_allgather"), plan(&comm, sends, receives))
    }
}

collective! {
    MPI_Neighbor_allgatherv MPI_Neighbor_allgatherv_c MPI_Ineighbor_allgatherv MPI_Ineighbor_allgatherv_c
    MPI_Neighbor_allgatherv_init MPI_Neighbor_allgatherv_init_c
    (sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcounts: *const N, displs: *const D, recvtype: MPI_Datatype) comm {
        let sends = to_all((sendbuf, sendcount.wide(), sendtype));
        let receives = described(recvbuf, recvcounts, displs, recvtype);
        (Call::new("MPI_Neighbor_allgatherv"), plan(&comm, sends, receives))
    }
}

collective! {
    MPI_Neighbor_alltoall MPI_Neighbor_alltoall_c MPI_Ineighbor_alltoall MPI_Ineighbor_alltoall_c
    MPI_Neighbor_alltoall_init MPI_Neighbor_alltoall_init_c
    (sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcount: N, recvtype: MPI_Datatype) comm {
        let sends = apart((sendbuf, sendcount.wide(), sendtype));
        let receives = apart((recvbuf.cast_const(), recvcount.wide(), recvtype));
        (Call::new("MPI_Neighbor_alltoall"), plan(&comm, sends, receives))
    }
}

collective! {
    MPI_Neighbor_alltoallv MPI_Neighbor_alltoallv_c MPI_Ineighbor_alltoallv MPI_Ineighbor_alltoallv_c
    MPI_Neighbor_alltoallv_init MPI_Neighbor_alltoallv_init_c
    (sendbuf: *const c_void, sendcounts: *const N, sdispls: *const D, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcounts: *const N, rdispls: *const D, recvtype: MPI_Datatype) comm {
        let sends = described(sendbuf, sendcounts, sdispls, sendtype);
        let receives = described(recvbuf, recvcounts, rdispls, recvtype);
        (Call::new("MPI_Neighbor_alltoallv"), plan(&comm, sends, receives))
    }
}

collective! {
    MPI_Neighbor_alltoallw MPI_Neighbor_alltoallw_c MPI_Ineighbor_alltoallw MPI_Ineighbor_alltoallw_c
    MPI_Neighbor_alltoallw_init MPI_Neighbor_alltoallw_init_c
    (sendbuf: *const c_void, sendcounts: *const N, sdispls: *const MPI_Aint, sendtypes: *const MPI_Datatype,
     recvbuf: *mut c_void, recvcounts: *const N, rdispls: *const MPI_Aint, recvtypes: *const MPI_Datatype) comm {
        let sends = |count| side::described_apart(sendbuf, sendcounts, sdispls, sendtypes, count);
        let receives = |count| side::described_apart(recvbuf, recvcounts, rdispls, recvtypes, count);
        (Call::new("MPI_Neighbor_alltoallw"), plan(&comm, sends, receives))
    }
}
