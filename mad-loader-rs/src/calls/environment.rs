//! Changes of the environment, which all ranks share.
//!
//! The C library's functions do the work; then the programs' own copies of `environ` get the new address.

use std::ffi::{c_char, c_int};

use super::call::Call;
use crate::rank::changed_environment;

unsafe extern "C" {
    fn setenv(name: *const c_char, value: *const c_char, overwrite: c_int) -> c_int;
    fn unsetenv(name: *const c_char) -> c_int;
    fn putenv(text: *mut c_char) -> c_int;
    fn clearenv() -> c_int;
}

pub(super) fn calls() -> [Call; 4] {
    [
        ("setenv", set as *const () as usize),
        ("unsetenv", unset as *const () as usize),
        ("putenv", put as *const () as usize),
        ("clearenv", clear as *const () as usize),
    ]
}

unsafe extern "C" fn set(name: *const c_char, value: *const c_char, overwrite: c_int) -> c_int {
    // SAFETY: the caller's own call.
    let result = unsafe { setenv(name, value, overwrite) };
    changed_environment();
    result
}

unsafe extern "C" fn unset(name: *const c_char) -> c_int {
    // SAFETY: the caller's own call.
    let result = unsafe { unsetenv(name) };
    changed_environment();
    result
}

unsafe extern "C" fn put(text: *mut c_char) -> c_int {
    // SAFETY: the caller's own call.
    let result = unsafe { putenv(text) };
    changed_environment();
    result
}

unsafe extern "C" fn clear() -> c_int {
    // SAFETY: the caller's own call.
    let result = unsafe { clearenv() };
    changed_environment();
    result
}
