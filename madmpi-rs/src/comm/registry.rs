//! The communicators of a circle by their contexts: what newmad tells of failures and revocations names these.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use marcel::plumbing::KernelMutex;

/// Communicators, of the type `T`, by their contexts.
pub(super) struct Registry<T>(KernelMutex<HashMap<u32, Weak<T>>>);

impl<T> Default for Registry<T> {
    fn default() -> Registry<T> {
        Registry(KernelMutex::default())
    }
}

impl<T> Registry<T> {
    pub(super) fn add(&self, context: u32, comm: &Arc<T>) {
        self.0.lock().insert(context, Arc::downgrade(comm));
    }

    pub(super) fn remove(&self, context: u32) {
        self.0.lock().remove(&context);
    }

    pub(super) fn get(&self, context: u32) -> Option<Arc<T>> {
        self.0.lock().get(&context).and_then(Weak::upgrade)
    }

    pub(super) fn all(&self) -> Vec<Arc<T>> {
        self.0.lock().values().filter_map(Weak::upgrade).collect()
    }
}

/// What a communicator knows of failures.
#[derive(Default)]
pub(super) struct Failures {
    /// So many of the failed processes are acknowledged: the first ones.
    pub(super) acknowledged: KernelMutex<usize>,
    /// Its context is not to be used again.
    pub(super) marked: AtomicBool,
}
