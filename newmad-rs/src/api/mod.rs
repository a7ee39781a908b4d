//! The calls and handles that a program uses: requests that own or borrow their buffers, and waits for them.

pub(crate) mod detached;
pub(crate) mod errand;
pub(crate) mod handle;
pub(crate) mod message;
pub(crate) mod persistent;
pub(crate) mod scope;
pub(crate) mod several;
