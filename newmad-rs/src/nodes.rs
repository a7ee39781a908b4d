//! NUMA nodes: which cores are of which, and on which one the calling thread runs.
//!
//! Nodes are numbered from 0 without gaps, in the order of the machine's numbers. Only those count that have a core which this
//! process may use. A machine that names none has one.

use marcel::topology::{Level, Topology};

/// Most nodes that are told apart: a node's number fits into a byte.
const MOST: usize = 255;

/// The nodes of a topology.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    /// By core of the topology: its node.
    of_cores: Box<[u8]>,
    /// By node: the kernel's cores. None: kernel threads are bound to none (a synthetic machine with more cores than this one).
    cpus: Box<[Vec<usize>]>,
    /// The topology's cores are the kernel's.
    is_real: bool,
}

impl Nodes {
    /// Those of the topology in force; none, if it is not to be had.
    pub(crate) fn current() -> Nodes {
        Topology::current().map_or_else(|_| Nodes::default(), |topology| Nodes::of(&topology))
    }

    /// Those of a topology.
    pub(crate) fn of(topology: &Topology) -> Nodes {
        let named = |core: usize| {
            let mut path = topology.path_of(core).into_iter().map(|node| &topology.nodes()[node]);
            path.find(|node| node.level == Level::Numa).map_or(0, |node| node.id)
        };
        let mut ids: Vec<usize> = topology.cores().iter().map(|&core| named(core)).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.truncate(MOST);
        let number = |core: usize| ids.iter().position(|&id| id == named(core)).unwrap_or(0);
        let most = topology.cores().iter().max().map_or(0, |&core| core + 1);
        let (mut of_cores, mut cpus) = (vec![0; most], vec![Vec::new(); ids.len()]);
        for &core in topology.cores() {
            let node = number(core);
            of_cores[core] = node as u8;
            cpus[node].extend(topology.real_cpu(core));
        }
        Nodes { of_cores: of_cores.into(), cpus: cpus.into(), is_real: !topology.is_synthetic() }
    }

    /// How many there are, at least one.
    pub(crate) fn count(&self) -> usize {
        self.cpus.len().max(1)
    }

    /// The kernel's cores of a node; none: kernel threads are not to be bound there.
    pub(crate) fn cpus(&self, node: usize) -> &[usize] {
        self.cpus.get(node).map_or(&[], Vec::as_slice)
    }

    /// The node of the caller's virtual processor, if that has a core.
    pub(crate) fn of_vp(&self) -> Option<u8> {
        let core = marcel::current_vp().and_then(marcel::Vp::cpu)?;
        self.of_cores.get(core).copied()
    }

    /// The node of the calling thread: of its virtual processor, else of the core on which it runs at this moment. `None`: it
    /// has no place in the topology.
    pub(crate) fn here(&self) -> Option<u8> {
        self.of_vp().or_else(|| {
            // SAFETY: no memory is involved.
            let core = self.is_real.then(|| unsafe { libc::sched_getcpu() })?;
            self.of_cores.get(usize::try_from(core).ok()?).copied()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(shape: &str, real: &[usize]) -> Nodes {
        Nodes::of(&Topology::synthetic(&shape.parse().unwrap(), real))
    }

    #[test]
    fn nodes_of_a_synthetic_machine_are_told_apart() {
        let two = nodes("numa:2 core:2", &[]);
        assert_eq!((&*two.of_cores, two.count()), (&[0, 0, 1, 1][..], 2));
        assert!(two.cpus(0).is_empty() && two.cpus(1).is_empty(), "no core stands for them");
        assert_eq!(two.here(), None, "this thread is on none of its cores");
        let bound = nodes("numa:2 core:1", &[3, 7]);
        assert_eq!([bound.cpus(0), bound.cpus(1), bound.cpus(2)], [&[3][..], &[7], &[]]);
    }

    #[test]
    fn a_machine_that_names_no_node_has_one() {
        assert_eq!(nodes("core:3", &[]).count(), 1);
        assert_eq!(Nodes::default().count(), 1);
        let here = Nodes::of(&Topology::discover().unwrap());
        assert!(here.here().is_some_and(|node| usize::from(node) < here.count()));
    }
}
