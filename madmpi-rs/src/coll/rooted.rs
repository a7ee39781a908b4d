//! One has, or gets, what is of all: `MPI_Bcast`, `MPI_Gather(v)`, `MPI_Scatter(v)`.

use core::ffi::{c_int, c_void};

use newmad::coll::{Blocks, Task};

use super::check::Call;
use super::recipe::Recipe;
use super::side::{self, Whole};
use super::{Plan, collective, inter, root as checked};
use crate::abi::*;
use crate::comm::Comm;
use crate::error::Fault;
use crate::handle::Held;

type Elements<P> = (P, i64, MPI_Datatype);

fn bcast(
    comm: &Held<Comm>,
    (buf, count, datatype): Elements<*mut c_void>,
    root: c_int,
) -> Result<Plan, Fault> {
    if comm.remote.is_some() {
        return inter::bcast(comm, (buf, count, datatype), root);
    }
    let root = checked(comm, root)?;
    let output = side::one(buf, count, datatype)?;
    let recipe = Recipe::new(comm, Task::Bcast { root, len: output.len() });
    Ok(Plan::Group(Recipe { output, reads: comm.rank() == root, ..recipe }))
}

pub(super) fn is_in_place(buf: *const c_void) -> bool {
    buf.addr() == MPI_IN_PLACE
}

/// The own contribution or result is not to be given apart here.
pub(super) fn not_in_place(name: &str) -> Fault {
    let why = "only the root, of a communicator with one group, may have its data in place";
    Fault::argument(MPI_ERR_BUFFER, name, "MPI_IN_PLACE", why)
}

/// Who has, or gets, what is of all.
struct Roles {
    root: u32,
    at_root: bool,
    /// This is the root, and its own part is with all the others.
    in_place: bool,
}

fn roles(comm: &Comm, root: c_int, own: *const c_void, name: &str) -> Result<Roles, Fault> {
    let root = checked(comm, root)?;
    let at_root = comm.rank() == root;
    let in_place = is_in_place(own);
    match in_place && !at_root {
        true => Err(not_in_place(name)),
        false => Ok(Roles { root, at_root, in_place }),
    }
}

fn gather(
    comm: &Held<Comm>,
    send: Elements<*const c_void>,
    recv: Elements<*mut c_void>,
    root: c_int,
) -> Result<Plan, Fault> {
    if comm.remote.is_some() {
        return inter::gather(comm, send, root, || {
            inter::spread(recv.0, recv.1, recv.2, comm.peers().size())
        });
    }
    let Roles { root, at_root, in_place } = roles(comm, root, send.0, "sendbuf")?;
    let (output, blocks) = match at_root {
        true => side::even(recv.0, recv.1, comm.group.size(), recv.2)?,
        false => (side::Side::Nothing, Blocks::Even(0)),
    };
    let input = if in_place { side::Side::Nothing } else { side::one(send.0, send.1, send.2)? };
    let own = if in_place { blocks.own(0) } else { input.len() };
    let blocks = Some(if at_root { blocks } else { Blocks::Even(own) });
    let recipe = Recipe::new(comm, Task::Gather { root, own, blocks });
    Ok(Plan::Group(Recipe { input, output, in_place, ..recipe }))
}

fn gatherv<N: Whole, D: Whole>(
    comm: &Held<Comm>,
    send: Elements<*const c_void>,
    (buf, counts, displs, recvtype): (*mut c_void, *const N, *const D, MPI_Datatype),
    root: c_int,
) -> Result<Plan, Fault> {
    let described = |ranks| side::described(buf, counts, displs, ranks, recvtype);
    if comm.remote.is_some() {
        return inter::gather(comm, send, root, || described(comm.peers().size()));
    }
    let Roles { root, at_root, in_place } = roles(comm, root, send.0, "sendbuf")?;
    let input = if in_place { side::Side::Nothing } else { side::one(send.0, send.1, send.2)? };
    let (output, blocks, own) = match at_root {
        true => {
            let (output, blocks) = side::of_blocks(described(comm.group.size())?)?;
            let own = if in_place { blocks.own(root) } else { input.len() };
            (output, Some(blocks), own)
        }
        false => (side::Side::Nothing, None, input.len()),
    };
    let recipe = Recipe::new(comm, Task::Gather { root, own, blocks });
    Ok(Plan::Group(Recipe { input, output, in_place, keeps: true, ..recipe }))
}

fn scatter(
    comm: &Held<Comm>,
    send: Elements<*const c_void>,
    recv: Elements<*mut c_void>,
    root: c_int,
) -> Result<Plan, Fault> {
    if comm.remote.is_some() {
        return inter::scatter(comm, recv, root, || {
            inter::spread(send.0, send.1, send.2, comm.peers().size())
        });
    }
    let Roles { root, at_root, in_place } = roles(comm, root, recv.0, "recvbuf")?;
    let (input, blocks) = match at_root {
        true => side::even(send.0, send.1, comm.group.size(), send.2)?,
        false => (side::Side::Nothing, Blocks::Even(0)),
    };
    scattering(comm, root, input, Some(blocks).filter(|_| at_root), recv, in_place, true)
}

