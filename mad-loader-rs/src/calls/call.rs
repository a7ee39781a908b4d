//! An entry of the tables of functions, and what they share.

use std::ffi::c_int;

use crate::job::is_child;

/// The name of a function, and the address of the one that takes its place.
pub(super) type Call = (&'static str, usize);

/// Whether the caller waits as a green thread: not in a child of `fork`, where the other ones would go on as well.
pub(super) fn waits_green() -> bool {
    marcel::is_green() && !is_child()
}

/// Sets `errno`; the result of a call that fails.
pub(super) fn fail(error: c_int) -> c_int {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// As compilers have it checked (`_FORTIFY_SOURCE`).
pub(super) fn check_room(len: usize, room: usize) {
    unsafe extern "C" {
        fn __chk_fail() -> !;
    }
    if len > room {
        // SAFETY: ends the process, with the C library's message.
        unsafe { __chk_fail() }
    }
}
