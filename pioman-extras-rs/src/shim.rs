//! Atomics and locks of the standard library, or loom's when a model is checked (`--cfg loom`).

#[cfg(not(loom))]
pub(crate) use marcel::plumbing::KernelMutex as Mutex;
#[cfg(loom)]
pub(crate) use marcel::plumbing::ModelMutex as Mutex;

#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicU64, Ordering, fence},
    sync::{Arc, MutexGuard},
};
#[cfg(not(loom))]
pub(crate) use std::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicU64, Ordering, fence},
    sync::{Arc, MutexGuard},
};
