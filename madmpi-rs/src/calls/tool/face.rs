//! How a function of the tool interface is written: the counterpart of [`crate::calls::entry`] for functions that
//! invoke no error handler.

use core::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::*;
use crate::args::{ArrayMut, InOut, Out, Text, array_mut, read, write};
use crate::per_rank::per_rank;
use marcel::plumbing::KernelMutex;

per_rank! {
    /// How often the interface was initialised.
    static USERS: KernelMutex<usize> = KernelMutex::new(0);
}

/// The result of a call of the tool interface: nothing, or an error code.
pub(super) type Answer = Result<(), c_int>;

/// Functions of the tool interface. `anytime`: also when it is not initialised.
macro_rules! tool {
    () => {};
    (anytime fn $name:ident ($($arg:ident : $ty:ty),* $(,)?) $body:block $($rest:tt)*) => {
        const _: () = { $crate::calls::tool::face::export_tool!(true, $name, ($($arg: $ty),*), $body); };
        $crate::calls::tool::face::tool! { $($rest)* }
    };
    (fn $name:ident ($($arg:ident : $ty:ty),* $(,)?) $body:block $($rest:tt)*) => {
        const _: () = { $crate::calls::tool::face::export_tool!(false, $name, ($($arg: $ty),*), $body); };
        $crate::calls::tool::face::tool! { $($rest)* }
    };
}
pub(super) use tool;

macro_rules! export_tool {
    ($anytime:literal, $name:ident, ($($arg:ident : $ty:ty),*), $body:block) => {
        $crate::calls::entry::twins!($name, ($($arg: $ty),*), {
            $crate::calls::tool::face::call($anytime, move || $body)
        });
    };
}
pub(super) use export_tool;

pub(super) fn call(anytime: bool, body: impl FnOnce() -> Answer) -> c_int {
    if !anytime && *USERS.lock() == 0 {
        return MPI_T_ERR_NOT_INITIALIZED;
    }
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => MPI_SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => MPI_ERR_INTERN,
    }
}

/// Counts one initialisation more, or one less.
pub(super) fn initialise(up: bool) {
    let mut users = USERS.lock();
    if up { *users += 1 } else { *users -= 1 }
}

/// Writes a result that the caller has to take.
pub(super) fn give<T>(place: impl Into<Out<T>>, value: T) -> Answer {
    if place.into().put(value) { Ok(()) } else { Err(MPI_T_ERR_INVALID) }
}

/// Writes a text as far as there is room for it, and the room that it needs, with the terminating zero.
pub(super) fn text(text: &str, place: ArrayMut<c_char>, len: InOut<c_int>) {
    let Ok(room) = read(len, "len") else { return };
    if let Ok(place) = array_mut!(place[room]) {
        write(text.as_bytes(), place);
    }
    Out::from(len).put(text.len() as c_int + 1);
}

/// A name argument.
pub(super) fn name<'a>(name: Text<'a>) -> Result<&'a [u8], c_int> {
    name.bytes().ok_or(MPI_T_ERR_INVALID)
}

/// A handle argument, whose place takes another one.
pub(super) fn handle(place: InOut<usize>) -> Result<usize, c_int> {
    read(place, "handle").map_err(|_| MPI_T_ERR_INVALID)
}

/// The element with that index.
pub(super) fn at<T>(all: &[T], index: c_int) -> Result<&T, c_int> {
    usize::try_from(index).ok().and_then(|index| all.get(index)).ok_or(MPI_T_ERR_INVALID_INDEX)
}

/// The crates that variables belong to, which are the categories.
pub(super) const CRATES: [(&str, &str); 4] = [
    ("marcel", "green threads: their kernel threads, queues and stacks"),
    ("pioman", "detection of events"),
    ("newmad", "messages: drivers, protocols, strategies, collectives"),
    ("madmpi", "MPI over the others"),
];
