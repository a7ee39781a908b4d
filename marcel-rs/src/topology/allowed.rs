//! Which cores this process may use, and who else is there: its affinity mask, its neighbours.

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

/// Number of processes that the same launcher has started on this machine, and the rank of this one among
/// them: `MAD_LOCAL_SIZE` and `MAD_LOCAL_RANK`; one and zero without a launcher.
pub fn neighbours() -> (usize, usize) {
    let number = |name| std::env::var(name).ok().and_then(|v| v.parse::<usize>().ok());
    let size = number("MAD_LOCAL_SIZE").unwrap_or(1).max(1);
    (size, number("MAD_LOCAL_RANK").unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::super::tree::Topology;
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
