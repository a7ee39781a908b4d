//! Into a program's first instruction, and out again.
//!
//! The program's entry expects at the stack pointer what the kernel puts there: the number of arguments, the arguments,
//! the environment, the auxiliary vector. It never returns; `leave` goes back to the caller of `enter`, and drops all
//! frames between as `exit` does: without unwinding.

use std::arch::naked_asm;

/// Jumps to `entry` on the caller's stack, with `count` words at the stack pointer. Returns what [`leave`] is given.
///
/// `saved` gets what `leave` needs.
///
/// # Safety
/// `entry` is the entry of a program that this process may run, `words` are valid, and `saved` stays until `leave`.
#[unsafe(naked)]
pub(super) unsafe extern "C-unwind" fn enter(
    entry: usize,
    words: *const usize,
    count: usize,
    saved: *mut usize,
) -> i32 {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
        "mov [rcx], rsp",
        "mov r8, rdi",
        "lea rax, [rdx * 8]",
        "sub rsp, rax",
        "and rsp, -16",
        "mov rdi, rsp",
        "mov rcx, rdx",
        "cld",
        "rep movsq",
        // The function to register for the end of the dynamic linker: none.
        "xor edx, edx",
        "xor ebp, ebp",
        "jmp r8",
    )
}

/// Returns `status` from the [`enter`] that left `saved`.
///
/// # Safety
/// The caller is on the same stack, above that call of `enter`, whose frame is still there. No frame between has
/// anything to drop.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn leave(saved: usize, status: i32) -> ! {
    naked_asm!(
        "mov rsp, rdi",
        "mov eax, esi",
        "ldmxcsr [rsp]",
        "fldcw [rsp + 4]",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}
