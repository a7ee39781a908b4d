//! Virtual processors: the scheduler's loop (`processor`), the queues it serves, its timers and ticks, and how
//! its kernel thread sleeps (`idle`, `sleeper`); how it comes to its end (`ending`).

#[cfg(not(loom))]
pub(crate) mod ending;
#[cfg(not(loom))]
pub(crate) mod fresh;
pub(crate) mod idle;
pub(crate) mod lending;
#[cfg(not(loom))]
pub(crate) mod local;
#[cfg(not(loom))]
pub(crate) mod processor;
pub(crate) mod queue;
pub(crate) mod sleeper;
#[cfg(not(loom))]
pub(crate) mod tick;
#[cfg(not(loom))]
pub(crate) mod timer;
