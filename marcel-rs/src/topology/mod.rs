//! The machine as a tree: which cores this process may use, how they hang together, where a virtual processor goes.
//!
//! A [`Topology`] comes from one of three places, [`Topology::current`] chooses:
//!
//! | source | when | file |
//! |---|---|---|
//! | synthetic | `MARCEL_TOPOLOGY` describes a machine | [`synthetic`] |
//! | the kernel's files | otherwise | `kernel` |
//!
//! The sources only say which cores belong together; one function (`tree`) makes the tree of it, for the
//! allowed cores alone. What is asked of the tree is in files of its own: `object` (a place named by a user),
//! `distance` (who is near whom, so whom to steal from). How many virtual processors a process should have is
//! decided in `allowed`, from the affinity mask and the cgroup's `quota`; `bind` tells the kernel.
//!
//! *Core* in this module's names is what the kernel numbers as a CPU, the place of one virtual processor: a
//! hardware thread where a core has several ([`Level::Pu`]), else the core itself.

mod allowed;
mod bind;
mod distance;
mod kernel;
mod object;
mod quota;
pub mod synthetic;
mod tree;

use std::path::Path;

pub use allowed::{allowed_cpus, neighbours, vp_count};
pub use bind::{bind_current_thread, restrict_current_thread};
pub use object::Object;
pub use quota::cgroup_quota;
pub use synthetic::Shape;
pub use tree::{Cache, CacheLevel, Level, Node, Source, Topology, UnknownLevel};

use crate::error::Error;
use crate::knobs;

impl Topology {
    /// The topology in force: the synthetic machine that `MARCEL_TOPOLOGY` describes, else this one.
    ///
    /// # Errors
    /// When the knob holds something else.
    pub fn current() -> Result<Topology, Error> {
        let text = knobs::TOPOLOGY.text()?;
        if text.is_empty() {
            return Ok(Self::discover());
        }
        let shape: Shape = text
            .parse()
            .map_err(|why: synthetic::ShapeError| knobs::TOPOLOGY.error_at(&text, &why))?;
        Ok(Self::synthetic(&shape, &allowed_cpus()))
    }

    /// This machine, whatever `MARCEL_TOPOLOGY` says. What cannot be found out is taken as one package with one
    /// cache.
    pub fn discover() -> Topology {
        let cpus = allowed_cpus();
        let groups = kernel::groups(Path::new("/sys/devices/system"), &cpus);
        Self::assemble(Source::Kernel, &cpus, groups)
    }
}
