//! Streams of the C library that all ranks share.

use std::ffi::{c_char, c_int};

use libc::{FILE, size_t};

use super::call::Call;
use crate::rank::current;

unsafe extern "C" {
    static stdin: *mut FILE;
    static stdout: *mut FILE;
    static stderr: *mut FILE;
    fn setbuffer(stream: *mut FILE, buffer: *mut c_char, size: size_t);
}

pub(super) fn calls() -> [Call; 4] {
    [
        ("fclose", close as *const () as usize),
        ("setvbuf", set_mode as *const () as usize),
        ("setbuf", set_buffer as *const () as usize),
        ("setbuffer", set_sized_buffer as *const () as usize),
    ]
}

/// Whether a rank calls, about a stream that outlives it.
fn is_shared(stream: *mut FILE) -> bool {
    // SAFETY: the C library's own variables, which are set before any program runs.
    let standard = unsafe { [stdin, stdout, stderr] };
    standard.contains(&stream) && current::rank().is_some()
}

/// A rank that closes a standard stream, as some programs do at their end to see errors, flushes it: the others go on
/// with it.
unsafe extern "C" fn close(stream: *mut FILE) -> c_int {
    // SAFETY: the caller's own call.
    unsafe { if is_shared(stream) { libc::fflush(stream) } else { libc::fclose(stream) } }
}

/// Takes the place of `setvbuf`. A standard stream has the mode, but not the buffer: that may be on the rank's stack, and the
/// others write on when the rank has ended.
unsafe extern "C" fn set_mode(
    stream: *mut FILE,
    buffer: *mut c_char,
    mode: c_int,
    size: size_t,
) -> c_int {
    let buffer = if is_shared(stream) { std::ptr::null_mut() } else { buffer };
    // SAFETY: the caller's own call; without a buffer the stream keeps its own.
    unsafe { libc::setvbuf(stream, buffer, mode, size) }
}

unsafe extern "C" fn set_buffer(stream: *mut FILE, buffer: *mut c_char) {
    // SAFETY: the caller's own call.
    unsafe { set_sized_buffer(stream, buffer, libc::BUFSIZ as size_t) }
}

unsafe extern "C" fn set_sized_buffer(stream: *mut FILE, buffer: *mut c_char, size: size_t) {
    // SAFETY: the caller's own call.
    unsafe {
        if is_shared(stream) {
            let mode = if buffer.is_null() { libc::_IONBF } else { libc::_IOFBF };
            set_mode(stream, buffer, mode, size);
        } else {
            setbuffer(stream, buffer, size);
        }
    }
}
