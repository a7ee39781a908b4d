//! Streams of the C library that all ranks share.

use std::ffi::c_int;

use libc::FILE;

use super::call::Call;
use crate::rank::current;

unsafe extern "C" {
    static stdin: *mut FILE;
    static stdout: *mut FILE;
    static stderr: *mut FILE;
}

pub(super) fn calls() -> [Call; 1] {
    [("fclose", close as *const () as usize)]
}

/// A rank that closes a standard stream, as some programs do at their end to see errors, flushes it: the others go on
/// with it.
unsafe extern "C" fn close(stream: *mut FILE) -> c_int {
    // SAFETY: the C library's own variables, which are set before any program runs; the caller's own call.
    unsafe {
        let shared = [stdin, stdout, stderr].contains(&stream);
        if shared && current::rank().is_some() {
            libc::fflush(stream)
        } else {
            libc::fclose(stream)
        }
    }
}
