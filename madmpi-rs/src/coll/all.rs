//! Collectives in which all ranks contribute and all get the result: barrier, `MPI_Allgather(v)`, `MPI_Alltoall(v,w)`.

use newmad::coll::{Blocks, Task};

use super::buffers::{self, Buffer, repeated, spread};
use super::inter;
use super::plan::Plan;
use super::recipe::Recipe;
use super::rooted::not_in_place;
use crate::comm::Comm;
use crate::datatype::{Choice, Elements};
use crate::error::Fault;
use crate::handle::Ref;

pub(crate) fn barrier(comm: &Ref<Comm>) -> Result<Plan, Fault> {
    match &comm.remote {
        None => Ok(Plan::Group(Recipe::new(comm, Task::Barrier))),
        Some(_) => inter::barrier(comm),
    }
}

fn gathering(
    comm: &Ref<Comm>,
    send: Choice,
    (output, blocks): (Buffer, Blocks),
) -> Result<Plan, Fault> {
    let in_place = send.is_in_place();
    let input = if in_place { Buffer::Nothing } else { buffers::one(send)? };
    let recipe = Recipe::new(comm, Task::Allgather { blocks });
    Ok(Plan::Group(Recipe { input, output, in_place, keeps: true, ..recipe }))
}

pub(crate) fn allgather(comm: &Ref<Comm>, send: Choice, recv: Choice) -> Result<Plan, Fault> {
    let ranks = comm.peers().size();
    if comm.remote.is_some() {
        return inter::all(comm, repeated(send, ranks)?, spread(recv, ranks)?);
    }
    gathering(comm, send, buffers::even(recv, ranks)?)
}

/// `recv` has the block of each rank.
pub(crate) fn allgatherv(
    comm: &Ref<Comm>,
    send: Choice,
    recv: Vec<Elements>,
) -> Result<Plan, Fault> {
    if comm.remote.is_some() {
        return inter::all(comm, repeated(send, comm.peers().size())?, recv);
    }
    gathering(comm, send, buffers::of_blocks(recv)?)
}

/// An exchange of each rank with each. Without `send`, the contribution is where the result goes.
fn exchanging(
    comm: &Ref<Comm>,
    send: Option<(Buffer, Blocks)>,
    (output, recv): (Buffer, Blocks),
) -> Result<Plan, Fault> {
    let in_place = send.is_none();
    let (input, send) = send.unwrap_or((Buffer::Nothing, recv.clone()));
    let recipe = Recipe::new(comm, Task::Alltoall { send, recv });
    Ok(Plan::Group(Recipe { input, output, in_place, keeps: true, ..recipe }))
}

pub(crate) fn alltoall(comm: &Ref<Comm>, send: Choice, recv: Choice) -> Result<Plan, Fault> {
    let ranks = comm.peers().size();
    if comm.remote.is_some() {
        return inter::all(comm, spread(send, ranks)?, spread(recv, ranks)?);
    }
    let sends = if send.is_in_place() { None } else { Some(buffers::even(send, ranks)?) };
    exchanging(comm, sends, buffers::even(recv, ranks)?)
}

/// `sends` and `recvs` give the blocks of as many ranks as they are called with.
pub(crate) fn alltoall_of(
    comm: &Ref<Comm>,
    in_place: bool,
    sends: impl FnOnce(u32) -> Result<Vec<Elements>, Fault>,
    recvs: impl FnOnce(u32) -> Result<Vec<Elements>, Fault>,
) -> Result<Plan, Fault> {
    let ranks = comm.peers().size();
    if comm.remote.is_some() {
        if in_place {
            return Err(not_in_place("sendbuf"));
        }
        return inter::all(comm, sends(ranks)?, recvs(ranks)?);
    }
    let sends = if in_place { None } else { Some(buffers::of_blocks(sends(ranks)?)?) };
    exchanging(comm, sends, buffers::of_blocks(recvs(ranks)?)?)
}
