//! ```text
//!   suspended                    not run yet
//!   │ 0, for the link register │ 0       │
//!   │ goes on                  │ entry   │
//!   │ x19                      │ 0       │
//!   │ x29                      │ 0       │ ◀─ sp
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
            "adr x9, 2f",
            "stp x29, x19, [sp, #-32]!",
            "stp x9, xzr, [sp, #16]",
            "mov x9, sp",
            "str x9, [x2]",
            "mov sp, x1",
            "ldp x9, x30, [sp, #16]",
            "ldp x29, x19, [sp], #32",
            "br x9",
            "2:",
            inlateout("x0") word => arrived,
            in("x1") to,
            in("x2") from,
            lateout("x20") _, lateout("x21") _, lateout("x22") _, lateout("x23") _, lateout("x24") _,
            lateout("x25") _, lateout("x26") _, lateout("x27") _, lateout("x28") _,
            lateout("v8") _, lateout("v9") _, lateout("v10") _, lateout("v11") _,
            lateout("v12") _, lateout("v13") _, lateout("v14") _, lateout("v15") _,
            clobber_abi("C"),
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
        start.cast::<[usize; 4]>().write([0, 0, entry, 0]);
        start as usize
    }
}
