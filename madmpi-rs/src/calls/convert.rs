//! Handles as integers, for languages without pointers. A handle has 31 bits ([`crate::handle`]), so it is the
//! integer.

use core::ffi::c_int;

use super::entry::twins;
use crate::abi::*;

macro_rules! numbers {
    ($($handle:ident $to:ident $from:ident;)*) => {$(
        const _: () = { twins!($to, (handle: $handle) -> c_int, { handle.0 as c_int }); };
        const _: () = { twins!($from, (number: c_int) -> $handle, { $handle(number as u32 as usize) }); };
    )*};
}

numbers! {
    MPI_Comm MPI_Comm_toint MPI_Comm_fromint;
    MPI_Datatype MPI_Type_toint MPI_Type_fromint;
    MPI_Errhandler MPI_Errhandler_toint MPI_Errhandler_fromint;
    MPI_File MPI_File_toint MPI_File_fromint;
    MPI_Group MPI_Group_toint MPI_Group_fromint;
    MPI_Info MPI_Info_toint MPI_Info_fromint;
    MPI_Message MPI_Message_toint MPI_Message_fromint;
    MPI_Op MPI_Op_toint MPI_Op_fromint;
    MPI_Request MPI_Request_toint MPI_Request_fromint;
    MPI_Session MPI_Session_toint MPI_Session_fromint;
    MPI_Win MPI_Win_toint MPI_Win_fromint;
}
