//! The tree of cores, and its construction from sets of cores.
//!
//! A source gives [`Group`]s, sets of cores that have something in common, in any order. `assemble` places the sets
//! from the largest to the smallest, among equals in the order of [`Level`], each below the smallest set that holds
//! it. So a machine may have NUMA nodes inside packages, packages inside NUMA nodes, or a cache shared across
//! either. A set that overlaps another without holding it is left out, since a tree cannot show it. No such machine
//! is known, but the files of virtual machines are sometimes wrong.

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::level::{CacheLevel, Level};
use super::shape::Shape;

/// A data cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Level of the cache.
    pub level: CacheLevel,
    /// Size in bytes, where it is known.
    pub size: Option<u64>,
}

/// A node of the tree: an object of the machine with at least one allowed core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Level of the node.
    pub level: Level,
    /// Number of the node within its level: the kernel's number for a package, a NUMA node, a cache or a
    /// hardware thread, the number of the first hardware thread for a core, 0 for the machine.
    pub id: usize,
    /// Allowed cores of the object, in ascending order.
    pub cpus: Vec<usize>,
    /// Index of the parent; `None` for the machine.
    pub parent: Option<usize>,
    /// For a cache, the cache itself; for a core, its private caches.
    pub caches: Vec<Cache>,
}

/// Where a topology comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The library hwloc.
    Hwloc {
        /// The library's version.
        version: String,
    },
    /// The kernel's files.
    Kernel {
        /// Why hwloc was not used.
        no_hwloc: String,
    },
    /// A synthetic machine that `MARCEL_TOPOLOGY` describes.
    Synthetic(Shape),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Hwloc { version } => write!(f, "hwloc {version}"),
            Source::Kernel { no_hwloc } => write!(f, "the kernel's files (no hwloc: {no_hwloc})"),
            Source::Synthetic(shape) => write!(f, "synthetic: {shape} (MARCEL_TOPOLOGY)"),
        }
    }
}

/// A set of cores that have something in common, from a source.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) level: Level,
    pub(super) id: usize,
    pub(super) cpus: Vec<usize>,
    pub(super) caches: Vec<Cache>,
}

/// The tree of machine, packages, NUMA nodes, shared caches, cores and hardware threads, restricted to the allowed
/// cores.
#[derive(Clone, Debug)]
pub struct Topology {
    source: Source,
    nodes: Vec<Node>,
    /// Distance of each node from the machine's node.
    depths: Vec<usize>,
    /// The largest depth.
    height: usize,
    cores: Vec<usize>,
    /// The node of each core, by its number.
    leaves: Vec<Option<usize>>,
    /// The kernel's cores that stand for those of a synthetic machine, in the order of `cores`; empty if the real
    /// machine has fewer.
    real: Vec<usize>,
}

impl Topology {
    /// Builds the tree of `groups` over the allowed cores `cpus`, which are not empty.
    pub(super) fn assemble(source: Source, cpus: &[usize], mut groups: Vec<Group>) -> Topology {
        for group in &mut groups {
            group.cpus.retain(|cpu| cpus.contains(cpu));
            group.cpus.sort_unstable();
            group.cpus.dedup();
        }
        groups.retain(|group| !group.cpus.is_empty() && group.level != Level::Machine);
        groups.sort_by_key(|g| (std::cmp::Reverse(g.cpus.len()), g.level, g.cpus[0], g.id));
        let mut all = cpus.to_vec();
        all.sort_unstable();
        let mut nodes = vec![Node {
            level: Level::Machine,
            id: 0,
            cpus: all,
            parent: None,
            caches: Vec::new(),
        }];
        // For each core, the smallest placed set that holds it. Placed sets are at least as large as the next set.
        // If the next set's cores agree on their smallest set, that set holds it. If not, some placed set overlaps it.
        let mut smallest = vec![0; cpus.iter().max().map_or(0, |most| most + 1)];
        for Group { level, id, cpus, caches } in groups {
            let parent = smallest[cpus[0]];
            let twice = nodes[parent].level == level && nodes[parent].cpus == cpus;
            if twice || cpus.iter().any(|&cpu| smallest[cpu] != parent) {
                continue;
            }
            for &cpu in &cpus {
                smallest[cpu] = nodes.len();
            }
            nodes.push(Node { level, id, cpus, parent: Some(parent), caches });
        }
        for &cpu in cpus {
            let node = &nodes[smallest[cpu]];
            if node.cpus.len() > 1 || node.level < Level::Core {
                let parent = Some(smallest[cpu]);
                let (id, cpus, caches) = (cpu, vec![cpu], Vec::new());
                nodes.push(Node { level: Level::Core, id, cpus, parent, caches });
            }
        }
        number_anew(&mut nodes);
        Self::from_nodes(source, &nodes)
    }

