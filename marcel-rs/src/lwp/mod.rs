//! Kernel threads beside those of the virtual processors: they make calls that block.

#[cfg(not(loom))]
pub(crate) mod blocking;
pub(crate) mod call;
pub(crate) mod calls;
pub(crate) mod jobs;
#[cfg(not(loom))]
pub(crate) mod spare;
