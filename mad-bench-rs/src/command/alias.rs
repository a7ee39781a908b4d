//! Names under which experiments of the sources are found that are a bench with certain options.

use std::fmt;

/// A name for a bench with options.
pub(crate) struct Alias {
    /// The name.
    pub(crate) name: &'static str,
    /// The bench that it stands for.
    pub(crate) bench: &'static str,
    /// Its options, unless the command line has other values for them.
    pub(crate) given: &'static [(&'static str, &'static str)],
    /// What it measures.
    pub(crate) about: &'static str,
    source: &'static str,
}

/// All of them.
pub(crate) static ALIASES: [Alias; 2] = [
    Alias {
        name: "concurrent",
        bench: "mt_latency",
        given: &[("workload", "together"), ("size", "8")],
        about: "as many threads on each side, which all play ping-pong at once",
        source: "[Trahay09] 7.2.2.1, figures 7.13 and 7.14",
    },
    Alias {
        name: "waiting",
        bench: "mt_latency",
        given: &[("workload", "turns"), ("size", "4")],
        about: "threads that wait for messages, to which one thread sends in turn (osu_latency_mt)",
        source: "[Trahay09] 7.2.2.2, figures 7.15 and 7.16",
    },
];

/// The alias of this name.
pub(crate) fn find(name: &str) -> Option<&'static Alias> {
    ALIASES.iter().find(|alias| alias.name == name)
}

impl fmt::Display for Alias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Alias { name, bench, given, about, source } = self;
        write!(f, "{name}: {about}\n  source: {source}\n  as `mad bench {bench}")?;
        given.iter().try_for_each(|(option, value)| write!(f, " --{option} {value}"))?;
        f.write_str("`\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{experiments, harness};

    #[test]
    fn every_alias_makes_a_grid_of_its_bench_and_hides_none() {
        for alias in &ALIASES {
            let bench = experiments::find(alias.bench).unwrap();
            harness::key::grid(bench.name, bench.keys, alias.given).unwrap();
            assert!(experiments::find(alias.name).is_none(), "{}", alias.name);
        }
    }
}
