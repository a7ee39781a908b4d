//! How an entry point is written.
//!
//! ```text
//! mpi! {
//!     fn MPI_Comm_rank(comm: MPI_Comm, rank: Out<c_int>) on comm { .. }
//!     fn MPI_Send / MPI_Send_c (buf: *const c_void, count: N, ..) on comm { .. }
//!     fn MPI_Comm_free_keyval | MPI_Keyval_free (keyval: InOut<c_int>) { .. }
//!     anytime fn MPI_Initialized(flag: Out<c_int>) { .. }
//! }
//! ```
//! Each becomes an `extern "C"` function of that name and its `PMPI_` twin. The body gives `Result<(), Fault>`. A
//! fault goes to the error handler of `comm` (which is a `Ref<Comm>` inside) if there is an `on`, else to the handler
//! for calls without an object; the function returns its class. The name after `/` is the function for large counts.
//! The name after `|` is another name, mostly an old one, of the function before it.
//!
//! These types differ between small and large counts:
//!
//! | name | small | large | for |
//! |---|---|---|---|
//! | `N` | `c_int` | `MPI_Count` | counts |
//! | `D` | `c_int` | `MPI_Aint` | displacements of collectives |
//! | `B` | `MPI_Aint` | `MPI_Count` | byte displacements of datatypes |
//!
//! `anytime`: the function may be called before initialising and after finalising.

use core::ffi::c_int;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::{MPI_Comm, MPI_ERR_INTERN, MPI_ERR_OTHER, MPI_SUCCESS};
use crate::comm::Comm;
use crate::errhandler::{self, Errhandler};
use crate::error::{self, Fault, HandlesErrors};
use crate::handle::Ref;
use crate::per_rank::own_place;
use crate::{comm, events, job};

/// The types of a function for small counts.
pub(crate) mod small {
    pub(crate) type N = core::ffi::c_int;
    pub(crate) type D = core::ffi::c_int;
    pub(crate) type B = crate::abi::MPI_Aint;
}

/// The types of a function for large counts.
pub(crate) mod large {
    pub(crate) type N = crate::abi::MPI_Count;
    pub(crate) type D = crate::abi::MPI_Aint;
    pub(crate) type B = crate::abi::MPI_Count;
}

