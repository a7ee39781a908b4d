//! Error handlers: what happens when a call fails.
//!
//! A handler that the program made has one handle, however often the program asks for it: each time counts as one that it will
//! free. What the handler is attached to keeps it beyond that; asked for after the last was freed, it gets a handle again.

use core::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

use crate::abi::*;
use crate::call::mpi;
use crate::error::{Fault, On, out, read};
use crate::handle::Table;
use crate::{comm, process, session};

static USERS: Table<User> = Table::new();
/// What files have that are not given another one.
static FILES: Mutex<Errhandler> = Mutex::new(Errhandler::Return);

/// A function of the program's; C declares it variadic, and it is called with two arguments.
pub(crate) type Function = unsafe extern "C" fn(*mut usize, *mut c_int, ...);

/// What a handler may be attached to.
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
    /// The processes of the communicator end; here that is the job.
    Abort,
    /// The call returns the error's class.
    Return,
    /// This is called with the handle and the code, and then the call returns.
    User(Arc<User>),
}

/// A handler that the program made.
pub(crate) struct User {
    kind: Kind,
    function: Function,
    /// Its handle, and how often the program has it.
    held: Mutex<(usize, usize)>,
}

/// The handler that a handle stands for, to be attached to an object.
///
/// # Errors
/// It is none, or one for other objects.
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
            let why = format!("it was made for a {:?}, and this is a {kind:?}", user.kind);
            Err(bad(errhandler, &why))
        }
        None => Err(bad(errhandler, "it is not an error handler, or was freed")),
    }
}

#[cold]
fn bad(errhandler: MPI_Errhandler, why: &str) -> Fault {
    Fault::argument(MPI_ERR_ERRHANDLER, "errhandler", format_args!("{:#x}", errhandler.0), why)
}

fn create(kind: Kind, function: Option<Function>) -> Result<MPI_Errhandler, Fault> {
    let Some(function) = function else {
        return Err(Fault::argument(MPI_ERR_ARG, "function", "null", "a function is needed"));
    };
    let user = Arc::new(User { kind, function, held: Mutex::new((0, 0)) });
    held(&user)
}

/// The handle of a handler that the program made, once more.
fn held(user: &Arc<User>) -> Result<MPI_Errhandler, Fault> {
    let mut held = user.held.lock().unwrap_or_else(PoisonError::into_inner);
    if held.1 == 0 {
        let handle = USERS.insert(user.clone());
        held.0 =
            handle.ok_or_else(|| Fault::new(MPI_ERR_NO_MEM, "too many error handlers exist"))?;
    }
    held.1 += 1;
    Ok(MPI_Errhandler(held.0))
}

impl Errhandler {
    /// For the program, which will free it.
    ///
    /// # Errors
    /// There are too many.
    pub(crate) fn handle(&self) -> Result<MPI_Errhandler, Fault> {
        match self {
            Errhandler::Fatal => Ok(MPI_ERRORS_ARE_FATAL),
            Errhandler::Abort => Ok(MPI_ERRORS_ABORT),
            Errhandler::Return => Ok(MPI_ERRORS_RETURN),
            Errhandler::User(user) => held(user),
        }
    }
}