    /// Builds the tree of `nodes`, the first of which is the machine. The tree's order is depth first, siblings by
    /// their first core.
    pub(super) fn from_nodes(source: Source, nodes: &[Node]) -> Topology {
        let mut children = vec![Vec::new(); nodes.len()];
        for (index, node) in nodes.iter().enumerate() {
            if let Some(parent) = node.parent {
                children[parent].push(index);
            }
        }
        let mut topology = Topology {
            source,
            nodes: Vec::with_capacity(nodes.len()),
            depths: Vec::with_capacity(nodes.len()),
            height: 0,
            cores: Vec::new(),
            leaves: Vec::new(),
            real: Vec::new(),
        };
        let mut todo = vec![(0, None)];
        while let Some((old, parent)) = todo.pop() {
            let new = topology.nodes.len();
            let depth = parent.map_or(0, |parent: usize| topology.depths[parent] + 1);
            topology.nodes.push(Node { parent, ..nodes[old].clone() });
            topology.depths.push(depth);
            topology.height = topology.height.max(depth);
            if children[old].is_empty()
                && let [core] = nodes[old].cpus[..]
            {
                topology.cores.push(core);
                topology.leaves.resize(topology.leaves.len().max(core + 1), None);
                topology.leaves[core] = Some(new);
            }
            children[old].sort_by_key(|&child| std::cmp::Reverse(nodes[child].cpus[0]));
            todo.extend(children[old].iter().map(|&child| (child, Some(new))));
        }
        topology
    }

    /// The same tree, with the kernel's cores that stand for its own.
    pub(super) fn standing_for(mut self, real: Vec<usize>) -> Topology {
        self.real = real;
        self
    }

    /// Where the topology comes from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Whether the machine is a [synthetic](super::synthetic) one.
    pub fn is_synthetic(&self) -> bool {
        matches!(self.source, Source::Synthetic(_))
    }

    /// All nodes, depth first; the first is the machine.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The cores, neighbours in the tree next to each other. Never empty.
    ///
    /// [`Topology::places`] has the order in which virtual processors take them.
    pub fn cores(&self) -> &[usize] {
        &self.cores
    }

    /// Index of the node of a core; `None` if the core is not in [`Topology::cores`].
    #[inline]
    pub fn leaf_of(&self, core: usize) -> Option<usize> {
        self.leaves.get(core).copied().flatten()
    }

    /// Indices of the nodes from a core up to the machine; only the machine for an unknown core.
    pub fn path_of(&self, core: usize) -> Vec<usize> {
        let leaf = self.leaf_of(core).unwrap_or(0);
        std::iter::successors(Some(leaf), |&node| self.nodes[node].parent).collect()
    }

    /// Number of levels above a node: 0 for the machine.
    pub fn depth_of(&self, node: usize) -> usize {
        self.depths[node]
    }

    /// Levels below the machine on the longest path.
    pub(super) fn height(&self) -> usize {
        self.height
    }

    /// The kernel's core to which the kernel thread for `core` is bound; `None` if it is not bound.
    ///
    /// Kernel threads of a synthetic machine with more cores than the real one are not bound, since the kernel
    /// spreads them better than a fixed choice could.
    pub fn real_cpu(&self, core: usize) -> Option<usize> {
        self.leaf_of(core)?;
        if !self.is_synthetic() {
            return Some(core);
        }
        self.real.get(self.cores.iter().position(|&c| c == core)?).copied()
    }
}

