//! What a tick does: it calls the I/O manager, unless the kernel thread is in the scheduler, which polls by itself.
//!
//! The same handler runs when a peer, or a thread of this process, has sent the tick's signal, because there is
//! something to find ([`signal_target`](crate::sched::signal_target)). Such a signal comes once. If it finds the kernel
//! thread in the scheduler of a virtual processor that is busy, the next thread to run may compute for long; so the tick
//! comes soon instead. On a virtual processor that is not busy it does nothing: the I/O manager is asked before that
//! sleeps, or runs a thread.

use std::sync::atomic::{Ordering::SeqCst, fence};

use crate::os::signal::KeepErrno;
use crate::os::this_thread;
use crate::recorder;
use crate::sched::hooks::Hooks;
use crate::sched::{here, worker};

pub(crate) extern "C" fn handler(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel's, for a handler with SA_SIGINFO.
    run(unsafe { (*info).si_code } != libc::SI_TIMER);
}

/// As the handler of a signal that was sent: called by a user interrupt.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(crate) fn user_interrupt(_vector: u64) {
    run(true);
}

fn run(sent: bool) {
    let Some(worker) = worker::current() else { return };
    let _errno = KeepErrno::new();
    // A timer whose tick was to come soon stands for a signal.
    let soon = sent || worker.tick.came();
    if here::tcb().is_none() || this_thread::in_tick() {
        if soon && worker.vp.is_busy() {
            worker.tick.come_soon();
        }
        return;
    }
    this_thread::set_in_tick(true);
    recorder::record(recorder::Kind::Tick, 0, 0);
    let goes_on = |hooks: &dyn Hooks| match sent {
        true => hooks.signalled(&worker.vp),
        false => hooks.tick(&worker.vp),
    };
    if let Some(hooks) = worker.shared.hooks()
        && !goes_on(hooks)
    {
        worker.tick.disarm();
        // A submitter may have seen the tick armed still: see `armed`.
        fence(SeqCst);
        if hooks.wants_ticks() {
            worker.tick.arm();
        }
    }
    recorder::record(recorder::Kind::TickEnd, 0, 0);
    this_thread::set_in_tick(false);
}
