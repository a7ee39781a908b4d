//! Collectives: each function in its blocking form, the form with a request, and the persistent form.

use core::ffi::{c_int, c_void};

use super::entry::mpi;
use crate::abi::*;
use crate::args::{Array, Out, array, out};
use crate::coll::{self, Call, Displacement, begin, prepare, run};
use crate::datatype::{Choice, Elements, choice};
use crate::error::Fault;

/// The blocks of each rank, described by arrays of counts and of displacements in elements.
fn blocks<N: Copy + Into<i64>, D: Displacement>(
    buffer: Choice,
    counts: Array<'_, N>,
    displs: Array<'_, D>,
    ranks: u32,
) -> Result<Vec<Elements>, Fault> {
    coll::described(buffer, array!(counts[ranks])?, array!(displs[ranks])?)
}

/// The blocks of each rank, described by arrays of counts, of displacements in bytes and of datatypes.
fn typed_blocks<N: Copy + Into<i64>, D: Displacement>(
    buffer: Choice,
    counts: Array<'_, N>,
    displs: Array<'_, D>,
    types: Array<'_, MPI_Datatype>,
    ranks: u32,
) -> Result<Vec<Elements>, Fault> {
    let (counts, displs) = (array!(counts[ranks])?, array!(displs[ranks])?);
    coll::described_apart(buffer, counts, displs, array!(types[ranks])?)
}

/// The functions of a collective in all forms: the six names, the arguments except the communicator, and a block that
/// gives the plan and what has to be the same at all members.
macro_rules! collective {
    ($name:ident $large:ident $iname:ident $ilarge:ident $pname:ident $plarge:ident
     ($($arg:ident : $ty:ty),* $(,)?) $comm:ident $plan:block) => {
        mpi! {
            fn $name / $large ($($arg: $ty,)* $comm: MPI_Comm) on $comm {
                let (call, plan) = $plan;
                run(&$comm, &call, plan?)
            }
            fn $iname / $ilarge ($($arg: $ty,)* $comm: MPI_Comm, request: Out<MPI_Request>) on $comm {
                let (call, plan) = $plan;
                out(request, "request", MPI_REQUEST_NULL)?;
                out(request, "request", begin(&$comm, &call, plan?)?)
            }
            fn $pname / $plarge (
                $($arg: $ty,)* $comm: MPI_Comm, _info: MPI_Info, request: Out<MPI_Request>,
            ) on $comm {
                let (call, plan) = $plan;
                out(request, "request", MPI_REQUEST_NULL)?;
                out(request, "request", prepare(&$comm, call, plan?)?)
            }
        }
    };
}

mpi! {
    fn MPI_Barrier(comm: MPI_Comm) on comm {
        run(&comm, &Call::new("MPI_Barrier"), coll::barrier(&comm)?)
    }

    fn MPI_Ibarrier(comm: MPI_Comm, request: Out<MPI_Request>) on comm {
        let plan = coll::barrier(&comm)?;
        out(request, "request", MPI_REQUEST_NULL)?;
        out(request, "request", begin(&comm, &Call::new("MPI_Barrier"), plan)?)
    }

    fn MPI_Barrier_init(comm: MPI_Comm, _info: MPI_Info, request: Out<MPI_Request>) on comm {
        let plan = coll::barrier(&comm)?;
        out(request, "request", MPI_REQUEST_NULL)?;
        out(request, "request", prepare(&comm, Call::new("MPI_Barrier"), plan)?)
    }
}

collective! {
    MPI_Bcast MPI_Bcast_c MPI_Ibcast MPI_Ibcast_c MPI_Bcast_init MPI_Bcast_init_c
    (buffer: *mut c_void, count: N, datatype: MPI_Datatype, root: c_int) comm {
        let buffer = choice!(buffer, count, datatype);
        (Call::new("MPI_Bcast").rooted(root).of_bytes(buffer), coll::bcast(&comm, buffer, root))
    }
}

collective! {
    MPI_Gather MPI_Gather_c MPI_Igather MPI_Igather_c MPI_Gather_init MPI_Gather_init_c
    (sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcount: N, recvtype: MPI_Datatype, root: c_int) comm {
        let plan = coll::gather(&comm, choice!(sendbuf, sendcount, sendtype), choice!(recvbuf, recvcount, recvtype), root);
        (Call::new("MPI_Gather").rooted(root), plan)
    }
}

