//! Collectives: each function in its blocking form, the form with a request, and the persistent form.
//!
//! `N` and `D` are the types of counts and of displacements: see [`super::entry`].

use core::ffi::{c_int, c_void};

use super::entry::mpi;
use crate::abi::*;
use crate::args::{Array, Out, array};
use crate::coll::{self, Call, Layout, begin, prepare, run};
use crate::datatype::choice;

/// The blocks that arrays of counts and of displacements describe: in elements of a datatype, or, with an array of
/// datatypes, in bytes.
macro_rules! described {
    ($buf:ident, $counts:ident, $displs:ident, [$types:ident]) => {
        Layout::Described {
            in_place: choice!($buf, 0, MPI_BYTE).is_in_place(),
            blocks: &|ranks| {
                let (counts, displs) = (array!($counts[ranks])?, array!($displs[ranks])?);
                coll::described_apart(
                    choice!($buf, 0, MPI_BYTE),
                    counts,
                    displs,
                    array!($types[ranks])?,
                )
            },
        }
    };
    ($buf:ident, $counts:ident, $displs:ident, $datatype:ident) => {
        Layout::Described {
            in_place: choice!($buf, 0, $datatype).is_in_place(),
            blocks: &|ranks| {
                coll::described(
                    choice!($buf, 0, $datatype),
                    array!($counts[ranks])?,
                    array!($displs[ranks])?,
                )
            },
        }
    };
}

/// The functions of a collective in all forms: their names, blocking, with a request and persistent, each followed by
/// that for large counts if the collective has counts; the arguments except the communicator; and a block that gives
/// what has to be the same at all members, and the plan.
macro_rules! collective {
    ($name:ident $iname:ident $pname:ident
     ($($arg:ident : $ty:ty),* $(,)?) $comm:ident $plan:block) => {
        collective! { @forms [$name] [$iname] [$pname] ($($arg: $ty),*) $comm $plan }
    };
    ($name:ident $large:ident $iname:ident $ilarge:ident $pname:ident $plarge:ident
     ($($arg:ident : $ty:ty),* $(,)?) $comm:ident $plan:block) => {
        collective! { @forms [$name / $large] [$iname / $ilarge] [$pname / $plarge] ($($arg: $ty),*) $comm $plan }
    };
    (@forms [$($name:tt)*] [$($iname:tt)*] [$($pname:tt)*]
     ($($arg:ident : $ty:ty),*) $comm:ident $plan:block) => {
        mpi! {
            fn $($name)* ($($arg: $ty,)* $comm: MPI_Comm) on $comm {
                let (call, plan) = $plan;
                run(&$comm, &call, plan?)
            }
            fn $($iname)* ($($arg: $ty,)* $comm: MPI_Comm, request: Out<MPI_Request>) on $comm {
                let (call, plan) = $plan;
                request.make(|| begin(&$comm, &call, plan?))
            }
            fn $($pname)* (
                $($arg: $ty,)* $comm: MPI_Comm, _info: MPI_Info, request: Out<MPI_Request>,
            ) on $comm {
                let (call, plan) = $plan;
                request.make(|| prepare(&$comm, call, plan?))
            }
        }
    };
}

collective! {
    MPI_Barrier MPI_Ibarrier MPI_Barrier_init () comm { (Call::new("MPI_Barrier"), coll::barrier(&comm)) }
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
        let (send, recv) = (choice!(sendbuf, sendcount, sendtype), Layout::Even(choice!(recvbuf, recvcount, recvtype)));
        (Call::new("MPI_Gather").rooted(root), coll::gather(&comm, send, recv, root))
    }
}

collective! {
    MPI_Gatherv MPI_Gatherv_c MPI_Igatherv MPI_Igatherv_c MPI_Gatherv_init MPI_Gatherv_init_c
    (sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcounts: Array<N>, displs: Array<D>, recvtype: MPI_Datatype, root: c_int) comm {
        let recv = described!(recvbuf, recvcounts, displs, recvtype);
        (Call::new("MPI_Gatherv").rooted(root), coll::gather(&comm, choice!(sendbuf, sendcount, sendtype), recv, root))
    }
}

collective! {
    MPI_Scatter MPI_Scatter_c MPI_Iscatter MPI_Iscatter_c MPI_Scatter_init MPI_Scatter_init_c
    (sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcount: N, recvtype: MPI_Datatype, root: c_int) comm {
        let (send, recv) = (Layout::Even(choice!(sendbuf, sendcount, sendtype)), choice!(recvbuf, recvcount, recvtype));
        (Call::new("MPI_Scatter").rooted(root), coll::scatter(&comm, send, recv, root))
    }
}

collective! {
    MPI_Scatterv MPI_Scatterv_c MPI_Iscatterv MPI_Iscatterv_c MPI_Scatterv_init MPI_Scatterv_init_c
    (sendbuf: *const c_void, sendcounts: Array<N>, displs: Array<D>, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcount: N, recvtype: MPI_Datatype, root: c_int) comm {
        let send = described!(sendbuf, sendcounts, displs, sendtype);
        let recv = choice!(recvbuf, recvcount, recvtype);
        (Call::new("MPI_Scatterv").rooted(root), coll::scatter(&comm, send, recv, root))
    }
}

collective! {
    MPI_Allgather MPI_Allgather_c MPI_Iallgather MPI_Iallgather_c
    MPI_Allgather_init MPI_Allgather_init_c
    (sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcount: N, recvtype: MPI_Datatype) comm {
        let (send, recv) = (choice!(sendbuf, sendcount, sendtype), choice!(recvbuf, recvcount, recvtype));
        (Call::new("MPI_Allgather").of_bytes(recv), coll::allgather(&comm, send, Layout::Even(recv)))
    }
}

