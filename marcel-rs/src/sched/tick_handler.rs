//! What a tick does: it calls the I/O manager, unless the kernel thread is in the scheduler, which polls by itself.

use std::sync::atomic::{Ordering::SeqCst, fence};

use crate::os::signal::KeepErrno;
use crate::os::this_thread;
use crate::recorder;
use crate::sched::{here, worker};

pub(crate) extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let Some(worker) = worker::current() else { return };
    if here::tcb().is_none() || this_thread::in_tick() {
        return;
    }
    let _errno = KeepErrno::new();
    this_thread::set_in_tick(true);
    recorder::record(recorder::Kind::Tick, 0, 0);
    if let Some(hooks) = worker.shared.hooks()
        && !hooks.tick(&worker.vp)
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
