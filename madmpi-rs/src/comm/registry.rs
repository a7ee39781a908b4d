//! The communicators of a circle by their contexts: what newmad tells of failures and revocations names these.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Weak};

use marcel::plumbing::KernelMutex;
use newmad::tolerance::Hook;

/// A communicator, as far as newmad tells it something.
pub(super) trait Told: Send + Sync {
    /// A process has failed, which may be one of its own.
    fn failed(&self);
    /// It was revoked.
    fn revoked(&self);
}

/// Communicators by their contexts.
#[derive(Default)]
pub(super) struct Registry(KernelMutex<HashMap<u32, Weak<dyn Told>>>);

impl Registry {
    pub(super) fn add(&self, context: u32, comm: &Arc<impl Told + 'static>) {
        let comm: Weak<dyn Told> = Arc::<_>::downgrade(comm) as Weak<dyn Told>;
        self.0.lock().insert(context, comm);
    }

    pub(super) fn remove(&self, context: u32) {
        self.0.lock().remove(&context);
    }

    fn get(&self, context: u32) -> Option<Arc<dyn Told>> {
        self.0.lock().get(&context).and_then(Weak::upgrade)
    }

    fn all(&self) -> Vec<Arc<dyn Told>> {
        self.0.lock().values().filter_map(Weak::upgrade).collect()
    }
}

/// The hook of a circle's session.
pub(super) fn hook(registry: &Arc<Registry>) -> impl Hook + use<> {
    OfCircle(registry.clone())
}

struct OfCircle(Arc<Registry>);

impl Hook for OfCircle {
    fn failed(&self) {
        self.0.all().iter().for_each(|comm| comm.failed());
    }

    fn revoked(&self, key: u64) {
        if let Some(comm) = u32::try_from(key).ok().and_then(|context| self.0.get(context)) {
            comm.revoked();
        }
    }
}

/// What a communicator knows of failures.
#[derive(Default)]
pub(super) struct Failures {
    /// So many of the failed processes are acknowledged: the first ones.
    pub(super) acknowledged: AtomicUsize,
    /// Its context is not to be used again.
    pub(super) marked: AtomicBool,
}
