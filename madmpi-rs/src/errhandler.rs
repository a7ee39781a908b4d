//! Error handlers: what happens when a call fails.

use core::ffi::c_int;
use std::sync::Arc;

use crate::abi::*;
use crate::error::On;
use crate::process;

/// A function of the program's; C declares it variadic, and it is called with two arguments.
pub(crate) type Function = unsafe extern "C" fn(*mut usize, *mut c_int, ...);

/// What happens when a call fails.
#[derive(Clone)]
pub(crate) enum Errhandler {
    /// The job ends.
    Fatal,
    /// The processes of the communicator end; here that is the job.
    Abort,
    /// The call returns the error's class.
    Return,
    /// This is called with the handle and the code, and then the call returns.
    User(Arc<User>),
}

/// A handler that the program made.
pub(crate) struct User {
    pub(crate) function: Function,
}

/// Tells the handler in charge; what the call returns.
#[cold]
pub(crate) fn tell(on: &On, class: c_int, text: &str) -> c_int {
    let (handler, handle) = match on {
        On::Comm(comm) => (comm.errhandler(), comm.handle().0),
        On::File => (Errhandler::Return, MPI_FILE_NULL.0),
        On::Nobody => match process::comm_self() {
            Some(own) => (own.errhandler(), MPI_COMM_SELF.0),
            None => (Errhandler::Fatal, 0),
        },
    };
    invoke(&handler, handle, class, text)
}

/// Does what the handler is for; what the call returns.
pub(crate) fn invoke(handler: &Errhandler, mut handle: usize, class: c_int, text: &str) -> c_int {
    match handler {
        Errhandler::Return => {}
        Errhandler::Fatal | Errhandler::Abort => process::fatal(class, text),
        Errhandler::User(user) => {
            let mut code = class;
            // SAFETY: the program gave it as such a function.
            unsafe { (user.function)(&raw mut handle, &raw mut code) };
        }
    }
    class
}
