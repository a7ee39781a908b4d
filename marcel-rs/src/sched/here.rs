//! Which virtual processor a kernel thread is, and which thread it runs.
//!
//! As a rule these stay right across a switch because a started green thread never leaves its kernel thread. Where
//! threads migrate they are read anew each time: compilers compute the *address* of a thread-local once for a function, and
//! keep it across a switch. A loop of `lock` and `park`, inlined into one another, then read the thread of the kernel
//! thread that it had left (chaos test, in release builds). So they are no thread-locals of the language: `os::words`.

use crate::os::words::{self, TCB, VP};
use crate::sched::vp::Vp;
use crate::tcb::block::Tcb;

/// The virtual processor that the calling kernel thread is.
#[inline(always)]
pub(crate) fn vp() -> Option<&'static Vp> {
    // SAFETY: null, or of `set_vp`.
    unsafe { words::get::<VP>().cast::<Vp>().as_ref() }
}

/// The calling kernel thread is this virtual processor from now on.
#[inline]
pub(crate) fn set_vp(vp: Option<&'static Vp>) {
    words::set::<VP>(
        vp.map_or_else(std::ptr::null_mut, |vp| std::ptr::from_ref(vp).cast_mut().cast()),
    );
}

/// The thread that the calling kernel thread runs.
#[inline(always)]
pub(crate) fn tcb() -> Option<&'static Tcb> {
    // SAFETY: null, or of `set_tcb`.
    unsafe { words::get::<TCB>().cast::<Tcb>().as_ref() }
}

/// The calling kernel thread runs this thread from now on.
#[inline]
pub(crate) fn set_tcb(tcb: Option<&'static Tcb>) {
    words::set::<TCB>(
        tcb.map_or_else(std::ptr::null_mut, |tcb| std::ptr::from_ref(tcb).cast_mut().cast()),
    );
}
