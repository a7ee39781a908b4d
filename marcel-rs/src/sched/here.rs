//! What a kernel thread knows of itself: its virtual processor, the thread it runs, whether a tick may act.
//!
//! These are thread-locals with constant initialisers and no destructor, so that a signal handler may read
//! them: no lazy registration, no allocation.
//!
//! As a rule they stay right across a switch because a started green thread never leaves its kernel thread (DESIGN
//! §5). Where threads migrate they are read anew each time, and that by functions which are not inlined: compilers
//! compute the *address* of a thread-local once for a function, and keep it across a switch. A loop of `lock` and
//! `park`, inlined into one another, then read the thread of the kernel thread that it had left (chaos test, in
//! release builds). It costs a nanosecond on a yield.

use std::cell::Cell;

use crate::sched::vp::Vp;
use crate::tcb::block::Tcb;

struct Local {
    vp: Cell<Option<&'static Vp>>,
    tcb: Cell<Option<&'static Tcb>>,
    /// The thread is in the scheduler, which polls by itself: a tick has nothing to do but say so.
    in_scheduler: Cell<bool>,
    in_tick: Cell<bool>,
}

thread_local! {
    static LOCAL: Local = const {
        Local {
            vp: Cell::new(None),
            tcb: Cell::new(None),
            in_scheduler: Cell::new(false),
            in_tick: Cell::new(false),
        }
    };
}

#[inline(never)]
pub(crate) fn vp() -> Option<&'static Vp> {
    anew();
    LOCAL.with(|l| l.vp.get())
}

#[inline]
pub(crate) fn set_vp(vp: Option<&'static Vp>) {
    LOCAL.with(|l| l.vp.set(vp));
}

#[inline(never)]
pub(crate) fn tcb() -> Option<&'static Tcb> {
    anew();
    LOCAL.with(|l| l.tcb.get())
}

#[inline]
pub(crate) fn set_tcb(tcb: Option<&'static Tcb>) {
    LOCAL.with(|l| l.tcb.set(tcb));
}

#[inline(never)]
pub(crate) fn in_scheduler() -> bool {
    anew();
    LOCAL.with(|l| l.in_scheduler.get())
}

#[inline]
pub(crate) fn set_in_scheduler(yes: bool) {
    LOCAL.with(|l| l.in_scheduler.set(yes));
}

/// Whether the handler of a virtual processor's tick runs on this kernel thread right now: what is called then has to keep
/// to what signal handlers may do.
///
/// # Context
/// Anywhere, signal handlers included.
#[inline(never)]
pub fn in_tick() -> bool {
    anew();
    LOCAL.with(|l| l.in_tick.get())
}

pub(crate) fn set_in_tick(yes: bool) {
    LOCAL.with(|l| l.in_tick.set(yes));
}

/// What calls this may not be taken for a function without effects, whose result could be used twice.
#[inline(always)]
fn anew() {
    // SAFETY: no instruction.
    unsafe { std::arch::asm!("", options(nostack, preserves_flags)) };
}
