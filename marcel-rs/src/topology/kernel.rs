//! The source that reads the kernel's files below `/sys/devices/system`.
//!
//! Every file may be missing (another architecture, a container without sysfs). Without files all cores are in one
//! package and one NUMA node, without caches and siblings. Sets of cores are preferred to numbers, since the numbers
//! of packages are all -1 or 0 on some machines.

use std::fs;
use std::path::Path;

use super::level::{CacheLevel, Level};
use super::tree::{Cache, Group};

/// The sets of cores in the files of the cores `cpus`.
pub(super) fn groups(system: &Path, cpus: &[usize]) -> Vec<Group> {
    let mut found = Found::default();
    for &cpu in cpus {
        let dir = system.join(format!("cpu/cpu{cpu}"));
        let package = number(&dir.join("topology/physical_package_id")).unwrap_or(0);
        match set(&dir.join("topology"), &["package_cpus", "core_siblings"]) {
            Some(members) => found.add_set(Level::Package, package, members, &[]),
            None => found.add(Level::Package, package, cpu, &[]),
        }
        let siblings = set(&dir.join("topology"), &["core_cpus", "thread_siblings"]);
        let siblings = siblings.unwrap_or_else(|| vec![cpu]);
        let mut own = Vec::new();
        for index in 0..10 {
            let Some((cache, id, sharers)) = data_cache(&dir.join(format!("cache/index{index}")))
            else {
                continue;
            };
            let inside = |set: &Vec<usize>| set.iter().all(|cpu| siblings.contains(cpu));
            if sharers.as_ref().is_some_and(inside) {
                own.push(cache);
            } else if let Some(members) = sharers {
                let id = id.unwrap_or_else(|| *members.first().unwrap_or(&cpu));
                found.add_set(Level::Cache(cache.level), id, members, &[cache]);
            } else if let Some(id) = id {
                found.add(Level::Cache(cache.level), id, cpu, &[cache]);
            }
        }
        found.add(Level::Core, *siblings.first().unwrap_or(&cpu), cpu, &own);
        if siblings.len() > 1 {
            found.add(Level::Pu, cpu, cpu, &[]);
        }
    }
    let mut nodes = numa_nodes(&system.join("node"));
    if nodes.is_empty() {
        nodes.push((0, cpus.to_vec()));
    }
    nodes.sort_unstable();
    for (node, members) in nodes {
        found.add_set(Level::Numa, node, members, &[]);
    }
    found.0
}

#[derive(Default)]
struct Found(Vec<Group>);

impl Found {
    /// Adds a set, unless it is there.
    fn add_set(&mut self, level: Level, id: usize, cpus: Vec<usize>, caches: &[Cache]) {
        if !self.0.iter().rev().any(|g| g.level == level && g.cpus == cpus) {
            self.0.push(Group { level, id, cpus, caches: caches.to_vec() });
        }
    }

    /// Adds a core to the set with this number.
    fn add(&mut self, level: Level, id: usize, cpu: usize, caches: &[Cache]) {
        // The cores of a group usually come one after the other.
        match self.0.iter_mut().rev().find(|g| g.level == level && g.id == id) {
            Some(group) => group.cpus.push(cpu),
            None => self.0.push(Group { level, id, cpus: vec![cpu], caches: caches.to_vec() }),
        }
    }
}

/// The data cache in `dir`, with its number and the cores that share it as far as they are known; `None` if `dir`
/// describes no data cache.
fn data_cache(dir: &Path) -> Option<(Cache, Option<usize>, Option<Vec<usize>>)> {
    let level = CacheLevel::new(u8::try_from(number(&dir.join("level"))?).ok()?)?;
    if text(&dir.join("type")).is_some_and(|kind| kind == "Instruction") {
        return None;
    }
    let size = text(&dir.join("size")).and_then(|size| bytes(&size));
    Some((Cache { level, size }, number(&dir.join("id")), set(dir, &["shared_cpu"])))
}

fn numa_nodes(dir: &Path) -> Vec<(usize, Vec<usize>)> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let nodes = entries.flatten().filter_map(|entry| {
        let id = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
        Some((id, set(&entry.path(), &["cpu"])?))
    });
    nodes.collect()
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn number(path: &Path) -> Option<usize> {
    text(path)?.parse().ok()
}

