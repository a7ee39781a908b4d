//! Messages, and what is printed, at the end of a rank or process.

use std::ffi::c_int;

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

/// Writes the parts to standard error, in one call.
pub(crate) fn say(parts: &[&str]) {
    let text = parts.concat();
    // SAFETY: valid bytes. Not `std`'s lock: a thread that ends the process must not wait for one.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}
