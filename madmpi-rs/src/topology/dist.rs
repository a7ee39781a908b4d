//! Graphs of which every process knows its neighbours.

use core::ffi::c_int;
use std::sync::Arc;

use newmad::coll::Op;

use super::{Topology, none, without_sides};
use crate::abi::*;
use crate::call::mpi;
use crate::comm::{Comm, give};
use crate::error::{Fault, array, array_mut, out};
use crate::info;

/// Neighbours, and what the edges weigh, if they do.
pub(crate) struct Edges {
    pub(super) ranks: Vec<c_int>,
    weights: Vec<c_int>,
}

/// A graph, seen from one process.
pub(crate) struct Dist {
    pub(super) sources: Edges,
    pub(super) destinations: Edges,
    weighted: bool,
}

/// An edge as it is told to all: from, to, weight.
type Edge = [i32; 3];

fn ranks(comm: &Comm, place: *const c_int, count: c_int, name: &str) -> Result<Vec<c_int>, Fault> {
    if count < 0 {
        return Err(Fault::argument(MPI_ERR_ARG, "degree", count, "it is not negative"));
    }
    let ranks = array(place, count.into(), name)?;
    let known = |rank: c_int| u32::try_from(rank).is_ok_and(|rank| rank < comm.group.size());
    match ranks.iter().find(|&&rank| !known(rank)) {
        Some(&rank) => Err(comm.bad_rank(name, rank)),
        None => Ok(ranks.to_vec()),
    }
}

/// Weights; `None`: there are none. A weight is not negative.
fn weights(place: *const c_int, count: usize, name: &str) -> Result<Option<Vec<c_int>>, Fault> {
    match place as usize {
        MPI_UNWEIGHTED => return Ok(None),
        MPI_WEIGHTS_EMPTY if count == 0 => return Ok(Some(Vec::new())),
        MPI_WEIGHTS_EMPTY => {
            let why = format!("there are {count} edges");
            return Err(Fault::argument(MPI_ERR_ARG, name, "MPI_WEIGHTS_EMPTY", &why));
        }
        _ => {}
    }
    let weights = array(place, count as i64, name)?;
    match weights.iter().find(|&&weight| weight < 0) {
        Some(&weight) => Err(Fault::argument(MPI_ERR_ARG, name, weight, "it is not negative")),
        None => Ok(Some(weights.to_vec())),
    }
}

/// The edges that all processes know of together, those of the first one first.
fn all_edges(comm: &Comm, own: &[Edge]) -> Result<Vec<Edge>, Fault> {
    let group = comm.coll_group()?;
    let mut counts = vec![0u64; group.size() as usize];
    group.allgather(&[own.len() as u64], &mut counts)?;
    let counts: Vec<usize> = counts.into_iter().map(|count| count as usize).collect();
    let mut all = vec![[0; 3]; counts.iter().sum()];
    group.allgatherv(own, &mut all, &counts)?;
    Ok(all)
}

/// The edges at one end of which a process is; `end`: 0 those that leave it, 1 those that reach it.
fn at(rank: c_int, end: usize, all: &[Edge]) -> Edges {
    let own = || all.iter().filter(|edge| edge[end] == rank);
    Edges {
        ranks: own().map(|edge| edge[1 - end]).collect(),
        weights: own().map(|edge| edge[2]).collect(),
    }
}

fn make(comm: &Comm, dist: Dist) -> Result<Arc<Comm>, Fault> {
    let new = comm.twin()?;
    new.set_topology(Arc::new(Topology::Dist(dist)));
    Ok(new)
}

fn of(comm: &Comm) -> Result<&Dist, Fault> {
    match comm.topology() {
        Some(Topology::Dist(dist)) => Ok(dist),
        _ => Err(none("distributed graph")),
    }
}

/// Gives the program neighbours and weights, as many as it has room for.
fn tell(
    dist: &Dist,
    edges: &Edges,
    most: c_int,
    (ranks, name): (*mut c_int, &str),
    weights: *mut c_int,
) -> Result<(), Fault> {
    let Ok(most) = usize::try_from(most) else {
        return Err(Fault::argument(MPI_ERR_ARG, "maxdegree", most, "it is not negative"));
    };
    let count = edges.ranks.len().min(most);
    array_mut(ranks, count as i64, name)?.copy_from_slice(&edges.ranks[..count]);
    if dist.weighted && !matches!(weights as usize, MPI_UNWEIGHTED | MPI_WEIGHTS_EMPTY) {
        array_mut(weights, count as i64, "weights")?.copy_from_slice(&edges.weights[..count]);
    }
    Ok(())
}

