//! Virtual rails: several rails over one port of an adapter, each with queue pairs, a receive queue, completion queues and
//! buffers of its own, and each of a NUMA node.
//!
//! Source: [Didelot14] 3.3. To the engine a virtual rail is a rail like any other, so links, order, repair and the end are those
//! of several rails. What is here is what makes them virtual: which rails share a port, to which of them the threads of a
//! node belong, and where their memory is made. Which one is used, the receiver says ([`crate::gate::route`]).
//!
//! Each adapter of a session has the same number of virtual rails. A *route* is a number below that, and means one rail of each
//! adapter. Node `n` of `N` has route `n · K / N` of `K`: neighbouring nodes share one where there are more nodes. With fewer
//! nodes than virtual rails the last ones are not used.
//!
//! *First touch*: the kernel makes a page on the node of the thread that touches it first, and registering memory with the
//! adapter touches it. So the connection manager's thread goes to the rail's node while it makes the memory ([`Home::make`]).
//! Registered pages stay where they are.
//!
//! Invariant: the counts are written by the holder of the engine's lock, but for those of buffers, which the connection
//! manager's thread writes. They are read at any time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use marcel::topology::{allowed_cpus, restrict_current_thread};

use crate::nodes::Nodes;
use crate::wire::MAX_RAILS;

/// What is counted, for each virtual rail or for all.
#[derive(Debug, Default)]
struct Counts {
    sent: [AtomicU64; MAX_RAILS],
    received: [AtomicU64; MAX_RAILS],
    buffers: [AtomicU64; MAX_RAILS],
    again: AtomicU64,
    asked: AtomicU64,
    changed: AtomicU64,
}

/// What the figures of each are called.
const SENT: [&str; MAX_RAILS] = [
    "packets sent by virtual rail 0",
    "packets sent by virtual rail 1",
    "packets sent by virtual rail 2",
    "packets sent by virtual rail 3",
];
const RECEIVED: [&str; MAX_RAILS] = [
    "packets received by virtual rail 0",
    "packets received by virtual rail 1",
    "packets received by virtual rail 2",
    "packets received by virtual rail 3",
];
const BUFFERS: [&str; MAX_RAILS] = [
    "buffers on the node of virtual rail 0",
    "buffers on the node of virtual rail 1",
    "buffers on the node of virtual rail 2",
    "buffers on the node of virtual rail 3",
];

/// The virtual rails of a session.
#[derive(Debug)]
pub(crate) struct VirtualRails {
    nodes: Nodes,
    /// Of each adapter.
    count: usize,
    /// By rail of the session: the first one of its adapter. `None`: the rail is not virtual.
    firsts: Box<[Option<usize>]>,
    /// Receives after which a process looks where they were made.
    pub(crate) window: u32,
    counts: Counts,
}

/// Adds to a count that one thread at a time writes.
fn add(count: &AtomicU64, more: u64) {
    count.store(count.load(Relaxed) + more, Relaxed);
}

impl VirtualRails {
    /// `count` of them, two or more, of each adapter. `adapters`: by rail of the session that is not virtual, in order, whether
    /// it is an adapter's; what is one becomes `count` rails.
    pub(crate) fn new(
        nodes: Nodes,
        count: usize,
        adapters: impl IntoIterator<Item = bool>,
        window: u32,
    ) -> VirtualRails {
        let mut firsts = Vec::new();
        for is_adapter in adapters {
            let first = firsts.len();
            match is_adapter {
                true => firsts.extend(std::iter::repeat_n(Some(first), count)),
                false => firsts.push(None),
            }
        }
        VirtualRails { nodes, count, firsts: firsts.into(), window, counts: Counts::default() }
    }

    /// How many routes there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The rail that this route means, among those of the adapter of `rail`; `rail` itself, if that is not virtual.
    #[inline]
    pub(crate) fn on_route(&self, rail: usize, route: usize) -> usize {
        match self.firsts.get(rail) {
            Some(Some(first)) => first + route,
            _ => rail,
        }
    }

