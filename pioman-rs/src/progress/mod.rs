//! What progress is made with: sources of events, their pollers, and the policies that choose how.
//!
//! | file | what |
//! |---|---|
//! | `source` | the trait that a library implements |
//! | `registry` | the sources of a manager, and how the progress path walks them |
//! | `pollers` | how many threads poll each source |
//! | `point` | where events are looked for |
//! | `policy` | the method of detection for each request |
//! | `machine`, `wake_up` | the virtual processors and kernel threads that there are; the cost of a wake-up |
//! | `short_slices` | threads that wait ask the kernel for short time slices |
//! | `advisor` | asks a source's policy |
//! | `counts`, `histogram` | polls, hits and times |

#[cfg(not(loom))]
pub(crate) mod advisor;
#[cfg(not(loom))]
pub(crate) mod counts;
#[cfg(not(loom))]
pub(crate) mod histogram;
#[cfg(not(loom))]
pub(crate) mod machine;
#[cfg(not(loom))]
pub(crate) mod point;
#[cfg(not(loom))]
pub(crate) mod policy;
pub(crate) mod pollers;
#[cfg(not(loom))]
pub(crate) mod registry;
#[cfg(not(loom))]
pub(crate) mod short_slices;
#[cfg(not(loom))]
pub(crate) mod source;
#[cfg(not(loom))]
pub(crate) mod wake_up;
