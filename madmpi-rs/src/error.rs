//! Faults: what a call failed with, and the object whose error handler is invoked for it.
//!
//! An error code is its class, so that programs may compare it. A thread keeps the text of its last error;
//! `MPI_Error_string` gives that text with the description of the class.

use core::ffi::c_int;
use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

use crate::abi::*;

/// An object that has an error handler.
pub(crate) trait HandlesErrors: Send + Sync {
    /// Invokes the error handler; returns the code that the call returns.
    fn handle_error(&self, class: c_int, text: &str) -> c_int;
}

/// Why a call failed. One word, since most calls pass a result on that is none.
#[derive(Clone)]
pub(crate) struct Fault(Box<Details>);

/// See [`Fault`].
#[derive(Clone)]
pub(crate) struct Details {
    pub(crate) class: c_int,
    pub(crate) text: Cow<'static, str>,
    /// The object whose error handler is invoked. `None`: the call concerns no object.
    pub(crate) on: Option<Arc<dyn HandlesErrors>>,
}

impl std::ops::Deref for Fault {
    type Target = Details;
    fn deref(&self) -> &Details {
        &self.0
    }
}

impl std::ops::DerefMut for Fault {
    fn deref_mut(&mut self) -> &mut Details {
        &mut self.0
    }
}

thread_local! {
    static LAST: RefCell<(c_int, String)> = const { RefCell::new((MPI_SUCCESS, String::new())) };
}

impl Fault {
    #[cold]
    pub(crate) fn new(class: c_int, text: impl Into<Cow<'static, str>>) -> Fault {
        Fault(Box::new(Details { class, text: text.into(), on: None }))
    }

    /// The fault of an argument that is not acceptable.
    #[cold]
    pub(crate) fn argument(
        class: c_int,
        name: &str,
        value: impl std::fmt::Display,
        why: &str,
    ) -> Fault {
        Fault::new(class, format!("argument {name} is {value}: {why}"))
    }

    /// The fault of a handle that is not acceptable.
    #[cold]
    pub(crate) fn handle(class: c_int, name: &str, handle: usize, why: &str) -> Fault {
        Fault::argument(class, name, format_args!("{handle:#x}"), why)
    }

    /// The error handler of `object` is invoked, unless the fault concerns an object already.
    #[cold]
    pub(crate) fn on(mut self, object: Arc<dyn HandlesErrors>) -> Fault {
        self.on.get_or_insert(object);
        self
    }

    /// The same object is concerned, but this is what the program is told.
    #[cold]
    pub(crate) fn told_as(mut self, class: c_int, text: impl Into<Cow<'static, str>>) -> Fault {
        (self.class, self.text) = (class, text.into());
        self
    }
}

/// Keeps the text of this thread's last error.
#[cold]
pub(crate) fn remember(class: c_int, text: &str) {
    // A thread that ends has no place for it.
    let _ = LAST.try_with(|last| *last.borrow_mut() = (class, text.to_owned()));
}

/// The text of this thread's last error, if that error had the code `code`.
pub(crate) fn last(code: c_int) -> Option<String> {
    let of_code = |last: &RefCell<(c_int, String)>| {
        let last = last.borrow();
        (last.0 == code && !last.1.is_empty()).then(|| last.1.clone())
    };
    LAST.try_with(of_code).ok().flatten()
}
