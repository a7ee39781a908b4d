//! Where a task may run: anywhere, or on some cores; and in which queue it therefore is.
//!
//! The queue is that of the lowest node (of those that have one, `PIOM_BINDING_LEVEL`) that holds all the cores. Where
//! that node holds others as well, its visitors look whether they may (`Place::allows`), and put the task back if
//! not.

use std::sync::Arc;

use marcel::topology::{Level, Object, Topology};

use crate::error::Error;

/// What a [`crate::TaskBuilder`] was told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wanted {
    #[default]
    Anywhere,
    Cores(Vec<usize>),
    Object(Object),
}

/// Cores, a bit each. Cheap to clone: a submitter keeps them, for the task may end at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cores(Arc<[u64]>);

impl Cores {
    pub(crate) fn of(cores: impl IntoIterator<Item = usize>) -> Cores {
        let mut words = Vec::new();
        for core in cores {
            words.resize(words.len().max(core / 64 + 1), 0);
            words[core / 64] |= 1 << (core % 64);
        }
        Cores(words.into())
    }

    #[inline]
    pub(crate) fn has(&self, core: usize) -> bool {
        self.0.get(core / 64).is_some_and(|word| word >> (core % 64) & 1 == 1)
    }

    /// Whether any is in both.
    pub(crate) fn meets(&self, other: &Cores) -> bool {
        self.0.iter().zip(other.0.iter()).any(|(ours, theirs)| ours & theirs != 0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        (0..self.0.len() * 64).filter(|&core| self.has(core))
    }
}

/// Where a task may run, and its queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    /// Index of the queue.
    pub(crate) queue: usize,
    /// The cores; `None`: all.
    pub(crate) cores: Option<Cores>,
}

impl Place {
    /// Whether it may run on `core`; `None` stands for nowhere in particular.
    #[inline]
    pub(crate) fn allows(&self, core: Option<usize>) -> bool {
        match &self.cores {
            None => true,
            Some(cores) => core.is_some_and(|core| cores.has(core)),
        }
    }
}

/// The nodes of a topology that have queues.
pub(crate) struct Plan {
    topology: Topology,
    /// For each queue, its node; the first is the machine's.
    nodes: Vec<usize>,
    /// For each core, by its number, the queues from the nearest to the machine's.
    paths: Vec<Vec<usize>>,
}

impl Plan {
    /// `level`: as `PIOM_BINDING_LEVEL`.
    pub(crate) fn new(topology: Topology, level: &str) -> Plan {
        let chosen = |node: usize| match (topology.nodes()[node].level, level) {
            (_, "all") | (Level::Machine, _) => true,
            (Level::Package, level) => level == "package",
            (Level::Numa, level) => level == "numa",
            (Level::Cache(_), level) => level == "cache",
            (Level::Core | Level::Pu, level) => level == "core",
        };
        let nodes: Vec<usize> = (0..topology.nodes().len()).filter(|&node| chosen(node)).collect();
        let queue_at = |node: &usize| nodes.binary_search(node).ok();
        let highest = topology.cores().iter().max().map_or(0, |most| most + 1);
        let path = |core| topology.path_of(core).iter().filter_map(queue_at).collect();
        let paths = (0..highest).map(path).collect();
        Plan { topology, nodes, paths }
    }

    pub(crate) fn queues(&self) -> usize {
        self.nodes.len()
    }

    /// Queues that a virtual processor on `core` looks at, the nearest first; without a core just the machine's.
    #[inline]
    pub(crate) fn path(&self, core: Option<usize>) -> &[usize] {
        core.and_then(|core| self.paths.get(core)).map_or(&[0], Vec::as_slice)
    }

    /// The cores of this machine for those of the topology, if every one of them stands for one.
    pub(crate) fn real(&self, cores: &Cores) -> Option<Vec<usize>> {
        cores.iter().map(|core| self.topology.real_cpu(core)).collect()
    }

    /// # Errors
    /// No such object; no core that this process may use.
    pub(crate) fn place(&self, wanted: &Wanted) -> Result<Place, Error> {
        let cores: Vec<usize> = match wanted {
            Wanted::Anywhere => return Ok(Place::default()),
            Wanted::Object(object) => self.topology.cores_of(*object).map_err(Error::Topology)?,
            Wanted::Cores(cores) => {
                let ours = |core: &usize| self.topology.leaf_of(*core).is_some();
                cores.iter().copied().filter(ours).collect()
            }
        };
        let Some(&first) = cores.first() else {
            return Err(Error::Topology(marcel::Error::Config {
                what: "cores of a light task",
                why: format!(
                    "{wanted:?}: none of them is one that this process may use (`mad topo` shows them)"
                ),
            }));
        };
        let holds = |node: usize| {
            let below = &self.topology.nodes()[node].cpus;
            cores.iter().all(|core| below.binary_search(core).is_ok())
        };
        let queue = self.path(Some(first)).iter().copied().find(|&queue| holds(self.nodes[queue]));
        let cores = Cores::of(cores);
        let all = self.topology.cores().iter().all(|&core| cores.has(core));
        Ok(Place { queue: queue.unwrap_or(0), cores: (!all).then_some(cores) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(shape: &str, level: &str) -> Plan {
        Plan::new(Topology::synthetic(&shape.parse().unwrap(), &[0]), level)
    }

    #[test]
    fn a_synthetic_core_has_a_queue_of_its_own_below_that_of_its_node() {
        let plan = plan("numa:2 core:4", "all");
        assert_eq!(plan.queues(), 1 + 2 + 8);
        assert_eq!(plan.path(Some(6)).len(), 3);
        assert_eq!((plan.path(None), plan.path(Some(8))), (&[0][..], &[0][..]));
        let at = |cores: &[usize]| plan.place(&Wanted::Cores(cores.to_vec())).unwrap().queue;
        assert_eq!(at(&[6]), plan.path(Some(6))[0]);
        assert_eq!(at(&[6, 4]), plan.path(Some(5))[1]);
        assert_eq!(at(&[6, 1]), 0);
        assert!(plan.place(&Wanted::Cores(vec![8])).is_err());
        assert!(plan.place(&Wanted::Cores(vec![])).is_err());
        let object = |text: &str| plan.place(&Wanted::Object(text.parse().unwrap()));
        assert_eq!(object("numa:1").unwrap().queue, plan.path(Some(5))[1]);
        assert!(object("machine").unwrap().cores.is_none());
        assert!(object("numa:2").is_err());
    }

    #[test]
    fn with_one_level_of_queues_a_task_is_in_the_nearest_one() {
        let plan = plan("package:2 numa:2 core:2", "numa");
        assert_eq!(plan.queues(), 1 + 4);
        let place = plan.place(&Wanted::Cores(vec![3])).unwrap();
        assert_eq!(place.queue, plan.path(Some(2))[0]);
        assert!(place.allows(Some(3)) && !place.allows(Some(2)) && !place.allows(None));
    }
}
