//! What went wrong in a call, and what is told of it.
//!
//! An error code is its class, so that programs may compare it; the words that belong to the last error of a thread are
//! kept, and `MPI_Error_string` gives them with the description of the class.

use core::ffi::c_int;
use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

use crate::abi::*;
use crate::comm::Comm;
use crate::errhandler::{self, Errhandler};
use crate::handle::Held;
use crate::session::Session;

/// Whose error handler is told.
#[derive(Clone)]
pub(crate) enum On {
    /// The one for calls that concern no object.
    Nobody,
    Comm(Arc<Comm>),
    Session(Arc<Session>),
    /// That of a communicator that is not there yet.
    Making(Errhandler),
    /// The one that files have until they are given another: the call returns.
    File,
}

/// What went wrong.
#[derive(Clone)]
pub(crate) struct Fault {
    pub(crate) class: c_int,
    pub(crate) text: Cow<'static, str>,
    pub(crate) on: On,
}

thread_local! {
    static LAST: RefCell<(c_int, String)> = const { RefCell::new((MPI_SUCCESS, String::new())) };
}

impl Fault {
    #[cold]
    pub(crate) fn new(class: c_int, text: impl Into<Cow<'static, str>>) -> Fault {
        Fault { class, text: text.into(), on: On::Nobody }
    }

    /// An argument is not acceptable.
    #[cold]
    pub(crate) fn argument(
        class: c_int,
        name: &str,
        value: impl std::fmt::Display,
        why: &str,
    ) -> Fault {
        Fault::new(class, format!("argument {name} is {value}: {why}"))
    }

    /// The error handler of `comm` is told.
    #[cold]
    pub(crate) fn on_comm(mut self, comm: &Held<Comm>) -> Fault {
        if matches!(self.on, On::Nobody) {
            self.on = On::Comm(comm.share());
        }
        self
    }

    /// The error handler of a session is told.
    #[cold]
    pub(crate) fn on_session(mut self, session: &Arc<Session>) -> Fault {
        self.on = On::Session(session.clone());
        self
    }

    /// The handler is told that a communicator would have had.
    #[cold]
    pub(crate) fn on_making(mut self, handler: &Errhandler) -> Fault {
        self.on = On::Making(handler.clone());
        self
    }

    /// The error handler of files is told.
    #[cold]
    pub(crate) fn on_file(mut self) -> Fault {
        self.on = On::File;
        self
    }

    /// Tells the error handler, and gives what the call returns.
    #[cold]
    pub(crate) fn report(self, function: &str) -> c_int {
        let text = format!("{function}: {}", self.text);
        // A thread that is at its end has no place for it.
        let _ = LAST.try_with(|last| *last.borrow_mut() = (self.class, text.clone()));
        errhandler::tell(&self.on, self.class, &text)
    }
}

/// What is known of the last error of this thread, if it was of that code.
pub(crate) fn last(code: c_int) -> Option<String> {
    let of_code = |last: &RefCell<(c_int, String)>| {
        let last = last.borrow();
        (last.0 == code && !last.1.is_empty()).then(|| last.1.clone())
    };
    LAST.try_with(of_code).ok().flatten()
}

impl From<newmad::Error> for Fault {
    #[cold]
    fn from(error: newmad::Error) -> Fault {
        use newmad::Error::*;
        let class = match &error {
            Truncated { .. } => MPI_ERR_TRUNCATE,
            PeerDied { .. } | Revoked { .. } => MPI_ERR_PROC_ABORTED,
            BadRank { .. } => MPI_ERR_RANK,
            BadTag { .. } => MPI_ERR_TAG,
            Mismatch { .. } | BadBuffer { .. } => MPI_ERR_ARG,
            _ => MPI_ERR_OTHER,
        };
        Fault::new(class, error.to_string())
    }
}

/// The place that a result goes to.
///
/// # Errors
/// It is null.
#[inline]
pub(crate) fn out<T>(place: *mut T, name: &str, value: T) -> Result<(), Fault> {
    if place.is_null() {
        return Err(Fault::argument(MPI_ERR_ARG, name, "null", "the result has nowhere to go"));
    }
    // SAFETY: the program's promise that it is a place for such a value.
    unsafe { place.write(value) };
    Ok(())
}

/// What a pointer argument points to.
///
/// # Errors
/// It is null.
#[inline]
pub(crate) fn read<T: Copy>(place: *const T, name: &str) -> Result<T, Fault> {
    if place.is_null() {
        return Err(Fault::argument(MPI_ERR_ARG, name, "null", "a value is needed"));
    }
    // SAFETY: the program's promise.
    Ok(unsafe { place.read() })
}

/// An array argument.
///
/// # Errors
/// It is null although it has elements, or their number is negative.
#[inline]
pub(crate) fn array<'a, T>(place: *const T, count: i64, name: &str) -> Result<&'a [T], Fault> {
    let Ok(len) = usize::try_from(count) else {
        return Err(Fault::argument(
            MPI_ERR_COUNT,
            name,
            count,
            "a number of elements is not negative",
        ));
    };
    if len == 0 {
        return Ok(&[]);
    }
    if place.is_null() {
        return Err(Fault::argument(MPI_ERR_ARG, name, "null", "an array is needed"));
    }
    // SAFETY: the program's promise that it is an array of that length, which nobody changes during the call.
    Ok(unsafe { std::slice::from_raw_parts(place, len) })
}

/// An array that results go to.
///
/// # Errors
/// As [`array`].
#[inline]
pub(crate) fn array_mut<'a, T>(
    place: *mut T,
    count: i64,
    name: &str,
) -> Result<&'a mut [T], Fault> {
    array(place.cast_const(), count, name)?;
    if count == 0 {
        return Ok(&mut []);
    }
    // SAFETY: as in `array`, and nobody else touches it during the call.
    Ok(unsafe { std::slice::from_raw_parts_mut(place, count as usize) })
}
