//! The budget of a turn: a green thread whose operations never have to wait lets others run all the same.
//!
//! An operation that *may* wait is a place where a thread expects others to run. If it never does wait, as a read of
//! input that is always ready, the thread would keep its virtual processor for ever: nothing else runs there, no timer
//! of its threads expires, and its runtime cannot stop. So each such operation spends one of the turn's [`TURN`]
//! operations, and the one that finds none left yields first. The scheduler refills the budget when it resumes a thread.
//!
//! Rule: an operation spends **before it acquires** a lock, a permit, or a message of a channel. A thread that yields
//! holds nothing that it did not hold before the call, and may be unwound there, since its runtime may be stopping.
//!
//! Rule: what is documented never to wait never yields: `try_…`, a send on an unbounded channel, the release of
//! anything, a look at what stays as it is (a set event, an initialised cell). Programs make such calls with a lock of
//! the kernel's held (`std::sync::Mutex`); a switch there may block the virtual processor.
//!
//! # Where nothing is spent
//! * kernel threads: the kernel preempts them;
//! * a signal handler, the scheduler, a thread that got no stack: no thread is there that could switch;
//! * inside a policy of the program's own: the scheduler's state is in use;
//! * while the thread has an [`Exempt`]: it calls what others wait behind (wakers, callbacks, light tasks).
//!
//! A thread that is being unwound spends as others do: its destructors may wait, and so yield.
//!
//! Rejected: a yield after so much *time* (a look at the clock costs more than most operations); a tick that sets a
//! flag (in general there is no tick while nothing pends).

use std::marker::PhantomData;
use std::sync::atomic::Ordering::Relaxed;

use crate::os::this_thread;
use crate::sched::here;
use crate::stack::Switch;
use crate::tcb::block::Tcb;

#[cfg(doc)]
use crate::tcb::budget::TURN;

/// Counts an operation that may succeed without waiting; yields first if the turn is used up.
///
/// # Context
/// Anywhere. It does nothing on kernel threads, in signal handlers, and while the thread is [exempt].
///
/// # Blocking
/// The green thread, for a turn of the others. Its runtime may unwind it there, as in any wait.
#[inline]
pub fn spend() {
    if let Some(tcb) = here::tcb() {
        spend_of(tcb);
    }
}

/// As [`spend`], by the thread that `tcb` is.
#[inline(always)]
pub(crate) fn spend_of(tcb: &'static Tcb) {
    if !tcb.own.budget.spend() {
        used_up(tcb);
    }
}

#[cold]
#[inline(never)]
fn used_up(tcb: &'static Tcb) {
    // Whatever the answer is, it is not asked again for a turn.
    tcb.own.budget.refill();
    let Some(vp) = here::vp() else { return };
    let may_switch = here::tcb().is_some_and(|own| std::ptr::eq(own, tcb))
        && tcb.has_context()
        && !tcb.own.budget.is_exempt()
        && !vp.fenced.load(Relaxed)
        && !this_thread::in_tick();
    if may_switch {
        // SAFETY: the calling thread's own block, as was just seen, on its own stack.
        unsafe { tcb.switch(Switch::Yield) }
    }
}

/// Until this is dropped the calling green thread does not yield on account of its budget: see [`exempt`].
#[must_use = "dropped at once, it exempts from nothing"]
pub struct Exempt {
    tcb: Option<&'static Tcb>,
    _not_send: PhantomData<*const ()>,
}

/// Exempts the calling thread from its budget until the result is dropped. For callers of foreign code that others wait
/// behind: a waker, a callback, a light task.
///
/// # Context
/// Anywhere; it does nothing on kernel threads. A signal handler ends before its thread goes on, so that counts which it
/// changes are what they were.
#[inline]
pub fn exempt() -> Exempt {
    let tcb = here::tcb();
    if let Some(tcb) = tcb {
        tcb.own.budget.exempt();
    }
    Exempt { tcb, _not_send: PhantomData }
}

impl Drop for Exempt {
    #[inline]
    fn drop(&mut self) {
        if let Some(tcb) = self.tcb {
            tcb.own.budget.end_exemption();
        }
    }
}
