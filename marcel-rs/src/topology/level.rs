//! Levels of the tree, with their order and names.

use std::fmt;
use std::str::FromStr;

/// The kind of a node of the topology, ordered from the outside in.
///
/// The order is that in which levels with the same cores nest.
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

/// Level of a cache, 1 to 9. The order is from the outermost to the innermost, so 3 comes before 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheLevel(u8);

impl CacheLevel {
    /// The cache level `level`; `None` if it is not from 1 to 9.
    pub fn new(level: u8) -> Option<CacheLevel> {
        (1..=9).contains(&level).then_some(CacheLevel(level))
    }

    /// The number of the level.
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

/// The error of reading a [`Level`] from a text that names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownLevel;

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such level; the levels are machine, package, numa, l1 to l9, core and pu")
    }
}

impl std::error::Error for UnknownLevel {}

impl FromStr for Level {
    type Err = UnknownLevel;

    /// Reads a name as `Display` writes it; `cache` is `l3`.
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
