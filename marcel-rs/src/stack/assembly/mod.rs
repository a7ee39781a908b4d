//! The switch in plain assembly (Linux on x86-64 and aarch64): see `stack` for why it is the default.
//!
//! Each side leaves on its stack what the compiler cannot be told to save (the frame pointer, and the register that
//! it keeps for itself) and the address where it goes on; its stack pointer is all that there is to remember.
//! The other callee-saved registers are declared as overwritten, so that the compiler saves those that it uses.
//! The control words of the floating-point units stay what they are: see `modes`.
//!
//! Where no frame was before, the return address and the frame pointer are zero: unwinders and debuggers end there.

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod arch;

use std::cell::UnsafeCell;

use self::arch::{prepare, switch};
use super::frame::{BackEnd, Frame, first_frame};
use super::memory::Stack;
use super::switch::Switch;

/// Where the two sides are: one of them runs.
#[repr(C)]
pub(super) struct Engine {
    thread: UnsafeCell<usize>,
    scheduler: UnsafeCell<usize>,
}

/// Where a context starts: jumped to, without a caller.
unsafe extern "C" fn entry(frame: *const Frame<Engine>) -> ! {
    // SAFETY: the first resume has passed the frame.
    unsafe { first_frame(frame) }
}

impl BackEnd for Engine {
    unsafe fn init(frame: *mut Frame<Self>, _: &Stack) {
        // SAFETY: what is below the frame is the context's; frames are aligned to more than 16 bytes.
        unsafe {
            let start = prepare(frame.cast(), entry as *const () as usize);
            (&raw mut (*frame).engine)
                .write(Engine { thread: UnsafeCell::new(start), scheduler: UnsafeCell::new(0) });
        }
    }

    #[inline(always)]
    unsafe fn resume(&self) -> Switch {
        // The engine is the frame's first field: this is the frame's address, which `entry` wants.
        // SAFETY: the caller says that the thread is suspended; what arrives is a `Switch`.
        unsafe {
            let word = switch(self.scheduler.get(), *self.thread.get(), &raw const *self as usize);
            std::mem::transmute::<usize, Switch>(word)
        }
    }

    #[inline(always)]
    unsafe fn suspend(&self, how: Switch) {
        // SAFETY: the caller is on the thread's stack, so the scheduler has left.
        unsafe { switch(self.thread.get(), *self.scheduler.get(), how as usize) };
    }
}
