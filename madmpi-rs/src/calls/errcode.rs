//! Error classes and codes.

use core::ffi::c_int;

use super::entry::mpi;
use crate::abi::*;
use crate::args::{Out, Text, TextOut, out};
use crate::errcode::{add, class, describe, is_standard, remove, set_text, unknown};
use crate::error::{Fault, last};

mpi! {
    anytime fn MPI_Error_class(errorcode: c_int, errorclass: Out<c_int>) {
        let class = class(errorcode);
        let class = class.ok_or_else(|| unknown("errorcode", errorcode, "there is no such error code"))?;
        out(errorclass, "errorclass", class)
    }

    anytime fn MPI_Error_string(errorcode: c_int, string: TextOut<{ MPI_MAX_ERROR_STRING }>, resultlen: Out<c_int>) {
        if class(errorcode).is_none() {
            return Err(unknown("errorcode", errorcode, "there is no such error code"));
        }
        let mut text = describe(errorcode);
        // The text of a code that the program added is the program's.
        if let Some(last) = last(errorcode).filter(|_| is_standard(errorcode)) {
            text = format!("{text}; the last such error of this thread: {last}");
        }
        out(resultlen, "resultlen", string.put(text.as_bytes(), "string")?)
    }

    anytime fn MPI_Add_error_class(errorclass: Out<c_int>) {
        out(errorclass, "errorclass", MPI_SUCCESS)?;
        out(errorclass, "errorclass", add(None))
    }

    anytime fn MPI_Add_error_code(errorclass: c_int, errorcode: Out<c_int>) {
        if class(errorclass) != Some(errorclass) {
            return Err(unknown("errorclass", errorclass, "there is no such error class"));
        }
        out(errorcode, "errorcode", MPI_SUCCESS)?;
        out(errorcode, "errorcode", add(Some(errorclass)))
    }

    anytime fn MPI_Add_error_string(errorcode: c_int, string: Text) {
        let text = string.bytes_or(MPI_ERR_ARG, "string")?;
        if text.len() >= MPI_MAX_ERROR_STRING as usize {
            let why = format!("it has at most {} characters", MPI_MAX_ERROR_STRING - 1);
            return Err(Fault::argument(MPI_ERR_ARG, "string", text.len(), &why));
        }
        set_text(errorcode, Some(text))
    }

    anytime fn MPI_Remove_error_class(errorclass: c_int) { remove(errorclass, "errorclass", true) }

    anytime fn MPI_Remove_error_code(errorcode: c_int) { remove(errorcode, "errorcode", false) }

    anytime fn MPI_Remove_error_string(errorcode: c_int) { set_text(errorcode, None) }
}
