//! The switch by Boost.Context (the crate `context`), which needs a C compiler. Backtraces end at the thread's
//! first frame.
//!
//! The crate has no forced unwinding, and injecting a panic by its `resume_ontop` would unwind through an
//! `extern "C"` frame, which aborts. Nothing here needs it: a thread raises its own panic (see `context`).
//!
//! Each side has its floating-point modes back after a switch, so those that an ended thread leaves behind would be the next
//! one's: the context has its first ones again then.

use std::cell::Cell;

use context::stack::Stack as Memory;
use context::{Context as Side, Transfer};

use super::frame::{BackEnd, Frame, first_frame};
use super::memory::Stack;
use super::modes::Modes;
use super::switch::Switch;

/// The side that does not run: the thread while it is suspended, the scheduler while the thread runs.
pub(super) struct Engine {
    other: Cell<Option<Side>>,
    modes: Modes,
}

impl Engine {
    /// Changes sides; what the switch back brings.
    ///
    /// # Safety
    /// By the side that runs.
    #[inline(always)]
    unsafe fn switch(&self, word: usize) -> usize {
        let other = self.other.take().expect("the other side is suspended");
        // SAFETY: it is suspended, was stored once and is taken once; its stack lives, by the caller's word.
        let Transfer { context, data } = unsafe { other.resume(word) };
        self.other.set(Some(context));
        data
    }
}

extern "C" fn entry(transfer: Transfer) -> ! {
    let frame = transfer.data as *const Frame<Engine>;
    // SAFETY: the first resume has passed the frame.
    unsafe {
        (*frame).engine.other.set(Some(transfer.context));
        first_frame(frame)
    }
}

impl BackEnd for Engine {
    unsafe fn init(frame: *mut Frame<Self>, stack: &Stack) {
        // SAFETY: it describes the memory below the frame; the library writes to its upper end only.
        unsafe {
            let memory = Memory::new(frame.cast(), stack.guard().end as *mut _);
            let other = Cell::new(Some(Side::new(&memory, entry)));
            (&raw mut (*frame).engine).write(Engine { other, modes: Modes::now() });
        }
    }

    #[inline(always)]
    unsafe fn resume(&self) -> Switch {
        // The engine is the frame's first field: this is the frame's address, which `entry` wants.
        // SAFETY: the caller's promise; what arrives is a `Switch`.
        unsafe {
            let word = self.switch(&raw const *self as usize);
            std::mem::transmute::<usize, Switch>(word)
        }
    }

    #[inline(always)]
    unsafe fn suspend(&self, how: Switch) {
        if how == Switch::Ended {
            self.modes.adopt();
        }
        // SAFETY: the caller is on the thread's stack, so it is the side that runs.
        unsafe { self.switch(how as usize) };
    }
}
