//! Which virtual processor a kernel thread is, which thread it runs, and whether it schedules.
//!
//! As a rule these stay right across a switch because a started green thread never leaves its kernel thread. Where threads
//! migrate they are read anew each time, and that by functions which are not inlined: compilers compute the *address* of a
//! thread-local once for a function, and keep it across a switch. A loop of `lock` and `park`, inlined into one another,
//! then read the thread of the kernel thread that it had left (chaos test, in release builds). It costs a nanosecond on a
//! yield.

use std::cell::Cell;

use crate::os::this_thread::anew;
use crate::sched::vp::Vp;
use crate::tcb::block::Tcb;

struct Here {
    vp: Cell<Option<&'static Vp>>,
    tcb: Cell<Option<&'static Tcb>>,
    in_scheduler: Cell<bool>,
}

thread_local! {
    /// Constant, and without a destructor: a signal handler may read it.
    static HERE: Here = const { Here { vp: Cell::new(None), tcb: Cell::new(None), in_scheduler: Cell::new(false) } };
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

/// Whether the kernel thread is in the scheduler, which polls by itself: a tick has nothing to do but say so.
#[inline(never)]
pub(crate) fn in_scheduler() -> bool {
    anew();
    HERE.with(|here| here.in_scheduler.get())
}

#[inline]
pub(crate) fn set_in_scheduler(yes: bool) {
    HERE.with(|here| here.in_scheduler.set(yes));
}
