//! What a kernel thread knows of itself: its virtual processor, the thread it runs, whether a tick may act.
//!
//! These are thread-locals with constant initialisers and no destructor, so that a signal handler may read
//! them: no lazy registration, no allocation. They stay right across a switch because a started green thread
//! never leaves its kernel thread (DESIGN §5).

use std::cell::Cell;

use crate::thread::tcb::Tcb;
use crate::vp::processor::Vp;

struct Local {
    vp: Cell<Option<&'static Vp>>,
    tcb: Cell<Option<&'static Tcb>>,
    /// The thread is in the scheduler, which polls by itself: a tick has nothing to do but say so.
    in_scheduler: Cell<bool>,
    in_handler: Cell<bool>,
}

thread_local! {
    static LOCAL: Local = const {
        Local {
            vp: Cell::new(None),
            tcb: Cell::new(None),
            in_scheduler: Cell::new(false),
            in_handler: Cell::new(false),
        }
    };
}

#[inline]
pub(crate) fn vp() -> Option<&'static Vp> {
    LOCAL.with(|l| l.vp.get())
}

#[inline]
pub(crate) fn set_vp(vp: Option<&'static Vp>) {
    LOCAL.with(|l| l.vp.set(vp));
}

#[inline]
pub(crate) fn tcb() -> Option<&'static Tcb> {
    LOCAL.with(|l| l.tcb.get())
}

#[inline]
pub(crate) fn set_tcb(tcb: Option<&'static Tcb>) {
    LOCAL.with(|l| l.tcb.set(tcb));
}

#[inline]
pub(crate) fn in_scheduler() -> bool {
    LOCAL.with(|l| l.in_scheduler.get())
}

#[inline]
pub(crate) fn set_in_scheduler(yes: bool) {
    LOCAL.with(|l| l.in_scheduler.set(yes));
}

/// Whether a tick's handler runs on this kernel thread right now.
#[inline]
pub(crate) fn in_handler() -> bool {
    LOCAL.with(|l| l.in_handler.get())
}

pub(crate) fn set_in_handler(yes: bool) {
    LOCAL.with(|l| l.in_handler.set(yes));
}
