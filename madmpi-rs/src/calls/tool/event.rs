//! Events and their sources: madmpi has none, so every index, name and handle of one is wrong.

use core::ffi::c_int;

use super::face::{give, tool};
use crate::abi::*;
use crate::args::Out;

/// Functions that ignore their arguments: a caller in C may pass more than a function takes.
macro_rules! none {
    ($($name:ident $code:ident;)*) => {$(
        tool! { fn $name() { Err($code) } }
    )*};
}

none! {
    MPI_T_event_get_info MPI_T_ERR_INVALID_INDEX;
    MPI_T_event_get_index MPI_T_ERR_INVALID_NAME;
    MPI_T_event_handle_alloc MPI_T_ERR_INVALID_INDEX;
    MPI_T_event_handle_free MPI_T_ERR_INVALID_HANDLE;
    MPI_T_event_handle_get_info MPI_T_ERR_INVALID_HANDLE;
    MPI_T_event_handle_set_info MPI_T_ERR_INVALID_HANDLE;
    MPI_T_event_register_callback MPI_T_ERR_INVALID_HANDLE;
    MPI_T_event_callback_get_info MPI_T_ERR_INVALID_HANDLE;
    MPI_T_event_callback_set_info MPI_T_ERR_INVALID_HANDLE;
    MPI_T_event_set_dropped_handler MPI_T_ERR_INVALID_HANDLE;
    MPI_T_event_read MPI_T_ERR_INVALID_HANDLE;
    MPI_T_event_copy MPI_T_ERR_INVALID_HANDLE;
    MPI_T_event_get_timestamp MPI_T_ERR_INVALID_HANDLE;
    MPI_T_event_get_source MPI_T_ERR_INVALID_HANDLE;
    MPI_T_source_get_info MPI_T_ERR_INVALID_INDEX;
    MPI_T_source_get_timestamp MPI_T_ERR_INVALID_INDEX;
}

tool! {
    fn MPI_T_event_get_num(num_events: Out<c_int>) { give(num_events, 0) }

    fn MPI_T_source_get_num(num_sources: Out<c_int>) { give(num_sources, 0) }
}
