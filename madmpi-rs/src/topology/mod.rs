//! Topologies: who is whose neighbour in a communicator.
//!
//! Ranks are never reordered: which of them are near each other in the machine makes little difference on one.

mod cart;
mod dims;
mod dist;
mod graph;

use core::ffi::c_int;
use std::sync::Arc;

use crate::abi::*;
use crate::call::mpi;
use crate::comm::Comm;
use crate::error::{Fault, out};
use crate::group::Group;

use cart::Cart;
use dist::Dist;
use graph::Graph;

/// Who is whose neighbour.
pub(crate) enum Topology {
    Cart(Cart),
    Graph(Graph),
    Dist(Dist),
}

/// Ranks that messages come from and go to in neighbourhood collectives, in the standard's order; `MPI_PROC_NULL` for those
/// beyond the edge of a grid.
pub(crate) struct Neighbours {
    pub(crate) sources: Vec<c_int>,
    pub(crate) destinations: Vec<c_int>,
}

impl Comm {
    /// The neighbours of this process.
    ///
    /// # Errors
    /// The communicator has no topology.
    pub(crate) fn neighbours(&self) -> Result<Neighbours, Fault> {
        let both = |ranks: Vec<c_int>| Neighbours { sources: ranks.clone(), destinations: ranks };
        match self.topology() {
            Some(Topology::Cart(cart)) => Ok(both(cart.neighbours(self.rank()))),
            Some(Topology::Graph(graph)) => Ok(both(graph.neighbours(self.rank()).to_vec())),
            Some(Topology::Dist(dist)) => Ok(Neighbours {
                sources: dist.sources.ranks.clone(),
                destinations: dist.destinations.ranks.clone(),
            }),
            None => Err(none("any")),
        }
    }
}

#[cold]
fn none(kind: &str) -> Fault {
    Fault::new(MPI_ERR_TOPOLOGY, format!("argument comm has no topology of this kind ({kind})"))
}

/// A communicator of the first `count` processes of `comm`, with a topology; nothing for the others.
fn first(comm: &Comm, count: u32, topology: Topology) -> Result<Option<Arc<Comm>>, Fault> {
    let new = if count == comm.group.size() {
        Some(comm.twin()?)
    } else {
        let members = comm.group.members().iter().copied().take(count as usize).collect();
        comm.create(&Group::new(members))?
    };
    if let Some(new) = &new {
        new.set_topology(Arc::new(topology));
    }
    Ok(new)
}

/// A communicator with two sides has no topology.
fn without_sides(comm: &Comm) -> Result<(), Fault> {
    crate::comm::intra(comm)
}

/// The rank that a process of `comm` has among the first `count`.
fn mapped(comm: &Comm, count: u32) -> c_int {
    if comm.rank() < count { comm.rank() as c_int } else { MPI_UNDEFINED }
}

/// A rank argument.
fn rank(comm: &Comm, rank: c_int) -> Result<u32, Fault> {
    let found = u32::try_from(rank).ok().filter(|&rank| rank < comm.group.size());
    found.ok_or_else(|| comm.bad_rank("rank", rank))
}

mpi! {
    fn MPI_Topo_test(comm: MPI_Comm, status: *mut c_int) on comm {
        out(status, "status", match comm.topology() {
            Some(Topology::Cart(_)) => MPI_CART,
            Some(Topology::Graph(_)) => MPI_GRAPH,
            Some(Topology::Dist(_)) => MPI_DIST_GRAPH,
            None => MPI_UNDEFINED,
        })
    }
}
