//! Threads: what a thread does to itself (`current`), how it is started (`spawn`, with its `cargo`), joined (`join`,
//! `join_word`) and asked to stop (`interrupt`), its own values (`local_key`), what others see of it (`look`), and its
//! control block (`tcb`) with the protocol of park and unpark (`park_word`). The `latch` of a request's completion. Of
//! kernel threads: their numbers (`slot`).

#[cfg(not(loom))]
pub(crate) mod cargo;
#[cfg(not(loom))]
pub(crate) mod current;
pub(crate) mod interrupt;
#[cfg(not(loom))]
pub(crate) mod join;
pub(crate) mod join_word;
pub(crate) mod latch;
#[cfg(not(loom))]
pub(crate) mod local_key;
#[cfg(not(loom))]
pub(crate) mod look;
pub(crate) mod moves;
pub(crate) mod park_word;
#[cfg(not(loom))]
pub(crate) mod scope;
#[cfg(not(loom))]
pub(crate) mod slot;
#[cfg(not(loom))]
pub(crate) mod spawn;
#[cfg_attr(loom, path = "tcb_model.rs")]
pub(crate) mod tcb;
