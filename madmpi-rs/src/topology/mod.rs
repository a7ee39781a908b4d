//! Topologies: which processes of a communicator are neighbours.
//!
//! The ranks of a grid are given out anew where the program allows that and neighbours come nearer to each other
//! ([`reorder`]); those of graphs never.

mod cart;
pub(crate) mod dims;
mod dist;
mod graph;
mod place;
mod reorder;

use core::ffi::c_int;

pub(crate) use cart::Cart;
pub(crate) use dist::{Dist, Edge, Edges};
pub(crate) use graph::Graph;
pub(crate) use place::here;
pub(crate) use reorder::{Place, reorder};

/// A topology.
pub(crate) enum Topology {
    Cart(Cart),
    Graph(Graph),
    Dist(Dist),
}

/// The ranks that neighbourhood collectives receive from and send to, in the standard's order; `MPI_PROC_NULL` beyond
/// the edge of a grid.
pub(crate) struct Neighbours {
    pub(crate) sources: Vec<c_int>,
    pub(crate) destinations: Vec<c_int>,
}

impl Topology {
    /// The neighbours of the process with that rank.
    pub(crate) fn neighbours(&self, rank: u32) -> Neighbours {
        let both = |ranks: Vec<c_int>| Neighbours { sources: ranks.clone(), destinations: ranks };
        match self {
            Topology::Cart(cart) => both(cart.neighbours(rank)),
            Topology::Graph(graph) => both(graph.neighbours(rank).to_vec()),
            Topology::Dist(dist) => Neighbours {
                sources: dist.sources.ranks.clone(),
                destinations: dist.destinations.ranks.clone(),
            },
        }
    }
}