    /// Which one of its adapter's rails it is. `None`: it is not virtual.
    fn route_of(&self, rail: usize) -> Option<usize> {
        Some(rail - (*self.firsts.get(rail)?)?)
    }

    fn route_of_node(&self, node: usize) -> usize {
        node * self.count / self.nodes.count().max(self.count)
    }

    /// The route of the node on which the calling thread runs. `None`: it has no place in the topology.
    pub(crate) fn here(&self) -> Option<usize> {
        self.nodes.here().map(|node| self.route_of_node(node.into()))
    }

    /// Where the memory of that rail of an adapter is to be made.
    pub(crate) fn home(self: &Arc<Self>, route: usize) -> Home {
        Home(Some((self.clone(), route)))
    }

    /// The kernel's cores of the nodes that have this route.
    fn cpus(&self, route: usize) -> Vec<usize> {
        let nodes = (0..self.nodes.count()).filter(|&node| self.route_of_node(node) == route);
        nodes.flat_map(|node| self.nodes.cpus(node)).copied().collect()
    }

    /// A packet of the small track has left over this rail, for the first time.
    pub(crate) fn sent(&self, rail: usize) {
        if let Some(count) = self.route_of(rail).and_then(|route| self.counts.sent.get(route)) {
            add(count, 1);
        }
    }

    /// A packet has left once more.
    pub(crate) fn sent_again(&self) {
        add(&self.counts.again, 1);
    }

    /// A packet of the small track was taken from this rail.
    pub(crate) fn received(&self, rail: usize) {
        if let Some(count) = self.route_of(rail).and_then(|route| self.counts.received.get(route)) {
            add(count, 1);
        }
    }

    /// This process has asked for another route.
    pub(crate) fn asked(&self) {
        add(&self.counts.asked, 1);
    }

    /// A peer wants another route.
    pub(crate) fn changed(&self) {
        add(&self.counts.changed, 1);
    }

    /// Gives the counts, with their names, to `each`.
    pub(crate) fn tell(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let Counts { sent, received, buffers, again, asked, changed } = &self.counts;
        for (names, counts) in [(SENT, sent), (RECEIVED, received), (BUFFERS, buffers)] {
            for (name, count) in names.into_iter().zip(counts).take(self.count) {
                each(name, count.load(Relaxed));
            }
        }
        each("packets sent again", again.load(Relaxed));
        each("routes asked for", asked.load(Relaxed));
        each("routes changed", changed.load(Relaxed));
    }

    /// Packets that were sent by each virtual rail, and received.
    #[cfg(test)]
    pub(crate) fn packets(&self) -> [[u64; MAX_RAILS]; 2] {
        let of =
            |counts: &[AtomicU64; MAX_RAILS]| counts.each_ref().map(|count| count.load(Relaxed));
        [of(&self.counts.sent), of(&self.counts.received)]
    }

    /// Routes that were asked for, and changed.
    #[cfg(test)]
    pub(crate) fn routes(&self) -> [u64; 2] {
        [&self.counts.asked, &self.counts.changed].map(|count| count.load(Relaxed))
    }
}

/// Where memory is made.
#[derive(Clone)]
pub(crate) struct Home(Option<(Arc<VirtualRails>, usize)>);

/// Takes the calling thread back to where it was.
struct Visit(Vec<usize>);

impl Drop for Visit {
    fn drop(&mut self) {
        // Its own cores: a refusal would mean that they were taken away meanwhile, and then the kernel has placed it.
        let _ = restrict_current_thread(&self.0);
    }
}

impl Home {
    /// Wherever the calling thread runs.
    pub(crate) const ANYWHERE: Home = Home(None);

