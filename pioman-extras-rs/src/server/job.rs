//! What a pool thread blocks on.

use std::sync::Arc;

use super::kinds::Kind;
use super::pending::Pending;

/// The calling thread, green or not, or the scheduler itself.
pub(super) fn whoami() -> usize {
    marcel::plumbing::into_raw(marcel::current()) as usize
}

/// Work of one pool thread.
pub(super) struct Job<R> {
    pub(super) id: u64,
    pub(super) kind: Kind,
    pub(super) interface: usize,
    pub(super) requests: Arc<[Pending<R>]>,
    /// The thread that makes the call, as [`whoami`] has it; 0: the job is between two calls.
    pub(super) in_call: usize,
    /// The interrupt callback was called for this call.
    pub(super) interrupted: bool,
}

impl<R> Job<R> {
    pub(super) fn is_about(&self, request: &Pending<R>) -> bool {
        self.requests.iter().any(|other| Arc::ptr_eq(&other.0, &request.0))
    }
}

impl<R> Job<R> {
    /// What to interrupt, if another thread is in a call, and was not interrupted yet.
    pub(super) fn interrupt_once(&mut self) -> Option<Arc<[Pending<R>]>> {
        let yes = self.in_call != 0 && self.in_call != whoami() && !self.interrupted;
        yes.then(|| {
            self.interrupted = true;
            self.requests.clone()
        })
    }
}
