//! How many cores there are for this process: its affinity mask, its neighbours, its virtual processors.

use super::quota::cgroup_quota;
use super::tree::Topology;

/// Cores of the affinity mask, in ascending order. Never empty.
pub fn allowed_cpus() -> Vec<usize> {
    // A mask of 8192 cores; the kernel fails with EINVAL when it has more.
    let mut mask = [0u64; 128];
    // SAFETY: `mask` is writable for the length given.
    let written = unsafe {
        libc::sched_getaffinity(0, std::mem::size_of_val(&mask), mask.as_mut_ptr().cast())
    };
    let mut cpus = Vec::new();
    if written == 0 {
        for (word, bits) in mask.iter().enumerate() {
            cpus.extend((0..64).filter(|bit| bits >> bit & 1 == 1).map(|bit| word * 64 + bit));
        }
    }
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// [`Topology::vp_count`] of the topology in force; of this machine, when `MARCEL_TOPOLOGY` is not acceptable.
pub fn vp_count() -> usize {
    match Topology::current() {
        Ok(topology) => topology.vp_count(),
        Err(_) => share(),
    }
}

/// One per allowed core, within the quota, shared out.
fn share() -> usize {
    let cores = allowed_cpus().len();
    let paid_for = cgroup_quota().map_or(cores, |quota| cores.min((quota.ceil() as usize).max(1)));
    (paid_for / neighbours().0.max(1)).max(1)
}

impl Topology {
    /// How many compute virtual processors this process should have: one per allowed core, no more than the
    /// cgroup's quota pays for, shared out among the processes that the same launcher has started on this machine
    /// (`MAD_LOCAL_SIZE`), at least one.
    ///
    /// Shared out, because two processes that each had a computing kernel thread on every core would take turns by
    /// the kernel's time slices, and their communication would get less than its fair share of a core.
    ///
    /// On a synthetic machine one per core of it, whatever there is in fact: it is there to see what happens then.
    pub fn vp_count(&self) -> usize {
        if self.is_synthetic() { self.cores().len() } else { share() }
    }
}

/// Number of processes that the same launcher has started on this machine, and the rank of this one among
/// them: `MAD_LOCAL_SIZE` and `MAD_LOCAL_RANK`; one and zero without a launcher.
pub fn neighbours() -> (usize, usize) {
    let number = |name| std::env::var(name).ok().and_then(|v| v.parse::<usize>().ok());
    let size = number("MAD_LOCAL_SIZE").unwrap_or(1).max(1);
    (size, number("MAD_LOCAL_RANK").unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_core_and_the_tree_reaches_it() {
        let topology = Topology::discover().unwrap();
        for cpu in allowed_cpus() {
            let path = topology.path_of(cpu);
            assert_eq!(topology.nodes()[path[0]].cpus, [cpu]);
            assert_eq!(*path.last().unwrap(), 0);
            assert_eq!(topology.real_cpu(cpu), Some(cpu));
        }
        assert!((1..=allowed_cpus().len()).contains(&topology.vp_count()));
    }
}
