//! The scheduler: virtual processors (`vp`), what they share (`shared`), the loop of each (`schedule`) and its end
//! (`ending`), in which order it runs its threads (`policy`), where it finds those that never ran (`spawned`, `steal`),
//! its `timer`s and `tick`s, and what it does with nothing to run (`rest`, `idle`).

mod armed;
#[cfg(not(loom))]
pub(crate) mod ending;
#[cfg(not(loom))]
pub(crate) mod here;
#[cfg(not(loom))]
pub(crate) mod hooks;
pub(crate) mod idle;
pub(crate) mod lending;
#[cfg(not(loom))]
pub(crate) mod load;
#[cfg(not(loom))]
pub(crate) mod mode;
#[cfg(not(loom))]
pub mod policy;
#[cfg(not(loom))]
mod rest;
#[cfg(not(loom))]
mod schedule;
#[cfg(not(loom))]
pub(crate) mod shared;
#[cfg(not(loom))]
pub(crate) mod shell;
#[cfg(not(loom))]
pub(crate) mod signal_target;
#[cfg(not(loom))]
pub(crate) mod spawned;
#[cfg(not(loom))]
mod steal;
#[cfg(not(loom))]
pub(crate) mod tick;
#[cfg(not(loom))]
mod tick_handler;
#[cfg(not(loom))]
pub(crate) mod timer;
#[cfg(not(loom))]
pub(crate) mod unwinding;
#[cfg(all(not(loom), target_arch = "x86_64"))]
pub(crate) mod user_interrupts;
#[cfg(not(loom))]
pub(crate) mod vp;
#[cfg(not(loom))]
pub(crate) mod worker;
