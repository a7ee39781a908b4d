//! Topologies: making communicators that have one, and queries.

use core::ffi::c_int;
use std::sync::Arc;

use newmad::coll::Op;

use super::comm::give;
use super::entry::mpi;
use crate::abi::*;
use crate::args::{Array, ArrayMut, Out, array, array_mut, not_negative, out};
use crate::comm::topology::{all_edges, with_edges, with_reordered, with_topology};
use crate::comm::{Comm, SplitKey};
use crate::error::Fault;
use crate::info;
use crate::topology::{Cart, Dist, Edge, Edges, Graph, Topology, dims};

#[cold]
fn none(kind: &str) -> Fault {
    Fault::new(MPI_ERR_TOPOLOGY, format!("argument comm has no topology of this kind ({kind})"))
}

/// The rank of this process among the first `count` ones.
fn mapped(comm: &Comm, count: u32) -> c_int {
    if comm.rank() < count { comm.rank() as c_int } else { MPI_UNDEFINED }
}

/// A rank argument.
fn rank(comm: &Comm, rank: c_int) -> Result<u32, Fault> {
    let found = u32::try_from(rank).ok().filter(|&rank| rank < comm.group.size());
    found.ok_or_else(|| comm.bad_rank("rank", rank))
}

mpi! {
    fn MPI_Topo_test(comm: MPI_Comm, status: Out<c_int>) on comm {
        out(status, "status", match comm.topology() {
            Some(Topology::Cart(_)) => MPI_CART,
            Some(Topology::Graph(_)) => MPI_GRAPH,
            Some(Topology::Dist(_)) => MPI_DIST_GRAPH,
            None => MPI_UNDEFINED,
        })
    }
}

// Grids.

fn grid(ndims: c_int, dims: Array<c_int>, periods: Array<c_int>) -> Result<Cart, Fault> {
    not_negative(MPI_ERR_DIMS, "ndims", ndims)?;
    Cart::new(array!(dims[ndims])?, array!(periods[ndims])?)
}

fn cart(comm: &Comm) -> Result<&Cart, Fault> {
    match comm.topology() {
        Some(Topology::Cart(cart)) => Ok(cart),
        _ => Err(none("Cartesian")),
    }
}

/// The room for a value of each dimension; the program may have more.
fn room<'a>(
    place: ArrayMut<'a, c_int>,
    most: c_int,
    cart: &Cart,
    name: &str,
) -> Result<&'a mut [c_int], Fault> {
    if i64::from(most) < cart.dims.len() as i64 {
        let why = format!("there are {} dimensions", cart.dims.len());
        return Err(Fault::argument(MPI_ERR_ARG, "maxdims", most, &why));
    }
    array_mut!(place[cart.dims.len() as i64], name)
}

