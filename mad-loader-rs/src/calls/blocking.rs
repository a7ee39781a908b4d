//! Calls that the kernel makes wait, and that nothing else can wait for: another kernel thread makes them.

use std::ffi::{c_char, c_int};

use libc::{
    addrinfo, id_t, idtype_t, pid_t, rusage, sem_t, siginfo_t, sockaddr, socklen_t, timespec,
};

use super::call::Call;
use crate::job::is_child;

pub(super) fn calls() -> [Call; 10] {
    [
        ("wait", wait as *const () as usize),
        ("waitpid", waitpid as *const () as usize),
        ("wait3", wait3 as *const () as usize),
        ("wait4", wait4 as *const () as usize),
        ("waitid", waitid as *const () as usize),
        ("system", system as *const () as usize),
        ("connect", connect as *const () as usize),
        ("getaddrinfo", getaddrinfo as *const () as usize),
        ("sem_wait", sem_wait as *const () as usize),
        ("sem_timedwait", sem_timedwait as *const () as usize),
    ]
}

/// Makes a call without holding up other green threads, and leaves its `errno` to the caller. Pointers go in as numbers:
/// they stay valid, since the caller waits.
pub(super) fn blocking<T: Send>(call: impl FnOnce() -> T + Send) -> T {
    if is_child() {
        return call();
    }
    let (result, errno) = marcel::blocking(|| {
        let result = call();
        // SAFETY: the calling thread's own.
        (result, unsafe { *libc::__errno_location() })
    });
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = errno };
    result
}

unsafe extern "C-unwind" fn wait(status: *mut c_int) -> pid_t {
    // SAFETY: the caller's own call.
    unsafe { wait4(-1, status, 0, std::ptr::null_mut()) }
}

unsafe extern "C-unwind" fn waitpid(pid: pid_t, status: *mut c_int, options: c_int) -> pid_t {
    // SAFETY: the caller's own call.
    unsafe { wait4(pid, status, options, std::ptr::null_mut()) }
}

unsafe extern "C-unwind" fn wait3(status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t {
    // SAFETY: the caller's own call.
    unsafe { wait4(-1, status, options, usage) }
}

unsafe extern "C-unwind" fn wait4(
    pid: pid_t,
    status: *mut c_int,
    options: c_int,
    usage: *mut rusage,
) -> pid_t {
    let (status, usage) = (status as usize, usage as usize);
    // SAFETY: the caller's own call.
    let call = move || unsafe { libc::wait4(pid, status as *mut _, options, usage as *mut _) };
    if options & libc::WNOHANG != 0 { call() } else { blocking(call) }
}

unsafe extern "C-unwind" fn waitid(
    kind: idtype_t,
    id: id_t,
    info: *mut siginfo_t,
    options: c_int,
) -> c_int {
    let info = info as usize;
    // SAFETY: the caller's own call.
    let call = move || unsafe { libc::waitid(kind, id, info as *mut _, options) };
    if options & libc::WNOHANG != 0 { call() } else { blocking(call) }
}

unsafe extern "C-unwind" fn system(command: *const c_char) -> c_int {
    let command = command as usize;
    // SAFETY: the caller's own call.
    blocking(move || unsafe { libc::system(command as *const _) })
}

unsafe extern "C-unwind" fn connect(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int {
    let to = to as usize;
    // SAFETY: the caller's own call.
    blocking(move || unsafe { libc::connect(fd, to as *const _, len) })
}

unsafe extern "C-unwind" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const addrinfo,
    found: *mut *mut addrinfo,
) -> c_int {
    let (node, service) = (node as usize, service as usize);
    let (hints, found) = (hints as usize, found as usize);
    // SAFETY: the caller's own call.
    blocking(move || unsafe {
        libc::getaddrinfo(node as *const _, service as *const _, hints as *const _, found as *mut _)
    })
}

unsafe extern "C-unwind" fn sem_wait(semaphore: *mut sem_t) -> c_int {
    // SAFETY: the caller's own call.
    if unsafe { libc::sem_trywait(semaphore) } == 0 {
        return 0;
    }
    let semaphore = semaphore as usize;
    // SAFETY: the caller's own call.
    blocking(move || unsafe { libc::sem_wait(semaphore as *mut _) })
}

unsafe extern "C-unwind" fn sem_timedwait(semaphore: *mut sem_t, until: *const timespec) -> c_int {
    let (semaphore, until) = (semaphore as usize, until as usize);
    // SAFETY: the caller's own call.
    blocking(move || unsafe { libc::sem_timedwait(semaphore as *mut _, until as *const _) })
}