collective! {
    MPI_Gatherv MPI_Gatherv_c MPI_Igatherv MPI_Igatherv_c MPI_Gatherv_init MPI_Gatherv_init_c
    (sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcounts: Array<N>, displs: Array<D>, recvtype: MPI_Datatype, root: c_int) comm {
        let recvs = |ranks| blocks(choice!(recvbuf, 0, recvtype), recvcounts, displs, ranks);
        let plan = coll::gatherv(&comm, choice!(sendbuf, sendcount, sendtype), recvs, root);
        (Call::new("MPI_Gatherv").rooted(root), plan)
    }
}

collective! {
    MPI_Scatter MPI_Scatter_c MPI_Iscatter MPI_Iscatter_c MPI_Scatter_init MPI_Scatter_init_c
    (sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcount: N, recvtype: MPI_Datatype, root: c_int) comm {
        let plan = coll::scatter(&comm, choice!(sendbuf, sendcount, sendtype), choice!(recvbuf, recvcount, recvtype), root);
        (Call::new("MPI_Scatter").rooted(root), plan)
    }
}

collective! {
    MPI_Scatterv MPI_Scatterv_c MPI_Iscatterv MPI_Iscatterv_c MPI_Scatterv_init MPI_Scatterv_init_c
    (sendbuf: *const c_void, sendcounts: Array<N>, displs: Array<D>, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcount: N, recvtype: MPI_Datatype, root: c_int) comm {
        let sends = |ranks| blocks(choice!(sendbuf, 0, sendtype), sendcounts, displs, ranks);
        let plan = coll::scatterv(&comm, sends, choice!(recvbuf, recvcount, recvtype), root);
        (Call::new("MPI_Scatterv").rooted(root), plan)
    }
}

collective! {
    MPI_Allgather MPI_Allgather_c MPI_Iallgather MPI_Iallgather_c
    MPI_Allgather_init MPI_Allgather_init_c
    (sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcount: N, recvtype: MPI_Datatype) comm {
        let recv = choice!(recvbuf, recvcount, recvtype);
        let plan = coll::allgather(&comm, choice!(sendbuf, sendcount, sendtype), recv);
        (Call::new("MPI_Allgather").of_bytes(recv), plan)
    }
}

collective! {
    MPI_Allgatherv MPI_Allgatherv_c MPI_Iallgatherv MPI_Iallgatherv_c
    MPI_Allgatherv_init MPI_Allgatherv_init_c
    (sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcounts: Array<N>, displs: Array<D>, recvtype: MPI_Datatype) comm {
        let ranks = comm.peers().size();
        let recvs = blocks(choice!(recvbuf, 0, recvtype), recvcounts, displs, ranks);
        let plan = recvs.and_then(|recvs| coll::allgatherv(&comm, choice!(sendbuf, sendcount, sendtype), recvs));
        (Call::new("MPI_Allgatherv"), plan)
    }
}

collective! {
    MPI_Alltoall MPI_Alltoall_c MPI_Ialltoall MPI_Ialltoall_c MPI_Alltoall_init MPI_Alltoall_init_c
    (sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcount: N, recvtype: MPI_Datatype) comm {
        let recv = choice!(recvbuf, recvcount, recvtype);
        let plan = coll::alltoall(&comm, choice!(sendbuf, sendcount, sendtype), recv);
        (Call::new("MPI_Alltoall").of_bytes(recv), plan)
    }
}

collective! {
    MPI_Alltoallv MPI_Alltoallv_c MPI_Ialltoallv MPI_Ialltoallv_c
    MPI_Alltoallv_init MPI_Alltoallv_init_c
    (sendbuf: *const c_void, sendcounts: Array<N>, sdispls: Array<D>, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcounts: Array<N>, rdispls: Array<D>, recvtype: MPI_Datatype) comm {
        let (send, recv) = (choice!(sendbuf, 0, sendtype), choice!(recvbuf, 0, recvtype));
        let sends = |ranks| blocks(send, sendcounts, sdispls, ranks);
        let recvs = |ranks| blocks(recv, recvcounts, rdispls, ranks);
        (Call::new("MPI_Alltoallv"), coll::alltoall_of(&comm, send.is_in_place(), sends, recvs))
    }
}