collective! {
    MPI_Allgatherv MPI_Allgatherv_c MPI_Iallgatherv MPI_Iallgatherv_c
    MPI_Allgatherv_init MPI_Allgatherv_init_c
    (sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcounts: Array<N>, displs: Array<D>, recvtype: MPI_Datatype) comm {
        let recv = described!(recvbuf, recvcounts, displs, recvtype);
        (Call::new("MPI_Allgatherv"), coll::allgather(&comm, choice!(sendbuf, sendcount, sendtype), recv))
    }
}

collective! {
    MPI_Alltoall MPI_Alltoall_c MPI_Ialltoall MPI_Ialltoall_c MPI_Alltoall_init MPI_Alltoall_init_c
    (sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcount: N, recvtype: MPI_Datatype) comm {
        let (send, recv) = (choice!(sendbuf, sendcount, sendtype), choice!(recvbuf, recvcount, recvtype));
        (Call::new("MPI_Alltoall").of_bytes(recv), coll::alltoall(&comm, Layout::Even(send), Layout::Even(recv)))
    }
}

collective! {
    MPI_Alltoallv MPI_Alltoallv_c MPI_Ialltoallv MPI_Ialltoallv_c
    MPI_Alltoallv_init MPI_Alltoallv_init_c
    (sendbuf: *const c_void, sendcounts: Array<N>, sdispls: Array<D>, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcounts: Array<N>, rdispls: Array<D>, recvtype: MPI_Datatype) comm {
        let send = described!(sendbuf, sendcounts, sdispls, sendtype);
        let recv = described!(recvbuf, recvcounts, rdispls, recvtype);
        (Call::new("MPI_Alltoallv"), coll::alltoall(&comm, send, recv))
    }
}

collective! {
    MPI_Alltoallw MPI_Alltoallw_c MPI_Ialltoallw MPI_Ialltoallw_c
    MPI_Alltoallw_init MPI_Alltoallw_init_c
    (sendbuf: *const c_void, sendcounts: Array<N>, sdispls: Array<D>, sendtypes: Array<MPI_Datatype>,
     recvbuf: *mut c_void, recvcounts: Array<N>, rdispls: Array<D>, recvtypes: Array<MPI_Datatype>) comm {
        let send = described!(sendbuf, sendcounts, sdispls, [sendtypes]);
        let recv = described!(recvbuf, recvcounts, rdispls, [recvtypes]);
        (Call::new("MPI_Alltoallw"), coll::alltoall(&comm, send, recv))
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
        let send = Layout::Same(choice!(sendbuf, sendcount, sendtype));
        let recv = Layout::Even(choice!(recvbuf, recvcount, recvtype));
        (Call::new("MPI_Neighbor_allgather"), coll::neighbours(&comm, send, recv))
    }
}

collective! {
    MPI_Neighbor_allgatherv MPI_Neighbor_allgatherv_c MPI_Ineighbor_allgatherv MPI_Ineighbor_allgatherv_c
    MPI_Neighbor_allgatherv_init MPI_Neighbor_allgatherv_init_c
    (sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcounts: Array<N>, displs: Array<D>, recvtype: MPI_Datatype) comm {
        let recv = described!(recvbuf, recvcounts, displs, recvtype);
        let plan = coll::neighbours(&comm, Layout::Same(choice!(sendbuf, sendcount, sendtype)), recv);
        (Call::new("MPI_Neighbor_allgatherv"), plan)
    }
}

collective! {
    MPI_Neighbor_alltoall MPI_Neighbor_alltoall_c MPI_Ineighbor_alltoall MPI_Ineighbor_alltoall_c
    MPI_Neighbor_alltoall_init MPI_Neighbor_alltoall_init_c
    (sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcount: N, recvtype: MPI_Datatype) comm {
        let send = Layout::Even(choice!(sendbuf, sendcount, sendtype));
        let recv = Layout::Even(choice!(recvbuf, recvcount, recvtype));
        (Call::new("MPI_Neighbor_alltoall"), coll::neighbours(&comm, send, recv))
    }
}

collective! {
    MPI_Neighbor_alltoallv MPI_Neighbor_alltoallv_c MPI_Ineighbor_alltoallv MPI_Ineighbor_alltoallv_c
    MPI_Neighbor_alltoallv_init MPI_Neighbor_alltoallv_init_c
    (sendbuf: *const c_void, sendcounts: Array<N>, sdispls: Array<D>, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcounts: Array<N>, rdispls: Array<D>, recvtype: MPI_Datatype) comm {
        let send = described!(sendbuf, sendcounts, sdispls, sendtype);
        let recv = described!(recvbuf, recvcounts, rdispls, recvtype);
        (Call::new("MPI_Neighbor_alltoallv"), coll::neighbours(&comm, send, recv))
    }
}

collective! {
    MPI_Neighbor_alltoallw MPI_Neighbor_alltoallw_c MPI_Ineighbor_alltoallw MPI_Ineighbor_alltoallw_c
    MPI_Neighbor_alltoallw_init MPI_Neighbor_alltoallw_init_c
    (sendbuf: *const c_void, sendcounts: Array<N>, sdispls: Array<MPI_Aint>, sendtypes: Array<MPI_Datatype>,
     recvbuf: *mut c_void, recvcounts: Array<N>, rdispls: Array<MPI_Aint>, recvtypes: Array<MPI_Datatype>) comm {
        let send = described!(sendbuf, sendcounts, sdispls, [sendtypes]);
        let recv = described!(recvbuf, recvcounts, rdispls, [recvtypes]);
        (Call::new("MPI_Neighbor_alltoallw"), coll::neighbours(&comm, send, recv))
    }
}
