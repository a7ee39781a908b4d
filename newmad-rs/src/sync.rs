//! The atomics that the shared-memory ring, the submission list and the leases are built from, or loom's models of
//! them.

#[cfg(not(loom))]
pub(crate) use core::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
};
#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::Arc,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
};
#[cfg(not(loom))]
pub(crate) use std::sync::Arc;