macro_rules! mpi {
    () => {};
    ($(#[$doc:meta])* anytime fn $name:ident ($($arg:ident : $ty:ty),* $(,)?) $body:block $($rest:tt)*) => {
        const _: () = { $crate::calls::entry::export!(true, $name, ($($arg: $ty),*), $body); };
        $crate::calls::entry::mpi! { $($rest)* }
    };
    ($(#[$doc:meta])* fn $name:ident ($($arg:ident : $ty:ty),* $(,)?) $body:block $($rest:tt)*) => {
        const _: () = { $crate::calls::entry::export!(false, $name, ($($arg: $ty),*), $body); };
        $crate::calls::entry::mpi! { $($rest)* }
    };
    ($(#[$doc:meta])* fn $name:ident ($($arg:ident : $ty:ty),* $(,)?) on $comm:ident $body:block $($rest:tt)*) => {
        const _: () = {
            $crate::calls::entry::export!(true, $name, ($($arg: $ty),*), { $crate::calls::entry::on!($comm, $body) });
        };
        $crate::calls::entry::mpi! { $($rest)* }
    };
    ($(#[$doc:meta])* fn $name:ident | $alias:ident $args:tt $(on $comm:ident)? $body:block $($rest:tt)*) => {
        $crate::calls::entry::mpi! {
            fn $name $args $(on $comm)? $body
            fn $alias $args $(on $comm)? $body
            $($rest)*
        }
    };
    ($(#[$doc:meta])* fn $name:ident / $large:ident $args:tt on $comm:ident $body:block $($rest:tt)*) => {
        $crate::calls::entry::sized! { small true $name $args { $crate::calls::entry::on!($comm, $body) } }
        $crate::calls::entry::sized! { large true $large $args { $crate::calls::entry::on!($comm, $body) } }
        $crate::calls::entry::mpi! { $($rest)* }
    };
    ($(#[$doc:meta])* fn $name:ident / $large:ident | $alias:ident $args:tt $body:block $($rest:tt)*) => {
        $crate::calls::entry::sized! { large false $alias $args $body }
        $crate::calls::entry::mpi! {
            fn $name / $large $args $body
            $($rest)*
        }
    };
    ($(#[$doc:meta])* fn $name:ident / $large:ident $args:tt $body:block $($rest:tt)*) => {
        $crate::calls::entry::sized! { small false $name $args $body }
        $crate::calls::entry::sized! { large false $large $args $body }
        $crate::calls::entry::mpi! { $($rest)* }
    };
}
pub(crate) use mpi;

macro_rules! sized {
    ($types:ident $anytime:literal $name:ident ($($arg:ident : $ty:ty),* $(,)?) $body:block) => {
        #[allow(unused, clippy::useless_conversion, clippy::unnecessary_cast)]
        const _: () = {
            use $crate::calls::entry::$types::{B, D, N};
            $crate::calls::entry::export!($anytime, $name, ($($arg: $ty),*), $body);
        };
    };
}
pub(crate) use sized;

/// The body of a function with a communicator, which says whether MPI is initialised: one look for both.
macro_rules! on {
    ($comm:ident, $body:block) => {{
        let $comm = $crate::calls::entry::enter($comm)?;
        #[allow(clippy::redundant_closure_call)]
        let result: Result<(), $crate::error::Fault> = (|| $body)();
        result.map_err(|fault| fault.on($comm.share()))
    }};
}
pub(crate) use on;

macro_rules! export {
    ($anytime:literal, $name:ident, ($($arg:ident : $ty:ty),*), $body:block) => {
        $crate::calls::entry::twins!($name, ($($arg: $ty),*), {
            $crate::calls::entry::call($anytime, stringify!($name), move || $body)
        });
    };
}
pub(crate) use export;

/// A function of the ABI and its `PMPI_` twin.
macro_rules! twins {
    ($name:ident, ($($arg:ident : $ty:ty),*), $body:block) => {
        $crate::calls::entry::twins!($name, ($($arg: $ty),*) -> core::ffi::c_int, $body);
    };
    ($name:ident, ($($arg:ident : $ty:ty),*) -> $result:ty, $body:block) => {
        #[allow(clippy::too_many_arguments)]
        #[inline]
        fn body($($arg: $ty),*) -> $result $body
        // SAFETY: the name is the standard's, and nothing else's in this process.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        extern "C" fn $name($($arg: $ty),*) -> $result {
            body($($arg),*)
        }
        // SAFETY: as above.
        #[unsafe(export_name = concat!("P", stringify!($name)))]
        #[allow(clippy::too_many_arguments)]
        extern "C" fn profiled($($arg: $ty),*) -> $result {
            body($($arg),*)
        }
    };
}
pub(crate) use twins;

/// Runs the body of an entry point. `anytime`: it may be called before and after MPI is there, or looks itself.
#[inline]
pub(crate) fn call(
    anytime: bool,
    function: &'static str,
    body: impl FnOnce() -> Result<(), Fault>,
) -> c_int {
    if !anytime
        && !job::is_unobserved(own_place())
        && let Err(fault) = look()
    {
        return report(fault, function);
    }
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => MPI_SUCCESS,
        Ok(Err(fault)) => report(fault, function),
        Err(panic) => report(panicked(&*panic), function),
    }
}

/// The communicator of a function that is called between initialising and finalising.
///
/// # Errors
/// It is called before or after; the handle stands for no communicator.
#[inline]
pub(crate) fn enter(comm: MPI_Comm) -> Result<Ref<Comm>, Fault> {
    let place = own_place();
    match job::is_unobserved(place).then(|| comm::predefined_at(place, comm)).flatten() {
        Some(comm) => Ok(comm),
        None => enter_otherwise(place, comm),
    }
}

/// As [`enter`], with all looks.
#[inline(never)]
fn enter_otherwise(place: usize, comm: MPI_Comm) -> Result<Ref<Comm>, Fault> {
    if !job::is_unobserved(place) {
        look()?;
    }
    comm::get_at(place, comm)
}

/// A tool observes the rank, or MPI is not initialised, or by sessions only.
#[cold]
#[inline(never)]
fn look() -> Result<(), Fault> {
    if !job::is_up() {
        return Err(early());
    }
    if job::is_observed() {
        events::deliver();
    }
    Ok(())
}

/// Invokes the error handler that a fault concerns; returns what the call returns.
#[cold]
fn report(fault: Fault, function: &str) -> c_int {
    let text = format!("{function}: {}", fault.text);
    error::remember(fault.class, &text);
    match (&fault.on, comm::of_no_object()) {
        (Some(object), _) => object.handle_error(fault.class, &text),
        (None, Some(comm)) => comm.handle_error(fault.class, &text),
        (None, None) => errhandler::invoke(&Errhandler::Fatal, 0, fault.class, &text),
    }
}

#[cold]
fn early() -> Fault {
    let when = if job::is_over() {
        "was called after MPI_Finalize"
    } else {
        "was called before MPI_Init, MPI_Init_thread or MPI_Session_init"
    };
    Fault::new(MPI_ERR_OTHER, when)
}

/// The fault of a panic: the library has a bug. A callback of the program that unwinds ends the process, since C has no
/// unwinding: so says the type of every callback, error handlers included.
#[cold]
fn panicked(panic: &(dyn Any + Send)) -> Fault {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("of unknown kind");
    Fault::new(MPI_ERR_INTERN, format!("a panic inside the library: {text}"))
}
