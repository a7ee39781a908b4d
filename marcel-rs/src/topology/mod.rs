//! Which cores this process may use, and how they hang together; read from the kernel's files.

use std::fs;
use std::path::Path;

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

/// CPUs' worth of time that the cgroup's quota allows, or `None` without a quota. Both cgroup versions; the
/// tightest quota on the way to the root counts.
pub fn cgroup_quota() -> Option<f64> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    quota_below(Path::new("/sys/fs/cgroup"), &own)
}

fn quota_below(mount: &Path, own: &str) -> Option<f64> {
    let mut tightest: Option<f64> = None;
    let mut note = |quota: Option<f64>| {
        if let Some(q) = quota {
            tightest = Some(tightest.map_or(q, |t| t.min(q)));
        }
    };
    for line in own.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let v2 = controllers.is_empty();
        let roots: &[&str] = if v2 {
            &[""]
        } else if controllers.split(',').any(|c| c == "cpu") {
            &["cpu,cpuacct", "cpu"]
        } else {
            continue;
        };
        for root in roots {
            let base = mount.join(root);
            let mut dir = base.join(path.trim_start_matches('/'));
            loop {
                note(if v2 { quota_v2(&dir) } else { quota_v1(&dir) });
                if dir == base || !dir.pop() {
                    break;
                }
            }
        }
    }
    tightest
}

fn quota_v2(dir: &Path) -> Option<f64> {
    let text = fs::read_to_string(dir.join("cpu.max")).ok()?;
    let mut words = text.split_whitespace();
    ratio(words.next()?, words.next()?)
}

fn quota_v1(dir: &Path) -> Option<f64> {
    let read = |name| fs::read_to_string(dir.join(name)).ok();
    ratio(read("cpu.cfs_quota_us")?.trim(), read("cpu.cfs_period_us")?.trim())
}

