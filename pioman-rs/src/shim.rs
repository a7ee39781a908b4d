//! Atomics of the standard library, or loom's when a model is checked (`--cfg loom`).

#[cfg(not(loom))]
pub(crate) use marcel::plumbing::KernelMutex as Mutex;
#[cfg(loom)]
pub(crate) use marcel::plumbing::ModelMutex as Mutex;

#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::MutexGuard,
    sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    },
    thread::yield_now,
};
#[cfg(not(loom))]
pub(crate) use std::{
    cell::UnsafeCell,
    sync::MutexGuard,
    sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    },
    thread::yield_now,
};

/// A full fence after a sequentially consistent read-modify-write, which is one already on some machines.
#[inline(always)]
pub(crate) fn fence_after_rmw() {
    #[cfg(all(not(loom), any(target_arch = "x86_64", target_arch = "x86")))]
    return std::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(not(all(not(loom), any(target_arch = "x86_64", target_arch = "x86"))))]
    fence(Ordering::SeqCst);
}
