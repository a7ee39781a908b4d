//! The control block of a thread (`block`) and its parts: the words of park and unpark, of join and of interruption,
//! the closure and the result (`payload`), the `budget` of its turn, and what debuggers and dumps see (`debug_info`).

#[cfg_attr(loom, path = "block_model.rs")]
pub(crate) mod block;
#[cfg(not(loom))]
pub(crate) mod budget;
#[cfg(not(loom))]
pub(crate) mod debug_info;
pub(crate) mod interrupt_flag;
pub(crate) mod join_word;
#[cfg(not(loom))]
pub(crate) mod locals;
pub(crate) mod park_word;
#[cfg(not(loom))]
pub(crate) mod payload;
pub(crate) mod seq_count;
#[cfg(not(loom))]
pub(crate) mod traits;