/// `quota / period`; `None` for "max", -1 and nonsense.
fn ratio(quota: &str, period: &str) -> Option<f64> {
    let (quota, period) = (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// How many compute virtual processors this process should have: one per allowed core, no more than the
/// cgroup's quota pays for, shared out among the processes that the same launcher has started on this machine
/// (`MAD_LOCAL_SIZE`), at least one.
///
/// Shared out, because two processes that each had a computing kernel thread on every core would take turns by
/// the kernel's time slices, and their communication would get less than its fair share of a core.
pub fn vp_count() -> usize {
    let cores = allowed_cpus().len();
    let paid_for = cgroup_quota().map_or(cores, |quota| cores.min((quota.ceil() as usize).max(1)));
    (paid_for / neighbours().0.max(1)).max(1)
}

/// Number of processes that the same launcher has started on this machine, and the rank of this one among
/// them: `MAD_LOCAL_SIZE` and `MAD_LOCAL_RANK`; one and zero without a launcher.
pub fn neighbours() -> (usize, usize) {
    let number = |name| std::env::var(name).ok().and_then(|v| v.parse::<usize>().ok());
    let size = number("MAD_LOCAL_SIZE").unwrap_or(1).max(1);
    (size, number("MAD_LOCAL_RANK").unwrap_or(0))
}

/// What a node of the topology is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The whole machine.
    Machine,
    /// One processor package.
    Package,
    /// Cores that share their last cache level.
    Cache,
    /// One core as the kernel numbers them.
    Core,
}

/// One node: its level, the kernel's number for it, the allowed cores below it, its place in the tree.
#[derive(Clone, Debug)]
pub struct Node {
    /// Level of the node.
    pub level: Level,
    /// The kernel's number for the package, cache or core; 0 for the machine.
    pub id: usize,
    /// Allowed cores below it.
    pub cpus: Vec<usize>,
    /// Index of its parent; `None` for the machine.
    pub parent: Option<usize>,
}

/// The tree of machine, packages, shared caches and cores, restricted to the allowed cores.
#[derive(Clone, Debug)]
pub struct Topology {
    nodes: Vec<Node>,
}

impl Topology {
    /// Reads the kernel's files. Whatever is missing there is taken as one package with one cache.
    pub fn discover() -> Topology {
        Self::discover_below(Path::new("/sys/devices/system/cpu"), &allowed_cpus())
    }

    fn discover_below(sys: &Path, cpus: &[usize]) -> Topology {
        let number = |cpu: usize, file: &str| -> usize {
            fs::read_to_string(sys.join(format!("cpu{cpu}")).join(file))
                .ok()
                .and_then(|text| text.trim().parse().ok())
                .unwrap_or(0)
        };
        let cache = |cpu: usize| -> usize {
            let last = (0..8)
                .filter(|i| sys.join(format!("cpu{cpu}/cache/index{i}/id")).exists())
                .max_by_key(|i| number(cpu, &format!("cache/index{i}/level")));
            last.map_or(0, |i| number(cpu, &format!("cache/index{i}/id")))
        };
        let places: Vec<_> = cpus
            .iter()
            .map(|&cpu| (number(cpu, "topology/physical_package_id"), cache(cpu), cpu))
            .collect();
        let mut nodes =
            vec![Node { level: Level::Machine, id: 0, cpus: cpus.to_vec(), parent: None }];
        let find = |nodes: &mut Vec<Node>, level, id, parent| {
            nodes
                .iter()
                .position(|n: &Node| n.level == level && n.id == id && n.parent == Some(parent))
                .unwrap_or_else(|| {
                    nodes.push(Node { level, id, cpus: Vec::new(), parent: Some(parent) });
                    nodes.len() - 1
                })
        };
        for (package, cache, cpu) in places {
            let package = find(&mut nodes, Level::Package, package, 0);
            nodes[package].cpus.push(cpu);
            let cache = find(&mut nodes, Level::Cache, cache, package);
            nodes[cache].cpus.push(cpu);
            let core = find(&mut nodes, Level::Core, cpu, cache);
            nodes[core].cpus.push(cpu);
        }
        Topology { nodes }
    }

    /// All nodes, parents before children; the first is the machine.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Indices of the nodes from the core `cpu` up to the machine; just the machine for an unknown core.
    pub fn path_of(&self, cpu: usize) -> Vec<usize> {
        let leaf = self.nodes.iter().position(|n| n.level == Level::Core && n.id == cpu);
        let mut path = Vec::new();
        let mut at = leaf.or(Some(0));
        while let Some(node) = at {
            path.push(node);
            at = self.nodes[node].parent;
        }
        path
    }
}

/// Binds the calling kernel thread to one core.
///
/// # Errors
/// When the kernel refuses, for instance because the core is outside the cpuset.
pub fn bind_current_thread(cpu: usize) -> std::io::Result<()> {
    restrict_current_thread(&[cpu])
}

/// Restricts the calling kernel thread to some cores.
///
/// # Errors
/// As [`bind_current_thread`].
pub fn restrict_current_thread(cpus: &[usize]) -> std::io::Result<()> {
    let mut mask = [0u64; 128];
    for cpu in cpus {
        let Some(word) = mask.get_mut(cpu / 64) else {
            return Err(std::io::Error::from(std::io::ErrorKind::InvalidInput));
        };
        *word |= 1 << (cpu % 64);
    }
    // SAFETY: `mask` is readable for the length given.
    let ret =
        unsafe { libc::sched_setaffinity(0, std::mem::size_of_val(&mask), mask.as_ptr().cast()) };
    if ret == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_core_and_the_tree_reaches_it() {
        let topology = Topology::discover();
        for cpu in allowed_cpus() {
            let path = topology.path_of(cpu);
            assert_eq!(topology.nodes()[path[0]].cpus, [cpu]);
            assert_eq!(*path.last().unwrap(), 0);
        }
        assert!((1..=allowed_cpus().len()).contains(&vp_count()));
    }

    #[test]
    fn quotas_of_both_versions_are_read_and_the_tightest_wins() {
        let dir = std::env::temp_dir().join(format!("marcel-cgroup-{}", std::process::id()));
        let leaf = dir.join("a/b");
        fs::create_dir_all(&leaf).unwrap();
        fs::create_dir_all(dir.join("cpu/x")).unwrap();
        fs::write(dir.join("a/cpu.max"), "150000 100000\n").unwrap();
        fs::write(leaf.join("cpu.max"), "max 100000\n").unwrap();
        fs::write(dir.join("cpu/x/cpu.cfs_quota_us"), "50000\n").unwrap();
        fs::write(dir.join("cpu/x/cpu.cfs_period_us"), "100000\n").unwrap();
        assert_eq!(quota_below(&dir, "0::/a/b\n"), Some(1.5));
        assert_eq!(quota_below(&dir, "0::/\n"), None);
        assert_eq!(quota_below(&dir, "4:cpu,cpuacct:/x\n0::/a\n"), Some(0.5));
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn two_packages_make_two_subtrees() {
        let dir = std::env::temp_dir().join(format!("marcel-topo-{}", std::process::id()));
        for cpu in 0..4 {
            let base = dir.join(format!("cpu{cpu}"));
            fs::create_dir_all(base.join("topology")).unwrap();
            fs::create_dir_all(base.join("cache/index3")).unwrap();
            fs::write(base.join("topology/physical_package_id"), (cpu / 2).to_string()).unwrap();
            fs::write(base.join("cache/index3/id"), (cpu / 2).to_string()).unwrap();
            fs::write(base.join("cache/index3/level"), "3").unwrap();
        }
        let topology = Topology::discover_below(&dir, &[0, 1, 2, 3]);
        let count = |level| topology.nodes().iter().filter(|n| n.level == level).count();
        assert_eq!((count(Level::Package), count(Level::Cache), count(Level::Core)), (2, 2, 4));
        assert_eq!(topology.path_of(3).len(), 4);
        fs::remove_dir_all(&dir).unwrap();
    }
}
