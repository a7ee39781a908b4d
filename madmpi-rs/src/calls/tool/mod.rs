//! The tool interface: knobs as control variables, counters as performance variables, crates as their categories.
//! Events are newmad's, which is their one source.
//!
//! These functions may be called before MPI is initialised and after it is finalized. They return a code and invoke no
//! error handler. A stale handle is noticed.

mod category;
mod cvar;
mod event;
mod face;
mod pvar;

use core::ffi::{c_char, c_int};

use crate::abi::*;
use crate::args::Out;
use face::{give, initialise, tool};

tool! {
    anytime fn MPI_T_init_thread(_required: c_int, provided: Out<c_int>) {
        initialise(true);
        give(provided, MPI_THREAD_MULTIPLE)
    }

    fn MPI_T_finalize() {
        initialise(false);
        Ok(())
    }

    // No variable has an enumeration: a value that is a word is text.
    fn MPI_T_enum_get_info(_enumtype: usize, _num: *mut c_int, _name: *mut c_char, _name_len: *mut c_int) {
        Err(MPI_T_ERR_INVALID_HANDLE)
    }

    fn MPI_T_enum_get_item(
        _enumtype: usize, _indx: c_int, _value: *mut c_int, _name: *mut c_char, _name_len: *mut c_int,
    ) {
        Err(MPI_T_ERR_INVALID_HANDLE)
    }
}
