//! Messages, and what is printed, at the end of a rank or process.

use std::ffi::c_int;
use std::sync::mpsc::channel;
use std::time::Duration;

/// So long the end of a process waits for a stream that another thread holds.
const PATIENCE: Duration = Duration::from_secs(1);

unsafe extern "C" {
    static stdout: *mut libc::FILE;
    static stderr: *mut libc::FILE;
    fn ftrylockfile(stream: *mut libc::FILE) -> c_int;
    fn funlockfile(stream: *mut libc::FILE);
}

/// Writes what C has buffered for standard output and error. Not for all streams: another thread may be using one without its
/// lock, as a program of one thread may, or hold it until something comes; these are written when the process ends.
pub fn flush_output() {
    // SAFETY: the C library's streams, with their locks held.
    unsafe {
        for stream in [stdout, stderr] {
            if ftrylockfile(stream) == 0 {
                libc::fflush(stream);
                funlockfile(stream);
            }
        }
    }
}

/// Writes what C has buffered for all streams. One that another thread holds, as it does while it reads, may keep the rest from being
/// written, but not the process from its end.
pub(crate) fn flush_all() {
    let (tell, told) = channel();
    let flush = move || {
        // SAFETY: all streams, which the C library locks.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        let _ = tell.send(());
    };
    let started = std::thread::Builder::new().spawn(flush);
    if started.is_err() || told.recv_timeout(PATIENCE).is_err() {
        flush_output();
    }
}

/// Writes the parts to standard error, in one call. Allocates nothing: programs end processes inside signal handlers.
pub(crate) fn say<const N: usize>(parts: [&str; N]) {
    let part = |part: &str| libc::iovec { iov_base: part.as_ptr() as *mut _, iov_len: part.len() };
    let parts = parts.map(part);
    // SAFETY: valid bytes. Not `std`'s lock: a thread that ends the process must not wait for one.
    unsafe { libc::writev(2, parts.as_ptr(), N as c_int) };
}
