//! Virtual processors (`processor`): the scheduler's loop (`schedule`) and its end (`ending`), in which order it runs
//! its threads (`policy`), where it finds those that never ran (`spawned`, `steal`), its `timer`s and `tick`s, and what it
//! does with nothing to run (`rest`, `idle`, `sleeper`).

#[cfg(not(loom))]
pub(crate) mod ending;
pub(crate) mod idle;
pub(crate) mod lending;
#[cfg(not(loom))]
pub(crate) mod local;
#[cfg(not(loom))]
pub mod policy;
#[cfg(not(loom))]
pub(crate) mod processor;
#[cfg(not(loom))]
mod rest;
#[cfg(not(loom))]
mod schedule;
#[cfg(not(loom))]
pub(crate) mod shell;
pub(crate) mod sleeper;
#[cfg(not(loom))]
pub(crate) mod spawned;
#[cfg(not(loom))]
mod steal;
#[cfg(not(loom))]
pub(crate) mod tick;
#[cfg(not(loom))]
pub(crate) mod timer;
