//! Threads: what a thread does to itself (`current`), how it is started and joined (`spawn`, `latch`), asked to stop (`interrupt`), and its
//! own values (`local_key`), and its control block (`tcb`) with the protocol of park and unpark (`park_word`).

#[cfg(not(loom))]
pub(crate) mod current;
#[cfg(not(loom))]
pub(crate) mod interrupt;
pub(crate) mod latch;
#[cfg(not(loom))]
pub(crate) mod local_key;
#[cfg(not(loom))]
pub(crate) mod look;
pub(crate) mod park_word;
#[cfg(not(loom))]
pub(crate) mod spawn;
#[cfg_attr(loom, path = "tcb_model.rs")]
pub(crate) mod tcb;
