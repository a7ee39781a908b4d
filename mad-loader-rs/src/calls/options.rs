//! `getopt` and its like, whose state is in the C library, once for all ranks.
//!
//! A program reads `optarg` and `optind` in copies of its own. Around a call of the library they go to the library's
//! variables and back. The library also remembers, where no caller can reach it, its place within an argument such as
//! `-abc`. When another rank has called in between, the library begins anew and repeats the rank's earlier calls, whose
//! results are known: they bring it to the same place, since the arguments are in their new order already.
//!
//! A program may move `optind` itself: to 2 before its first call, past the name of a subcommand, or past a word that it
//! takes as an option's argument. Such moves are repeated with the calls, as differences: arguments that a later call puts
//! in another order keep their places next to one another, not their numbers.
//!
//! The library begins anew when `optind` is 0, and takes that for 1. So a first call that sees no options makes it begin,
//! and the second one finds `optind` where the program wants it.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use super::call::Call;
use crate::rank::{Rank, current};

unsafe extern "C" {
    static mut optind: c_int;
    static mut opterr: c_int;
    static mut optopt: c_int;
    static mut optarg: *mut c_char;
    fn getopt(argc: c_int, argv: *const *mut c_char, short: *const c_char) -> c_int;
    fn __posix_getopt(argc: c_int, argv: *const *mut c_char, short: *const c_char) -> c_int;
    fn getopt_long(
        argc: c_int,
        argv: *const *mut c_char,
        short: *const c_char,
        long: *const c_void,
        index: *mut c_int,
    ) -> c_int;
    fn getopt_long_only(
        argc: c_int,
        argv: *const *mut c_char,
        short: *const c_char,
        long: *const c_void,
        index: *mut c_int,
    ) -> c_int;
}

pub(super) fn calls() -> [Call; 4] {
    [
        ("getopt", plain as *const () as usize),
        ("__posix_getopt", posix as *const () as usize),
        ("getopt_long", long as *const () as usize),
        ("getopt_long_only", long_only as *const () as usize),
    ]
}

unsafe extern "C" fn plain(argc: c_int, argv: *const *mut c_char, short: *const c_char) -> c_int {
    // SAFETY: the caller's own call.
    with_state(argc, |argc| unsafe { getopt(argc, argv, short) })
}

unsafe extern "C" fn posix(argc: c_int, argv: *const *mut c_char, short: *const c_char) -> c_int {
    // SAFETY: the caller's own call.
    with_state(argc, |argc| unsafe { __posix_getopt(argc, argv, short) })
}

unsafe extern "C" fn long(
    argc: c_int,
    argv: *const *mut c_char,
    short: *const c_char,
    long: *const c_void,
    index: *mut c_int,
) -> c_int {
    // SAFETY: the caller's own call.
    with_state(argc, |argc| unsafe { getopt_long(argc, argv, short, long, index) })
}

unsafe extern "C" fn long_only(
    argc: c_int,
    argv: *const *mut c_char,
    short: *const c_char,
    long: *const c_void,
    index: *mut c_int,
) -> c_int {
    // SAFETY: the caller's own call.
    with_state(argc, |argc| unsafe { getopt_long_only(argc, argv, short, long, index) })
}

/// The rank whose place the library has. Locked around its calls.
static LAST: Mutex<Option<usize>> = Mutex::new(None);

/// Makes the rank's `call`, whose argument is the number of arguments that it sees: all, `argc`, or fewer.
fn with_state(argc: c_int, call: impl Fn(c_int) -> c_int) -> c_int {
    let Some(rank) = current::rank() else { return call(argc) };
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let mut place = rank.options.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the library's variables change under `LAST` only, as far as ranks are concerned; the rank's copies are its
    // own words.
    unsafe {
        let wanted = read(rank.variables.optind).unwrap_or(place.index);
        // A program begins anew by setting `optind` to 0, or back to 1.
        let anew = place.moves.is_empty() || wanted == 0 || wanted < place.index && wanted <= 1;
        if anew {
            place.moves.clear();
            place.index = 1;
        }
        let wanted = wanted.max(1);
        if anew || *last != Some(rank.number()) {
            optind = 0;
            opterr = 0;
            call(argc.min(1));
            for moved in &place.moves {
                optind = optind.wrapping_add(*moved);
                call(argc);
            }
        }
        let moved = wanted.wrapping_sub(place.index);
        place.moves.push(moved);
        optind = wanted;
        *last = Some(rank.number());
        opterr = read(rank.variables.opterr).unwrap_or(1);
        let result = call(argc);
        place.index = optind;
        write(rank);
        result
    }
}

/// # Safety
/// The place is a rank's copy of an `int`.
unsafe fn read(place: Option<usize>) -> Option<c_int> {
    // SAFETY: the caller's promise.
    place.map(|place| unsafe { ptr::read_unaligned(place as *const c_int) })
}

/// Gives the rank what the library has found.
///
/// # Safety
/// The library's variables do not change meanwhile.
unsafe fn write(rank: &Rank) {
    let variables = &rank.variables;
    // SAFETY: the rank's own words, of these types.
    unsafe {
        for (place, value) in [(variables.optind, optind), (variables.optopt, optopt)] {
            if let Some(place) = place {
                ptr::write_unaligned(place as *mut c_int, value);
            }
        }
        if let Some(place) = variables.optarg {
            ptr::write_unaligned(place as *mut *mut c_char, optarg);
        }
    }
}
