//! Calls that block in the kernel, and the spare kernel threads that make them.

pub mod lwp;
