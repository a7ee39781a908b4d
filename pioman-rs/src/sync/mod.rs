//! What threads wait for, and the lock of the progress path.

pub(crate) mod completion;
pub(crate) mod cond;
pub(crate) mod handover;
