//! Collectives in which all ranks contribute and all get the result: barrier, `MPI_Allgather(v)`, `MPI_Alltoall(v,w)`.

use newmad::coll::Task;

use super::buffers::{self, Buffer, Layout};
use super::group_plan::GroupPlan;
use super::inter;
use super::plan::Plan;
use super::rooted::not_in_place;
use crate::comm::Comm;
use crate::datatype::Choice;
use crate::error::Fault;
use crate::handle::Ref;

pub(crate) fn barrier(comm: &Ref<Comm>) -> Result<Plan, Fault> {
    match &comm.remote {
        None => Ok(Plan::Group(GroupPlan::new(comm, Task::Barrier))),
        Some(_) => inter::barrier(comm),
    }
}

pub(crate) fn allgather(comm: &Ref<Comm>, send: Choice, recv: Layout) -> Result<Plan, Fault> {
    let ranks = comm.peers().size();
    if comm.remote.is_some() {
        return inter::all(comm, Layout::Same(send).blocks(ranks)?, recv.blocks(ranks)?);
    }
    let in_place = send.is_in_place();
    let input = if in_place { Buffer::Nothing } else { buffers::one(send)? };
    let (output, blocks) = recv.buffer(ranks)?;
    let plan = GroupPlan::new(comm, Task::Allgather { blocks });
    Ok(Plan::Group(GroupPlan { input, output, in_place, keeps: true, ..plan }))
}

pub(crate) fn alltoall(comm: &Ref<Comm>, send: Layout, recv: Layout) -> Result<Plan, Fault> {
    let (ranks, in_place) = (comm.peers().size(), send.is_in_place());
    if comm.remote.is_some() {
        if in_place {
            return Err(not_in_place("sendbuf"));
        }
        return inter::all(comm, send.blocks(ranks)?, recv.blocks(ranks)?);
    }
    let (output, recv) = recv.buffer(ranks)?;
    let (input, send) = match in_place {
        true => (Buffer::Nothing, recv.clone()),
        false => send.buffer(ranks)?,
    };
    let plan = GroupPlan::new(comm, Task::Alltoall { send, recv });
    Ok(Plan::Group(GroupPlan { input, output, in_place, keeps: true, ..plan }))
}
