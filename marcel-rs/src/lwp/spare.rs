//! Spare kernel threads: how they are started, and what they ask of the kernel's scheduler.

use std::io;
use std::mem::MaybeUninit;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::os::alt_stack::AltStack;

/// The least stack of a kernel thread that may run code of the program: what the standard library gives its threads.
const LEAST_STACK: usize = 2 << 20;

/// How large the stack of a kernel thread is that may run code of the program: as large as that of a thread which the
/// program starts in C, for code that may be called by any thread reckons with no less. The limit `ulimit -s` says how
/// large, mostly 8 MiB; the kernel gives the pages that are used.
pub fn program_stack() -> usize {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut bytes = 0;
    // SAFETY: the attributes are initialised before they are read, and destroyed after that.
    unsafe {
        if libc::pthread_attr_init(attributes.as_mut_ptr()) == 0 {
            libc::pthread_attr_getstacksize(attributes.as_ptr(), &raw mut bytes);
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
        }
    }
    bytes.max(LEAST_STACK)
}

/// Starts a kernel thread that runs `f` with a stack for signal handlers and a short time slice.
pub(crate) fn start(
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

/// What [`prefer_current_thread`] asks for: the shortest slice that Linux grants.
pub const SHORT_SLICE: Duration = Duration::from_micros(100);

/// Asks the kernel for a short time slice for the calling kernel thread, at its normal priority: when it is
/// woken it then preempts threads with the usual slice. Kernels before 6.12 ignore or refuse this; nothing
/// else depends on it. Returns whether the kernel accepted.
pub fn prefer_current_thread() -> bool {
    // SAFETY: no pointers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
    schedule_current_thread(libc::SCHED_OTHER, SHORT_SLICE.as_nanos() as u64)
}

/// Makes the calling kernel thread one that stands by: when it is woken it preempts no other thread, and the one that
/// has the usual slice preempts it when woken. Its share of the core, when others compute, is theirs. Returns whether
/// the kernel accepted.
pub(crate) fn stand_by_current_thread() -> bool {
    schedule_current_thread(libc::SCHED_BATCH, 100_000_000)
        || schedule_current_thread(libc::SCHED_BATCH, 0)
}

/// The kernel's `struct sched_attr`, as far as it is needed.
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

/// The policy and the slice of the calling kernel thread; it keeps its niceness.
fn schedule_current_thread(policy: i32, slice_ns: u64) -> bool {
    // SAFETY: no pointers but to `attr`, whose size is given.
    unsafe {
        let attr = SchedAttr {
            size: size_of::<SchedAttr>() as u32,
            policy: policy as u32,
            nice: libc::getpriority(libc::PRIO_PROCESS, 0),
            runtime: slice_ns,
            ..SchedAttr::default()
        };
        libc::syscall(libc::SYS_sched_setattr, 0, &attr as *const SchedAttr, 0) == 0
    }
}

/// The time slice of the calling kernel thread, as the kernel keeps it: to see whether
/// [`prefer_current_thread`] was honoured.
///
/// # Errors
/// What the kernel says, if it does not tell.
pub fn slice_of_current_thread() -> io::Result<Duration> {
    let mut attr = SchedAttr::default();
    let size = size_of::<SchedAttr>() as u32;
    // SAFETY: `attr` is writable for `size` bytes.
    let refused = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &mut attr, size, 0) } != 0;
    if refused { Err(io::Error::last_os_error()) } else { Ok(Duration::from_nanos(attr.runtime)) }
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
