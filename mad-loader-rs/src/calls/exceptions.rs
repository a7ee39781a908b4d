//! C++'s state of exceptions, which each rank has for itself.
//!
//! The library keeps, for each kernel thread, a list of exceptions that are being handled. Ranks that wait in the middle
//! of a handler would end each other's exceptions.

use std::ffi::c_void;
use std::sync::OnceLock;

use super::call::Call;
use crate::linker;
use crate::rank::current;

pub(super) fn calls() -> [Call; 2] {
    [
        ("__cxa_get_globals", globals as *const () as usize),
        ("__cxa_get_globals_fast", globals as *const () as usize),
    ]
}

unsafe extern "C" fn globals() -> *mut c_void {
    match current::rank() {
        Some(rank) if current::is_main() => rank.exceptions.get().cast(),
        _ => of_kernel_thread(),
    }
}

/// The library's own.
fn of_kernel_thread() -> *mut c_void {
    static FUNCTION: OnceLock<usize> = OnceLock::new();
    let function = *FUNCTION.get_or_init(|| {
        linker::global_symbol("__cxa_get_globals").map_or(0, |at| at.as_ptr() as usize)
    });
    assert_ne!(function, 0, "the library that calls this has the function");
    // SAFETY: the library's function, of this type.
    unsafe { std::mem::transmute::<usize, unsafe extern "C" fn() -> *mut c_void>(function)() }
}
