//! Collectives of neighbours in a topology: `MPI_Neighbor_allgather(v)`, `MPI_Neighbor_alltoall(v,w)`.
//!
//! Between two processes there may be several edges. In a graph, messages of one pair match in the order in which both
//! list them. In a grid, what goes in a direction comes from that direction: with two processes round a ring, what was
//! sent to the left comes from the right. So messages in a grid have a lane for each direction.

use core::ffi::c_int;

use super::buffers::Layout;
use super::exchange::{Exchange, Message};
use super::plan::Plan;
use crate::abi::*;
use crate::comm::Comm;
use crate::datatype::Elements;
use crate::error::Fault;
use crate::handle::Ref;
use crate::topology::{Neighbours, Topology};

/// Messages to or from the neighbours that exist.
fn messages(
    comm: &Comm,
    neighbours: &[c_int],
    blocks: Vec<Elements>,
    lane: impl Fn(u32) -> u32,
) -> Result<Vec<Message>, Fault> {
    let mut all = Vec::with_capacity(blocks.len());
    for (index, (&rank, elements)) in neighbours.iter().zip(blocks).enumerate() {
        if rank == MPI_PROC_NULL {
            continue;
        }
        let process = u32::try_from(rank).ok().and_then(|rank| comm.group.process(rank));
        let process = process.ok_or_else(|| comm.bad_rank("neighbour", rank))?;
        all.push(Message { process, lane: lane(index as u32), elements });
    }
    Ok(all)
}

pub(crate) fn neighbours(comm: &Ref<Comm>, send: Layout, recv: Layout) -> Result<Plan, Fault> {
    let Some(topology) = comm.topology() else {
        let why = "argument comm has no topology of this kind (any)";
        return Err(Fault::new(MPI_ERR_TOPOLOGY, why));
    };
    let Neighbours { sources, destinations } = topology.neighbours(comm.rank());
    let grid = matches!(topology, Topology::Cart(_));
    // Directions are numbered in pairs: what leaves in one arrives from the other.
    let leaving = |index: u32| if grid { index ^ 1 } else { 0 };
    let arriving = |index: u32| if grid { index } else { 0 };
    let sends = messages(comm, &destinations, send.blocks(destinations.len() as u32)?, leaving)?;
    let receives = messages(comm, &sources, recv.blocks(sources.len() as u32)?, arriving)?;
    Ok(Plan::Exchange(Exchange::new(comm, receives, sends)))
}
