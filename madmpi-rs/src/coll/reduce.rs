//! What all have is combined: `MPI_Reduce`, `MPI_Allreduce`, `MPI_Reduce_scatter(_block)`, `MPI_Scan`, `MPI_Exscan`.
//!
//! Elements are combined as they are packed (see `op`), so data of types with gaps go through a stage.

use core::ffi::{c_int, c_void};

use newmad::coll::{Blocks, Operator, Task};

use super::check::Call;
use super::recipe::Recipe;
use super::rooted::{is_in_place, not_in_place};
use super::side::{self, Side, Whole};
use super::{Plan, collective, inter, root as checked};
use crate::abi::*;
use crate::comm::Comm;
use crate::datatype;
use crate::error::{Fault, array};
use crate::handle::Held;
use crate::op;

fn operator(op: MPI_Op, datatype: MPI_Datatype) -> Result<Operator, Fault> {
    op::operator(&op::get(op)?, &datatype::get(datatype)?)
}

/// A reduction whose contribution has `count` elements, and whose result `results`.
pub(super) fn recipe(
    comm: &Held<Comm>,
    (send, recv): (*const c_void, *mut c_void),
    (count, results): (i64, i64),
    datatype: MPI_Datatype,
    operator: Operator,
    task: impl FnOnce(usize) -> Task,
) -> Result<Recipe, Fault> {
    let in_place = is_in_place(send);
    let (input, output) = match in_place {
        // The memory of the result has both.
        true => (Side::Nothing, side::one(recv, count.max(results), datatype)?),
        false => (side::one(send, count, datatype)?, side::one(recv, results, datatype)?),
    };
    let len = if in_place { output.len() } else { input.len() };
    let recipe = Recipe::new(comm, task(len));
    Ok(Recipe { operator: Some(operator), input, output, in_place, ..recipe })
}

fn reduce(
    comm: &Held<Comm>,
    (send, recv): (*const c_void, *mut c_void),
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
) -> Result<Plan, Fault> {
    if comm.remote.is_some() {
        let operator = || operator(op, datatype);
        return inter::reduce(comm, (send, recv), count, datatype, operator, root);
    }
    let operator = operator(op, datatype)?;
    let root = checked(comm, root)?;
    if comm.rank() == root {
        let task = |len| Task::Reduce { root, len };
        return Ok(Plan::Group(recipe(
            comm,
            (send, recv),
            (count, count),
            datatype,
            operator,
            task,
        )?));
    }
    if is_in_place(send) {
        return Err(not_in_place("sendbuf"));
    }
    let input = side::one(send, count, datatype)?;
    let recipe = Recipe::new(comm, Task::Reduce { root, len: input.len() });
    Ok(Plan::Group(Recipe { operator: Some(operator), input, ..recipe }))
}

