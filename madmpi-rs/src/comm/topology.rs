//! Communicators with a topology.

use std::sync::Arc;

use super::create::SplitKey;
use super::{Comm, kinds};
use crate::error::Fault;
use crate::per_rank;
use crate::topology::{Cart, Dist, Edge, Place, Topology, here, reorder};

/// Makes a communicator with a topology of the first `count` processes of `comm`; the others get none.
pub(crate) fn with_topology(
    comm: &Comm,
    count: u32,
    topology: Topology,
) -> Result<Option<Arc<Comm>>, Fault> {
    let new = if count == comm.group.size() {
        Some(comm.twin()?)
    } else {
        let members = comm.group.members().iter().copied().take(count as usize).collect();
        comm.create(&comm.group.with(members))?
    };
    if let Some(new) = &new {
        new.set_topology(Arc::new(topology));
    }
    Ok(new)
}

/// Makes a communicator with a grid of the first `count` processes of `comm`, in the order that brings neighbours nearest to
/// each other; the others get none.
pub(crate) fn with_reordered(
    comm: &Comm,
    count: u32,
    cart: Cart,
) -> Result<Option<Arc<Comm>>, Fault> {
    let own = here(kinds::memory(), !per_rank::are_several());
    let mut all: Vec<Place> = vec![own; comm.group.size() as usize];
    comm.coll_group()?.allgather(&own, all.as_flattened_mut()).wait()?;
    let Some(order) = reorder(&cart, &all[..count as usize]) else {
        return with_topology(comm, count, Topology::Cart(cart));
    };
    let rank = order.iter().position(|&member| member == comm.rank());
    let place =
        SplitKey { colour: u64::from(rank.is_some()), key: rank.map_or(0, |rank| rank as i32) };
    let new = comm.split(place)?;
    if let Some(new) = &new {
        new.set_topology(Arc::new(Topology::Cart(cart)));
    }
    Ok(new)
}

/// Makes a communicator of the same processes with a distributed graph.
pub(crate) fn with_edges(comm: &Comm, dist: Dist) -> Result<Arc<Comm>, Fault> {
    let new = comm.twin()?;
    new.set_topology(Arc::new(Topology::Dist(dist)));
    Ok(new)
}

/// Gathers the edges that all processes name, those of the first one first.
pub(crate) fn all_edges(comm: &Comm, own: &[Edge]) -> Result<Vec<Edge>, Fault> {
    let group = comm.coll_group()?;
    let mut counts = vec![0u64; group.size() as usize];
    group.allgather(&[own.len() as u64], &mut counts).wait()?;
    let counts: Vec<usize> = counts.into_iter().map(|count| count as usize).collect();
    let mut all = vec![[0; 3]; counts.iter().sum()];
    group.allgatherv(own, &mut all, &counts).wait()?;
    Ok(all)
}
