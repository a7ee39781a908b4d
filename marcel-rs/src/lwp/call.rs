//! Exported calls on their way to a thread: a list through their callers' stacks.

use crate::list::{Linked, Links};
use crate::task::latch::Latch;

/// One call. Its owner keeps it in place until the latch is set or it is withdrawn.
pub(crate) struct Call {
    /// In the pool's queue.
    links: Links<Call>,
    /// Makes the call: called once at most, must not unwind, must not set the latch.
    pub(crate) run: unsafe fn(*const Call),
    pub(crate) done: Latch,
}

// SAFETY: a field that nothing else touches.
unsafe impl Linked for Call {
    fn links(&self) -> &Links<Call> {
        &self.links
    }
}

impl Call {
    /// A call that `run` makes, given a pointer to it.
    pub(crate) fn new(run: unsafe fn(*const Call)) -> Call {
        Call { links: Links::new(), run, done: Latch::new() }
    }
}
