//! Reads hwloc's XML: type, number and cores of each `object`, and hwloc's version.
//!
//! The nesting of objects is ignored, since it follows from the sets of cores.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::super::level::{CacheLevel, Level};
use super::super::tree::{Cache, Group};

/// The attributes of an `object` element.
struct Found {
    kind: String,
    id: Option<usize>,
    cpus: Vec<usize>,
    size: Option<u64>,
}

/// The version of hwloc that wrote a description, and the sets of cores in it.
pub(super) fn read(text: &str) -> Result<(Option<String>, Vec<Group>), String> {
    let mut elements = Elements::default();
    elements.read(text).map_err(|e| format!("its XML cannot be read: {e}"))?;
    Ok((elements.version, groups(&elements.objects)))
}

fn groups(objects: &[Found]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for core in objects.iter().filter(|object| object.kind == "Core") {
        // hwloc numbers cores within each package; marcel numbers a core by its first hardware thread.
        groups.push(group(Level::Core, core.cpus[0], &core.cpus));
    }
    let cores = groups.len();
    for object in objects {
        let first = object.cpus[0];
        match object.kind.as_str() {
            "Package" => groups.push(group(Level::Package, object.id.unwrap_or(0), &object.cpus)),
            "NUMANode" => groups.push(group(Level::Numa, object.id.unwrap_or(0), &object.cpus)),
            "PU" => {
                let shared = |core: &Group| core.cpus.len() > 1 && core.cpus.contains(&first);
                if groups[..cores].iter().any(shared) {
                    groups.push(group(Level::Pu, first, &object.cpus));
                }
            }
            kind => {
                let Some(level) = data_cache(kind) else { continue };
                let cache = Cache { level, size: object.size };
                let inside = |core: &Group| object.cpus.iter().all(|cpu| core.cpus.contains(cpu));
                match groups[..cores].iter_mut().find(|core| inside(core)) {
                    Some(core) if core.caches.iter().any(|other| other.level == level) => {}
                    Some(core) => core.caches.push(cache),
                    None => groups.push(Group {
                        caches: vec![cache],
                        ..group(Level::Cache(level), object.id.unwrap_or(first), &object.cpus)
                    }),
                }
            }
        }
    }
    for core in &mut groups[..cores] {
        core.caches.sort_by_key(|cache| cache.level.get());
    }
    groups
}

fn group(level: Level, id: usize, cpus: &[usize]) -> Group {
    Group { level, id, cpus: cpus.to_vec(), caches: Vec::new() }
}

/// The level of a data cache such as "L2Cache"; `None` for "L1iCache", which holds instructions.
fn data_cache(kind: &str) -> Option<CacheLevel> {
    let level = kind.strip_prefix('L')?.strip_suffix("Cache")?;
    CacheLevel::new(level.parse().ok()?)
}

#[derive(Default)]
struct Elements {
    version: Option<String>,
    objects: Vec<Found>,
}

impl Elements {
    fn read(&mut self, text: &str) -> quick_xml::Result<()> {
        let mut reader = Reader::from_str(text);
        loop {
            match reader.read_event()? {
                Event::Start(tag) | Event::Empty(tag) => match tag.name().as_ref() {
                    "object" => self.objects.extend(object(&tag)),
                    "info" if value(&tag, "name").is_some_and(|name| name == "hwlocVersion") => {
                        self.version = value(&tag, "value");
                    }
                    _ => {}
                },
                Event::Eof => return Ok(()),
                _ => {}
            }
        }
    }
}

fn value(tag: &BytesStart, name: &str) -> Option<String> {
    Some(tag.try_get_attribute(name).ok()??.value.into_owned())
}

/// The object of a tag; `None` if it has no cores (a device, a memory without cores).
fn object(tag: &BytesStart) -> Option<Found> {
    let cpus = value(tag, "cpuset").and_then(|text| cpuset(&text))?;
    let id = value(tag, "os_index").and_then(|text| text.parse().ok());
    let size = value(tag, "cache_size").and_then(|text| text.parse().ok()).filter(|&size| size > 0);
    (!cpus.is_empty()).then_some(Found { kind: value(tag, "type")?, id, cpus, size })
}

