//! ```text
//!   suspended                    not run yet
//!   │ rbp     │                  │ 0       │ ◀─ return address of `entry`
//!   │ rbx     │                  │ 0       │
//!   │ goes on │ ◀─ rsp           │ 0       │
//!                                │ entry   │ ◀─ rsp
//! ```

use std::arch::asm;

/// Leaves this side, to go on when `*from` is switched to, for the one whose stack pointer is `to`. What arrives
/// there is `word`; what it returns comes with the switch back.
///
/// # Safety
/// `to` was left by `switch` or made by [`prepare`], and is switched to once.
#[inline(always)]
pub(super) unsafe fn switch(from: *mut usize, to: usize, word: usize) -> usize {
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
            "pop rbx",
            "pop rbp",
            "jmp rax",
            "2:",
            inlateout("rdi") word => arrived,
            in("rsi") to,
            in("rdx") from,
            lateout("r12") _, lateout("r13") _, lateout("r14") _, lateout("r15") _,
            clobber_abi("sysv64"),
        );
    }
    arrived
}

/// Makes `entry` what a switch to the returned stack pointer enters.
///
/// # Safety
/// `top` is aligned to 16 bytes, and the four words below it are free.
pub(super) unsafe fn prepare(top: *mut usize, entry: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        let start = top.sub(4);
        start.cast::<[usize; 4]>().write([entry, 0, 0, 0]);
        start as usize
    }
}