/// Renumbers the nodes of each level that has a number twice: some firmware gives all packages the same number.
fn number_anew(nodes: &mut [Node]) {
    let mut seen = HashSet::new();
    let twice: HashSet<Level> =
        nodes.iter().filter(|n| !seen.insert((n.level, n.id))).map(|n| n.level).collect();
    let mut next = HashMap::new();
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|&index| nodes[index].cpus[0]);
    for index in order {
        let node = &mut nodes[index];
        if twice.contains(&node.level) {
            let number = next.entry(node.level).or_insert(0);
            node.id = *number;
            *number += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(level: Level, id: usize, cpus: &[usize]) -> Group {
        Group { level, id, cpus: cpus.to_vec(), caches: Vec::new() }
    }

    fn kernel() -> Source {
        Source::Kernel { no_hwloc: "not asked".into() }
    }

    fn shape(topology: &Topology) -> Vec<(String, Vec<usize>, Option<usize>)> {
        let node = |n: &Node| (format!("{}:{}", n.level, n.id), n.cpus.clone(), n.parent);
        topology.nodes().iter().map(node).collect()
    }

    #[test]
    fn sets_nest_whatever_their_order_and_the_outer_level_is_above_among_equals() {
        let l3 = Level::Cache(CacheLevel::new(3).unwrap());
        let topology = Topology::assemble(
            kernel(),
            &[0, 1, 2, 3],
            vec![
                group(Level::Core, 3, &[3]),
                group(l3, 7, &[1, 3]),
                group(l3, 6, &[0, 2]),
                group(Level::Numa, 1, &[1, 3]),
                group(Level::Package, 0, &[0, 1, 2, 3, 4]),
                group(Level::Numa, 0, &[2, 0]),
            ],
        );
        let expected = [
            ("machine:0", vec![0, 1, 2, 3], None),
            ("package:0", vec![0, 1, 2, 3], Some(0)),
            ("numa:0", vec![0, 2], Some(1)),
            ("l3:6", vec![0, 2], Some(2)),
            ("core:0", vec![0], Some(3)),
            ("core:2", vec![2], Some(3)),
            ("numa:1", vec![1, 3], Some(1)),
            ("l3:7", vec![1, 3], Some(6)),
            ("core:1", vec![1], Some(7)),
            ("core:3", vec![3], Some(7)),
        ];
        assert_eq!(shape(&topology), expected.map(|(n, c, p)| (n.to_owned(), c, p)));
        assert_eq!(topology.cores(), [0, 2, 1, 3]);
        assert_eq!(topology.path_of(1), [8, 7, 6, 1, 0]);
        assert_eq!(topology.path_of(9), [0]);
        assert_eq!(topology.real_cpu(3), Some(3));
        assert_eq!(topology.real_cpu(4), None);
    }

    #[test]
    fn sets_that_overlap_are_left_out_and_every_core_has_its_place() {
        let topology = Topology::assemble(
            kernel(),
            &[0, 1, 2],
            vec![group(Level::Package, 0, &[0, 1]), group(Level::Numa, 0, &[1, 2])],
        );
        assert_eq!(topology.nodes().iter().filter(|n| n.level == Level::Numa).count(), 0);
        assert_eq!(topology.cores(), [0, 1, 2]);
        assert_eq!(topology.path_of(2).len(), 2);
    }

    #[test]
    fn a_number_that_comes_twice_is_replaced() {
        let topology = Topology::assemble(
            kernel(),
            &[0, 1, 2, 3],
            vec![
                group(Level::Package, 7, &[2, 3]),
                group(Level::Package, 7, &[0, 1]),
                group(Level::Numa, 5, &[0, 1]),
                group(Level::Numa, 5, &[1, 0]),
            ],
        );
        let names: Vec<String> = shape(&topology).into_iter().map(|(name, ..)| name).collect();
        let expected = [
            "machine:0",
            "package:0",
            "numa:5",
            "core:0",
            "core:1",
            "package:1",
            "core:2",
            "core:3",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn second_hardware_threads_are_taken_after_all_first_ones() {
        let topology = Topology::assemble(
            kernel(),
            &[0, 1, 2, 3, 4],
            vec![
                group(Level::Core, 0, &[0, 3]),
                group(Level::Core, 1, &[1, 4]),
                group(Level::Pu, 0, &[0]),
                group(Level::Pu, 3, &[3]),
                group(Level::Pu, 1, &[1]),
                group(Level::Pu, 4, &[4]),
                group(Level::Core, 2, &[2]),
            ],
        );
        assert_eq!(topology.cores(), [0, 3, 1, 4, 2]);
        assert_eq!(topology.places(), [0, 1, 2, 3, 4]);
    }
}