/// Reads a set as hwloc writes it: words of 32 bits in hexadecimal, the highest first, words of 0 left empty
/// ("0x00000001,,0x0000000f" is 0-3,64). `None` for other texts, an infinite set included.
fn cpuset(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for (index, word) in text.split(',').rev().enumerate() {
        let bits = match word {
            "" => 0,
            word => u32::from_str_radix(word.strip_prefix("0x")?, 16).ok()?,
        };
        cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| index * 32 + bit));
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::super::super::tree::{Source, Topology};
    use super::*;

    #[test]
    fn sets_are_read_as_hwloc_writes_them() {
        assert_eq!(cpuset("0x0000000f"), Some(vec![0, 1, 2, 3]));
        assert_eq!(cpuset("0x00000001,,0x00000005"), Some(vec![0, 2, 64]));
        assert_eq!(cpuset("0x80000000,0x0"), Some(vec![63]));
        assert_eq!(cpuset("0x0"), Some(vec![]));
        for wrong in ["0xf...f", "5", "0x1,x", "0x100000000"] {
            assert_eq!(cpuset(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn two_packages_of_two_cores_of_two_threads() {
        // Numbers of cores repeat, a device and a memory have no cores, a die is no level of ours.
        let mut text = String::from(
            "<?xml version=\"1.0\"?><!DOCTYPE topology SYSTEM \"hwloc2.dtd\"><topology version=\"2.0\">\
             <object type=\"Machine\" os_index=\"0\" cpuset=\"0x000000ff\"><info name=\"a\" value=\"&lt;\"/>\
             <info name=\"hwlocVersion\" value=\"2.11.1\"/>",
        );
        for package in 0..2 {
            let of = |set: u32| format!("cpuset=\"{:#010x}\"", set << (2 * package));
            text += &format!("<object type=\"Package\" os_index=\"{package}\" {}>", of(0x33));
            text += &format!("<object type=\"NUMANode\" os_index=\"{package}\" {}/>", of(0x33));
            text += &format!("<object type=\"Die\" os_index=\"0\" {}>", of(0x33));
            text += &format!("<object type=\"L3Cache\" {} cache_size=\"1048576\">", of(0x33));
            for core in 0..2 {
                let of = |set: u32| format!("cpuset=\"{:#010x}\"", set << (2 * package + core));
                text += &format!("<object type=\"L2Cache\" {} cache_size=\"4096\">", of(0x11));
                text += &format!("<object type=\"L1Cache\" {} cache_size=\"0\">", of(0x11));
                text += &format!("<object type=\"L1iCache\" {} cache_size=\"64\"/>", of(0x11));
                text += &format!("<object type=\"Core\" os_index=\"{core}\" {}>", of(0x11));
                for thread in 0..2 {
                    let cpu = 4 * thread + 2 * package + core;
                    text += &format!(
                        "<object type=\"PU\" os_index=\"{cpu}\" cpuset=\"{:#x}\"/>",
                        1 << cpu
                    );
                }
                text += "</object></object></object>";
            }
            text += "</object></object></object>";
        }
        text +=
            "<object type=\"NUMANode\" os_index=\"2\" cpuset=\"0x0\"/><object type=\"Bridge\"/>";
        text += "</object></topology>";
        let (version, groups) = read(&text).unwrap();
        let source = Source::Hwloc { version: version.unwrap() };
        assert_eq!(source.to_string(), "hwloc 2.11.1");
        let topology = Topology::assemble(source, &[0, 1, 2, 3, 4, 6, 7], groups);
        assert_eq!(topology.cores(), [0, 4, 1, 2, 6, 3, 7]);
        assert_eq!(topology.places(), [0, 1, 2, 3, 4, 6, 7]);
        let path: Vec<String> = topology
            .path_of(7)
            .iter()
            .map(|&n| format!("{}:{}", topology.nodes()[n].level, topology.nodes()[n].id))
            .collect();
        assert_eq!(path, ["pu:7", "core:3", "l3:2", "numa:1", "package:1", "machine:0"]);
        let core = &topology.nodes()[topology.path_of(7)[1]];
        let own: Vec<_> = core.caches.iter().map(|c| (c.level.get(), c.size)).collect();
        assert_eq!(own, [(1, None), (2, Some(4096))]);
    }

    #[test]
    fn what_is_no_xml_is_an_error() {
        assert!(read("<topology><object type=\"Core\"").is_err());
        assert!(read("nothing").unwrap().1.is_empty());
    }
}
