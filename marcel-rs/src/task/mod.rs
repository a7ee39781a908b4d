//! Threads as programs use them: what a thread does to itself (`current`), how it is started (`spawn`), joined (`join`,
//! `scope`) and asked to stop (`interrupt`), its own values (`local_key`), how long it may go on without a wait
//! (`budget`), and the `latch` of a completion.

#[cfg_attr(loom, path = "budget_model.rs")]
pub(crate) mod budget;
#[cfg(not(loom))]
pub(crate) mod current;
pub(crate) mod interrupt;
#[cfg(not(loom))]
pub(crate) mod join;
pub(crate) mod latch;
#[cfg(not(loom))]
pub(crate) mod local_key;
#[cfg_attr(loom, path = "park_model.rs")]
pub(crate) mod park;
#[cfg(not(loom))]
pub(crate) mod scope;
#[cfg(not(loom))]
pub(crate) mod spawn;