mpi! {
    fn MPI_Dist_graph_create_adjacent(
        comm_old: MPI_Comm, indegree: c_int, sources: *const c_int, sourceweights: *const c_int,
        outdegree: c_int, destinations: *const c_int, destweights: *const c_int, info: MPI_Info, _reorder: c_int,
        comm_dist_graph: *mut MPI_Comm,
    ) on comm_old {
        give(comm_dist_graph, None)?;
        without_sides(&comm_old)?;
        info::check(info)?;
        let sources = ranks(&comm_old, sources, indegree, "sources")?;
        let destinations = ranks(&comm_old, destinations, outdegree, "destinations")?;
        let (from, to) = (
            weights(sourceweights, sources.len(), "sourceweights")?,
            weights(destweights, destinations.len(), "destweights")?,
        );
        let weighted = from.is_some() || to.is_some();
        let dist = Dist {
            sources: Edges { weights: from.unwrap_or_else(|| vec![1; sources.len()]), ranks: sources },
            destinations: Edges { weights: to.unwrap_or_else(|| vec![1; destinations.len()]), ranks: destinations },
            weighted,
        };
        give(comm_dist_graph, Some(make(&comm_old, dist)?))
    }

    fn MPI_Dist_graph_create(
        comm_old: MPI_Comm, n: c_int, sources: *const c_int, degrees: *const c_int, destinations: *const c_int,
        weights_: *const c_int, info: MPI_Info, _reorder: c_int, comm_dist_graph: *mut MPI_Comm,
    ) on comm_old {
        give(comm_dist_graph, None)?;
        without_sides(&comm_old)?;
        info::check(info)?;
        let sources = ranks(&comm_old, sources, n, "sources")?;
        let degrees = array(degrees, n.into(), "degrees")?;
        if let Some(&degree) = degrees.iter().find(|&&degree| degree < 0) {
            return Err(Fault::argument(MPI_ERR_ARG, "degrees", degree, "it is not negative"));
        }
        let count = degrees.iter().fold(0i64, |sum, &degree| sum + i64::from(degree));
        let count = c_int::try_from(count).map_err(|_| {
            Fault::argument(MPI_ERR_ARG, "degrees", count, "so many edges cannot be told")
        })?;
        let destinations = ranks(&comm_old, destinations, count, "destinations")?;
        let weights = weights(weights_, destinations.len(), "weights")?;
        let weighted = weights.is_some();
        let from = sources.iter().zip(degrees).flat_map(|(&from, &degree)| (0..degree).map(move |_| from));
        let weights = weights.unwrap_or_else(|| vec![1; destinations.len()]);
        let own: Vec<Edge> =
            from.zip(&destinations).zip(&weights).map(|((from, &to), &weight)| [from, to, weight]).collect();
        let all = all_edges(&comm_old, &own)?;
        // A process that says nothing of edges says nothing of weights.
        let mut says = [i32::from(weighted)];
        comm_old.coll_group()?.allreduce(&mut says, &Op::max())?;
        let rank = comm_old.rank() as c_int;
        let dist = Dist { sources: at(rank, 1, &all), destinations: at(rank, 0, &all), weighted: says[0] != 0 };
        give(comm_dist_graph, Some(make(&comm_old, dist)?))
    }

    fn MPI_Dist_graph_neighbors_count(
        comm: MPI_Comm, indegree: *mut c_int, outdegree: *mut c_int, weighted: *mut c_int,
    ) on comm {
        let dist = of(&comm)?;
        out(indegree, "indegree", dist.sources.ranks.len() as c_int)?;
        out(outdegree, "outdegree", dist.destinations.ranks.len() as c_int)?;
        out(weighted, "weighted", c_int::from(dist.weighted))
    }

    fn MPI_Dist_graph_neighbors(
        comm: MPI_Comm, maxindegree: c_int, sources: *mut c_int, sourceweights: *mut c_int, maxoutdegree: c_int,
        destinations: *mut c_int, destweights: *mut c_int,
    ) on comm {
        let dist = of(&comm)?;
        tell(dist, &dist.sources, maxindegree, (sources, "sources"), sourceweights)?;
        tell(dist, &dist.destinations, maxoutdegree, (destinations, "destinations"), destweights)
    }
}