mpi! {
    fn MPI_Cart_create(
        comm_old: MPI_Comm, ndims: c_int, dims: Array<c_int>, periods: Array<c_int>, reorder: c_int,
        comm_cart: Out<MPI_Comm>,
    ) on comm_old {
        give(comm_cart, None)?;
        comm_old.check_intra()?;
        let cart = grid(ndims, dims, periods)?;
        let places = cart.places(comm_old.group.size())?;
        give(comm_cart, match reorder {
            0 => with_topology(&comm_old, places, Topology::Cart(cart))?,
            _ => with_reordered(&comm_old, places, cart)?,
        })
    }

    fn MPI_Cart_map(
        comm: MPI_Comm, ndims: c_int, dims: Array<c_int>, periods: Array<c_int>, newrank: Out<c_int>,
    ) on comm {
        let places = grid(ndims, dims, periods)?.places(comm.group.size())?;
        out(newrank, "newrank", mapped(&comm, places))
    }

    fn MPI_Cartdim_get(comm: MPI_Comm, ndims: Out<c_int>) on comm {
        out(ndims, "ndims", cart(&comm)?.dims.len() as c_int)
    }

    fn MPI_Cart_get(
        comm: MPI_Comm, maxdims: c_int, dims: ArrayMut<c_int>, periods: ArrayMut<c_int>, coords: ArrayMut<c_int>,
    ) on comm {
        let cart = cart(&comm)?;
        let here = cart.coords(comm.rank());
        for (place, &dim) in room(dims, maxdims, cart, "dims")?.iter_mut().zip(&cart.dims) {
            *place = dim as c_int;
        }
        for (place, &period) in room(periods, maxdims, cart, "periods")?.iter_mut().zip(&cart.periods) {
            *place = c_int::from(period);
        }
        room(coords, maxdims, cart, "coords")?.copy_from_slice(&here);
        Ok(())
    }

    fn MPI_Cart_rank(comm: MPI_Comm, coords: Array<c_int>, rank: Out<c_int>) on comm {
        let cart = cart(&comm)?;
        let coords = array!(coords[cart.dims.len() as i64])?;
        let found = cart.rank(coords).ok_or_else(|| {
            let why = format!("the grid is {:?}, and that dimension is no ring", cart.dims);
            Fault::argument(MPI_ERR_ARG, "coords", format_args!("{coords:?}"), &why)
        })?;
        out(rank, "rank", found as c_int)
    }

    fn MPI_Cart_coords(comm: MPI_Comm, rank_: c_int, maxdims: c_int, coords: ArrayMut<c_int>) on comm {
        let cart = cart(&comm)?;
        let rank = rank(&comm, rank_)?;
        room(coords, maxdims, cart, "coords")?.copy_from_slice(&cart.coords(rank));
        Ok(())
    }

    fn MPI_Cart_shift(
        comm: MPI_Comm, direction: c_int, disp: c_int, rank_source: Out<c_int>, rank_dest: Out<c_int>,
    ) on comm {
        let cart = cart(&comm)?;
        let along = usize::try_from(direction).ok().filter(|&along| along < cart.dims.len());
        let along = along.ok_or_else(|| {
            let why = format!("there are dimensions 0 to {}", cart.dims.len() as i64 - 1);
            Fault::argument(MPI_ERR_ARG, "direction", direction, &why)
        })?;
        out(rank_source, "rank_source", cart.shifted(comm.rank(), along, -i64::from(disp)))?;
        out(rank_dest, "rank_dest", cart.shifted(comm.rank(), along, disp.into()))
    }

    fn MPI_Cart_sub(comm: MPI_Comm, remain_dims: Array<c_int>, newcomm: Out<MPI_Comm>) on comm {
        give(newcomm, None)?;
        let cart = cart(&comm)?;
        let remain = array!(remain_dims[cart.dims.len() as i64])?;
        let remain: Vec<bool> = remain.iter().map(|&remains| remains != 0).collect();
        let (sub, which, within) = cart.sub(comm.rank(), &remain);
        let new = comm.split(SplitKey { colour: u64::from(which) + 1, key: within as c_int })?;
        if let Some(new) = &new {
            new.set_topology(Arc::new(Topology::Cart(sub)));
        }
        give(newcomm, new)
    }

    fn MPI_Dims_create(nnodes: c_int, ndims: c_int, dims: ArrayMut<c_int>) {
        if nnodes <= 0 {
            return Err(Fault::argument(MPI_ERR_ARG, "nnodes", nnodes, "it must be positive"));
        }
        not_negative(MPI_ERR_DIMS, "ndims", ndims)?;
        dims::fill(nnodes, array_mut!(dims[ndims])?)
    }
}

// Graphs that every process knows whole.

fn whole(
    nnodes: c_int,
    index: Array<c_int>,
    edges: Array<c_int>,
    most: u32,
) -> Result<Graph, Fault> {
    if nnodes < 0 || nnodes as u32 > most {
        let why = format!("there are {most} processes");
        return Err(Fault::argument(MPI_ERR_ARG, "nnodes", nnodes, &why));
    }
    let index = array!(index[nnodes])?;
    Graph::check_index(index)?;
    Graph::new(index, array!(edges[index.last().copied().unwrap_or(0)])?)
}

fn graph(comm: &Comm) -> Result<&Graph, Fault> {
    match comm.topology() {
        Some(Topology::Graph(graph)) => Ok(graph),
        _ => Err(none("graph")),
    }
}

/// Gives the program as many values as it has room for.
fn some(values: &[c_int], place: ArrayMut<c_int>, most: c_int, name: &str) -> Result<(), Fault> {
    let count = values.len().min(usize::try_from(most).unwrap_or(0));
    array_mut!(place[count as i64], name)?.copy_from_slice(&values[..count]);
    Ok(())
}

