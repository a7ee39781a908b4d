//! Spare kernel threads: how they are started, and what they ask of the kernel's scheduler.

use std::io;
use std::thread::{Builder, JoinHandle};

use crate::vp::tick::AltStack;

/// Starts a kernel thread that runs `f` with a stack for signal handlers and a short time slice.
pub(super) fn start(
    name: String,
    stack_size: Option<usize>,
    f: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let builder = Builder::new().name(name);
    let builder = match stack_size {
        Some(bytes) => builder.stack_size(bytes),
        None => builder,
    };
    builder.spawn(move || {
        let alt_stack = AltStack::install();
        prefer_current_thread();
        f();
        drop(alt_stack);
    })
}

/// Asks the kernel for a short time slice for the calling kernel thread, at its normal priority: when it is
/// woken it then preempts threads with the usual slice. Kernels before 6.12 ignore or refuse this; nothing
/// else depends on it. Returns whether the kernel accepted.
pub fn prefer_current_thread() -> bool {
    const SLICE_NS: u64 = 100_000;
    #[repr(C)]
    #[derive(Default)]
    struct SchedAttr {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    // SAFETY: no pointers but to `attr`, whose size is given.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0);
        let attr = SchedAttr {
            size: std::mem::size_of::<SchedAttr>() as u32,
            nice: libc::getpriority(libc::PRIO_PROCESS, 0),
            runtime: SLICE_NS,
            ..SchedAttr::default()
        };
        libc::syscall(libc::SYS_sched_setattr, 0, &attr as *const SchedAttr, 0) == 0
    }
}

/// Makes the calling kernel thread nicer than it is by `levels`. Needs no privilege; cannot be undone without.
pub(crate) fn be_nice(levels: i32) {
    if levels > 0 {
        // SAFETY: no pointers; 0 is the calling thread.
        unsafe {
            let nice = libc::getpriority(libc::PRIO_PROCESS, 0);
            libc::setpriority(libc::PRIO_PROCESS, 0, (nice + levels).min(19));
        }
    }
}
