//! Collectives with a root: `MPI_Bcast`, `MPI_Gather(v)`, `MPI_Scatter(v)`.

use core::ffi::c_int;

use newmad::coll::{Blocks, Task};

use super::buffers::{self, Buffer, Layout};
use super::group_plan::GroupPlan;
use super::inter;
use super::plan::Plan;
use crate::abi::*;
use crate::comm::Comm;
use crate::datatype::Choice;
use crate::error::Fault;
use crate::handle::Ref;

/// The root of a collective of one group.
///
/// # Errors
/// There is no such rank.
pub(crate) fn checked(comm: &Comm, root: c_int) -> Result<u32, Fault> {
    let found = u32::try_from(root).ok().filter(|&root| root < comm.group.size());
    found.ok_or_else(|| {
        let why = format!("the communicator has ranks 0 to {}", comm.group.size() - 1);
        Fault::argument(MPI_ERR_ROOT, "root", root, &why)
    })
}

/// The fault of `MPI_IN_PLACE` at a rank that may not use it.
pub(super) fn not_in_place(name: &str) -> Fault {
    let why = "only the root, of a communicator with one group, may have its data in place";
    Fault::argument(MPI_ERR_BUFFER, name, "MPI_IN_PLACE", why)
}

pub(crate) fn bcast(comm: &Ref<Comm>, buffer: Choice, root: c_int) -> Result<Plan, Fault> {
    if comm.remote.is_some() {
        return inter::bcast(comm, buffer, root);
    }
    let root = checked(comm, root)?;
    let output = buffers::one(buffer)?;
    let plan = GroupPlan::new(comm, Task::Bcast { root, len: output.len() });
    Ok(Plan::Group(GroupPlan { output, reads: comm.rank() == root, ..plan }))
}

/// The role of a rank in a gather or a scatter.
struct Role {
    root: u32,
    at_root: bool,
    /// This is the root, and its own block lies among the others'.
    in_place: bool,
}

fn role(comm: &Comm, root: c_int, own: Choice, name: &str) -> Result<Role, Fault> {
    let root = checked(comm, root)?;
    let at_root = comm.rank() == root;
    let in_place = own.is_in_place();
    match in_place && !at_root {
        true => Err(not_in_place(name)),
        false => Ok(Role { root, at_root, in_place }),
    }
}

/// The fault of a root whose own block has two lengths. The other blocks go where they should; its own stays.
fn own_differs(sent: usize, received: usize) -> Option<Fault> {
    let class = if sent > received { MPI_ERR_TRUNCATE } else { MPI_ERR_COUNT };
    let why = || format!("the root sends itself {sent} bytes, and receives {received}");
    (sent != received).then(|| Fault::new(class, why()))
}

pub(crate) fn gather(
    comm: &Ref<Comm>,
    send: Choice,
    recv: Layout,
    root: c_int,
) -> Result<Plan, Fault> {
    if comm.remote.is_some() {
        return inter::gather(comm, send, recv, root);
    }
    let Role { root, at_root, in_place } = role(comm, root, send, "sendbuf")?;
    let input = if in_place { Buffer::Nothing } else { buffers::one(send)? };
    let (output, blocks) = match at_root {
        true => some_blocks(recv.buffer(comm.group.size())?),
        false => (Buffer::Nothing, recv.is_even().then_some(Blocks::Even(input.len()))),
    };
    let keeps = !recv.is_even(); // there may be gaps between the blocks
    let plan = |own, blocks| GroupPlan::new(comm, Task::Gather { root, own, blocks });
    let own = blocks.as_ref().filter(|_| at_root).map(|blocks| blocks.own(root));
    let fault = own.filter(|_| !in_place).and_then(|own| own_differs(input.len(), own));
    if let (Some(own), true) = (own, in_place || fault.is_some()) {
        return Ok(Plan::Group(GroupPlan {
            output,
            in_place: true,
            keeps,
            fault,
            ..plan(own, blocks)
        }));
    }
    let plan = plan(input.len(), blocks);
    Ok(Plan::Group(GroupPlan { input, output, in_place, keeps, ..plan }))
}

pub(crate) fn scatter(
    comm: &Ref<Comm>,
    send: Layout,
    recv: Choice,
    root: c_int,
) -> Result<Plan, Fault> {
    if comm.remote.is_some() {
        return inter::scatter(comm, send, recv, root);
    }
    let Role { root, at_root, in_place } = role(comm, root, recv, "recvbuf")?;
    let (input, blocks) = match at_root {
        true => some_blocks(send.buffer(comm.group.size())?),
        false => (Buffer::Nothing, None),
    };
    let output = if in_place { Buffer::Nothing } else { buffers::one(recv)? };
    let own = blocks.as_ref().map(|blocks| blocks.own(root));
    let fault = own.filter(|_| !in_place).and_then(|own| own_differs(own, output.len()));
    if let (Some(own), true) = (own, in_place || fault.is_some()) {
        // newmad takes the contribution where the result would go, and only reads it.
        let plan = GroupPlan::new(comm, Task::Scatter { root, own, blocks });
        return Ok(Plan::Group(GroupPlan {
            output: input,
            in_place: true,
            reads: true,
            fault,
            ..plan
        }));
    }
    let own = output.len();
    let blocks = blocks.or(send.is_even().then_some(Blocks::Even(own)));
    let plan = GroupPlan::new(comm, Task::Scatter { root, own, blocks });
    Ok(Plan::Group(GroupPlan { input, output, ..plan }))
}

fn some_blocks((buffer, blocks): (Buffer, Blocks)) -> (Buffer, Option<Blocks>) {
    (buffer, Some(blocks))
}