mpi! {
    fn MPI_Graph_create(
        comm_old: MPI_Comm, nnodes: c_int, indx: Array<c_int>, edges: Array<c_int>, _reorder: c_int,
        comm_graph: Out<MPI_Comm>,
    ) on comm_old {
        give(comm_graph, None)?;
        comm_old.check_intra()?;
        let graph = whole(nnodes, indx, edges, comm_old.group.size())?;
        if nnodes == 0 {
            return Ok(());
        }
        give(comm_graph, with_topology(&comm_old, nnodes as u32, Topology::Graph(graph))?)
    }

    fn MPI_Graph_map(
        comm: MPI_Comm, nnodes: c_int, indx: Array<c_int>, edges: Array<c_int>, newrank: Out<c_int>,
    ) on comm {
        whole(nnodes, indx, edges, comm.group.size())?;
        out(newrank, "newrank", mapped(&comm, nnodes as u32))
    }

    fn MPI_Graphdims_get(comm: MPI_Comm, nnodes: Out<c_int>, nedges: Out<c_int>) on comm {
        let graph = graph(&comm)?;
        out(nnodes, "nnodes", graph.index.len() as c_int)?;
        out(nedges, "nedges", graph.edges.len() as c_int)
    }

    fn MPI_Graph_get(
        comm: MPI_Comm, maxindex: c_int, maxedges: c_int, indx: ArrayMut<c_int>, edges: ArrayMut<c_int>,
    ) on comm {
        let graph = graph(&comm)?;
        some(&graph.index, indx, maxindex, "indx")?;
        some(&graph.edges, edges, maxedges, "edges")
    }

    fn MPI_Graph_neighbors_count(comm: MPI_Comm, rank_: c_int, nneighbors: Out<c_int>) on comm {
        let graph = graph(&comm)?;
        out(nneighbors, "nneighbors", graph.neighbours(rank(&comm, rank_)?).len() as c_int)
    }

    fn MPI_Graph_neighbors(
        comm: MPI_Comm, rank_: c_int, maxneighbors: c_int, neighbors: ArrayMut<c_int>,
    ) on comm {
        let graph = graph(&comm)?;
        some(graph.neighbours(rank(&comm, rank_)?), neighbors, maxneighbors, "neighbors")
    }
}

// Graphs of which every process knows its neighbours.

fn ranks(comm: &Comm, place: Array<c_int>, count: c_int, name: &str) -> Result<Vec<c_int>, Fault> {
    not_negative(MPI_ERR_ARG, "degree", count)?;
    let ranks = array!(place[count], name)?;
    let known = |rank: c_int| u32::try_from(rank).is_ok_and(|rank| rank < comm.group.size());
    match ranks.iter().find(|&&rank| !known(rank)) {
        Some(&rank) => Err(comm.bad_rank(name, rank)),
        None => Ok(ranks.to_vec()),
    }
}

/// A weights argument. `None`: the edges have no weights. A weight is not negative.
fn weights(place: Array<c_int>, count: usize, name: &str) -> Result<Option<Vec<c_int>>, Fault> {
    match place.address() {
        MPI_UNWEIGHTED => return Ok(None),
        MPI_WEIGHTS_EMPTY if count == 0 => return Ok(Some(Vec::new())),
        MPI_WEIGHTS_EMPTY => {
            let why = format!("there are {count} edges");
            return Err(Fault::argument(MPI_ERR_ARG, name, "MPI_WEIGHTS_EMPTY", &why));
        }
        _ => {}
    }
    let weights = array!(place[count as i64], name)?;
    weights.iter().try_for_each(|&weight| not_negative(MPI_ERR_ARG, name, weight))?;
    Ok(Some(weights.to_vec()))
}

fn dist(comm: &Comm) -> Result<&Dist, Fault> {
    match comm.topology() {
        Some(Topology::Dist(dist)) => Ok(dist),
        _ => Err(none("distributed graph")),
    }
}