collective! {
    MPI_Alltoallw MPI_Alltoallw_c MPI_Ialltoallw MPI_Ialltoallw_c
    MPI_Alltoallw_init MPI_Alltoallw_init_c
    (sendbuf: *const c_void, sendcounts: Array<N>, sdispls: Array<D>, sendtypes: Array<MPI_Datatype>,
     recvbuf: *mut c_void, recvcounts: Array<N>, rdispls: Array<D>, recvtypes: Array<MPI_Datatype>) comm {
        let (send, recv) = (choice!(sendbuf, 0, MPI_BYTE), choice!(recvbuf, 0, MPI_BYTE));
        let sends = |ranks| typed_blocks(send, sendcounts, sdispls, sendtypes, ranks);
        let recvs = |ranks| typed_blocks(recv, recvcounts, rdispls, recvtypes, ranks);
        (Call::new("MPI_Alltoallw"), coll::alltoall_of(&comm, send.is_in_place(), sends, recvs))
    }
}

collective! {
    MPI_Reduce MPI_Reduce_c MPI_Ireduce MPI_Ireduce_c MPI_Reduce_init MPI_Reduce_init_c
    (sendbuf: *const c_void, recvbuf: *mut c_void, count: N, datatype: MPI_Datatype, op: MPI_Op, root: c_int) comm {
        let (send, recv) = (choice!(sendbuf, count, datatype), choice!(recvbuf, count, datatype));
        let call = Call::new("MPI_Reduce").rooted(root).combining(op).of_bytes(recv);
        (call, coll::reduce(&comm, (send, recv), op, root))
    }
}

collective! {
    MPI_Allreduce MPI_Allreduce_c MPI_Iallreduce MPI_Iallreduce_c
    MPI_Allreduce_init MPI_Allreduce_init_c
    (sendbuf: *const c_void, recvbuf: *mut c_void, count: N, datatype: MPI_Datatype, op: MPI_Op) comm {
        let (send, recv) = (choice!(sendbuf, count, datatype), choice!(recvbuf, count, datatype));
        (Call::new("MPI_Allreduce").combining(op).of_bytes(recv), coll::allreduce(&comm, (send, recv), op))
    }
}

collective! {
    MPI_Reduce_scatter MPI_Reduce_scatter_c MPI_Ireduce_scatter MPI_Ireduce_scatter_c
    MPI_Reduce_scatter_init MPI_Reduce_scatter_init_c
    (sendbuf: *const c_void, recvbuf: *mut c_void, recvcounts: Array<N>, datatype: MPI_Datatype, op: MPI_Op) comm {
        let (send, recv) = (choice!(sendbuf, 0, datatype), choice!(recvbuf, 0, datatype));
        let counts = array!(recvcounts[comm.group.size()]);
        let plan = counts.and_then(|counts| {
            let counts: Vec<i64> = counts.iter().map(|&count| count.into()).collect();
            coll::reduce_scatter(&comm, (send, recv), &counts, false, op)
        });
        (Call::new("MPI_Reduce_scatter").combining(op), plan)
    }
}

collective! {
    MPI_Reduce_scatter_block MPI_Reduce_scatter_block_c MPI_Ireduce_scatter_block MPI_Ireduce_scatter_block_c
    MPI_Reduce_scatter_block_init MPI_Reduce_scatter_block_init_c
    (sendbuf: *const c_void, recvbuf: *mut c_void, recvcount: N, datatype: MPI_Datatype, op: MPI_Op) comm {
        let (send, recv) = (choice!(sendbuf, recvcount, datatype), choice!(recvbuf, recvcount, datatype));
        let counts = vec![recv.count; comm.group.size() as usize];
        let call = Call::new("MPI_Reduce_scatter_block").combining(op).of_bytes(recv);
        (call, coll::reduce_scatter(&comm, (send, recv), &counts, true, op))
    }
}

collective! {
    MPI_Scan MPI_Scan_c MPI_Iscan MPI_Iscan_c MPI_Scan_init MPI_Scan_init_c
    (sendbuf: *const c_void, recvbuf: *mut c_void, count: N, datatype: MPI_Datatype, op: MPI_Op) comm {
        let (send, recv) = (choice!(sendbuf, count, datatype), choice!(recvbuf, count, datatype));
        (Call::new("MPI_Scan").combining(op).of_bytes(recv), coll::scan(&comm, (send, recv), op, true))
    }
}

