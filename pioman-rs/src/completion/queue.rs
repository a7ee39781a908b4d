//! The waiters of a condition, a semaphore or a descriptor: first come, first served, under a lock.

use marcel::plumbing::List;

use crate::completion::node::Node;
use crate::completion::wakers;
use crate::sync::delegation::{Delegated, DelegationLock};

/// Nodes of waiters.
pub(crate) type Queue = List<Node>;

/// Calls `f` with the lock of a queue held. Not on the progress path.
pub(crate) fn locked<T: Delegated, R>(lock: &DelegationLock<T>, f: impl FnOnce(&mut T) -> R) -> R {
    let result = f(&mut lock.lock());
    wakers::settle();
    result
}
