//! Atomics and locks of the standard library, or loom's when a model is checked (`--cfg loom`).

#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicU64, Ordering, fence},
    sync::{Arc, Mutex, MutexGuard},
    thread::yield_now,
};
#[cfg(not(loom))]
pub(crate) use std::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicU64, Ordering, fence},
    sync::{Arc, Mutex, MutexGuard},
    thread::yield_now,
};
