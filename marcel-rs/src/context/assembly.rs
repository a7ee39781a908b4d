//! The switch in plain assembly (x86-64, System V): see `context` for why it is the default.
//!
//! Each side leaves on its stack what the compiler cannot be told to save (rbx, rbp) and the address where it
//! goes on; its stack pointer is all that there is to remember. The other callee-saved registers are declared
//! as overwritten, so that the compiler saves those that it uses. The control words of the floating-point units
//! stay what they are: they are the kernel thread's.
//!
//! ```text
//!   suspended:        not run yet:
//!   │ rbp     │       │ 0            │ ◀─ the return address of `entry`: unwinders and debuggers end there
//!   │ rbx     │       │ entry        │ ◀─ stack pointer
//!   │ goes on │ ◀─ stack pointer
//! ```

use std::arch::asm;
use std::cell::UnsafeCell;

use super::stack::Stack;
use super::{BackEnd, Frame, Switch, first_frame};

/// Where the two sides are: one of them runs.
#[repr(C)]
pub(super) struct Engine {
    thread: UnsafeCell<usize>,
    scheduler: UnsafeCell<usize>,
}

/// Leaves this side, to go on when `*from` is switched to, for the one whose stack pointer is `to`. What arrives
/// there is `word`; what it returns comes with the switch back.
///
/// # Safety
/// `to` was left by `switch` or made by `init`, and is switched to once.
#[inline(always)]
unsafe fn switch(from: *mut usize, to: usize, word: usize) -> usize {
    let arrived;
    // SAFETY: all registers are saved here or declared; the stack pointer comes back as it was.
    unsafe {
        asm!(
            "push rbp",
            "push rbx",
            "lea rax, [rip + 2f]",
            "push rax",
            "mov [rdx], rsp",
            "mov rsp, rsi",
            "pop rax",
            "jmp rax",
            "2:",
            "pop rbx",
            "pop rbp",
            inlateout("rdi") word => arrived,
            in("rsi") to,
            in("rdx") from,
            lateout("r12") _, lateout("r13") _, lateout("r14") _, lateout("r15") _,
            clobber_abi("sysv64"),
        );
    }
    arrived
}

/// Where a context starts: jumped to, with the stack as after a call.
unsafe extern "sysv64" fn entry(frame: *const Frame) -> ! {
    // SAFETY: the first resume has passed the frame.
    unsafe { first_frame(frame) }
}

impl BackEnd for Engine {
    unsafe fn init(frame: *mut Frame, _: &Stack) {
        // 16-byte alignment at the call that never was: `entry` is entered 8 below.
        let top = frame.cast::<usize>();
        // SAFETY: three words below the frame, which are the context's.
        unsafe {
            top.sub(1).write(0);
            let start = top.sub(2);
            start.write(entry as *const () as usize);
            (&raw mut (*frame).engine).write(Engine {
                thread: UnsafeCell::new(start as usize),
                scheduler: UnsafeCell::new(0),
            });
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
