//! Machines that do not exist, so that placement can be tried on small ones.
//!
//! `MARCEL_TOPOLOGY="numa:2 core:4"` is a machine of two NUMA nodes of four cores each. A word is a level and how
//! many of it there are in each of the level before it, from the outside in:
//!
//! ```text
//! words = [package:N] [numa:N] [l3:N] [l2:N] core:N [pu:N]     packages, nodes and caches in any order,
//!                                                              but outer caches before inner ones
//! ```
//!
//! Objects of a level are numbered from 0 through the whole machine. Virtual processors are placed on these cores,
//! steal from each other and run light tasks as if they were real; the kernel threads that carry them are bound to
//! the allowed cores of the real machine one to one, or not at all if it has fewer.

use std::fmt;
use std::str::FromStr;

use super::level::Level;
use super::tree::{Node, Source, Topology};

/// Most cores of a synthetic machine: as many as there can be virtual processors.
pub const MOST_CORES: usize = 1024;

/// What `MARCEL_TOPOLOGY` accepts, in a sentence.
pub const ACCEPTS: &str = "LEVEL:NUMBER words from the outside in, such as \"numa:2 core:4\": package, numa, \
                           l3 and l2 as wanted, then core, then pu if wanted; at most 1024 cores in all";

/// The shape of a machine in which all objects of a level are alike: levels from the outside in, with the number
/// of objects in each of the level before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape(Vec<(Level, usize)>);

/// Why a text does not describe a machine: the place, and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeError {
    /// The word in question, and the character at which it starts (the first is 1); `None` for the end.
    pub word: Option<(usize, String)>,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.word {
            Some((at, word)) => write!(f, "{word:?} at character {at}: {}", self.why),
            None => write!(f, "at the end: {}", self.why),
        }
    }
}

impl std::error::Error for ShapeError {}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (level, count)) in self.0.iter().enumerate() {
            write!(f, "{}{level}:{count}", if i == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

impl FromStr for Shape {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Shape, ShapeError> {
        let mut levels: Vec<(Level, usize)> = Vec::new();
        let mut cores = 1;
        for (at, word) in words(text) {
            let wrong = |why: String| ShapeError { word: Some((at, word.to_owned())), why };
            let (name, count) = word
                .split_once(':')
                .ok_or_else(|| wrong("no colon between level and number".to_owned()))?;
            let level = name.parse::<Level>().ok().filter(|&level| level != Level::Machine);
            let level = level.ok_or_else(|| wrong(format!("there is no level {name:?}")))?;
            if let Some(outside) = levels.iter().find(|(outer, _)| !may_hold(*outer, level)) {
                return Err(wrong(match outside.0 == level {
                    true => format!("{level} a second time"),
                    false => format!("{level} inside {}", outside.0),
                }));
            }
            if level == Level::Pu && levels.last().is_none_or(|(last, _)| *last != Level::Core) {
                return Err(wrong("pu without a core around it".to_owned()));
            }
            let count =
                count.parse().ok().filter(|n| (1..=MOST_CORES).contains(n)).ok_or_else(|| {
                    wrong(format!("{count:?} is not a number from 1 to {MOST_CORES}"))
                })?;
            cores *= count;
            if cores > MOST_CORES {
                return Err(wrong(format!("that makes {cores} of them, more than {MOST_CORES}")));
            }
            levels.push((level, count));
        }
        if !levels.iter().any(|(level, _)| *level == Level::Core) {
            return Err(ShapeError { word: None, why: "no core:NUMBER".to_owned() });
        }
        Ok(Shape(levels))
    }
}

/// Whether a level may be inside another: packages and NUMA nodes hold each other on real machines.
fn may_hold(outer: Level, inner: Level) -> bool {
    let any_order = |level| level < Level::Core;
    match (outer, inner) {
        (Level::Cache(outer), Level::Cache(inner)) => outer < inner,
        (outer, inner) if outer == inner => false,
        (outer, inner) => any_order(outer) && any_order(inner) || outer < inner,
    }
}

/// The words of a text, each with the number of its first character, from 1.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_whitespace().map(|word| {
        let offset = word.as_ptr() as usize - text.as_ptr() as usize;
        (text[..offset].chars().count() + 1, word)
    })
}

impl Shape {
    /// Number of places for virtual processors.
    pub fn cores(&self) -> usize {
        self.0.iter().map(|(_, count)| count).product()
    }
}

impl Topology {
    /// A machine of this shape, whose cores stand for the real ones `real`.
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
        for &(level, count) in &shape.0 {
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

    #[test]
    fn wrong_text_says_where_and_why() {
        for (text, at, why) in [
            ("numa:2 cor:4", Some(8), "cor"),
            ("numa:2 core", Some(8), "colon"),
            ("core:x", Some(1), "\"x\""),
            ("core:0", Some(1), "1 to 1024"),
            ("core:-1", Some(1), "1 to 1024"),
            ("core:1025", Some(1), "1 to 1024"),
            ("core:99999999999999999999999", Some(1), "1 to 1024"),
            ("numa:1024 core:2", Some(11), "2048"),
            ("core:4 numa:2", Some(8), "numa inside core"),
            ("l2:2 l3:2 core:1", Some(6), "l3 inside l2"),
            ("numa:2 numa:2 core:1", Some(8), "second time"),
            ("pu:2", Some(1), "without a core"),
            ("  machine:1", Some(3), "machine"),
            ("numa:2", None, "core:"),
            ("", None, "core:"),
            ("é:1 core:2", Some(1), "é"),
            ("core:2 é", Some(8), "colon"),
        ] {
            let error = text.parse::<Shape>().unwrap_err();
            assert_eq!(error.word.as_ref().map(|(at, _)| *at), at, "{text}: {error}");
            assert!(error.to_string().contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn packages_and_nodes_hold_each_other() {
        for text in ["package:2 numa:2 core:1", "numa:2 package:2 core:1", "l3:2 numa:2 core:1"] {
            assert_eq!(shape(text).to_string(), text);
        }
        assert_eq!(shape(" cache:2\tcore:1 ").to_string(), "l3:2 core:1");
    }
}
