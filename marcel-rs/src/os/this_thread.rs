//! What a kernel thread knows of itself that needs no type of the scheduler: whether a tick's handler runs, and the
//! number of the virtual processor that it is.
//!
//! Thread-locals with constant initialisers and without destructors: a signal handler may read them. Readers are not
//! inlined: a compiler computes the *address* of a thread-local once for a function and keeps it across a switch,
//! after which a thread that migrates is on another kernel thread.

use std::cell::Cell;

struct Flags {
    in_tick: Cell<bool>,
    vp_number: Cell<u32>,
}

thread_local! {
    static FLAGS: Flags = const {
        Flags { in_tick: Cell::new(false), vp_number: Cell::new(0) }
    };
}

/// Whether the handler of a virtual processor's tick runs on this kernel thread right now: what is called then keeps to
/// what signal handlers may do.
///
/// # Context
/// Anywhere, signal handlers included.
#[inline(never)]
pub fn in_tick() -> bool {
    anew();
    FLAGS.with(|flags| flags.in_tick.get())
}

pub(crate) fn set_in_tick(yes: bool) {
    FLAGS.with(|flags| flags.in_tick.set(yes));
}

/// One more than the number of the virtual processor that the kernel thread is; 0 if it is none.
pub(crate) fn vp_number() -> u32 {
    FLAGS.with(|flags| flags.vp_number.get())
}

pub(crate) fn set_vp_number(number: u32) {
    FLAGS.with(|flags| flags.vp_number.set(number));
}

/// A function that calls this has an effect, as far as the compiler knows: no result of it is used twice.
#[inline(always)]
pub(crate) fn anew() {
    // SAFETY: no instruction.
    unsafe { std::arch::asm!("", options(nostack, preserves_flags)) };
}
