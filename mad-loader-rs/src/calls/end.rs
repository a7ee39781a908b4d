//! The end of a rank, and of the job.
//!
//! `exit` on the thread that runs `main` ends the rank. `abort`, `_exit`, and `exit` on another thread of the rank end
//! the process with all its ranks, as nothing can stop the rank's other threads; a message says so. So does `exit` inside
//! the C library, as by `errx`, whose callers there are not redirected.

use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::sync::Once;

use itoa::Buffer;

use super::call::Call;
use crate::job::is_forked;
use crate::rank::Rank;
use crate::rank::current;
use crate::rank::handlers::{Handler, Handlers};
use crate::say::{flush_all, say};

unsafe extern "C" {
    fn on_exit(function: extern "C-unwind" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    fn quick_exit(status: c_int) -> !;
    fn __cxa_atexit(
        function: extern "C-unwind" fn(*mut c_void),
        argument: *mut c_void,
        object: *const c_void,
    ) -> c_int;
    fn __cxa_at_quick_exit(
        function: extern "C-unwind" fn(*mut c_void),
        object: *const c_void,
    ) -> c_int;
    fn __cxa_finalize(object: *const c_void);
}

pub(super) fn calls() -> [Call; 12] {
    [
        ("exit", exit as *const () as usize),
        ("_exit", exit_at_once as *const () as usize),
        ("_Exit", exit_at_once as *const () as usize),
        ("abort", abort as *const () as usize),
        ("quick_exit", exit_quickly as *const () as usize),
        ("atexit", at_exit as *const () as usize),
        ("on_exit", at_exit_with_status as *const () as usize),
        ("__cxa_atexit", at_exit_of as *const () as usize),
        ("__cxa_at_quick_exit", at_quick_exit_of as *const () as usize),
        ("__cxa_finalize", finalize as *const () as usize),
        ("__cxa_thread_atexit", at_thread_exit_of as *const () as usize),
        ("__cxa_thread_atexit_impl", at_thread_exit_of as *const () as usize),
    ]
}

/// From now on an end of the process that a rank has brought about inside the C library is told, and is a failure. The rank
/// of a kernel thread is not known any more when handlers run: its end is as the C library has it.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: a function for good. Without memory for its entry such ends stay untold.
        let _ = unsafe { on_exit(tell_end, std::ptr::null_mut()) };
    });
}

extern "C-unwind" fn tell_end(status: c_int, _: *mut c_void) {
    let Some(rank) = current::rank().filter(|_| !is_forked()) else { return };
    say([
        "mad: rank ",
        Buffer::new().format(rank.number()),
        " has ended the process with all its ranks: a function of the C library has called exit(",
        Buffer::new().format(status),
        ") for it, as errx() does\n",
    ]);
    // SAFETY: ends the process, as the caller does after this; the other ranks have not ended well.
    unsafe {
        flush_all();
        libc::_exit(failing(status))
    }
}

/// The rank to which the caller, or the object `object`, belongs: not a library, whose handlers are the process's.
fn owner(object: *const c_void) -> Option<&'static Rank> {
    current::rank().filter(|rank| object.is_null() || rank.contains(object as usize))
}

/// The status of a process that ends with ranks which have not ended.
fn failing(status: c_int) -> c_int {
    if status & 0xff == 0 { 1 } else { status }
}

/// Tells that a thread that belongs to no rank, on which the kernel may run a handler of signals, ends the process; its status.
fn end_of_all_elsewhere(what: &str, status: c_int) -> c_int {
    say([
        "mad: ",
        what,
        "(",
        Buffer::new().format(status),
        ") was called on a thread of no rank, as in a signal handler, so the process ends with all its ranks\n",
    ]);
    failing(status)
}

unsafe extern "C-unwind" fn exit(status: c_int) -> ! {
    match current::rank() {
        // SAFETY: the caller is C, or C++ that expects no unwinding from `exit`.
        Some(rank) if current::is_main() && !is_forked() => unsafe { rank.finish(status) },
        Some(rank) if !is_forked() => {
            say([
                "mad: rank ",
                Buffer::new().format(rank.number()),
                " has called exit(",
                Buffer::new().format(status),
                ") on a kernel thread of its own; its other threads cannot be stopped, so the process ends \
                 with all its ranks\n",
            ]);
            // SAFETY: ends the process; the caller's handlers run on its thread, as in a process of its own.
            unsafe {
                rank.handlers.run(status);
                flush_all();
                libc::_exit(failing(status))
            }
        }
        // A handler of a signal that the kernel has given to a thread of the host.
        None if !is_forked() => {
            let status = end_of_all_elsewhere("exit", status);
            // SAFETY: ends the process.
            unsafe {
                flush_all();
                libc::_exit(status)
            }
        }
        // SAFETY: the caller's own call.
        _ => unsafe { libc::exit(status) },
    }
}

