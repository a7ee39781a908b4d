//! Sleeping in the kernel until something happens.
//!
//! `pollers`: who looks, so that nobody has to sleep on a source. `set`: an `epoll` set and who sleeps in it. `arming`: whether a descriptor of it is armed. `spare`: the kernel thread
//! that sleeps in a set for ever. `patrol`: when it looks by itself instead of being woken. `candidates`: kernel threads that wait to take over the role of the sleeper.

#[cfg_attr(loom, allow(dead_code))]
mod arming;
#[cfg(not(loom))]
pub(crate) mod candidates;
#[cfg(not(loom))]
pub(crate) mod dedicated;
#[cfg(not(loom))]
pub(crate) mod patrol;
#[cfg_attr(loom, allow(dead_code))]
pub(crate) mod pollers;
#[cfg(not(loom))]
pub(crate) mod set;
#[cfg(not(loom))]
pub(crate) mod spare;
