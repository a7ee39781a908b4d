//! Graphs of which every process knows its neighbours.

use core::ffi::c_int;

/// Neighbours, and what the edges weigh, if they do.
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

/// An edge as it is told to all: from, to, weight.
pub(crate) type Edge = [i32; 3];

impl Edges {
    /// Those of `all` that end at a process: the edges that leave it (`end` 0), or those that reach it (1).
    pub(crate) fn at(rank: c_int, end: usize, all: &[Edge]) -> Edges {
        let own = || all.iter().filter(|edge| edge[end] == rank);
        Edges {
            ranks: own().map(|edge| edge[1 - end]).collect(),
            weights: own().map(|edge| edge[2]).collect(),
        }
    }
}
