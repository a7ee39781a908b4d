//! From a program's `_start` to its `main`.

use std::ffi::{c_char, c_int, c_void};

use super::call::Call;
use crate::job::is_forked;
use crate::rank::current;

pub(super) fn calls() -> [Call; 1] {
    [("__libc_start_main", start_main as *const () as usize)]
}

type Main = extern "C-unwind" fn(c_int, *const *const c_char, *const *const c_char) -> c_int;

/// Takes the place of `__libc_start_main`. The functions `init` and `fini` of programs that were linked before glibc
/// 2.34 call constructors and destructors of the program, which [`Rank`](crate::Rank) does for all.
///
/// Not `extern "C"`: an exception that `main` does not catch finds the end of the stack, and C++ says so.
unsafe extern "C-unwind" fn start_main(
    main: Main,
    argc: c_int,
    argv: *const *const c_char,
    _init: *const c_void,
    _fini: *const c_void,
    _linker_fini: *const c_void,
    _stack_end: *const c_void,
) -> c_int {
    let Some(rank) = current::rank() else {
        // SAFETY: ends the process: a program's first instruction has been reached without `Rank::run`.
        unsafe { libc::abort() }
    };
    // SAFETY: `_start` passes what `Rank::run` has put on the stack; its frame has nothing to drop, nor has this one.
    unsafe {
        let environment = argv.add(argc as usize + 1);
        if argc > 0 {
            rank.variables.set_name(*argv);
        }
        rank.variables.begin_options();
        rank.variables.has_threads();
        rank.construct(argc, argv, environment);
        let status = main(argc, argv, environment);
        if is_forked() {
            // A child, of which no scheduler is left to return to.
            libc::exit(status);
        }
        rank.finish(status)
    }
}
