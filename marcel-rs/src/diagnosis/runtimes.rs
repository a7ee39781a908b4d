//! The runtimes of the process, whose virtual processors diagnosis looks at.

use std::sync::{Arc, Mutex, MutexGuard};

use crate::sched::shared::Shared;
use crate::sched::vp::Vp;

static RUNTIMES: Mutex<Vec<Arc<Shared>>> = Mutex::new(Vec::new());

fn runtimes() -> MutexGuard<'static, Vec<Arc<Shared>>> {
    RUNTIMES.lock().unwrap_or_else(|e| e.into_inner())
}

/// Adds a runtime.
pub(super) fn add(shared: &Arc<Shared>) {
    runtimes().push(shared.clone());
}

/// Removes a runtime, and returns the number of the others.
pub(super) fn remove(shared: &Arc<Shared>) -> usize {
    let mut runtimes = runtimes();
    runtimes.retain(|other| !Arc::ptr_eq(other, shared));
    runtimes.len()
}

/// Every virtual processor of every runtime.
pub(super) fn vps() -> Vec<&'static Vp> {
    runtimes().iter().flat_map(|shared| shared.all_vps()).collect()
}