fn files() -> Errhandler {
    FILES.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Tells the handler in charge; what the call returns.
#[cold]
pub(crate) fn tell(on: &On, class: c_int, text: &str) -> c_int {
    let (handler, handle) = match on {
        On::Comm(comm) => (comm.errhandler(), comm.handle().0),
        On::Session(session) => (session.errhandler(), session.handle().0),
        On::Making(handler) => (handler.clone(), MPI_COMM_NULL.0),
        On::File => (files(), MPI_FILE_NULL.0),
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
        Errhandler::Fatal => process::fatal(class, text, "MPI_ERRORS_ARE_FATAL"),
        Errhandler::Abort => process::fatal(class, text, "MPI_ERRORS_ABORT"),
        Errhandler::User(user) => {
            let mut code = class;
            // SAFETY: the program gave it as such a function.
            unsafe { (user.function)(&raw mut handle, &raw mut code) };
        }
    }
    class
}

/// What a handler is told that the program itself calls.
fn called(code: c_int) -> String {
    format!("the program reports error {code}: {}", crate::errcode::describe(code))
}

mpi! {
    fn MPI_Comm_create_errhandler(comm_errhandler_fn: Option<Function>, errhandler: *mut MPI_Errhandler) {
        out(errhandler, "errhandler", create(Kind::Comm, comm_errhandler_fn)?)
    }

    fn MPI_File_create_errhandler(file_errhandler_fn: Option<Function>, errhandler: *mut MPI_Errhandler) {
        out(errhandler, "errhandler", create(Kind::File, file_errhandler_fn)?)
    }

    fn MPI_Win_create_errhandler(win_errhandler_fn: Option<Function>, errhandler: *mut MPI_Errhandler) {
        out(errhandler, "errhandler", create(Kind::Win, win_errhandler_fn)?)
    }

    anytime fn MPI_Session_create_errhandler(
        session_errhandler_fn: Option<Function>, errhandler: *mut MPI_Errhandler,
    ) {
        out(errhandler, "errhandler", create(Kind::Session, session_errhandler_fn)?)
    }

    anytime fn MPI_Errhandler_free(errhandler: *mut MPI_Errhandler) {
        let handle = read(errhandler, "errhandler")?;
        if !matches!(handle, MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT | MPI_ERRORS_RETURN) {
            let user = USERS.get(handle.0);
            let user = user.ok_or_else(|| bad(handle, "it is not an error handler, or was freed"))?;
            let mut held = user.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.1 = held.1.saturating_sub(1);
            if held.1 == 0 {
                USERS.remove(handle.0);
            }
        }
        out(errhandler, "errhandler", MPI_ERRHANDLER_NULL)
    }

    fn MPI_Comm_set_errhandler(comm: MPI_Comm, errhandler: MPI_Errhandler) on comm {
        comm.set_errhandler(get(errhandler, Kind::Comm)?);
        Ok(())
    }

    fn MPI_Comm_get_errhandler(comm: MPI_Comm, errhandler: *mut MPI_Errhandler) on comm {
        out(errhandler, "errhandler", MPI_ERRHANDLER_NULL)?;
        out(errhandler, "errhandler", comm.errhandler().handle()?)
    }

    fn MPI_Comm_call_errhandler(comm: MPI_Comm, errorcode: c_int) {
        let comm = comm::get(comm)?;
        invoke(&comm.errhandler(), comm.handle().0, errorcode, &called(errorcode));
        Ok(())
    }

    anytime fn MPI_Session_set_errhandler(session: MPI_Session, errhandler: MPI_Errhandler) {
        let session = session::get(session)?;
        let errhandler = get(errhandler, Kind::Session).map_err(|fault| fault.on_session(&session))?;
        session.set_errhandler(errhandler);
        Ok(())
    }

    anytime fn MPI_Session_get_errhandler(session: MPI_Session, errhandler: *mut MPI_Errhandler) {
        let session = session::get(session)?;
        out(errhandler, "errhandler", MPI_ERRHANDLER_NULL)?;
        out(errhandler, "errhandler", session.errhandler().handle()?)
    }

    anytime fn MPI_Session_call_errhandler(session: MPI_Session, errorcode: c_int) {
        let session = session::get(session)?;
        invoke(&session.errhandler(), session.handle().0, errorcode, &called(errorcode));
        Ok(())
    }

    /// There are no files yet, so `MPI_FILE_NULL` alone has a handler: the one that files will have at first.
    fn MPI_File_set_errhandler(file: MPI_File, errhandler: MPI_Errhandler) {
        only_null(file)?;
        let errhandler = get(errhandler, Kind::File).map_err(Fault::on_file)?;
        *FILES.lock().unwrap_or_else(PoisonError::into_inner) = errhandler;
        Ok(())
    }

    fn MPI_File_get_errhandler(file: MPI_File, errhandler: *mut MPI_Errhandler) {
        only_null(file)?;
        out(errhandler, "errhandler", MPI_ERRHANDLER_NULL)?;
        out(errhandler, "errhandler", files().handle()?)
    }
}

fn only_null(file: MPI_File) -> Result<(), Fault> {
    if file == MPI_FILE_NULL {
        return Ok(());
    }
    let why = "there are no files yet, only MPI_FILE_NULL";
    Err(Fault::argument(MPI_ERR_FILE, "file", format_args!("{:#x}", file.0), why).on_file())
}
