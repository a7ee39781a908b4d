//! The tool interface: knobs as control variables, counters as performance variables, and the crates that they belong to as
//! categories. There are no events, and no sources of such.
//!
//! Its functions may be called before MPI is initialised and after it is finalized, and tell no error handler: they return a
//! code. Handles are those of tables, so that stale ones are noticed.

mod category;
mod cvar;
mod event;
mod pvar;

use core::ffi::{c_char, c_int};
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use crate::abi::*;

/// How often it was initialised.
static USERS: Mutex<usize> = Mutex::new(0);

/// What a call of the tool interface comes to: nothing, or a code.
type Said = Result<(), c_int>;

/// Functions of the tool interface. `anytime`: also when it is not initialised.
macro_rules! tool {
    () => {};
    (anytime fn $name:ident ($($arg:ident : $ty:ty),* $(,)?) $body:block $($rest:tt)*) => {
        const _: () = { $crate::tool::export_tool!(true, $name, ($($arg: $ty),*), $body); };
        $crate::tool::tool! { $($rest)* }
    };
    (fn $name:ident ($($arg:ident : $ty:ty),* $(,)?) $body:block $($rest:tt)*) => {
        const _: () = { $crate::tool::export_tool!(false, $name, ($($arg: $ty),*), $body); };
        $crate::tool::tool! { $($rest)* }
    };
}
use tool;

macro_rules! export_tool {
    ($anytime:literal, $name:ident, ($($arg:ident : $ty:ty),*), $body:block) => {
        #[allow(clippy::too_many_arguments)]
        fn body($($arg: $ty),*) -> core::ffi::c_int {
            $crate::tool::call($anytime, move || $body)
        }
        // SAFETY: the name is the standard's, and nobody else's in this process.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        extern "C" fn $name($($arg: $ty),*) -> core::ffi::c_int {
            body($($arg),*)
        }
        // SAFETY: as above.
        #[unsafe(export_name = concat!("P", stringify!($name)))]
        #[allow(clippy::too_many_arguments)]
        extern "C" fn profiled($($arg: $ty),*) -> core::ffi::c_int {
            body($($arg),*)
        }
    };
}
use export_tool;

fn call(anytime: bool, body: impl FnOnce() -> Said) -> c_int {
    if !anytime && *USERS.lock().unwrap_or_else(PoisonError::into_inner) == 0 {
        return MPI_T_ERR_NOT_INITIALIZED;
    }
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => MPI_SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => MPI_ERR_INTERN,
    }
}

/// A result that the program may not want.
fn tell<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the program's promise that it is a place for such a value.
        unsafe { place.write(value) };
    }
}

/// A result that it has to take.
fn give<T>(place: *mut T, value: T) -> Said {
    if place.is_null() {
        return Err(MPI_T_ERR_INVALID);
    }
    tell(place, value);
    Ok(())
}

/// A text: as much as there is room for, and the room that it needs, both with the terminating zero.
fn text(text: &str, place: *mut c_char, len: *mut c_int) {
    if len.is_null() {
        return;
    }
    // SAFETY: the program's promise that it says how much room there is.
    let room = unsafe { len.read() };
    if !place.is_null() && room > 0 {
        let some = &text.as_bytes()[..text.len().min(room as usize - 1)];
        // SAFETY: as above.
        unsafe {
            place.copy_from_nonoverlapping(some.as_ptr().cast(), some.len());
            place.add(some.len()).write(0);
        }
    }
    tell(len, text.len() as c_int + 1);
}

/// A name argument.
fn name<'a>(place: *const c_char) -> Result<&'a [u8], c_int> {
    if place.is_null() {
        return Err(MPI_T_ERR_INVALID);
    }
    // SAFETY: the program's promise that it is a string, which nobody changes during the call.
    Ok(unsafe { CStr::from_ptr(place) }.to_bytes())
}

/// The element with that index.
fn at<T>(all: &[T], index: c_int) -> Result<&T, c_int> {
    usize::try_from(index).ok().and_then(|index| all.get(index)).ok_or(MPI_T_ERR_INVALID_INDEX)
}

/// The crates that variables belong to, which are the categories.
const CRATES: [(&str, &str); 4] = [
    ("marcel", "green threads: their kernel threads, queues and stacks"),
    ("pioman", "how events are looked for"),
    ("newmad", "messages: drivers, protocols, strategies, collectives"),
    ("madmpi", "MPI over the others"),
];

tool! {
    anytime fn MPI_T_init_thread(_required: c_int, provided: *mut c_int) {
        *USERS.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        give(provided, MPI_THREAD_MULTIPLE)
    }

    fn MPI_T_finalize() {
        *USERS.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        Ok(())
    }

    // No variable has an enumeration: values that are words are text.
    fn MPI_T_enum_get_info(_enumtype: usize, _num: *mut c_int, _name: *mut c_char, _name_len: *mut c_int) {
        Err(MPI_T_ERR_INVALID_HANDLE)
    }

    fn MPI_T_enum_get_item(
        _enumtype: usize, _indx: c_int, _value: *mut c_int, _name: *mut c_char, _name_len: *mut c_int,
    ) {
        Err(MPI_T_ERR_INVALID_HANDLE)
    }
}
