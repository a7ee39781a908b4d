//! The switch between the scheduler and a green thread: a `corosensei` coroutine per thread.
//!
//! The only module that knows the switch's back end. Everything else sees a [`Context`] that is resumed, and
//! a thread that switches out with a [`Switch`] saying why.

pub(crate) mod overflow;
pub(crate) mod stack;

use corosensei::{Coroutine, CoroutineResult};

use self::stack::Stack;

/// Why a thread gave control back to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Switch {
    /// It goes to the end of the run queue.
    Yield,
    /// It waits for an unpark.
    Park,
}

/// What a thread uses to switch out.
pub(crate) type Yielder = corosensei::Yielder<(), Switch>;

/// A started green thread's saved context, and its stack.
pub(crate) struct Context(Coroutine<(), Switch, (), Stack>);

impl Context {
    /// A context that will run `body` on `stack` at the first resume. `body` must not unwind.
    pub(crate) fn new(stack: Stack, body: impl FnOnce(&Yielder) + 'static) -> Context {
        Context(Coroutine::with_stack(stack, move |yielder: &Yielder, ()| body(yielder)))
    }

    /// Runs the thread until it switches out (`Some`) or ends (`None`).
    #[inline]
    pub(crate) fn resume(&mut self) -> Option<Switch> {
        match self.0.resume(()) {
            CoroutineResult::Yield(how) => Some(how),
            CoroutineResult::Return(()) => None,
        }
    }

    /// Unwinds a suspended thread's stack: its destructors run.
    pub(crate) fn unwind(&mut self) {
        self.0.force_unwind();
    }

    /// The stack of an ended thread.
    pub(crate) fn into_stack(self) -> Stack {
        self.0.into_stack()
    }
}