collective! {
    MPI_Exscan MPI_Exscan_c MPI_Iexscan MPI_Iexscan_c MPI_Exscan_init MPI_Exscan_init_c
    (sendbuf: *const c_void, recvbuf: *mut c_void, count: N, datatype: MPI_Datatype, op: MPI_Op) comm {
        let (send, recv) = (choice!(sendbuf, count, datatype), choice!(recvbuf, count, datatype));
        (Call::new("MPI_Exscan").combining(op).of_bytes(recv), coll::scan(&comm, (send, recv), op, false))
    }
}

collective! {
    MPI_Neighbor_allgather MPI_Neighbor_allgather_c MPI_Ineighbor_allgather MPI_Ineighbor_allgather_c
    MPI_Neighbor_allgather_init MPI_Neighbor_allgather_init_c
    (sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcount: N, recvtype: MPI_Datatype) comm {
        let (sends, receives) = (coll::repeated(choice!(sendbuf, sendcount, sendtype)), coll::even(choice!(recvbuf, recvcount, recvtype)));
        (Call::new("MPI_Neighbor_allgather"), coll::neighbours(&comm, sends, receives))
    }
}

collective! {
    MPI_Neighbor_allgatherv MPI_Neighbor_allgatherv_c MPI_Ineighbor_allgatherv MPI_Ineighbor_allgatherv_c
    MPI_Neighbor_allgatherv_init MPI_Neighbor_allgatherv_init_c
    (sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcounts: Array<N>, displs: Array<D>, recvtype: MPI_Datatype) comm {
        let receives = |count| blocks(choice!(recvbuf, 0, recvtype), recvcounts, displs, count);
        let plan = coll::neighbours(&comm, coll::repeated(choice!(sendbuf, sendcount, sendtype)), receives);
        (Call::new("MPI_Neighbor_allgatherv"), plan)
    }
}

collective! {
    MPI_Neighbor_alltoall MPI_Neighbor_alltoall_c MPI_Ineighbor_alltoall MPI_Ineighbor_alltoall_c
    MPI_Neighbor_alltoall_init MPI_Neighbor_alltoall_init_c
    (sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcount: N, recvtype: MPI_Datatype) comm {
        let (sends, receives) = (coll::even(choice!(sendbuf, sendcount, sendtype)), coll::even(choice!(recvbuf, recvcount, recvtype)));
        (Call::new("MPI_Neighbor_alltoall"), coll::neighbours(&comm, sends, receives))
    }
}

collective! {
    MPI_Neighbor_alltoallv MPI_Neighbor_alltoallv_c MPI_Ineighbor_alltoallv MPI_Ineighbor_alltoallv_c
    MPI_Neighbor_alltoallv_init MPI_Neighbor_alltoallv_init_c
    (sendbuf: *const c_void, sendcounts: Array<N>, sdispls: Array<D>, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcounts: Array<N>, rdispls: Array<D>, recvtype: MPI_Datatype) comm {
        let sends = |count| blocks(choice!(sendbuf, 0, sendtype), sendcounts, sdispls, count);
        let receives = |count| blocks(choice!(recvbuf, 0, recvtype), recvcounts, rdispls, count);
        (Call::new("MPI_Neighbor_alltoallv"), coll::neighbours(&comm, sends, receives))
    }
}

collective! {
    MPI_Neighbor_alltoallw MPI_Neighbor_alltoallw_c MPI_Ineighbor_alltoallw MPI_Ineighbor_alltoallw_c
    MPI_Neighbor_alltoallw_init MPI_Neighbor_alltoallw_init_c
    (sendbuf: *const c_void, sendcounts: Array<N>, sdispls: Array<MPI_Aint>, sendtypes: Array<MPI_Datatype>,
     recvbuf: *mut c_void, recvcounts: Array<N>, rdispls: Array<MPI_Aint>, recvtypes: Array<MPI_Datatype>) comm {
        let (send, recv) = (choice!(sendbuf, 0, MPI_BYTE), choice!(recvbuf, 0, MPI_BYTE));
        let sends = |count| typed_blocks(send, sendcounts, sdispls, sendtypes, count);
        let receives = |count| typed_blocks(recv, recvcounts, rdispls, recvtypes, count);
        (Call::new("MPI_Neighbor_alltoallw"), coll::neighbours(&comm, sends, receives))
    }
}
