//! Error handlers: what happens when a call fails.
//!
//! A user handler has one handle, however often the program asks for it; each time counts as one that the program will
//! free. The objects that it is attached to keep it beyond that: if the program asks for it after the last handle was
//! freed, it gets a handle again.

use core::ffi::c_int;
use std::sync::Arc;

use crate::abi::*;
use crate::error::{Fault, HandlesErrors};
use crate::handle::Table;
use crate::job;
use crate::per_rank::per_rank;
use marcel::plumbing::KernelMutex;

static USERS: Table<User> = Table::new();
per_rank! {
    /// The handler of files that were given no other one.
    static FILES: KernelMutex<Errhandler> = KernelMutex::new(Errhandler::Return);
}

/// A function of the program. C declares it variadic; the library calls it with two arguments.
pub(crate) type Function = unsafe extern "C" fn(*mut usize, *mut c_int, ...);

/// The kind of object that a handler may be attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Comm,
    File,
    Session,
    Win,
}

/// What happens when a call fails.
#[derive(Clone)]
pub(crate) enum Errhandler {
    /// The job ends.
    Fatal,
    /// The processes of the communicator end; in madmpi that is the job.
    Abort,
    /// The call returns the error's class.
    Return,
    /// The function is called with the handle and the code, and then the call returns.
    User(Arc<User>),
}

/// A handler that the program made.
pub(crate) struct User {
    kind: Kind,
    function: Function,
    /// Its handle, and how many of them the program has.
    held: KernelMutex<(usize, usize)>,
}

/// The handler that a handle stands for, to be attached to an object.
///
/// # Errors
/// The handle stands for none, or for a handler of other objects.
pub(crate) fn get(errhandler: MPI_Errhandler, kind: Kind) -> Result<Errhandler, Fault> {
    match errhandler {
        MPI_ERRORS_ARE_FATAL => return Ok(Errhandler::Fatal),
        MPI_ERRORS_ABORT => return Ok(Errhandler::Abort),
        MPI_ERRORS_RETURN => return Ok(Errhandler::Return),
        _ => {}
    }
    match USERS.get(errhandler.0) {
        Some(user) if user.kind == kind => Ok(Errhandler::User(user)),
        Some(user) => {
            let why = format!("it was made for a {:?}, not for a {kind:?}", user.kind);
            Err(bad(errhandler, &why))
        }
        None => Err(bad(errhandler, "it is not an error handler, or was freed")),
    }
}

#[cold]
fn bad(errhandler: MPI_Errhandler, why: &str) -> Fault {
    Fault::handle(MPI_ERR_ERRHANDLER, "errhandler", errhandler.0, why)
}

pub(crate) fn create(kind: Kind, function: Option<Function>) -> Result<MPI_Errhandler, Fault> {
    let Some(function) = function else {
        return Err(Fault::argument(MPI_ERR_ARG, "function", "null", "a function is needed"));
    };
    let user = Arc::new(User { kind, function, held: KernelMutex::new((0, 0)) });
    held(&user)
}

/// Gives the program the handle of a user handler once more.
fn held(user: &Arc<User>) -> Result<MPI_Errhandler, Fault> {
    let mut held = user.held.lock();
    if held.1 == 0 {
        let handle = USERS.insert(user.clone());
        held.0 =
            handle.ok_or_else(|| Fault::new(MPI_ERR_NO_MEM, "too many error handlers exist"))?;
    }
    held.1 += 1;
    Ok(MPI_Errhandler(held.0))
}

impl Errhandler {
    /// A handle for the program, which will free it.
    ///
    /// # Errors
    /// No handle is left.
    pub(crate) fn handle(&self) -> Result<MPI_Errhandler, Fault> {
        match self {
            Errhandler::Fatal => Ok(MPI_ERRORS_ARE_FATAL),
            Errhandler::Abort => Ok(MPI_ERRORS_ABORT),
            Errhandler::Return => Ok(MPI_ERRORS_RETURN),
            Errhandler::User(user) => held(user),
        }
    }
}

pub(crate) fn files() -> Errhandler {
    FILES.lock().clone()
}

/// Invokes a handler; returns what the call returns.
pub(crate) fn invoke(handler: &Errhandler, mut handle: usize, class: c_int, text: &str) -> c_int {
    match handler {
        Errhandler::Return => {}
        Errhandler::Fatal => job::fatal(class, text, "MPI_ERRORS_ARE_FATAL"),
        Errhandler::Abort => job::fatal(class, text, "MPI_ERRORS_ABORT"),
        Errhandler::User(user) => {
            let mut code = class;
            // SAFETY: the program gave it as such a function.
            unsafe { (user.function)(&raw mut handle, &raw mut code) };
        }
    }
    class
}

/// The object that faults concern of calls that make an object with an error handler: the object that is to be.
struct Prospective {
    handler: Errhandler,
    /// The null handle of its kind.
    null: usize,
}

impl HandlesErrors for Prospective {
    fn handle_error(&self, class: c_int, text: &str) -> c_int {
        invoke(&self.handler, self.null, class, text)
    }
}

/// Runs what makes an object that is to have the error handler: faults go to that, with the null handle of the kind.
pub(crate) fn under<T>(
    handler: &Errhandler,
    null: usize,
    body: impl FnOnce() -> Result<T, Fault>,
) -> Result<T, Fault> {
    let object = || Arc::new(Prospective { handler: handler.clone(), null });
    body().map_err(|fault| fault.on(object()))
}

/// Frees one of the handles that the program has of an error handler.
///
/// # Errors
/// The handle stands for none.
pub(crate) fn free(errhandler: MPI_Errhandler) -> Result<(), Fault> {
    if matches!(errhandler, MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT | MPI_ERRORS_RETURN) {
        return Ok(());
    }
    let user = USERS.get(errhandler.0);
    let user = user.ok_or_else(|| bad(errhandler, "it is not an error handler, or was freed"))?;
    let mut held = user.held.lock();
    held.1 = held.1.saturating_sub(1);
    if held.1 == 0 {
        USERS.remove(errhandler.0);
    }
    Ok(())
}

/// Sets the error handler that files have until they are given another one.
pub(crate) fn set_files(errhandler: Errhandler) {
    *FILES.lock() = errhandler;
}

/// The object that faults of files concern.
pub(crate) struct Files;

impl HandlesErrors for Files {
    fn handle_error(&self, class: c_int, text: &str) -> c_int {
        invoke(&files(), MPI_FILE_NULL.0, class, text)
    }
}
