//! How a function of the ABI is written.
//!
//! ```text
//! mpi! {
//!     fn MPI_Comm_rank(comm: MPI_Comm, rank: *mut c_int) on comm { .. }
//!     fn MPI_Send / MPI_Send_c (buf: *const c_void, count: N, ..) on comm { .. }
//!     anytime fn MPI_Initialized(flag: *mut c_int) { .. }
//! }
//! ```
//! Each becomes an `extern "C"` function of that name and its `PMPI_` twin. The body gives `Result<(), Fault>`; a fault goes
//! to the error handler of `comm` (now a `Held<Comm>`) if there is an `on`, and otherwise to the one for calls without an
//! object; its class is returned. With two names, the second is the one for large counts, and these types differ:
//!
//! | name | small | large | for |
//! |---|---|---|---|
//! | `N` | `c_int` | `MPI_Count` | counts |
//! | `D` | `c_int` | `MPI_Aint` | displacements of collectives |
//! | `B` | `MPI_Aint` | `MPI_Count` | byte displacements of datatypes |
//!
//! `anytime`: also before initialising and after finalising.

use core::ffi::c_int;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::{MPI_ERR_INTERN, MPI_ERR_OTHER, MPI_SUCCESS};
use crate::error::Fault;
use crate::process;

macro_rules! mpi {
    () => {};
    ($(#[$doc:meta])* anytime fn $name:ident ($($arg:ident : $ty:ty),* $(,)?) $body:block $($rest:tt)*) => {
        const _: () = { $crate::call::export!(true, $name, ($($arg: $ty),*), $body); };
        $crate::call::mpi! { $($rest)* }
    };
    ($(#[$doc:meta])* fn $name:ident ($($arg:ident : $ty:ty),* $(,)?) $body:block $($rest:tt)*) => {
        const _: () = { $crate::call::export!(false, $name, ($($arg: $ty),*), $body); };
        $crate::call::mpi! { $($rest)* }
    };
    ($(#[$doc:meta])* fn $name:ident ($($arg:ident : $ty:ty),* $(,)?) on $comm:ident $body:block $($rest:tt)*) => {
        const _: () = {
            $crate::call::export!(false, $name, ($($arg: $ty),*), { $crate::call::on!($comm, $body) });
        };
        $crate::call::mpi! { $($rest)* }
    };
    ($(#[$doc:meta])* fn $name:ident / $large:ident ($($args:tt)*) on $comm:ident $body:block $($rest:tt)*) => {
        $crate::call::both! { $name / $large ($($args)*) { $crate::call::on!($comm, $body) } }
        $crate::call::mpi! { $($rest)* }
    };
    ($(#[$doc:meta])* fn $name:ident / $large:ident ($($args:tt)*) $body:block $($rest:tt)*) => {
        $crate::call::both! { $name / $large ($($args)*) $body }
        $crate::call::mpi! { $($rest)* }
    };
}
pub(crate) use mpi;

macro_rules! both {
    ($name:ident / $large:ident ($($arg:ident : $ty:ty),* $(,)?) $body:block) => {
        #[allow(unused, clippy::useless_conversion, clippy::unnecessary_cast)]
        const _: () = {
            type N = core::ffi::c_int;
            type D = core::ffi::c_int;
            type B = $crate::abi::MPI_Aint;
            $crate::call::export!(false, $name, ($($arg: $ty),*), $body);
        };
        #[allow(unused, clippy::useless_conversion, clippy::unnecessary_cast)]
        const _: () = {
            type N = $crate::abi::MPI_Count;
            type D = $crate::abi::MPI_Aint;
            type B = $crate::abi::MPI_Count;
            $crate::call::export!(false, $large, ($($arg: $ty),*), $body);
        };
    };
}
pub(crate) use both;

macro_rules! on {
    ($comm:ident, $body:block) => {{
        let $comm = $crate::comm::get($comm)?;
        #[allow(clippy::redundant_closure_call)]
        let result: Result<(), $crate::error::Fault> = (|| $body)();
        result.map_err(|fault| fault.on_comm(&$comm))
    }};
}
pub(crate) use on;

macro_rules! export {
    ($anytime:literal, $name:ident, ($($arg:ident : $ty:ty),*), $body:block) => {
        #[allow(clippy::too_many_arguments)]
        #[inline]
        fn body($($arg: $ty),*) -> core::ffi::c_int {
            $crate::call::call($anytime, stringify!($name), move || $body)
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
pub(crate) use export;

/// Runs a function's body. See the module.
#[inline]
pub(crate) fn call(
    anytime: bool,
    function: &'static str,
    body: impl FnOnce() -> Result<(), Fault>,
) -> c_int {
    if !anytime && !process::is_up() {
        return early(function);
    }
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => MPI_SUCCESS,
        Ok(Err(fault)) => fault.report(function),
        Err(panic) => panicked(function, &*panic),
    }
}

#[cold]
fn early(function: &'static str) -> c_int {
    let when = if process::is_over() {
        "was called after MPI_Finalize"
    } else {
        "was called before MPI_Init, MPI_Init_thread or MPI_Session_init"
    };
    Fault::new(MPI_ERR_OTHER, when).report(function)
}

/// A callback of the program's that unwound, or a bug of this library's.
#[cold]
fn panicked(function: &'static str, panic: &(dyn Any + Send)) -> c_int {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("of unknown kind");
    Fault::new(MPI_ERR_INTERN, format!("a panic inside the library: {text}")).report(function)
}
