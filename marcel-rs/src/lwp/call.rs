//! Exported calls on their way to a thread: a list through their callers' stacks.

use crate::list::{Linked, Links};

/// One call. Its owner keeps it in place until it is over or withdrawn.
pub(crate) struct Call {
    /// In the pool's queue.
    links: Links<Call>,
    end: unsafe fn(*const Call, How),
}

/// What becomes of a call that was taken from its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// It is made.
    Make,
    /// It is handed back to its owner: there is no thread to make it.
    HandBack,
}

// SAFETY: a field that nothing else touches.
unsafe impl Linked for Call {
    fn links(&self) -> &Links<Call> {
        &self.links
    }
}

impl Call {
    /// A call. `end` makes it, or not, and tells its owner by its last touch.
    ///
    /// # Safety
    /// `end` may be called on any thread, once, with a pointer to this call; it does not unwind.
    pub(crate) unsafe fn new(end: unsafe fn(*const Call, How)) -> Call {
        Call { links: Links::new(), end }
    }

    /// Ends a call.
    ///
    /// # Safety
    /// The caller has taken it from its queue.
    pub(crate) unsafe fn end(call: *const Call, how: How) {
        // SAFETY: a call stays in place until it is over.
        unsafe { ((*call).end)(call, how) }
    }
}
