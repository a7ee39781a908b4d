//! The machine as a tree of the cores that this process may use, and the places of virtual processors on it.
//!
//! A [`Topology`] comes from one of three sources, of which [`Topology::current`] chooses one:
//!
//! | source | when | file |
//! |---|---|---|
//! | synthetic | `MARCEL_TOPOLOGY` describes a machine | [`synthetic`] |
//! | hwloc | it is installed and `MARCEL_HWLOC` is not 0 | `hwloc` |
//! | the kernel's files | otherwise | `kernel` |
//!
//! Each source gives sets of cores that belong together, and `tree` makes a tree of the sets, for the allowed cores
//! alone. Questions to the tree are in files of their own: `object` looks up a place that a user names, `distance`
//! orders the virtual processors to steal from. `placement` chooses the number of virtual processors and their cores
//! from the affinity mask (`allowed`) and the cgroup's `quota`; `bind` applies the choice.
//!
//! *Core* in this module's names is a CPU as the kernel numbers them, the place of one virtual processor: a
//! hardware thread where a core has several ([`Level::Pu`]), else the core itself.
//!
//! Layers, from the bottom: `level`, `shape`, `allowed` and `quota`; `tree`; the sources; questions to the tree.

mod allowed;
mod bind;
mod distance;
mod hwloc;
mod kernel;
pub(crate) mod knobs;
mod level;
mod object;
mod placement;
mod quota;
mod shape;
mod slurm;
pub mod synthetic;
mod tree;

use std::path::Path;

pub use allowed::{allowed_cpus, is_oversubscribed, neighbours};
pub use bind::{bind_current_thread, restrict_current_thread};
pub use level::{CacheLevel, Level, UnknownLevel};
pub use object::Object;
pub use placement::vp_count;
pub use quota::cgroup_quota;
pub use shape::Shape;
pub use tree::{Cache, Node, Source, Topology};

use crate::error::Error;
use crate::os::KernelMutex;

impl Topology {
    /// The topology in force: the synthetic machine that `MARCEL_TOPOLOGY` describes, else this machine's.
    ///
    /// # Context
    /// As [`Topology::discover`].
    ///
    /// # Blocking
    /// As [`Topology::discover`].
    ///
    /// # Errors
    /// `MARCEL_TOPOLOGY` does not describe a machine. Else as [`Topology::discover`].
    pub fn current() -> Result<Topology, Error> {
        let text = knobs::TOPOLOGY.text()?;
        if text.is_empty() {
            return Self::discover();
        }
        let shape = text.parse::<Shape>().expect("the knob has checked its format");
        Ok(Self::synthetic(&shape, &allowed_cpus()))
    }

    /// The topology of this machine, whatever `MARCEL_TOPOLOGY` says.
    ///
    /// A machine that describes nothing is taken as one package with one NUMA node.
    ///
    /// # Context
    /// Green and kernel threads; not on the progress path. The allowed cores are those of the calling kernel thread.
    /// On a virtual processor, which is bound, that is one core.
    ///
    /// # Blocking
    /// Blocks the calling kernel thread for some milliseconds, the first time.
    ///
    /// # Errors
    /// `MARCEL_HWLOC` is 1 and hwloc cannot be used, or `MARCEL_HWLOC` has a value that its knob does not accept.
    pub fn discover() -> Result<Topology, Error> {
        /// The last answer. It depends on the choice and the allowed cores only, since a machine does not change.
        static LAST: KernelMutex<Option<(String, Vec<usize>, Topology)>> = KernelMutex::new(None);
        let choice = knobs::HWLOC.text()?;
        let cpus = allowed_cpus();
        let mut last = LAST.lock();
        if let Some((asked, allowed, topology)) = &*last
            && *asked == choice
            && *allowed == cpus
        {
            return Ok(topology.clone());
        }
        let topology = Self::ask(&choice, &cpus)?;
        *last = Some((choice, cpus, topology.clone()));
        Ok(topology)
    }

    fn ask(choice: &str, cpus: &[usize]) -> Result<Topology, Error> {
        let asked = match choice {
            "0" => Err("MARCEL_HWLOC=0".to_owned()),
            _ => hwloc::ask(),
        };
        match asked {
            Ok(hwloc::Known { version, groups }) => {
                Ok(Self::assemble(Source::Hwloc { version }, cpus, groups))
            }
            Err(why) if choice == "1" => Err(Error::Config {
                what: "MARCEL_HWLOC=1",
                why: format!(
                    "hwloc cannot be used: {why}; put that right (Debian and Ubuntu: apt install libhwloc15), \
                     or set auto or 0 for the kernel's files"
                ),
            }),
            Err(no_hwloc) => {
                let groups = kernel::groups(Path::new("/sys/devices/system"), cpus);
                Ok(Self::assemble(Source::Kernel { no_hwloc }, cpus, groups))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn hwloc_and_the_kernel_say_the_same_of_this_machine() {
        let cpus = allowed_cpus();
        let theirs = match Topology::ask("1", &cpus) {
            Ok(theirs) => theirs,
            Err(why) => {
                // Not `eprintln`, whose output the harness hides when a test passes.
                let _ = writeln!(std::io::stderr(), "SKIPPED the comparison with hwloc: {why}");
                return;
            }
        };
        let ours = Topology::ask("0", &cpus).unwrap();
        assert!(matches!(theirs.source(), Source::Hwloc { .. }), "{}", theirs.source());
        assert!(matches!(ours.source(), Source::Kernel { .. }), "{}", ours.source());
        // Numbers of caches are whatever each of them likes.
        let plain = |topology: &Topology| -> Vec<Node> {
            let node = |node: &Node| match node.level {
                Level::Cache(_) => Node { id: 0, ..node.clone() },
                _ => node.clone(),
            };
            topology.nodes().iter().map(node).collect()
        };
        assert_eq!(plain(&theirs), plain(&ours));
    }

    #[test]
    fn without_hwloc_the_source_says_why() {
        let topology = Topology::ask("0", &allowed_cpus()).unwrap();
        assert!(topology.source().to_string().contains("MARCEL_HWLOC=0"), "{}", topology.source());
    }
}
