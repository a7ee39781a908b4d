//! C++'s standard streams.
//!
//! Each rank has a copy of `std::cout` and its like; they write to the process's standard output, through buffers that
//! all share.

use std::ffi::c_int;

use super::call::Call;

pub(super) fn calls() -> [Call; 1] {
    [("_ZNSt8ios_base15sync_with_stdioEb", sync_with_stdio as *const () as usize)]
}

/// Takes the place of `std::ios_base::sync_with_stdio`: the streams stay in step with the C library's.
///
/// The library's function replaces the buffers of its own objects, and destroys those that the ranks' copies use.
unsafe extern "C" fn sync_with_stdio(_: c_int) -> c_int {
    1
}
