//! Collectives that combine contributions: `MPI_Reduce`, `MPI_Allreduce`, `MPI_Reduce_scatter(_block)`, `MPI_Scan`,
//! `MPI_Exscan`.
//!
//! Elements are combined as they are packed (see [`crate::op`]), so data of types with gaps go through a stage.

use core::ffi::c_int;

use newmad::coll::{Blocks, Operator, Task};

use super::buffers::{self, Buffer};
use super::group_plan::GroupPlan;
use super::inter;
use super::plan::Plan;
use super::rooted::{checked, not_in_place};
use crate::abi::*;
use crate::comm::Comm;
use crate::datatype::{self, Choice};
use crate::error::Fault;
use crate::handle::Ref;
use crate::op;

/// A reduction of the elements of `send` into those of `recv`.
fn reduction(
    comm: &Ref<Comm>,
    (send, recv): (Choice, Choice),
    operator: Operator,
    task: impl FnOnce(usize) -> Task,
) -> Result<GroupPlan, Fault> {
    let in_place = send.is_in_place();
    let (input, output) = match in_place {
        // One memory has the contribution and the result.
        true => {
            let most = send.count.max(recv.count);
            (Buffer::Nothing, buffers::one(recv.with_count(most))?)
        }
        false => (buffers::one(send)?, buffers::one(recv)?),
    };
    let len = if in_place { output.len() } else { input.len() };
    let plan = GroupPlan::new(comm, task(len));
    Ok(GroupPlan { operator: Some(operator), input, output, in_place, ..plan })
}

pub(crate) fn reduce(
    comm: &Ref<Comm>,
    (send, recv): (Choice, Choice),
    op: MPI_Op,
    root: c_int,
) -> Result<Plan, Fault> {
    let datatype = send.datatype;
    if comm.remote.is_some() {
        return inter::reduce(comm, (send, recv), || op::packed_operator(op, datatype), root);
    }
    let operator = op::packed_operator(op, datatype)?;
    let root = checked(comm, root)?;
    if comm.rank() == root {
        let task = |len| Task::Reduce { root, len };
        return reduction(comm, (send, recv), operator, task).map(Plan::Group);
    }
    if send.is_in_place() {
        return Err(not_in_place("sendbuf"));
    }
    let input = buffers::one(send)?;
    let plan = GroupPlan::new(comm, Task::Reduce { root, len: input.len() });
    Ok(Plan::Group(GroupPlan { operator: Some(operator), input, ..plan }))
}

pub(crate) fn allreduce(
    comm: &Ref<Comm>,
    (send, recv): (Choice, Choice),
    op: MPI_Op,
) -> Result<Plan, Fault> {
    let operator = op::packed_operator(op, send.datatype)?;
    if comm.remote.is_some() {
        return inter::allreduce(comm, (send, recv), operator);
    }
    reduction(comm, (send, recv), operator, |len| Task::Allreduce { len }).map(Plan::Group)
}

/// `counts` are the elements that each rank receives, the same for all if `even`; the counts of the buffers mean
/// nothing.
pub(crate) fn reduce_scatter(
    comm: &Ref<Comm>,
    (send, recv): (Choice, Choice),
    counts: &[i64],
    even: bool,
    op: MPI_Op,
) -> Result<Plan, Fault> {
    if let Some(count) = counts.iter().find(|&&count| count < 0) {
        return Err(Fault::argument(MPI_ERR_COUNT, "recvcounts", count, "it must not be negative"));
    }
    let operator = op::packed_operator(op, send.datatype)?;
    let total = counts.iter().fold(0i64, |sum, &count| sum.saturating_add(count));
    let own = counts[comm.rank() as usize];
    let buffers = (send.with_count(total), recv.with_count(own));
    if comm.remote.is_some() {
        return inter::reduce_scatter(comm, buffers, counts, operator);
    }
    let size = datatype::get(send.datatype)?.size;
    let blocks = match even {
        true => Blocks::Even(size * own as usize),
        false => Blocks::of_lengths(counts.iter().map(|&count| size * count as usize)),
    };
    reduction(comm, buffers, operator, |_| Task::ReduceScatter { blocks }).map(Plan::Group)
}

pub(crate) fn scan(
    comm: &Ref<Comm>,
    (send, recv): (Choice, Choice),
    op: MPI_Op,
    inclusive: bool,
) -> Result<Plan, Fault> {
    if comm.remote.is_some() {
        let why = "an intercommunicator has no scan";
        return Err(Fault::handle(MPI_ERR_COMM, "comm", comm.handle().0, why));
    }
    let operator = op::packed_operator(op, send.datatype)?;
    let task = |len| Task::Scan { len, inclusive };
    if !inclusive && comm.rank() == 0 && !send.is_in_place() {
        // There is no result, and `recvbuf` may be anything. But one buffer for both is refused as at the others, or these
        // would refuse the call alone.
        let input = buffers::one(send)?;
        let (unused, len) = (Buffer::unused(input.len()), input.len());
        let output = buffers::one(recv).unwrap_or(Buffer::Nothing);
        let plan = GroupPlan::new(comm, task(len));
        let plan = GroupPlan { operator: Some(operator), input, output, ..plan };
        plan.check_apart()?;
        return Ok(Plan::Group(GroupPlan { output: unused, ..plan }));
    }
    let plan = reduction(comm, (send, recv), operator, task)?;
    // An exclusive scan leaves the first rank's result as it is.
    Ok(Plan::Group(GroupPlan { keeps: !inclusive, ..plan }))
}
