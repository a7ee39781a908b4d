//! Requests that the program has freed before they were over: they go on, and are ended when somebody comes by.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::table;
use super::take::{Taken, take_from};
use crate::abi::*;

static ALL: Mutex<Vec<MPI_Request>> = Mutex::new(Vec::new());
/// How many there are.
pub(super) static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The program has freed it.
pub(super) fn add(request: MPI_Request) {
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.push(request);
    COUNT.store(all.len(), Ordering::Relaxed);
}

/// Ends those that are over.
#[cold]
pub(super) fn reap() {
    // Whoever is at it does it for all.
    let Ok(mut all) = ALL.try_lock() else { return };
    let orphans = std::mem::take(&mut *all);
    drop(all); // ending one may call the program, which may free others
    let pending = |&request: &MPI_Request| {
        let found = table::find(request).map(take_from);
        matches!(found, Some(Ok(Taken::Pending)))
    };
    let left: Vec<MPI_Request> = orphans.into_iter().filter(pending).collect();
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.extend(left);
    COUNT.store(all.len(), Ordering::Relaxed);
}
