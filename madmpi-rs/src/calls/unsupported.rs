//! Files and process management, which madmpi does not support yet. Every function exists, so that a program
//! that names it links and starts. A call fails with `MPI_ERR_UNSUPPORTED_OPERATION`, by the error handler of the
//! communicator if there is one.

use core::ffi::{c_int, c_void};

use super::entry::mpi;
use crate::abi::*;
use crate::args::{Out, Text, out};
use crate::errhandler::Files;
use crate::error::Fault;

#[cold]
fn not_yet(what: &str) -> Fault {
    Fault::new(MPI_ERR_UNSUPPORTED_OPERATION, format!("{what} are not supported by madmpi yet"))
}

const FILES: &str = "files";
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

/// Functions of files, whose own error handler lets the call return by default.
macro_rules! unsupported_files {
    ($($name:ident)*) => {$(
        mpi! { fn $name() { Err(not_yet(FILES).on(std::sync::Arc::new(Files))) } }
    )*};
}

unsupported_files! {
        MPI_File_call_errhandler MPI_File_close MPI_File_delete MPI_File_get_amode
        MPI_File_get_atomicity MPI_File_get_byte_offset MPI_File_get_group MPI_File_get_info
        MPI_File_get_position MPI_File_get_position_shared MPI_File_get_size
        MPI_File_get_type_extent MPI_File_get_type_extent_c MPI_File_get_view MPI_File_iread
        MPI_File_iread_all MPI_File_iread_all_c MPI_File_iread_at MPI_File_iread_at_all
        MPI_File_iread_at_all_c MPI_File_iread_at_c MPI_File_iread_c MPI_File_iread_shared
        MPI_File_iread_shared_c MPI_File_iwrite MPI_File_iwrite_all MPI_File_iwrite_all_c
        MPI_File_iwrite_at MPI_File_iwrite_at_all MPI_File_iwrite_at_all_c MPI_File_iwrite_at_c
        MPI_File_iwrite_c MPI_File_iwrite_shared MPI_File_iwrite_shared_c MPI_File_open
        MPI_File_preallocate MPI_File_read MPI_File_read_all MPI_File_read_all_begin
        MPI_File_read_all_begin_c MPI_File_read_all_c MPI_File_read_all_end MPI_File_read_at
        MPI_File_read_at_all MPI_File_read_at_all_begin MPI_File_read_at_all_begin_c
        MPI_File_read_at_all_c MPI_File_read_at_all_end MPI_File_read_at_c MPI_File_read_c
        MPI_File_read_ordered MPI_File_read_ordered_begin MPI_File_read_ordered_begin_c
        MPI_File_read_ordered_c MPI_File_read_ordered_end MPI_File_read_shared
        MPI_File_read_shared_c MPI_File_seek MPI_File_seek_shared MPI_File_set_atomicity
        MPI_File_set_info MPI_File_set_size MPI_File_set_view MPI_File_sync MPI_File_write
        MPI_File_write_all MPI_File_write_all_begin MPI_File_write_all_begin_c MPI_File_write_all_c
        MPI_File_write_all_end MPI_File_write_at MPI_File_write_at_all MPI_File_write_at_all_begin
        MPI_File_write_at_all_begin_c MPI_File_write_at_all_c MPI_File_write_at_all_end
        MPI_File_write_at_c MPI_File_write_c MPI_File_write_ordered MPI_File_write_ordered_begin
        MPI_File_write_ordered_begin_c MPI_File_write_ordered_c MPI_File_write_ordered_end
        MPI_File_write_shared MPI_File_write_shared_c MPI_Register_datarep MPI_Register_datarep_c
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