    /// Makes something on the node: the pages that the kernel makes meanwhile are the node's, as far as that has some. Callers'
    /// context.
    pub(crate) fn make<T>(&self, make: impl FnOnce() -> T) -> T {
        let Some((rails, route)) = &self.0 else { return make() };
        let cpus = rails.cpus(*route);
        // The kernel may refuse, and a synthetic node may have no core: the memory is wherever it is, then.
        let visit = (!cpus.is_empty()).then(|| Visit(allowed_cpus()));
        let _visit = visit.filter(|_| restrict_current_thread(&cpus).is_ok());
        make()
    }

    /// So many receive buffers were made there.
    pub(crate) fn has_made(&self, buffers: usize) {
        if let Some((rails, route)) = &self.0 {
            rails.counts.buffers[*route].fetch_add(buffers as u64, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use marcel::topology::Topology;

    fn rails(shape: &str, count: usize, adapters: &[bool]) -> VirtualRails {
        let nodes = Nodes::of(&Topology::synthetic(&shape.parse().unwrap(), &[]));
        VirtualRails::new(nodes, count, adapters.iter().copied(), 1)
    }

    #[test]
    fn a_route_means_one_rail_of_each_adapter() {
        // Shared memory, an adapter, sockets, another adapter.
        let rails = rails("core:1", 2, &[false, true, false, true]);
        let on = |route| [0, 1, 2, 3, 4, 5].map(|rail| rails.on_route(rail, route));
        assert_eq!(on(0), [0, 1, 1, 3, 4, 4]);
        assert_eq!(on(1), [0, 2, 2, 3, 5, 5]);
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(|rail| rails.route_of(rail)),
            [None, Some(0), Some(1), None, Some(0), Some(1)]
        );
    }

    #[test]
    fn nodes_share_out_the_routes_in_order() {
        let of_nodes = |shape, count, nodes: usize| -> Vec<usize> {
            let rails = rails(shape, count, &[true]);
            (0..nodes).map(|node| rails.route_of_node(node)).collect()
        };
        assert_eq!(of_nodes("numa:2 core:1", 2, 2), [0, 1]);
        assert_eq!(of_nodes("numa:4 core:1", 2, 4), [0, 0, 1, 1]);
        assert_eq!(of_nodes("numa:3 core:1", 2, 3), [0, 0, 1]);
        assert_eq!(of_nodes("numa:8 core:1", 3, 8), [0, 0, 0, 1, 1, 1, 2, 2]);
        assert_eq!(of_nodes("numa:2 core:1", 4, 2), [0, 1], "two are left over");
        assert_eq!(of_nodes("core:4", 2, 1), [0]);
    }

    /// Memory is made on the node's cores, and the thread is back afterwards, also behind a panic.
    #[test]
    fn memory_is_made_on_the_cores_of_its_node() {
        let before = allowed_cpus();
        let last = *before.last().unwrap();
        let shape = "numa:2 core:1".parse().unwrap();
        let nodes = Nodes::of(&Topology::synthetic(&shape, &[before[0], last]));
        let rails = Arc::new(VirtualRails::new(nodes, 2, [true], 1));
        for (route, cpu) in [(0, before[0]), (1, last)] {
            let home = rails.home(route);
            assert_eq!(home.make(allowed_cpus), [cpu]);
            home.has_made(5);
            assert_eq!(allowed_cpus(), before);
            let panics =
                std::panic::catch_unwind(|| home.make(|| assert!(route > 9, "on purpose")));
            assert!(panics.is_err());
            assert_eq!(allowed_cpus(), before);
        }
        assert_eq!(Home::ANYWHERE.make(allowed_cpus), before);
        let mut told = Vec::new();
        rails.tell(&mut |name, count| told.push((name, count)));
        let of = |name: &str| told.iter().find(|(known, _)| *known == name).unwrap().1;
        assert_eq!([of(BUFFERS[0]), of(BUFFERS[1])], [5, 5]);
        assert_eq!(told.len(), 3 * 2 + 3);
    }
}
