//! Orphans: requests that the program has freed before their end. They go on; polls end those that are over.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::table;
use super::take::{Taken, take_from};
use crate::abi::*;
use marcel::plumbing::KernelMutex;

static ALL: KernelMutex<Vec<MPI_Request>> = KernelMutex::new(Vec::new());
/// The number of orphans.
pub(super) static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Adds a request that the program has freed.
pub(super) fn add(request: MPI_Request) {
    let mut all = ALL.lock();
    all.push(request);
    COUNT.store(all.len(), Ordering::Relaxed);
}

/// Ends those that are over.
#[cold]
pub(super) fn reap() {
    // The thread that holds the lock does it for all.
    let Some(mut all) = ALL.try_lock() else { return };
    let orphans = std::mem::take(&mut *all);
    drop(all); // ending one may call the program, which may free others
    let pending = |&request: &MPI_Request| {
        let found = table::find(request).map(|slot| take_from(slot, &mut { request }));
        matches!(found, Some(Ok(Taken::Pending)))
    };
    let left: Vec<MPI_Request> = orphans.into_iter().filter(pending).collect();
    let mut all = ALL.lock();
    all.extend(left);
    COUNT.store(all.len(), Ordering::Relaxed);
}
