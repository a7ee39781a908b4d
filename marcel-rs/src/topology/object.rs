//! Objects that a user names: "numa:1", "core:3", "machine".

use std::fmt;
use std::str::FromStr;

use super::level::Level;
use super::tree::Topology;
use crate::error::Error;

/// An object of a topology, named by level and number as in `mad topo`.
///
/// An `Object` need not exist: [`Topology::node_of`] and [`Topology::cores_of`] look it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// Level of the object.
    pub level: Level,
    /// Number of the object within its level; 0 for the machine.
    pub id: usize,
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.level {
            Level::Machine => f.write_str("machine"),
            level => write!(f, "{level}:{}", self.id),
        }
    }
}

impl FromStr for Object {
    type Err = Error;

    /// # Errors
    /// The text is neither `machine` nor `LEVEL:NUMBER`.
    fn from_str(text: &str) -> Result<Object, Error> {
        let wrong = || Error::Config {
            what: "object",
            why: format!(
                "{text:?} names no place; it takes machine, or a level and a number such as package:0, \
                 numa:1, l3:0, core:3 or pu:3 (`mad topo` shows them)"
            ),
        };
        if text == "machine" {
            return Ok(Object { level: Level::Machine, id: 0 });
        }
        let (level, id) = text.split_once(':').ok_or_else(wrong)?;
        let level = level.parse().map_err(|_| wrong())?;
        // `parse` alone would accept a sign.
        let digits = id.bytes().all(|byte| byte.is_ascii_digit());
        let id = id.parse().ok().filter(|_| digits && level != Level::Machine);
        Ok(Object { level, id: id.ok_or_else(wrong)? })
    }
}

impl Topology {
    /// The index in [`Topology::nodes`] of an object's node.
    ///
    /// Where cores have one hardware thread, `pu:N` is the core N.
    ///
    /// # Errors
    /// The machine has no such object, or none of its cores is allowed.
    pub fn node_of(&self, object: Object) -> Result<usize, Error> {
        let named = |level: Level| {
            self.nodes().iter().position(|node| node.level == level && node.id == object.id)
        };
        let whole_core = || self.leaf_of(object.id).filter(|_| object.level == Level::Pu);
        named(object.level).or_else(whole_core).ok_or_else(|| {
            let others: Vec<String> = self
                .nodes()
                .iter()
                .filter(|node| node.level == object.level)
                .map(|node| format!("{}:{}", node.level, node.id))
                .collect();
            let there = match others.len() {
                0 => format!("no {} is known here", object.level),
                1..=16 => format!("there is {}", others.join(", ")),
                n => format!("there are {n}, from {} to {}", others[0], others[n - 1]),
            };
            Error::Config {
                what: "object",
                why: format!(
                    "{object} is not among the cores that this process may use: {there} (`mad topo` shows them)"
                ),
            }
        })
    }

    /// The allowed cores of an object, in ascending order.
    ///
    /// # Errors
    /// As [`Topology::node_of`].
    pub fn cores_of(&self, object: Object) -> Result<Vec<usize>, Error> {
        Ok(self.nodes()[self.node_of(object)?].cpus.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look_up(topology: &Topology, object: &str) -> Result<Vec<usize>, String> {
        let object = object.parse::<Object>().map_err(|e| e.to_string())?;
        topology.cores_of(object).map_err(|e| e.to_string())
    }

    #[test]
    fn objects_are_found_by_level_and_number() {
        let topology = Topology::synthetic(&"numa:2 core:4".parse().unwrap(), &[]);
        assert_eq!(look_up(&topology, "machine").unwrap().len(), 8);
        assert_eq!(look_up(&topology, "numa:1").unwrap(), [4, 5, 6, 7]);
        assert_eq!(look_up(&topology, "core:3").unwrap(), [3]);
        assert_eq!(look_up(&topology, "pu:3").unwrap(), [3]);
        let smt = Topology::synthetic(&"core:4 pu:2".parse().unwrap(), &[]);
        assert_eq!(look_up(&smt, "core:3").unwrap(), [6, 7]);
        assert_eq!(look_up(&smt, "pu:3").unwrap(), [3]);
    }

    #[test]
    fn what_is_not_there_is_an_error_that_says_what_is() {
        let topology = Topology::synthetic(&"numa:2 core:32".parse().unwrap(), &[]);
        for (text, expected) in [
            ("numa:2", "numa:0, numa:1"),
            ("core:64", "64, from core:0 to core:63"),
            ("package:0", "no package"),
            ("pu:64", "no pu"),
            ("", "names no place"),
            ("numa", "names no place"),
            ("numa:", "names no place"),
            ("numa:+1", "names no place"),
            ("numa:99999999999999999999", "names no place"),
            ("machine:0", "names no place"),
            ("l3:0", "no l3"),
        ] {
            let error = look_up(&topology, text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
