//! Distributed graphs: every process knows its own neighbours.

use core::ffi::c_int;

/// Neighbours, and the weights of the edges to them.
pub(crate) struct Edges {
    pub(crate) ranks: Vec<c_int>,
    pub(crate) weights: Vec<c_int>,
}

/// A graph, seen from one process.
pub(crate) struct Dist {
    pub(crate) sources: Edges,
    pub(crate) destinations: Edges,
    pub(crate) weighted: bool,
}

/// An edge: from, to, weight.
pub(crate) type Edge = [i32; 3];

impl Edges {
    /// The edges of `all` that leave a process (`end` 0), or reach it (1).
    pub(crate) fn at(rank: c_int, end: usize, all: &[Edge]) -> Edges {
        let own = || all.iter().filter(|edge| edge[end] == rank);
        Edges {
            ranks: own().map(|edge| edge[1 - end]).collect(),
            weights: own().map(|edge| edge[2]).collect(),
        }
    }
}