fn scatterv<N: Whole, D: Whole>(
    comm: &Held<Comm>,
    (buf, counts, displs, sendtype): (*const c_void, *const N, *const D, MPI_Datatype),
    recv: Elements<*mut c_void>,
    root: c_int,
) -> Result<Plan, Fault> {
    let described = |ranks| side::described(buf, counts, displs, ranks, sendtype);
    if comm.remote.is_some() {
        return inter::scatter(comm, recv, root, || described(comm.peers().size()));
    }
    let Roles { root, at_root, in_place } = roles(comm, root, recv.0, "recvbuf")?;
    let (input, blocks) = match at_root {
        true => {
            let (input, blocks) = side::of_blocks(described(comm.group.size())?)?;
            (input, Some(blocks))
        }
        false => (side::Side::Nothing, None),
    };
    scattering(comm, root, input, blocks, recv, in_place, false)
}

fn scattering(
    comm: &Held<Comm>,
    root: u32,
    input: side::Side,
    blocks: Option<Blocks>,
    recv: Elements<*mut c_void>,
    in_place: bool,
    even: bool,
) -> Result<Plan, Fault> {
    if in_place {
        // The root's contribution is where newmad would have the result go, and only read.
        let own = blocks.as_ref().map_or(0, |blocks| blocks.own(root));
        let recipe = Recipe::new(comm, Task::Scatter { root, own, blocks });
        return Ok(Plan::Group(Recipe { output: input, in_place, reads: true, ..recipe }));
    }
    let output = side::one(recv.0, recv.1, recv.2)?;
    let own = output.len();
    let blocks = blocks.or(even.then_some(Blocks::Even(own)));
    let recipe = Recipe::new(comm, Task::Scatter { root, own, blocks });
    Ok(Plan::Group(Recipe { input, output, ..recipe }))
}

collective! {
    MPI_Bcast MPI_Bcast_c MPI_Ibcast MPI_Ibcast_c MPI_Bcast_init MPI_Bcast_init_c
    (buffer: *mut c_void, count: N, datatype: MPI_Datatype, root: c_int) comm {
        let call = Call::new("MPI_Bcast").rooted(root).of_bytes(count.wide(), datatype);
        (call, bcast(&comm, (buffer, count.wide(), datatype), root))
    }
}

collective! {
    MPI_Gather MPI_Gather_c MPI_Igather MPI_Igather_c MPI_Gather_init MPI_Gather_init_c
    (sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcount: N, recvtype: MPI_Datatype, root: c_int) comm {
        let plan = gather(&comm, (sendbuf, sendcount.wide(), sendtype), (recvbuf, recvcount.wide(), recvtype), root);
        (Call::new("MPI_Gather").rooted(root), plan)
    }
}

collective! {
    MPI_Gatherv MPI_Gatherv_c MPI_Igatherv MPI_Igatherv_c MPI_Gatherv_init MPI_Gatherv_init_c
    (sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcounts: *const N, displs: *const D, recvtype: MPI_Datatype, root: c_int) comm {
        let plan = gatherv(&comm, (sendbuf, sendcount.wide(), sendtype), (recvbuf, recvcounts, displs, recvtype), root);
        (Call::new("MPI_Gatherv").rooted(root), plan)
    }
}

collective! {
    MPI_Scatter MPI_Scatter_c MPI_Iscatter MPI_Iscatter_c MPI_Scatter_init MPI_Scatter_init_c
    (sendbuf: *const c_void, sendcount: N, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcount: N, recvtype: MPI_Datatype, root: c_int) comm {
        let plan = scatter(&comm, (sendbuf, sendcount.wide(), sendtype), (recvbuf, recvcount.wide(), recvtype), root);
        (Call::new("MPI_Scatter").rooted(root), plan)
    }
}

collective! {
    MPI_Scatterv MPI_Scatterv_c MPI_Iscatterv MPI_Iscatterv_c MPI_Scatterv_init MPI_Scatterv_init_c
    (sendbuf: *const c_void, sendcounts: *const N, displs: *const D, sendtype: MPI_Datatype,
     recvbuf: *mut c_void, recvcount: N, recvtype: MPI_Datatype, root: c_int) comm {
        let plan = scatterv(&comm, (sendbuf, sendcounts, displs, sendtype), (recvbuf, recvcount.wide(), recvtype), root);
        (Call::new("MPI_Scatterv").rooted(root), plan)
    }
}
