//! What lies at the top of a context's stack, and what a back end of the switch is.

use std::cell::Cell;

use super::memory::Stack;
use super::modes;
use super::switch::Switch;

/// What changes stacks; see the module's description. Lives at one address, in a [`Frame`].
pub(super) trait BackEnd: Sized {
    /// Makes `frame.engine`, which is not initialised, a suspended context that enters [`first_frame`] at the
    /// first resume.
    ///
    /// # Safety
    /// The memory below the frame, down to `stack`'s guard, is the context's, and stays.
    unsafe fn init(frame: *mut Frame<Self>, stack: &Stack);

    /// Runs what is suspended here until it suspends again.
    ///
    /// # Safety
    /// It is suspended, and only the caller resumes it.
    unsafe fn resume(&self) -> Switch;

    /// Goes back to the resumer; returns when resumed again.
    ///
    /// # Safety
    /// On this context's own stack.
    unsafe fn suspend(&self, how: Switch);

    /// The stack is about to be used for something else; nothing of the idle context is left.
    ///
    /// # Safety
    /// The context is idle, and never resumed again.
    unsafe fn retire(&self) {}
}

/// What lies at the top of a context's stack.
#[repr(C, align(64))]
pub(super) struct Frame<E> {
    pub(super) engine: E,
    /// What a suspended thread does first when it is resumed.
    pub(super) errand: Cell<Option<fn()>>,
    pub(super) body: fn(),
    pub(super) modes: modes::Own,
    pub(super) stack: Stack,
}

/// Runs bodies for ever.
///
/// # Safety
/// Entered by [`BackEnd::resume`] on the stack of `frame`.
pub(super) unsafe fn first_frame<E: BackEnd>(frame: *const Frame<E>) -> ! {
    // SAFETY: it lies above us on our own stack.
    let frame = unsafe { &*frame };
    loop {
        (frame.body)();
        // SAFETY: we are on its stack.
        unsafe { frame.engine.suspend(Switch::Ended) };
    }
}
