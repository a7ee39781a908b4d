//! Shows what every thread is doing: a dump by call or by signal, and a watchdog.
//!
//! A debugger or `top` sees the kernel threads of virtual processors only. This module shows each green thread: its
//! name and number, its state (for a waiting thread also the reason and the time), its virtual processor, its use of
//! the stack, and its backtrace.
//!
//! * [`dump`] writes all of that; [`threads`] returns it as data, without backtraces.
//! * `SIGQUIT` (Ctrl-\\) writes a dump to standard error, while the program goes on. A second `SIGQUIT` within a second,
//!   or before the dump is written, ends the process. The signal is left alone with `MARCEL_SIGQUIT=0`, and in a program that handles or ignores it
//!   when its runtime starts.
//! * A runtime whose end lasts for a second names the threads that hold it up, and again after growing pauses.
//! * `MARCEL_STALL_MS=N` names each thread that has not given its virtual processor back for N ms.
//! * The feature `tracing` makes the scheduler's steps events of that crate: spawn, start, park, unpark, end, steal,
//!   and sleep and wake of virtual processors.
//! * `MARCEL_TRACE` records the scheduler's steps in a file ([`trace`](crate::trace)).
//! * A stack overflow ends the process with a message that names the thread; after [`name_faults`] so do other faults.
//! * `tools/gdb/marcel.py` shows the same threads in a debugger, also of a core file.
//!
//! # How it works
//! No thread is stopped. Each control block describes its thread (`tcb::debug_info`), under a sequence count that tells
//! whether the thread has switched meanwhile. The stack of a *suspended* thread is copied from outside, through the
//! kernel (`peek`). A *running* thread copies its own, in the handler of a signal to its kernel thread (`sample`). A
//! kernel thread with a large stack unwinds the copies and looks up names (`unwind`, `symbols`). It may allocate and
//! lock, since it waits for none of the threads that it shows. The handler of `SIGQUIT` only wakes the diagnosis thread
//! (`service`), which is also the watchdog.
//!
//! So each thread is shown at one moment, and different threads at slightly different moments.
//!
//! Layers, from the bottom: `frames`, `thread`, `peek`, `runtimes` and `bell`; `sample` and `unwind`; `snapshot` and
//! `backtrace`; `report`, `hold_up`, `watchdog`, `fatal` and `quit`; `overflow`, `fault` and `service`.
//!
//! # Rejected
//! * Stopping all threads for a consistent picture: a dump of a hung program must not depend on the threads' help.
//! * Unwinding on the green thread when it is next scheduled: a thread that waits for ever is never scheduled, and
//!   small stacks have no room for it.
//! * Reading a suspended stack in place: the thread may be resumed, or its stack unmapped, at any instruction.
//! * Dumping in the signal handler: names need memory and locks.

// The unwinder knows two architectures.
#[cfg_attr(
    not(all(feature = "backtraces", any(target_arch = "x86_64", target_arch = "aarch64"))),
    path = "plain.rs"
)]
mod backtrace;
mod bell;
// Without an unwinder there is nothing to check by.
#[cfg_attr(
    not(all(feature = "backtraces", any(target_arch = "x86_64", target_arch = "aarch64"))),
    path = "unchecked.rs"
)]
pub(crate) mod check;
mod fatal;
mod fault;
mod frames;
pub(crate) mod hold_up;
pub(crate) mod overdue;
pub(crate) mod overflow;
pub(crate) mod panic_hook;
mod peek;
mod quit;
mod report;
mod runtimes;
mod sample;
pub(crate) mod service;
mod snapshot;
#[cfg(all(feature = "backtraces", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod symbols;
mod thread;
pub(crate) mod trace_exit;
pub(crate) mod trace_file;
#[cfg(all(feature = "backtraces", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod unwind;
mod watchdog;

use std::fmt;
use std::io::{self, Write};
use std::marker::PhantomData;

pub use fault::name_faults;
pub use snapshot::threads;
pub use thread::{StackUse, State, Thread};

use crate::sched::here;
use crate::task::park;
use crate::tcb::debug_info;

/// Writes a dump: the state of every virtual processor, and the state and backtrace of every thread.
///
/// `SIGQUIT` writes the same to standard error.
///
/// # Context
/// Green and kernel threads; not a signal handler. System calls of running threads may fail with `EINTR`, as after a
/// tick.
///
/// # Blocking
/// Blocks the kernel thread, also that of a virtual processor: for milliseconds, the first time longer, since debug
/// information is read.
///
/// # Errors
/// The errors of `out`.
pub fn dump(out: &mut dyn Write) -> io::Result<()> {
    if here::vp().is_none() {
        return report::write(out);
    }
    // Reading debug information needs more stack than a green thread may have.
    let text = on_a_large_stack(|| {
        let mut text = Vec::new();
        report::write(&mut text).map(|()| text)
    })?;
    out.write_all(&text?)
}

/// Shows the kernel thread that made it as waiting, until it is dropped.
#[must_use = "the wait is shown until this is dropped"]
pub struct Waiting {
    _wait: Option<debug_info::KernelWait<'static>>,
    _not_send: PhantomData<*const ()>,
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waiting")
    }
}

/// Shows the calling kernel thread as waiting for `reason`, until the result is dropped.
///
/// For an I/O manager whose kernel threads sleep by other means than marcel's waits
/// ([`current_sleeper`](crate::plumbing::current_sleeper)). No effect on a green thread, whose state marcel knows.
///
/// # Context
/// Green and kernel threads; not a signal handler.
pub fn waiting(reason: &'static str) -> Waiting {
    let wait = here::vp().is_none().then(|| park::current().info.kernel_waits(reason));
    Waiting { _wait: wait, _not_send: PhantomData }
}

fn on_a_large_stack<T: Send>(f: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("marcel-dump".into())
            .stack_size(8 << 20)
            .spawn_scoped(scope, f)?;
        thread.join().map_err(|_| io::Error::other("the dump has panicked"))
    })
}
