//! Process management, which madmpi does not support yet. Every function exists, so that a program
//! that names it links and starts. A call fails with `MPI_ERR_UNSUPPORTED_OPERATION`, by the error handler of the
//! communicator if there is one.

use core::ffi::{c_int, c_void};

use super::entry::mpi;
use crate::abi::*;
use crate::args::{Out, Text, out};
use crate::error::Fault;

#[cold]
fn not_yet(what: &str) -> Fault {
    Fault::new(MPI_ERR_UNSUPPORTED_OPERATION, format!("{what} are not supported by madmpi yet"))
}

const PROCESSES: &str = "starting other processes and connecting to them";

/// Functions that ignore their arguments: a caller in C may pass more than a function takes.
macro_rules! unsupported {
    ($($what:ident: $($name:ident)*;)*) => {$($(
        mpi! { fn $name() { Err(not_yet($what)) } }
    )*)*};
}

unsupported! {
    PROCESSES:
        MPI_Comm_join MPI_Open_port MPI_Close_port MPI_Publish_name MPI_Unpublish_name
        MPI_Lookup_name;
}

mpi! {
    fn MPI_Comm_spawn(
        _command: Text, _argv: *mut c_void, _maxprocs: c_int, _info: MPI_Info, _root: c_int, comm: MPI_Comm,
    ) on comm { Err(not_yet(PROCESSES)) }

    fn MPI_Comm_spawn_multiple(
        _count: c_int, _commands: *mut c_void, _argvs: *mut c_void, _maxprocs: *const c_int,
        _infos: *const MPI_Info, _root: c_int, comm: MPI_Comm,
    ) on comm { Err(not_yet(PROCESSES)) }

    fn MPI_Comm_accept(
        _port_name: Text, _info: MPI_Info, _root: c_int, comm: MPI_Comm,
    ) on comm { Err(not_yet(PROCESSES)) }

    fn MPI_Comm_connect(
        _port_name: Text, _info: MPI_Info, _root: c_int, comm: MPI_Comm,
    ) on comm { Err(not_yet(PROCESSES)) }

    /// No process has a parent: madmpi starts none.
    fn MPI_Comm_get_parent(parent: Out<MPI_Comm>) { out(parent, "parent", MPI_COMM_NULL) }
}