/// Gives the program as many neighbours and weights as it has room for.
fn tell(
    dist: &Dist,
    edges: &Edges,
    most: c_int,
    (ranks, name): (ArrayMut<c_int>, &str),
    weights: ArrayMut<c_int>,
) -> Result<(), Fault> {
    not_negative(MPI_ERR_ARG, "maxdegree", most)?;
    let count = edges.ranks.len().min(most as usize);
    array_mut!(ranks[count as i64], name)?.copy_from_slice(&edges.ranks[..count]);
    if dist.weighted && !matches!(weights.address(), MPI_UNWEIGHTED | MPI_WEIGHTS_EMPTY) {
        array_mut!(weights[count as i64])?.copy_from_slice(&edges.weights[..count]);
    }
    Ok(())
}

mpi! {
    fn MPI_Dist_graph_create_adjacent(
        comm_old: MPI_Comm, indegree: c_int, sources: Array<c_int>, sourceweights: Array<c_int>,
        outdegree: c_int, destinations: Array<c_int>, destweights: Array<c_int>, info: MPI_Info, _reorder: c_int,
        comm_dist_graph: Out<MPI_Comm>,
    ) on comm_old {
        give(comm_dist_graph, None)?;
        comm_old.check_intra()?;
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
        give(comm_dist_graph, Some(with_edges(&comm_old, dist)?))
    }

    fn MPI_Dist_graph_create(
        comm_old: MPI_Comm, n: c_int, sources: Array<c_int>, degrees: Array<c_int>, destinations: Array<c_int>,
        weights_: Array<c_int>, info: MPI_Info, _reorder: c_int, comm_dist_graph: Out<MPI_Comm>,
    ) on comm_old {
        give(comm_dist_graph, None)?;
        comm_old.check_intra()?;
        info::check(info)?;
        let sources = ranks(&comm_old, sources, n, "sources")?;
        let degrees = array!(degrees[n])?;
        degrees.iter().try_for_each(|&degree| not_negative(MPI_ERR_ARG, "degrees", degree))?;
        let count = degrees.iter().fold(0i64, |sum, &degree| sum + i64::from(degree));
        let count = c_int::try_from(count).map_err(|_| {
            Fault::argument(MPI_ERR_ARG, "degrees", count, "there are too many edges")
        })?;
        let destinations = ranks(&comm_old, destinations, count, "destinations")?;
        let weights = weights(weights_, destinations.len(), "weights")?;
        let weighted = weights.is_some();
        let from = sources.iter().zip(degrees).flat_map(|(&from, &degree)| (0..degree).map(move |_| from));
        let weights = weights.unwrap_or_else(|| vec![1; destinations.len()]);
        let own: Vec<Edge> =
            from.zip(&destinations).zip(&weights).map(|((from, &to), &weight)| [from, to, weight]).collect();
        let all = all_edges(&comm_old, &own)?;
        // A process that names no edges has not said whether edges have weights.
        let mut says = [i32::from(weighted)];
        comm_old.coll_group()?.allreduce(&mut says, &Op::max()).wait()?;
        let rank = comm_old.rank() as c_int;
        let (sources, destinations) = (Edges::at(rank, 1, &all), Edges::at(rank, 0, &all));
        let dist = Dist { sources, destinations, weighted: says[0] != 0 };
        give(comm_dist_graph, Some(with_edges(&comm_old, dist)?))
    }

    fn MPI_Dist_graph_neighbors_count(
        comm: MPI_Comm, indegree: Out<c_int>, outdegree: Out<c_int>, weighted: Out<c_int>,
    ) on comm {
        let dist = dist(&comm)?;
        out(indegree, "indegree", dist.sources.ranks.len() as c_int)?;
        out(outdegree, "outdegree", dist.destinations.ranks.len() as c_int)?;
        out(weighted, "weighted", c_int::from(dist.weighted))
    }

    fn MPI_Dist_graph_neighbors(
        comm: MPI_Comm, maxindegree: c_int, sources: ArrayMut<c_int>, sourceweights: ArrayMut<c_int>,
        maxoutdegree: c_int, destinations: ArrayMut<c_int>, destweights: ArrayMut<c_int>,
    ) on comm {
        let dist = dist(&comm)?;
        tell(dist, &dist.sources, maxindegree, (sources, "sources"), sourceweights)?;
        tell(dist, &dist.destinations, maxoutdegree, (destinations, "destinations"), destweights)
    }
}
