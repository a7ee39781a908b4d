//! Graphs: every process knows the whole graph.

use core::ffi::c_int;

use crate::abi::*;
use crate::error::Fault;

/// A graph.
pub(crate) struct Graph {
    /// The end of each process's neighbours in `edges`.
    pub(crate) index: Vec<c_int>,
    pub(crate) edges: Vec<c_int>,
}

impl Graph {
    /// # Errors
    /// The numbers in `index` decrease or are negative.
    pub(crate) fn check_index(index: &[c_int]) -> Result<(), Fault> {
        if index.is_sorted() && index.first().is_none_or(|&first| first >= 0) {
            return Ok(());
        }
        let why = "its entries are cumulative, so none is less than the one before";
        Err(Fault::argument(MPI_ERR_ARG, "index", format_args!("{index:?}"), why))
    }

    /// # Errors
    /// An edge leads to no node.
    pub(crate) fn new(index: &[c_int], edges: &[c_int]) -> Result<Graph, Fault> {
        let nodes = index.len() as c_int;
        if let Some(&edge) = edges.iter().find(|&&edge| !(0..nodes).contains(&edge)) {
            let why = format!("the graph has nodes 0 to {}", nodes - 1);
            return Err(Fault::argument(MPI_ERR_ARG, "edges", edge, &why));
        }
        Ok(Graph { index: index.to_vec(), edges: edges.to_vec() })
    }

    pub(crate) fn neighbours(&self, rank: u32) -> &[c_int] {
        let rank = rank as usize;
        let begin = if rank == 0 { 0 } else { self.index[rank - 1] };
        &self.edges[begin as usize..self.index[rank] as usize]
    }
}