fn allreduce(
    comm: &Held<Comm>,
    buffers: (*const c_void, *mut c_void),
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> Result<Plan, Fault> {
    let operator = operator(op, datatype)?;
    if comm.remote.is_some() {
        return inter::allreduce(comm, buffers, count, datatype, operator);
    }
    let task = |len| Task::Allreduce { len };
    Ok(Plan::Group(recipe(comm, buffers, (count, count), datatype, operator, task)?))
}

/// `counts`: the elements that each rank gets.
fn reduce_scatter(
    comm: &Held<Comm>,
    buffers: (*const c_void, *mut c_void),
    counts: &[i64],
    even: bool,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> Result<Plan, Fault> {
    if let Some(count) = counts.iter().find(|&&count| count < 0) {
        return Err(Fault::argument(MPI_ERR_COUNT, "recvcounts", count, "it is not negative"));
    }
    let operator = operator(op, datatype)?;
    let total = counts.iter().fold(0i64, |sum, &count| sum.saturating_add(count));
    let own = counts[comm.rank() as usize];
    if comm.remote.is_some() {
        return inter::reduce_scatter(comm, buffers, counts, datatype, operator);
    }
    let size = datatype::get(datatype)?.size;
    let blocks = match even {
        true => Blocks::Even(size * own as usize),
        false => Blocks::of_lengths(counts.iter().map(|&count| size * count as usize)),
    };
    let task = |_| Task::ReduceScatter { blocks };
    let recipe = recipe(comm, buffers, (total, own), datatype, operator, task)?;
    Ok(Plan::Group(recipe))
}

fn reduce_scatter_of<N: Whole>(
    comm: &Held<Comm>,
    buffers: (*const c_void, *mut c_void),
    counts: *const N,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> Result<Plan, Fault> {
    let counts = array(counts, i64::from(comm.group.size()), "recvcounts")?;
    let counts: Vec<i64> = counts.iter().map(|count| count.wide()).collect();
    reduce_scatter(comm, buffers, &counts, false, datatype, op)
}

fn scan(
    comm: &Held<Comm>,
    buffers: (*const c_void, *mut c_void),
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    inclusive: bool,
) -> Result<Plan, Fault> {
    if comm.remote.is_some() {
        let why = "an intercommunicator has no scan";
        return Err(Fault::argument(
            MPI_ERR_COMM,
            "comm",
            format_args!("{:#x}", comm.handle().0),
            why,
        ));
    }
    let operator = operator(op, datatype)?;
    let task = |len| Task::Scan { len, inclusive };
    let recipe = recipe(comm, buffers, (count, count), datatype, operator, task)?;
    // The first rank's result of an exclusive one stays as it is.
    Ok(Plan::Group(Recipe { keeps: !inclusive, ..recipe }))
}

collective! {
    MPI_Reduce MPI_Reduce_c MPI_Ireduce MPI_Ireduce_c MPI_Reduce_init MPI_Reduce_init_c
    (sendbuf: *const c_void, recvbuf: *mut c_void, count: N, datatype: MPI_Datatype, op: MPI_Op, root: c_int) comm {
        let call = Call::new("MPI_Reduce").rooted(root).combining(op).of_bytes(count.wide(), datatype);
        (call, reduce(&comm, (sendbuf, recvbuf), count.wide(), datatype, op, root))
    }
}

collective! {
    MPI_Allreduce MPI_Allreduce_c MPI_Iallreduce MPI_Iallreduce_c MPI_Allreduce_init MPI_Allreduce_init_c
    (sendbuf: *const c_void, recvbuf: *mut c_void, count: N, datatype: MPI_Datatype, op: MPI_Op) comm {
        let call = Call::new("MPI_Allreduce").combining(op).of_bytes(count.wide(), datatype);
        (call, allreduce(&comm, (sendbuf, recvbuf), count.wide(), datatype, op))
    }
}

collective! {
    MPI_Reduce_scatter MPI_Reduce_scatter_c MPI_Ireduce_scatter MPI_Ireduce_scatter_c
    MPI_Reduce_scatter_init MPI_Reduce_scatter_init_c
    (sendbuf: *const c_void, recvbuf: *mut c_void, recvcounts: *const N, datatype: MPI_Datatype, op: MPI_Op) comm {
        let plan = reduce_scatter_of(&comm, (sendbuf, recvbuf), recvcounts, datatype, op);
        (Call::new("MPI_Reduce_scatter").combining(op), plan)
    }
}

collective! {
    MPI_Reduce_scatter_block MPI_Reduce_scatter_block_c MPI_Ireduce_scatter_block MPI_Ireduce_scatter_block_c
    MPI_Reduce_scatter_block_init MPI_Reduce_scatter_block_init_c
    (sendbuf: *const c_void, recvbuf: *mut c_void, recvcount: N, datatype: MPI_Datatype, op: MPI_Op) comm {
        let counts = vec![recvcount.wide(); comm.group.size() as usize];
        let call = Call::new("MPI_Reduce_scatter_block").combining(op).of_bytes(recvcount.wide(), datatype);
        (call, reduce_scatter(&comm, (sendbuf, recvbuf), &counts, true, datatype, op))
    }
}

collective! {
    MPI_Scan MPI_Scan_c MPI_Iscan MPI_Iscan_c MPI_Scan_init MPI_Scan_init_c
    (sendbuf: *const c_void, recvbuf: *mut c_void, count: N, datatype: MPI_Datatype, op: MPI_Op) comm {
        let call = Call::new("MPI_Scan").combining(op).of_bytes(count.wide(), datatype);
        (call, scan(&comm, (sendbuf, recvbuf), count.wide(), datatype, op, true))
    }
}

collective! {
    MPI_Exscan MPI_Exscan_c MPI_Iexscan MPI_Iexscan_c MPI_Exscan_init MPI_Exscan_init_c
    (sendbuf: *const c_void, recvbuf: *mut c_void, count: N, datatype: MPI_Datatype, op: MPI_Op) comm {
        let call = Call::new("MPI_Exscan").combining(op).of_bytes(count.wide(), datatype);
        (call, scan(&comm, (sendbuf, recvbuf), count.wide(), datatype, op, false))
    }
}
