//! The runtimes of the process, whose virtual processors diagnosis looks at.

use std::sync::Arc;

use crate::os::KernelMutex;
use crate::sched::shared::Shared;
use crate::sched::vp::Vp;

static RUNTIMES: KernelMutex<Vec<Arc<Shared>>> = KernelMutex::new(Vec::new());

/// Adds a runtime.
pub(super) fn add(shared: &Arc<Shared>) {
    RUNTIMES.lock().push(shared.clone());
}

/// Removes a runtime, and returns the number of the others.
pub(super) fn remove(shared: &Arc<Shared>) -> usize {
    let mut runtimes = RUNTIMES.lock();
    runtimes.retain(|other| !Arc::ptr_eq(other, shared));
    runtimes.len()
}

/// Every virtual processor of every runtime.
pub(super) fn vps() -> Vec<&'static Vp> {
    RUNTIMES.lock().iter().flat_map(|shared| shared.all_vps()).collect()
}