/// The set of cores in the first of these files that exists. A file is a map or, since Linux 2.6.26, also a list.
fn set(dir: &Path, names: &[&str]) -> Option<Vec<usize>> {
    names.iter().find_map(|name| {
        let read = |ending: &str| text(&dir.join(format!("{name}{ending}")));
        let map = ["", "_map", "map"].iter().find_map(|ending| parse_map(&read(ending)?));
        map.or_else(|| ["_list", "list"].iter().find_map(|ending| parse_list(&read(ending)?)))
    })
}

/// A map as the kernel writes it: words of 32 bits in hexadecimal, the highest first.
fn parse_map(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for (index, word) in text.split(',').rev().enumerate() {
        let bits = u32::from_str_radix(word, 16).ok()?;
        cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| index * 32 + bit));
    }
    Some(cpus)
}

/// Reads a size in KiB ("32768K"), in MiB or in bytes.
fn bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << unit)
}

/// A list as the kernel writes it: "0-3,8,10-11". `None` for anything else, and for numbers that no kernel has.
fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= 1 << 16 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::super::tree::{Source, Topology};
    use super::*;

    /// A tree of files, removed at the end.
    struct Fake(std::path::PathBuf);

    impl Fake {
        fn new() -> Fake {
            static COUNT: AtomicUsize = AtomicUsize::new(0);
            let name = format!("marcel-sys-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
            let dir = std::env::temp_dir().join(name);
            fs::create_dir_all(&dir).unwrap();
            Fake(dir)
        }

        fn write(&self, path: &str, text: impl ToString) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text.to_string() + "\n").unwrap();
        }

        fn read(&self, cpus: &[usize]) -> Topology {
            Topology::assemble(
                Source::Kernel { no_hwloc: String::new() },
                cpus,
                groups(&self.0, cpus),
            )
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn count(topology: &Topology, name: &str) -> usize {
        topology.nodes().iter().filter(|n| n.level.to_string() == name).count()
    }

    #[test]
    fn two_packages_make_two_subtrees() {
        let fake = Fake::new();
        for cpu in 0..4 {
            fake.write(&format!("cpu/cpu{cpu}/topology/physical_package_id"), cpu / 2);
            fake.write(&format!("cpu/cpu{cpu}/cache/index3/id"), cpu / 2);
            fake.write(&format!("cpu/cpu{cpu}/cache/index3/level"), 3);
        }
        let topology = fake.read(&[0, 1, 2, 3]);
        let counts = ["package", "numa", "l3", "core", "pu"].map(|name| count(&topology, name));
        assert_eq!(counts, [2, 1, 2, 4, 0]);
        assert_eq!(topology.path_of(3).len(), 5);
    }

    /// Two packages of two NUMA nodes of two cores of two threads each; threads are numbered across the machine
    /// as Intel's firmware does it. A private L2, an L3 for each node.
    fn large() -> Fake {
        let fake = Fake::new();
        for cpu in 0..16 {
            let core = cpu % 8;
            let dir = format!("cpu/cpu{cpu}");
            fake.write(&format!("{dir}/topology/physical_package_id"), core / 4);
            fake.write(
                &format!("{dir}/topology/thread_siblings_list"),
                format!("{core},{}", core + 8),
            );
            let node = core / 2 * 2;
            for (index, level, kind, size, sharers) in [
                (0, 1, "Data", "48K", format!("{core},{}", core + 8)),
                (1, 1, "Instruction", "32K", format!("{core},{}", core + 8)),
                (2, 2, "Unified", "2048K", format!("{core},{}", core + 8)),
                (3, 3, "Unified", "16M", format!("{node}-{},{}-{}", node + 1, node + 8, node + 9)),
            ] {
                let dir = format!("{dir}/cache/index{index}");
                fake.write(&format!("{dir}/level"), level);
                fake.write(&format!("{dir}/type"), kind);
                fake.write(&format!("{dir}/size"), size);
                fake.write(&format!("{dir}/shared_cpu_list"), sharers);
            }
        }
        for node in 0..4 {
            let first = node * 2;
            let list = format!("{first}-{},{}-{}", first + 1, first + 8, first + 9);
            fake.write(&format!("node/node{node}/cpulist"), list);
        }
        fake.write("node/node4/cpulist", "");
        fake
    }

    #[test]
    fn nodes_caches_and_hardware_threads_are_distinguished() {
        let fake = large();
        let topology = fake.read(&(0..16).collect::<Vec<_>>());
        let counts = ["package", "numa", "l3", "l2", "core", "pu"];
        assert_eq!(counts.map(|name| count(&topology, name)), [2, 4, 4, 0, 8, 16]);
        assert_eq!(topology.cores()[..4], [0, 8, 1, 9]);
        assert_eq!(topology.places()[..4], [0, 1, 2, 3]);
        let path: Vec<String> = topology
            .path_of(11)
            .iter()
            .map(|&n| format!("{}:{}", topology.nodes()[n].level, topology.nodes()[n].id))
            .collect();
        assert_eq!(path, ["pu:11", "core:3", "l3:2", "numa:1", "package:0", "machine:0"]);
        let at = |index: usize| &topology.nodes()[topology.path_of(11)[index]];
        assert_eq!(at(2).caches[0].size, Some(16 << 20));
        let own: Vec<_> = at(1).caches.iter().map(|c| (c.level.get(), c.size)).collect();
        assert_eq!(own, [(1, Some(48 << 10)), (2, Some(2 << 20))]);
    }

    #[test]
    fn sets_count_where_numbers_are_useless() {
        let fake = Fake::new();
        for cpu in 0..4 {
            let dir = format!("cpu/cpu{cpu}");
            fake.write(&format!("{dir}/topology/physical_package_id"), -1);
            fake.write(&format!("{dir}/topology/core_siblings"), if cpu < 2 { "3" } else { "c" });
            fake.write(&format!("{dir}/topology/thread_siblings"), format!("{:x}", 1 << cpu));
            fake.write(&format!("{dir}/cache/index0/level"), 2);
            fake.write(
                &format!("{dir}/cache/index0/shared_cpu_map"),
                if cpu < 2 { "3" } else { "c" },
            );
        }
        let topology = fake.read(&[0, 1, 2, 3]);
        let ids = |level: &str| {
            let level = level.parse().unwrap();
            topology.nodes().iter().filter(|n| n.level == level).map(|n| n.id).collect::<Vec<_>>()
        };
        assert_eq!(
            (ids("package"), ids("l2"), ids("core")),
            (vec![0, 1], vec![0, 2], vec![0, 1, 2, 3])
        );
    }

    #[test]
    fn only_allowed_cores_are_in_the_tree() {
        let fake = large();
        let topology = fake.read(&[3, 6]);
        assert_eq!(topology.cores(), [3, 6]);
        let counts = ["package", "numa", "l3", "core", "pu"];
        assert_eq!(counts.map(|name| count(&topology, name)), [2, 2, 2, 2, 2]);
        assert_eq!(topology.path_of(8), [0]);
    }

    #[test]
    fn without_files_all_cores_are_in_one_package_and_node() {
        let topology = Fake::new().read(&[1, 5]);
        assert_eq!((count(&topology, "package"), count(&topology, "numa")), (1, 1));
        assert_eq!(topology.cores(), [1, 5]);
        assert_eq!(topology.path_of(5).len(), 4);
    }

    #[test]
    fn nonsense_in_files_is_as_good_as_no_file() {
        let fake = Fake::new();
        fake.write("cpu/cpu0/topology/physical_package_id", -1);
        fake.write("cpu/cpu0/topology/core_cpus_list", "3-1");
        fake.write("cpu/cpu0/cache/index0/level", 300);
        fake.write("cpu/cpu0/cache/index1/level", 2);
        fake.write("cpu/cpu0/cache/index1/size", "much");
        fake.write("cpu/cpu0/cache/index1/shared_cpu_list", "0-99999999999");
        fake.write("node/nodeX/cpulist", 0);
        fake.write("node/node0/cpulist", "zero");
        let topology = fake.read(&[0]);
        assert_eq!(topology.cores(), [0]);
        assert_eq!(topology.path_of(0).len(), 4);
    }

    #[test]
    fn lists_and_maps_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_list("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse_list(""), Some(vec![]));
        for wrong in ["a", "1-", "2-1", "0-65536"] {
            assert_eq!(parse_list(wrong), None, "{wrong}");
        }
        assert_eq!(parse_map("80000001,0000000f"), Some(vec![0, 1, 2, 3, 32, 63]));
        for wrong in ["", "0x1", "1,,1", "100000000"] {
            assert_eq!(parse_map(wrong), None, "{wrong}");
        }
    }
}
