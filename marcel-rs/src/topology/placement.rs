//! The number of a process's virtual processors, and their cores.

use super::allowed::{allowed_cpus, neighbours};
use super::knobs::FIRSTCPU;
use super::level::Level;
use super::quota::cgroup_quota;
use super::tree::Topology;
use crate::error::Error;

/// [`Topology::vp_count`] of the topology in force, or of this machine if a knob of the topology has a wrong value.
pub fn vp_count() -> usize {
    match Topology::current() {
        Ok(topology) => topology.vp_count(),
        Err(_) => share(),
    }
}

/// One per allowed core, at most the quota, divided among the processes of this machine.
fn share() -> usize {
    let cores = allowed_cpus().len();
    let paid_for = cgroup_quota().map_or(cores, |quota| cores.min((quota.ceil() as usize).max(1)));
    (paid_for / neighbours().0.max(1)).max(1)
}

impl Topology {
    /// The number of compute virtual processors that this process should have, at least one.
    ///
    /// One per allowed core, at most what the cgroup's quota pays for, divided by the number of processes that the
    /// same launcher has started on this machine ([`neighbours`]). Two processes with a computing kernel thread on
    /// every core would take turns by the kernel's time slices, and their communication would get less than its
    /// fair share of a core.
    ///
    /// A synthetic machine has one per core, whatever the real machine has.
    pub fn vp_count(&self) -> usize {
        if self.is_synthetic() { self.cores().len() } else { share() }
    }

    /// The cores in the order in which virtual processors take them.
    ///
    /// The order is that of [`Topology::cores`], but second hardware threads come after all first ones.
    pub fn places(&self) -> Vec<usize> {
        let mut places = self.cores().to_vec();
        places.sort_by_key(|&core| {
            let above = self.leaf_of(core).and_then(|leaf| {
                let node = &self.nodes()[leaf];
                node.parent.filter(|_| node.level == Level::Pu).map(|parent| &self.nodes()[parent])
            });
            above.map_or(0, |above| above.cpus.iter().filter(|&&other| other < core).count())
        });
        places
    }

    /// The core of each of `vps` compute virtual processors.
    ///
    /// The first one is at place `first` (modulo their number), the others follow round-robin. Without `first`,
    /// `MARCEL_FIRSTCPU` is used. Without either, the processes that the same launcher has started on this machine
    /// follow each other.
    ///
    /// # Errors
    /// `MARCEL_FIRSTCPU` has a value that its knob does not accept.
    pub fn cores_for(&self, vps: usize, first: Option<usize>) -> Result<Vec<usize>, Error> {
        let first = match first {
            Some(first) => first,
            None => match FIRSTCPU.int()? {
                Some(first) => first as usize,
                None => neighbours().1.saturating_mul(vps.max(1)),
            },
        };
        let places = self.places();
        let first = first % places.len();
        Ok((0..vps).map(|index| places[(first + index) % places.len()]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_processors_go_round_from_the_first() {
        let topology = Topology::synthetic(&"core:2 pu:2".parse().unwrap(), &[]);
        assert_eq!(topology.places(), [0, 2, 1, 3]);
        assert_eq!(topology.cores_for(6, Some(5)).unwrap(), [2, 1, 3, 0, 2, 1]);
        assert_eq!(topology.cores_for(0, Some(0)).unwrap(), []);
        assert_eq!(topology.cores_for(1, Some(usize::MAX)).unwrap(), [3]);
    }
}
