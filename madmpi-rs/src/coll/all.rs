//! All have, and all get: `MPI_Allgather(v)`, `MPI_Alltoall(v,w)`.

use core::ffi::c_void;

use newmad::coll::{Blocks, Task};

use super::check::Call;
use super::recipe::Recipe;
use super::rooted::{is_in_place, not_in_place};
use super::side::{self, Block, Side, Whole};
use super::{Plan, collective, inter};
use crate::abi::*;
use crate::comm::Comm;
use crate::error::Fault;
use crate::handle::Held;

type Elements<P> = (P, i64, MPI_Datatype);

fn gathering(
    comm: &Held<Comm>,
    send: Elements<*const c_void>,
    (output, blocks): (Side, Blocks),
) -> Result<Plan, Fault> {
    let in_place = is_in_place(send.0);
    let input = if in_place { Side::Nothing } else { side::one(send.0, send.1, send.2)? };
    let recipe = Recipe::new(comm, Task::Allgather { blocks });
    Ok(Plan::Group(Recipe { input, output, in_place, keeps: true, ..recipe }))
}

fn allgather(
    comm: &Held<Comm>,
    send: Elements<*const c_void>,
    recv: Elements<*mut c_void>,
) -> Result<Plan, Fault> {
    let ranks = comm.peers().size();
    if comm.remote.is_some() {
        let sends = inter::repeated(send.0, send.1, send.2, ranks)?;
        return inter::all(comm, sends, inter::spread(recv.0, recv.1, recv.2, ranks)?);
    }
    gathering(comm, send, side::even(recv.0, recv.1, ranks, recv.2)?)
}

fn allgatherv<N: Whole, D: Whole>(
    comm: &Held<Comm>,
    send: Elements<*const c_void>,
    (buf, counts, displs, recvtype): (*mut c_void, *const N, *const D, MPI_Datatype),
) -> Result<Plan, Fault> {
    let ranks = comm.peers().size();
    let blocks = side::described(buf, counts, displs, ranks, recvtype)?;
    if comm.remote.is_some() {
        return inter::all(comm, inter::repeated(send.0, send.1, send.2, ranks)?, blocks);
    }
    gathering(comm, send, side::of_blocks(blocks)?)
}

/// An exchange of each with each.
fn exchanging(
    comm: &Held<Comm>,
    send: Option<(Side, Blocks)>,
    (output, recv): (Side, Blocks),
) -> Result<Plan, Fault> {
    let in_place = send.is_none();
    let (input, send) = send.unwrap_or((Side::Nothing, recv.clone()));
    let recipe = Recipe::new(comm, Task::Alltoall { send, recv });
    Ok(Plan::Group(Recipe { input, output, in_place, keeps: true, ..recipe }))
}

fn alltoall(
    comm: &Held<Comm>,
    send: Elements<*const c_void>,
    recv: Elements<*mut c_void>,
) -> Result<Plan, Fault> {
    let ranks = comm.peers().size();
    if comm.remote.is_some() {
        let sends = inter::spread(send.0, send.1, send.2, ranks)?;
        return inter::all(comm, sends, inter::spread(recv.0, recv.1, recv.2, ranks)?);
    }
    let sends = match is_in_place(send.0) {
        true => None,
        false => Some(side::even(send.0, send.1, ranks, send.2)?),
    };
    exchanging(comm, sends, side::even(recv.0, recv.1, ranks, recv.2)?)
}

/// With a description of the blocks of each side.
fn alltoall_of(
    comm: &Held<Comm>,
    in_place: bool,
    sends: impl FnOnce(u32) -> Result<Vec<Block>, Fault>,
    recvs: impl FnOnce(u32) -> Result<Vec<Block>, Fault>,
) -> Result<Plan, Fault> {
    let ranks = comm.peers().size();
    if comm.remote.is_some() {
        if in_place {
            return Err(not_in_place("sendbuf"));
        }
        return inter::all(comm, sends(ranks)?, recvs(ranks)?);
    }
    let sends = if in_place { None } else { Some(side::of_blocks(sends(ranks)?)?) };
    exchanging(comm, sends, side::of_blocks(recvs(ranks)?)?)
}

collective! {
    MPI_Allgather MPI_Allgather_c MPI_Iallgather MPI_Iallgather_c MPI_Allgather_init MPI_Allgather_init_c
    (sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcount: N, recvtype: MPI_Datatype) comm {
        let plan = allgather(&comm, (sendbuf, sendcount.wide(), sendtype), (recvbuf, recvcount.wide(), recvtype));
        (Call::new("MPI_Allgather").of_bytes(recvcount.wide(), recvtype), plan)
    }
}

collective! {
    MPI_Allgatherv MPI_Allgatherv_c MPI_Iallgatherv MPI_Iallgatherv_c MPI_Allgatherv_init MPI_Allgatherv_init_c
    (sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcounts: *const N, displs: *const D, recvtype: MPI_Datatype) comm {
        let plan = allgatherv(&comm, (sendbuf, sendcount.wide(), sendtype), (recvbuf, recvcounts, displs, recvtype));
        (Call::new("MPI_Allgatherv"), plan)
    }
}

collective! {
    MPI_Alltoall MPI_Alltoall_c MPI_Ialltoall MPI_Ialltoall_c MPI_Alltoall_init MPI_Alltoall_init_c
    (sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcount: N, recvtype: MPI_Datatype) comm {
        let plan = alltoall(&comm, (sendbuf, sendcount.wide(), sendtype), (recvbuf, recvcount.wide(), recvtype));
        (Call::new("MPI_Alltoall").of_bytes(recvcount.wide(), recvtype), plan)
    }
}

collective! {
    MPI_Alltoallv MPI_Alltoallv_c MPI_Ialltoallv MPI_Ialltoallv_c MPI_Alltoallv_init MPI_Alltoallv_init_c
    (sendbuf: *const c_void, sendcounts: *const N, sdispls: *const D, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcounts: *const N, rdispls: *const D, recvtype: MPI_Datatype) comm {
        let sends = |ranks| side::described(sendbuf, sendcounts, sdispls, ranks, sendtype);
        let recvs = |ranks| side::described(recvbuf, recvcounts, rdispls, ranks, recvtype);
        (Call::new("MPI_Alltoallv"), alltoall_of(&comm, is_in_place(sendbuf), sends, recvs))
    }
}

collective! {
    MPI_Alltoallw MPI_Alltoallw_c MPI_Ialltoallw MPI_Ialltoallw_c MPI_Alltoallw_init MPI_Alltoallw_init_c
    (sendbuf: *const c_void, sendcounts: *const N, sdispls: *const D, sendtypes: *const MPI_Datatype,
     recvbuf: *mut c_void, recvcounts: *const N, rdispls: *const D, recvtypes: *const MPI_Datatype) comm {
        let sends = |ranks| side::described_apart(sendbuf, sendcounts, sdispls, sendtypes, ranks);
        let recvs = |ranks| side::described_apart(recvbuf, recvcounts, rdispls, recvtypes, ranks);
        (Call::new("MPI_Alltoallw"), alltoall_of(&comm, is_in_place(sendbuf), sends, recvs))
    }
}
