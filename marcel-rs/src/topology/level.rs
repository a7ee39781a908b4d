//! Levels of the tree: their order, and their names.

use std::fmt;
use std::str::FromStr;

/// What a node of the topology is. Ordered from the outside in, as levels nest that hold the same cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// The whole machine.
    Machine,
    /// One processor package.
    Package,
    /// Cores with the same near memory.
    Numa,
    /// Cores that share a cache of this level.
    Cache(CacheLevel),
    /// One core.
    Core,
    /// One hardware thread of a core that has several.
    Pu,
}

/// Level of a cache, 1 to 9. The last one comes first in the order: it is the outermost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheLevel(u8);

impl CacheLevel {
    /// The level of this number; `None` if it is not from 1 to 9.
    pub fn new(level: u8) -> Option<CacheLevel> {
        (1..=9).contains(&level).then_some(CacheLevel(level))
    }

    /// Its number.
    pub fn get(self) -> u8 {
        self.0
    }
}

impl Ord for CacheLevel {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.0.cmp(&self.0)
    }
}

impl PartialOrd for CacheLevel {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Level::Machine => f.write_str("machine"),
            Level::Package => f.write_str("package"),
            Level::Numa => f.write_str("numa"),
            Level::Cache(level) => write!(f, "l{}", level.0),
            Level::Core => f.write_str("core"),
            Level::Pu => f.write_str("pu"),
        }
    }
}

/// Not the name of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownLevel;

impl FromStr for Level {
    type Err = UnknownLevel;

    /// The names that are printed; `cache` is the third level.
    fn from_str(text: &str) -> Result<Level, UnknownLevel> {
        Ok(match text {
            "machine" => Level::Machine,
            "package" => Level::Package,
            "numa" => Level::Numa,
            "cache" => Level::Cache(CacheLevel(3)),
            "core" => Level::Core,
            "pu" => Level::Pu,
            _ => {
                let level = text.strip_prefix('l').filter(|digits| digits.len() == 1);
                let level = level.and_then(|digit| digit.parse().ok()).and_then(CacheLevel::new);
                Level::Cache(level.ok_or(UnknownLevel)?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_levels_are_read_as_they_are_printed() {
        for level in [Level::Machine, Level::Package, Level::Numa, Level::Core, Level::Pu] {
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        assert_eq!("l2".parse(), Ok(Level::Cache(CacheLevel(2))));
        assert_eq!("cache".parse(), Ok(Level::Cache(CacheLevel(3))));
        for wrong in ["", "l", "l0", "l10", "l+3", "Core", "node"] {
            assert_eq!(wrong.parse::<Level>(), Err(UnknownLevel), "{wrong}");
        }
    }
}
