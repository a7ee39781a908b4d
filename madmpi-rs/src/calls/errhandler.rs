//! Error handlers.

use core::ffi::c_int;

use super::entry::mpi;
use crate::abi::*;
use crate::args::{InOut, Out, out, read};
use crate::comm;
use crate::errhandler::{self, Function, Kind, create, get, invoke};
use crate::session;

/// The text for a handler that the program calls itself.
pub(super) fn called(code: c_int) -> String {
    format!("the program reports error {code}: {}", crate::errcode::describe(code))
}

mpi! {
    fn MPI_Comm_create_errhandler(comm_errhandler_fn: Option<Function>, errhandler: Out<MPI_Errhandler>) {
        out(errhandler, "errhandler", create(Kind::Comm, comm_errhandler_fn)?)
    }

    fn MPI_File_create_errhandler(file_errhandler_fn: Option<Function>, errhandler: Out<MPI_Errhandler>) {
        out(errhandler, "errhandler", create(Kind::File, file_errhandler_fn)?)
    }

    fn MPI_Win_create_errhandler(win_errhandler_fn: Option<Function>, errhandler: Out<MPI_Errhandler>) {
        out(errhandler, "errhandler", create(Kind::Win, win_errhandler_fn)?)
    }

    anytime fn MPI_Session_create_errhandler(
        session_errhandler_fn: Option<Function>, errhandler: Out<MPI_Errhandler>,
    ) {
        out(errhandler, "errhandler", create(Kind::Session, session_errhandler_fn)?)
    }

    anytime fn MPI_Errhandler_free(errhandler: InOut<MPI_Errhandler>) {
        let handle = read(errhandler, "errhandler")?;
        errhandler::free(handle)?;
        out(errhandler, "errhandler", MPI_ERRHANDLER_NULL)
    }

    fn MPI_Comm_set_errhandler(comm: MPI_Comm, errhandler: MPI_Errhandler) on comm {
        comm.set_errhandler(get(errhandler, Kind::Comm)?);
        Ok(())
    }

    fn MPI_Comm_get_errhandler(comm: MPI_Comm, errhandler: Out<MPI_Errhandler>) on comm {
        errhandler.made("errhandler", MPI_ERRHANDLER_NULL, || comm.errhandler().handle())
    }

    fn MPI_Comm_call_errhandler(comm: MPI_Comm, errorcode: c_int) {
        let comm = comm::get(comm)?;
        invoke(&comm.errhandler(), comm.handle().0, errorcode, &called(errorcode));
        Ok(())
    }

    anytime fn MPI_Session_set_errhandler(session: MPI_Session, errhandler: MPI_Errhandler) {
        let session = session::get(session)?;
        let errhandler = get(errhandler, Kind::Session).map_err(|fault| fault.on(session.clone()))?;
        session.set_errhandler(errhandler);
        Ok(())
    }

    anytime fn MPI_Session_get_errhandler(session: MPI_Session, errhandler: Out<MPI_Errhandler>) {
        let session = session::get(session)?;
        errhandler.made("errhandler", MPI_ERRHANDLER_NULL, || session.errhandler().handle())
    }

    anytime fn MPI_Session_call_errhandler(session: MPI_Session, errorcode: c_int) {
        let session = session::get(session)?;
        invoke(&session.errhandler(), session.handle().0, errorcode, &called(errorcode));
        Ok(())
    }
}