unsafe extern "C" fn exit_at_once(status: c_int) -> ! {
    let status = match current::rank() {
        _ if is_forked() => status,
        Some(rank) => end_of_all(rank, "_exit", status),
        None => end_of_all_elsewhere("_exit", status),
    };
    // SAFETY: ends the process.
    unsafe { libc::_exit(status) }
}

/// Says that a rank ends the process; the process's status.
fn end_of_all(rank: &Rank, call: &str, status: c_int) -> c_int {
    say([
        "mad: rank ",
        Buffer::new().format(rank.number()),
        " has called ",
        call,
        "(",
        Buffer::new().format(status),
        "), which ends the process with all its ranks; exit() ends a rank alone\n",
    ]);
    failing(status)
}

unsafe extern "C" fn abort() -> ! {
    if let Some(rank) = current::rank()
        && !is_forked()
    {
        say([
            "mad: rank ",
            Buffer::new().format(rank.number()),
            " has called abort(), which ends the process with all its ranks\n",
        ]);
    }
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}

unsafe extern "C-unwind" fn exit_quickly(status: c_int) -> ! {
    match current::rank() {
        Some(rank) if current::is_main() && !is_forked() => {
            // SAFETY: as `exit`; destructors and other handlers do not run.
            unsafe {
                rank.quick_handlers.run(status);
                rank.leave(status)
            }
        }
        Some(rank) if !is_forked() => {
            let status = end_of_all(rank, "quick_exit", status);
            // SAFETY: ends the process; the caller's handlers run on its thread.
            unsafe {
                rank.quick_handlers.run(status);
                libc::_exit(status)
            }
        }
        // SAFETY: ends the process.
        None if !is_forked() => unsafe { libc::_exit(end_of_all_elsewhere("quick_exit", status)) },
        // SAFETY: the caller's own call.
        _ => unsafe { quick_exit(status) },
    }
}

unsafe extern "C" fn at_exit(function: extern "C-unwind" fn()) -> c_int {
    // SAFETY: a function without arguments may be called with one.
    let function: extern "C-unwind" fn(*mut c_void) = unsafe { transmute(function) };
    // SAFETY: the caller's own call.
    unsafe { at_exit_of(function, std::ptr::null_mut(), std::ptr::null()) }
}

unsafe extern "C" fn at_exit_with_status(
    function: extern "C-unwind" fn(c_int, *mut c_void),
    argument: *mut c_void,
) -> c_int {
    match current::rank() {
        Some(rank) => {
            rank.handlers.push(Handler::WithStatus(function, argument as usize));
            0
        }
        // SAFETY: the caller's own call.
        None => unsafe { on_exit(function, argument) },
    }
}

unsafe extern "C" fn at_exit_of(
    function: extern "C-unwind" fn(*mut c_void),
    argument: *mut c_void,
    object: *const c_void,
) -> c_int {
    match owner(object) {
        Some(rank) => {
            rank.handlers.push(Handler::Plain(function, argument as usize));
            0
        }
        // SAFETY: the caller's own call.
        None => unsafe { __cxa_atexit(function, argument, object) },
    }
}

unsafe extern "C" fn at_quick_exit_of(
    function: extern "C-unwind" fn(*mut c_void),
    object: *const c_void,
) -> c_int {
    match owner(object) {
        Some(rank) => {
            rank.quick_handlers.push(Handler::Plain(function, 0));
            0
        }
        // SAFETY: the caller's own call.
        None => unsafe { __cxa_at_quick_exit(function, object) },
    }
}

/// A program's last destructor calls it to run its handlers. They have run by then, but for those that destructors
/// have registered.
unsafe extern "C-unwind" fn finalize(object: *const c_void) {
    match owner(object) {
        // SAFETY: the copy is loaded; this frame has nothing to drop.
        Some(rank) if !object.is_null() => unsafe { rank.handlers.run(0) },
        // SAFETY: the caller's own call.
        _ => unsafe { __cxa_finalize(object) },
    }
}

/// Destructors of C++'s `thread_local` objects. Those of the thread that runs `main` run when the rank ends; it lives on
/// a kernel thread that other ranks use too. Those of a shared library are the kernel thread's.
unsafe extern "C" fn at_thread_exit_of(
    function: extern "C-unwind" fn(*mut c_void),
    argument: *mut c_void,
    object: *const c_void,
) -> c_int {
    unsafe extern "C" {
        fn __cxa_thread_atexit_impl(
            function: extern "C-unwind" fn(*mut c_void),
            argument: *mut c_void,
            object: *const c_void,
        ) -> c_int;
    }
    match owner(object) {
        Some(rank) if current::is_main() => {
            let handlers: &Handlers = &rank.thread_handlers;
            handlers.push(Handler::Plain(function, argument as usize));
            0
        }
        // SAFETY: the caller's own call.
        _ => unsafe { __cxa_thread_atexit_impl(function, argument, object) },
    }
}
