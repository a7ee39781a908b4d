//! The handler of user interrupts.
//!
//! The processor enters it in the middle of any code, on the stack that the kernel was told of, with four words pushed:
//! the vector, and where, with which flags and with which stack the interrupted code goes on. It saves nothing else. So
//! the stub saves the registers that the called function may change, and with `xsave` the vector and floating-point
//! state, since Rust's library is compiled for the whole register set. The function starts with the state that the ABI
//! promises (direction flag clear, default rounding, empty x87 stack). Interrupts are masked until `uiret`.
//!
//! The state goes to the handler's own stack ([`Stack`]): stacks of green threads may be nearly full.
//!
//! Rejected: a function that touches no vector registers. The compiler cannot be told so for the standard library, and
//! the same function runs in the tick's handler.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::*};

/// Vectors of a receiver.
pub(crate) const VECTORS: usize = 64;

/// What a vector calls, with its number; 0: nothing.
static HANDLERS: [AtomicUsize; VECTORS] = [const { AtomicUsize::new(0) }; VECTORS];

/// Has the vector call `handler`, in all threads of this process.
///
/// # Safety
/// The handler does only what a signal handler may do, and does not panic.
pub(crate) unsafe fn set_handler(vector: usize, handler: fn(u64)) {
    HANDLERS[vector % VECTORS].store(handler as usize, Release);
}

/// What the stub calls.
extern "C" fn dispatch(vector: u64) {
    let handler = HANDLERS[vector as usize % VECTORS].load(Acquire);
    if handler != 0 {
        // SAFETY: stored by `set_handler`.
        let handler: fn(u64) = unsafe { std::mem::transmute(handler) };
        handler(vector);
    }
}

/// What `xsave` saves: x87, SSE, AVX, the three parts of AVX-512, and APX's registers (bit 19). Parts that the processor
/// lacks, or the kernel has not switched on, are left out by the instruction. Not saved, and not used by compiled code:
/// protection keys, tiles.
const SAVED: u32 = 0xe7 | 1 << 19;
/// Bytes of these parts in the standard format, a multiple of 64.
const AREA: usize = 2688;

/// The address that the kernel is given as the handler. See the module.
///
/// # Safety
/// Entered by the processor's delivery only.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn entry() {
    std::arch::naked_asm!(
        // At rsp: vector, rip, rflags, rsp.
        "push rax", "push rcx", "push rdx", "push rsi", "push rdi",
        "push r8", "push r9", "push r10", "push r11",
        "push rbx", "push rbp",
        "cld",
        "mov rbp, rsp",
        "mov rdi, [rbp + 11 * 8]",
        "sub rsp, {area}",
        "and rsp, -64",
        // The header of the area: xsave reads it, and changes some of its bits only.
        "xor eax, eax",
        "mov [rsp + 512], rax", "mov [rsp + 520], rax", "mov [rsp + 528], rax", "mov [rsp + 536], rax",
        "mov [rsp + 544], rax", "mov [rsp + 552], rax", "mov [rsp + 560], rax", "mov [rsp + 568], rax",
        "mov eax, {saved}",
        "xor edx, edx",
        "xsave64 [rsp]",
        // As the ABI has it at the entry of a function.
        "fninit",
        "push 0x1f80",
        "ldmxcsr [rsp]",
        "add rsp, 8",
        "call {dispatch}",
        "mov eax, {saved}",
        "xor edx, edx",
        "xrstor64 [rsp]",
        "mov rsp, rbp",
        "pop rbp", "pop rbx",
        "pop r11", "pop r10", "pop r9", "pop r8",
        "pop rdi", "pop rsi", "pop rdx", "pop rcx", "pop rax",
        "add rsp, 8", // the vector, which uiret does not expect
        "uiret",
        area = const AREA,
        saved = const SAVED,
        dispatch = sym dispatch,
    )
}

/// Bytes of a handler's stack.
const SIZE: usize = 64 * 1024;

/// The stack of a receiver's handler, and the alternate stack of its kernel thread for signals.
///
/// ```text
///   lowest                                                     highest
///   | the handler, by some kernels | the handler | signals, at first |
///   |<------------------ the alternate stack ----------------------->|
/// ```
/// A user interrupt may interrupt a signal's handler, and a signal may interrupt the stub. The kernel begins at the top of
/// the alternate stack unless the interrupted code is on it. Were the stub elsewhere, that signal's frame would lie over
/// the handler that the stub has interrupted. (The emulator's traps found it.)
///
/// A kernel patch that was published has the processor begin at the *lowest* address that it is given, below which
/// nothing is the handler's. So the part below is the handler's, too.
pub(crate) struct Stack {
    memory: NonNull<u8>,
    /// The alternate stack before.
    before: libc::stack_t,
}

impl Stack {
    /// For the calling kernel thread.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) fn new() -> io::Result<Stack> {
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, wherever the kernel wants it.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), 3 * SIZE, access, kind, -1, 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let Some(start) = NonNull::new(memory.cast()) else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        let all = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: 3 * SIZE };
        // SAFETY: all-zero is a valid value.
        let mut stack = Stack { memory: start, before: unsafe { std::mem::zeroed() } };
        stack.before.ss_flags = libc::SS_DISABLE; // for `drop`, should the next call fail
        // SAFETY: the mapping lives until `drop` has put back the stack before.
        match unsafe { libc::sigaltstack(&all, &mut stack.before) } {
            0 => Ok(stack),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// What the kernel is given: the lowest address, and the bytes.
    pub(crate) fn area(&self) -> (u64, u64) {
        (self.memory.addr().get() as u64 + SIZE as u64, SIZE as u64)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the stack that was there before; then the mapping of `new`, which the owner has taken from the kernel.
        unsafe {
            libc::sigaltstack(&self.before, std::ptr::null_mut());
            libc::munmap(self.memory.as_ptr().cast(), 3 * SIZE);
        }
    }
}
