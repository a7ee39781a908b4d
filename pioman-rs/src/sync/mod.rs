//! Locks of the progress path: no signal handler waits for one.
//!
//! `delegation`: the holder does what callers leave with it. `biased`: the same, cheaper for the thread that always
//! takes it.

pub(crate) mod biased;
pub(crate) mod delegation;
