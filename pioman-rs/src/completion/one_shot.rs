//! The end of a request, as its waiter sees it.

use marcel::Latch;

/// A one-shot latch: a request embeds one, and the thread that finds its end completes it. Any number of green and
/// kernel threads may wait for it; with one or none [`Completion::complete`] is one swap.
///
/// [`Completion::complete`] is the last touch: as soon as it has set the latch, the owner may free the
/// memory (rule 4 of the progress path).
#[derive(Debug, Default)]
pub struct Completion(Latch);

impl Completion {
    /// Not complete.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Completion(Latch::new())
    }

    /// Not complete.
    #[cfg(loom)]
    pub fn new() -> Self {
        Completion(Latch::new())
    }

    /// Marks it complete and wakes its waiters.
    ///
    /// # Context
    /// Anywhere, the tick's handler included.
    ///
    /// # Wakes
    /// Every thread that waits for it.
    #[inline]
    pub fn complete(&self) {
        #[cfg(not(loom))]
        crate::trace::completes(self);
        self.0.set();
    }

    /// Whether it is complete; what was written before `complete` is visible then.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.0.is_set()
    }

    /// Whether a thread sleeps on it.
    #[inline]
    pub fn has_waiter(&self) -> bool {
        self.0.has_waiter()
    }

    /// Makes it fresh again.
    pub fn reset(&mut self) {
        self.0.reset();
    }

    /// Makes it fresh again, although other threads may look whether it is complete.
    ///
    /// # Safety
    /// No thread waits on it or completes it, and no waker of a wait is registered.
    pub unsafe fn rearm(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.0.rearm() }
    }

    /// The latch below. A wait on it sleeps without polling for events: another thread has to look for them.
    pub fn latch(&self) -> &Latch {
        &self.0
    }
}
