//! The cores that this process may use, and the processes that share them.

use super::slurm;

/// The cores of the calling kernel thread's affinity mask, in ascending order. Never empty.
pub fn allowed_cpus() -> Vec<usize> {
    let cpus = cpus_of(0);
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// Those of a process, of the calling kernel thread for 0; none if there is no such process.
fn cpus_of(process: libc::pid_t) -> Vec<usize> {
    // 8192 cores; the kernel fails with EINVAL when it has more.
    let mut mask = [0u64; 128];
    // SAFETY: `mask` is writable for the length given.
    let written = unsafe {
        libc::sched_getaffinity(process, std::mem::size_of_val(&mask), mask.as_mut_ptr().cast())
    };
    let mut cpus = Vec::new();
    if written == 0 {
        for (word, bits) in mask.iter().enumerate() {
            cpus.extend((0..64).filter(|bit| bits >> bit & 1 == 1).map(|bit| word * 64 + bit));
        }
    }
    cpus
}

/// The variables in which launchers give the number of processes on this machine and the rank among them: `mad run`,
/// Hydra (MPICH), Open MPI.
const LAUNCHERS: [(&str, &str); 3] = [
    ("MAD_LOCAL_SIZE", "MAD_LOCAL_RANK"),
    ("MPI_LOCALNRANKS", "MPI_LOCALRANKID"),
    ("OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
];

/// The number of processes that the same launcher has started on this machine, and the rank of this one among them.
///
/// The launchers are `mad run`, MPICH's, Open MPI's and Slurm. Of Slurm's tasks only those count that share this
/// process's cores. Without a launcher the answer is one and zero.
pub fn neighbours() -> (usize, usize) {
    // Slurm last, since another launcher may have been started inside a step of its.
    from_launcher(number).or_else(|| slurm::neighbours(variable)).unwrap_or((1, 0))
}

/// Whether the same launcher has started more processes on this machine than it had cores for.
///
/// A launcher may bind each process to a core of its own, so what counts are the cores of the launcher, which is the
/// parent, where these are more. Of Slurm's tasks, those that share this process's cores are held against these.
pub fn is_oversubscribed() -> bool {
    // Of the main thread: virtual processors have a core each.
    let own = cpus_of(std::process::id() as libc::pid_t).len();
    match from_launcher(number) {
        // SAFETY: it asks for a number.
        Some((processes, _)) => processes > cpus_of(unsafe { libc::getppid() }).len().max(own),
        None => slurm::neighbours(variable).is_some_and(|(processes, _)| processes > own),
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn number(name: &str) -> Option<usize> {
    variable(name)?.parse().ok()
}

fn from_launcher(number: impl Fn(&str) -> Option<usize>) -> Option<(usize, usize)> {
    let pairs = LAUNCHERS.iter().filter_map(|(size, rank)| Some((number(size)?, number(rank)?)));
    pairs.into_iter().next().map(|(size, rank)| (size.max(1), rank))
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

    #[test]
    fn neighbours_are_what_the_nearest_launcher_says() {
        let of = |set: &'static [(&str, usize)]| {
            from_launcher(|name| set.iter().find(|(it, _)| *it == name).map(|(_, value)| *value))
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("MPI_LOCALNRANKS", 4), ("MPI_LOCALRANKID", 3)]), Some((4, 3)));
        assert_eq!(of(&[("MPI_LOCALNRANKS", 4)]), None);
        assert_eq!(
            of(&[
                ("MPI_LOCALNRANKS", 4),
                ("MPI_LOCALRANKID", 3),
                ("MAD_LOCAL_SIZE", 2),
                ("MAD_LOCAL_RANK", 1)
            ]),
            Some((2, 1))
        );
    }
}
