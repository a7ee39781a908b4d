//! Functions that run when a rank ends.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

/// A function that runs when a rank ends, with its argument.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Handler {
    /// Of `__cxa_atexit`; `atexit` passes no argument.
    Plain(extern "C-unwind" fn(*mut c_void), usize),
    /// Of `on_exit`: gets the status.
    WithStatus(extern "C-unwind" fn(c_int, *mut c_void), usize),
}

/// Handlers of a rank. The last one registered runs first; what a handler registers runs next.
#[derive(Debug, Default)]
pub(crate) struct Handlers {
    list: Mutex<Vec<Handler>>,
}

impl Handlers {
    pub(crate) fn push(&self, handler: Handler) {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).push(handler);
    }

    /// Runs all. A handler that ends the rank once more leaves the rest to that call.
    ///
    /// # Safety
    /// The handlers' code is still loaded. The caller keeps nothing that has to be dropped.
    pub(crate) unsafe fn run(&self, status: c_int) {
        loop {
            let last = self.list.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match last {
                Some(Handler::Plain(function, argument)) => function(argument as *mut c_void),
                Some(Handler::WithStatus(function, argument)) => {
                    function(status, argument as *mut c_void);
                }
                None => return,
            }
        }
    }
}
