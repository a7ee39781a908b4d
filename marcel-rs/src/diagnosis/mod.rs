//! What every thread is doing, asked at any moment: a dump by call or by signal, and a watchdog.
//!
//! A green thread is nobody's kernel thread, so the usual tools see virtual processors only. Here each thread
//! can be seen: its name and number, whether it runs, waits (and what for, since when) or is ready, its virtual
//! processor, how much of its stack it has used, and where it is.
//!
//! * [`dump`] writes it all; [`threads`] gives it as data.
//! * `SIGQUIT` (Ctrl-\\) has it written to standard error, while the program goes on; a second one within a second
//!   ends the process as it always did. `MARCEL_SIGQUIT=0` leaves the signal alone, and so does a
//!   program that has its own handler when its runtime starts, or ignores it.
//! * `MARCEL_STALL_MS=N` names each thread that has not given its virtual processor back for so long.
//! * The feature `tracing` makes the scheduler's steps events of that crate: spawn, start, park, unpark, end, steal, and a
//!   virtual processor's sleep and wake.
//! * `MARCEL_TRACE` has what the scheduler does recorded, and written to a file (`record`).
//! * `tools/gdb/marcel.py` shows the same in a debugger, of a core file too.
//!
//! # How it works
//! Nothing is stopped. Each control block says what can be seen of its thread (`tcb::debug_info`), under a counter that
//! tells whether it stood still. A *suspended* thread's stack is copied from outside, through the kernel
//! (`peek`). A *running* one is asked by a signal to its kernel thread and copies its own (`sample`). The
//! copies are unwound and given names afterwards (`unwind`, `symbols`), on a kernel thread with a
//! large stack, which may allocate and lock as it likes: it waits for no thread that it looks at. The signal's handler
//! only rings a bell for a kernel thread that sleeps (`service`); that one is also the watchdog.
//!
//! So each thread is seen at one moment, and different threads at slightly different ones.
//!
//! # Rejected
//! * Stopping the world for a consistent picture: a dump of a hung program must not depend on anyone's help.
//! * Running the unwinder on the green thread itself when it is next scheduled: a thread that waits for ever is not,
//!   and small stacks have no room for it.
//! * Reading a suspended stack in place: it may be resumed, or unmapped, at any instruction.
//! * Dumping in the signal handler: names need memory and locks.

// The unwinder knows two architectures.
#[cfg_attr(
    not(all(feature = "backtraces", any(target_arch = "x86_64", target_arch = "aarch64"))),
    path = "plain.rs"
)]
mod backtrace;
pub(crate) mod last_words;
pub(crate) mod overflow;
mod peek;
mod report;
mod sample;
pub(crate) mod service;
mod snapshot;
#[cfg(all(feature = "backtraces", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod symbols;
pub(crate) mod trace_exit;
pub(crate) mod trace_file;
#[cfg(all(feature = "backtraces", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod unwind;
mod watchdog;

use std::fmt;
use std::io::{self, Write};
use std::marker::PhantomData;

pub use snapshot::{StackUse, State, Thread};

use crate::sched::here;
use crate::task::park;
use crate::tcb::block;
use crate::tcb::debug_info;

/// Writes what every virtual processor and every thread of the process is doing, with backtraces; what `SIGQUIT` has
/// written to standard error.
///
/// # Context
/// Green and kernel threads; not a signal handler. # Blocking: the kernel thread, that of the virtual processor
/// included, for as long as it takes: milliseconds, and the first time some more for debug information. A
/// system call that a running thread is in may see `EINTR`, as from a tick.
///
/// # Errors
/// Those of `out`.
pub fn dump(out: &mut dyn Write) -> io::Result<()> {
    if here::vp().is_none() {
        return report::write(out);
    }
    // Reading debug information takes more stack than a green thread may have.
    let text = on_a_large_stack(|| {
        let mut text = Vec::new();
        report::write(&mut text).map(|()| text)
    })?;
    out.write_all(&text?)
}

/// What every thread is doing; without backtraces. The caller is among them if it is a green thread.
///
/// # Context
/// Green and kernel threads; not a signal handler.
pub fn threads() -> Vec<Thread> {
    let snapshots = block::all().filter_map(|tcb| snapshot::take(tcb, debug_info::now(), false));
    let mut threads: Vec<_> = snapshots.map(|snapshot| snapshot.thread).collect();
    threads.sort_by_key(|thread| thread.number);
    threads
}

/// Until it is dropped, the kernel thread that made it is shown as waiting.
#[must_use = "it is shown until this is dropped"]
pub struct Waiting {
    _wait: Option<debug_info::KernelWait<'static>>,
    _not_send: PhantomData<*const ()>,
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waiting")
    }
}

/// For an I/O manager whose plain kernel threads sleep by means of their own ([`crate::plumbing::current_sleeper`]): has the
/// calling one shown as waiting for `reason`. Without effect on a green thread, which is shown as what it is.
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
