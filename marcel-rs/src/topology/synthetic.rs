//! Synthetic machines, on which placement can be tried without having the machine.
//!
//! `MARCEL_TOPOLOGY="numa:2 core:4"` is a machine of two NUMA nodes of four cores each. A word is a level and the
//! number of its objects in one object of the level before, from the outside in:
//!
//! ```text
//! words = [package:N] [numa:N] [l3:N] [l2:N] core:N [pu:N]     packages, nodes and caches in any order,
//!                                                              but outer caches before inner ones
//! ```
//!
//! Objects of a level are numbered from 0 through the whole machine. Virtual processors are placed on these cores,
//! steal from each other and run light tasks as if the cores were real. Their kernel threads are bound to the
//! allowed cores of the real machine one to one, or not at all if it has fewer cores.

use super::level::Level;
pub use super::shape::{ACCEPTS, MOST_CORES, Shape, ShapeError};
use super::tree::{Node, Source, Topology};

impl Topology {
    /// The tree of a machine of this shape, whose cores stand for the kernel's cores `real`.
    pub fn synthetic(shape: &Shape, real: &[usize]) -> Topology {
        let cores = shape.cores();
        let mut nodes = vec![Node {
            level: Level::Machine,
            id: 0,
            cpus: (0..cores).collect(),
            parent: None,
            caches: Vec::new(),
        }];
        let mut above = 0..1;
        for &(level, count) in shape.levels() {
            let first = nodes.len();
            for parent in above.clone() {
                let each = nodes[parent].cpus.len() / count;
                for i in 0..count {
                    let cpus = nodes[parent].cpus[i * each..(i + 1) * each].to_vec();
                    let (id, parent) = (nodes.len() - first, Some(parent));
                    nodes.push(Node { level, id, cpus, parent, caches: Vec::new() });
                }
            }
            above = first..nodes.len();
        }
        let real = if real.len() < cores { Vec::new() } else { real[..cores].to_vec() };
        Self::from_nodes(Source::Synthetic(shape.clone()), &nodes).standing_for(real)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> Shape {
        text.parse().unwrap()
    }

    #[test]
    fn two_nodes_of_four_cores() {
        let topology = Topology::synthetic(&shape("numa:2 core:4"), &[5, 7]);
        assert_eq!(topology.cores(), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(topology.vp_count(), 8);
        let node = |index: usize| &topology.nodes()[index];
        let path = topology.path_of(6);
        assert_eq!(path.len(), 3);
        assert_eq!((node(path[1]).level, node(path[1]).id), (Level::Numa, 1));
        assert_eq!(node(path[1]).cpus, [4, 5, 6, 7]);
        assert_eq!(topology.real_cpu(0), None, "this machine has fewer cores");
        assert_eq!(topology.path_of(8), [0]);
    }

    #[test]
    fn cores_stand_for_real_ones_if_there_are_enough() {
        let topology = Topology::synthetic(&shape("package:1 numa:2 core:1"), &[5, 7, 9]);
        assert_eq!([0, 1, 2].map(|core| topology.real_cpu(core)), [Some(5), Some(7), None]);
    }

    #[test]
    fn all_levels_nest_and_are_numbered_through() {
        let topology = Topology::synthetic(&shape("package:2 numa:2 l3:2 core:4 pu:2"), &[]);
        assert_eq!(topology.cores().len(), 64);
        let of = |level: &str| {
            let level = level.parse().unwrap();
            topology.nodes().iter().filter(|n| n.level == level).map(|n| n.id).collect::<Vec<_>>()
        };
        assert_eq!(of("l3"), (0..8).collect::<Vec<_>>());
        assert_eq!(of("core"), (0..32).collect::<Vec<_>>());
        assert_eq!(of("pu"), (0..64).collect::<Vec<_>>());
        assert_eq!(topology.path_of(63).len(), 6);
        assert_eq!(topology.places()[..3], [0, 2, 4]);
    }
}
