//! Which virtual processor a kernel thread is, and which thread it runs.
//!
//! As a rule these stay right across a switch because a started green thread never leaves its kernel thread. Where
//! threads migrate they are read anew each time, and that by functions which are not inlined: compilers compute the
//! *address* of a thread-local once for a function, and keep it across a switch. A loop of `lock` and `park`, inlined
//! into one another, then read the thread of the kernel thread that it had left (chaos test, in release builds). It
//! costs a nanosecond on a yield.

use std::cell::Cell;

use crate::os::this_thread::anew;
use crate::sched::vp::Vp;
use crate::tcb::block::Tcb;

struct Here {
    vp: Cell<Option<&'static Vp>>,
    tcb: Cell<Option<&'static Tcb>>,
}

thread_local! {
    /// Constant, and without a destructor: a signal handler may read it.
    static HERE: Here = const { Here { vp: Cell::new(None), tcb: Cell::new(None) } };
}

#[inline(never)]
pub(crate) fn vp() -> Option<&'static Vp> {
    anew();
    HERE.with(|here| here.vp.get())
}

#[inline]
pub(crate) fn set_vp(vp: Option<&'static Vp>) {
    HERE.with(|here| here.vp.set(vp));
}

#[inline(never)]
pub(crate) fn tcb() -> Option<&'static Tcb> {
    anew();
    HERE.with(|here| here.tcb.get())
}

#[inline]
pub(crate) fn set_tcb(tcb: Option<&'static Tcb>) {
    HERE.with(|here| here.tcb.set(tcb));
}
