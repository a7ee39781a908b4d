//! Graphs that every process knows whole.

use core::ffi::c_int;

use super::{Topology, first, mapped, none, rank, without_sides};
use crate::abi::*;
use crate::call::mpi;
use crate::comm::{Comm, give};
use crate::error::{Fault, array, array_mut, out};

/// A graph.
pub(crate) struct Graph {
    /// Where the neighbours of each end.
    index: Vec<c_int>,
    edges: Vec<c_int>,
}

impl Graph {
    fn new(
        nnodes: c_int,
        index: *const c_int,
        edges: *const c_int,
        most: u32,
    ) -> Result<Graph, Fault> {
        if nnodes < 0 || nnodes as u32 > most {
            let why = format!("there are {most} processes");
            return Err(Fault::argument(MPI_ERR_ARG, "nnodes", nnodes, &why));
        }
        let index = array(index, nnodes.into(), "index")?;
        if !index.is_sorted() || index.first().is_some_and(|&first| first < 0) {
            let why =
                "the numbers of neighbours are added up in it, so none is less than the one before";
            return Err(Fault::argument(MPI_ERR_ARG, "index", format_args!("{index:?}"), why));
        }
        let edges = array(edges, index.last().copied().unwrap_or(0).into(), "edges")?;
        if let Some(&edge) = edges.iter().find(|&&edge| !(0..nnodes).contains(&edge)) {
            let why = format!("the graph has nodes 0 to {}", nnodes - 1);
            return Err(Fault::argument(MPI_ERR_ARG, "edges", edge, &why));
        }
        Ok(Graph { index: index.to_vec(), edges: edges.to_vec() })
    }

    pub(super) fn neighbours(&self, rank: u32) -> &[c_int] {
        let rank = rank as usize;
        let begin = if rank == 0 { 0 } else { self.index[rank - 1] };
        &self.edges[begin as usize..self.index[rank] as usize]
    }
}

fn of(comm: &Comm) -> Result<&Graph, Fault> {
    match comm.topology() {
        Some(Topology::Graph(graph)) => Ok(graph),
        _ => Err(none("graph")),
    }
}

/// As many of the values as there is room for.
fn some(values: &[c_int], place: *mut c_int, most: c_int, name: &str) -> Result<(), Fault> {
    let count = values.len().min(usize::try_from(most).unwrap_or(0));
    array_mut(place, count as i64, name)?.copy_from_slice(&values[..count]);
    Ok(())
}

mpi! {
    fn MPI_Graph_create(
        comm_old: MPI_Comm, nnodes: c_int, indx: *const c_int, edges: *const c_int, _reorder: c_int,
        comm_graph: *mut MPI_Comm,
    ) on comm_old {
        give(comm_graph, None)?;
        without_sides(&comm_old)?;
        let graph = Graph::new(nnodes, indx, edges, comm_old.group.size())?;
        if nnodes == 0 {
            return Ok(());
        }
        give(comm_graph, first(&comm_old, nnodes as u32, Topology::Graph(graph))?)
    }

    fn MPI_Graph_map(
        comm: MPI_Comm, nnodes: c_int, indx: *const c_int, edges: *const c_int, newrank: *mut c_int,
    ) on comm {
        Graph::new(nnodes, indx, edges, comm.group.size())?;
        out(newrank, "newrank", mapped(&comm, nnodes as u32))
    }

    fn MPI_Graphdims_get(comm: MPI_Comm, nnodes: *mut c_int, nedges: *mut c_int) on comm {
        let graph = of(&comm)?;
        out(nnodes, "nnodes", graph.index.len() as c_int)?;
        out(nedges, "nedges", graph.edges.len() as c_int)
    }

    fn MPI_Graph_get(
        comm: MPI_Comm, maxindex: c_int, maxedges: c_int, indx: *mut c_int, edges: *mut c_int,
    ) on comm {
        let graph = of(&comm)?;
        some(&graph.index, indx, maxindex, "indx")?;
        some(&graph.edges, edges, maxedges, "edges")
    }

    fn MPI_Graph_neighbors_count(comm: MPI_Comm, rank_: c_int, nneighbors: *mut c_int) on comm {
        let graph = of(&comm)?;
        out(nneighbors, "nneighbors", graph.neighbours(rank(&comm, rank_)?).len() as c_int)
    }

    fn MPI_Graph_neighbors(
        comm: MPI_Comm, rank_: c_int, maxneighbors: c_int, neighbors: *mut c_int,
    ) on comm {
        let graph = of(&comm)?;
        some(graph.neighbours(rank(&comm, rank_)?), neighbors, maxneighbors, "neighbors")
    }
}
