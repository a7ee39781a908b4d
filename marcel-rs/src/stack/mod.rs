//! The switch between the scheduler and a green thread, and the stacks that threads run on.
//!
//! A [`Context`] is a stack with a first frame that lives for ever: it runs the body of one thread, says
//! [`Switch::Ended`], and when it is resumed again runs the body of the next one. So starting a thread on a
//! pooled context sets nothing up at all.
//!
//! ```text
//!   take ──▶ idle ──resume──▶ running ──suspend(Yield, Park)──▶ suspended ──resume──▶ running
//!             ▲                  │                                  │
//!             └── Ended: put ────┘◀───────────── unwind ────────────┘
//! ```
//!
//! What a context needs lies at the top of its own stack ([`Frame`]): a context is one pointer, a list of
//! them needs no memory, and the line is warm when the thread above it runs.
//!
//! # Back ends
//! How to change stacks is a [`BackEnd`]; the rest of the crate sees none of it.
//!
//! | back end | chosen by | a switch and back, the thread's calls inlined / two calls deep |
//! |---|---|---|
//! | `assembly` | default on x86-64 and aarch64 | 5 / 12 ns |
//! | `coroutine`: the crate `corosensei` | feature `back-end-corosensei`; default elsewhere; AddressSanitizer | 5 / 37 ns |
//! | `fcontext`: the crate `context` (Boost.Context) | feature `back-end-context` (needs a C compiler) | 155 / 36 ns |
//!
//! (Intel Xeon with AMX, one core; medians. On an AMD EPYC, before floating-point modes were looked at: 4 / 5, 3 / 20 and
//! 10 / 22 ns.) Why the default is our own: processors predict where a `ret` goes by a stack of the
//! calls before it. corosensei switches by `call` and `ret`, which is right for a generator, whose resumer and
//! body are inlined into one loop. A thread suspends some calls deep, in `park` or `lock`, and every switch then
//! costs two wrong predictions: one at the switch, one where `park` returns. A plain jump leaves that stack
//! alone. Boost's functions jump as well, but are reached by a `call` that has no `ret`, and load the control words
//! of the floating-point units at every switch ([`Modes`] does so where they differ, for all back ends).
//!
//! Unwinding needs nothing of a back end: a suspended thread that is to be unwound is resumed with an errand,
//! and raises a panic in its own `suspend`. Every frame that is crossed is Rust's, and the payload ends where
//! the thread's panics end.

#[cfg(not(any(feature = "back-end-corosensei", feature = "back-end-context")))]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod assembly;
#[cfg(any(
    feature = "back-end-corosensei",
    not(any(feature = "back-end-context", target_arch = "x86_64", target_arch = "aarch64"))
))]
mod coroutine;
#[cfg(all(feature = "back-end-context", not(feature = "back-end-corosensei")))]
mod fcontext;
mod frame;
pub(crate) mod memory;
mod modes;
pub(crate) mod pool;
mod slab;
mod switch;
#[cfg(test)]
mod tests;

#[cfg(not(any(feature = "back-end-corosensei", feature = "back-end-context")))]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use self::assembly::Engine;
#[cfg(any(
    feature = "back-end-corosensei",
    not(any(feature = "back-end-context", target_arch = "x86_64", target_arch = "aarch64"))
))]
use self::coroutine::Engine;
#[cfg(all(feature = "back-end-context", not(feature = "back-end-corosensei")))]
use self::fcontext::Engine;

use std::any::Any;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::panic::resume_unwind;
use std::ptr::NonNull;

use self::frame::{BackEnd, Frame};
use self::memory::Stack;
pub(crate) use self::modes::Modes;
pub(crate) use self::switch::Switch;

/// Bytes at the top of a stack that are not for the thread.
const FRAME: usize = size_of::<Frame<Engine>>();

/// A stack, and what runs on it or waits there to run. Its owner gives it back to its pool in the end,
/// idle: dropping it would lose the stack.
pub(crate) struct Context(NonNull<Frame<Engine>>);

// SAFETY: an idle context's frames hold nothing of the kernel thread that they ran on. Others do, or may: those
// and owners keep them where they are.
unsafe impl Send for Context {}

impl Context {
    /// An idle context on `stack`, that will run `body` at each resume that finds it idle. `body` must not
    /// unwind.
    ///
    /// # Safety
    /// No other code uses the stack until [`Context::into_stack`].
    unsafe fn new(stack: Stack, body: fn()) -> Context {
        let frame = (stack.top() - FRAME) as *mut Frame<Engine>;
        // SAFETY: in the stack's mapping, and aligned since tops are; all fields are written, and no other code
        // looks at them.
        unsafe {
            (&raw mut (*frame).errand).write(Cell::new(None));
            (&raw mut (*frame).body).write(body);
            (&raw mut (*frame).modes).write(modes::Own::default());
            (&raw mut (*frame).stack).write(stack);
            Engine::init(frame, &stack);
            Context(NonNull::new_unchecked(frame))
        }
    }

    #[inline(always)]
    fn frame(&self) -> &Frame<Engine> {
        // SAFETY: it lives as long as the context; only cells change.
        unsafe { self.0.as_ref() }
    }

    /// Runs the thread until it switches out or ends. `usual`: the calling kernel thread's floating-point modes.
    ///
    /// # Safety
    /// The context is idle or suspended, and the caller's to run.
    #[inline(always)]
    pub(crate) unsafe fn resume(&self, usual: Modes) -> Switch {
        let frame = self.frame();
        // SAFETY: the caller's promise.
        frame.modes.around(usual, || unsafe { frame.engine.resume() })
    }

    /// Switches back to the code that resumed the thread. Returns when it is resumed; unwinds after
    /// [`Context::force_unwind`].
    ///
    /// # Safety
    /// By the thread that runs in this context, on its stack.
    #[inline(always)]
    pub(crate) unsafe fn suspend(&self, how: Switch) {
        let frame = self.frame();
        // SAFETY: the caller's promise.
        unsafe { frame.engine.suspend(how) };
        if let Some(errand) = frame.errand.get() {
            frame.errand.set(None);
            errand();
        }
    }

    /// The thread, which is suspended, unwinds its stack when it is resumed. Its destructors may suspend again: there
    /// is no second panic.
    pub(crate) fn force_unwind(&self) {
        self.frame().errand.set(Some(raise));
    }

    /// The stack.
    pub(crate) fn stack(&self) -> &Stack {
        &self.frame().stack
    }

    /// The stack of an idle context, for something else.
    fn into_stack(self) -> Stack {
        let this = ManuallyDrop::new(self);
        // SAFETY: idle, by the caller's word, and given up here.
        unsafe { this.frame().engine.retire() };
        this.frame().stack
    }
}

/// The payload of a forced unwinding; ends where the thread's panics are caught.
struct Unwound;

/// Whether this payload, which was caught, is that of a forced unwinding: of a green thread that waited, and whose
/// runtime stops. That comes once, so who catches it goes on with it (`resume_unwind`): else the thread's next wait
/// never ends, and neither does its runtime.
pub fn is_forced_unwinding(payload: &(dyn Any + Send)) -> bool {
    payload.is::<Unwound>()
}

#[cold]
fn raise() {
    resume_unwind(Box::new(Unwound));
}
