//! Initialising, finalising, and what a process may ask about itself.

use core::ffi::{c_char, c_int, c_void};

use crate::abi::*;
use crate::call::mpi;
use crate::error::out;
use crate::process;

/// Writes a string and its length to where the program wants them; the place has room for the terminating zero.
pub(crate) fn text_out(
    text: &[u8],
    place: *mut c_char,
    most: c_int,
    len: *mut c_int,
) -> Result<(), crate::error::Fault> {
    let text = &text[..text.len().min(most as usize - 1)];
    out(len, "resultlen", text.len() as c_int)?;
    out(place, "string", 0)?;
    // SAFETY: the program's promise that it has room for `most` characters.
    unsafe {
        place.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
        place.add(text.len()).write(0);
    }
    Ok(())
}

/// A string of the program's.
///
/// # Errors
/// It is null.
pub(crate) fn text_in(place: *const c_char, name: &str) -> Result<String, crate::error::Fault> {
    crate::error::read(place, name)?;
    // SAFETY: the program's promise that it is a string of C.
    let text = unsafe { std::ffi::CStr::from_ptr(place) };
    Ok(text.to_string_lossy().into_owned())
}

mpi! {
    anytime fn MPI_Init(_argc: *mut c_int, _argv: *mut c_void) { process::init() }

    anytime fn MPI_Init_thread(
        _argc: *mut c_int, _argv: *mut c_void, required: c_int, provided: *mut c_int,
    ) {
        let _ = required;
        process::init()?;
        out(provided, "provided", MPI_THREAD_MULTIPLE)
    }

    anytime fn MPI_Finalize() { process::finalize() }

    anytime fn MPI_Initialized(flag: *mut c_int) {
        out(flag, "flag", c_int::from(process::phase().0))
    }

    anytime fn MPI_Finalized(flag: *mut c_int) {
        out(flag, "flag", c_int::from(process::phase().1))
    }

    fn MPI_Query_thread(provided: *mut c_int) { out(provided, "provided", MPI_THREAD_MULTIPLE) }

    anytime fn MPI_Get_version(version: *mut c_int, subversion: *mut c_int) {
        out(version, "version", MPI_VERSION)?;
        out(subversion, "subversion", MPI_SUBVERSION)
    }

    anytime fn MPI_Get_library_version(version: *mut c_char, resultlen: *mut c_int) {
        let text = concat!("madmpi ", env!("CARGO_PKG_VERSION"), " (MPI 5.0, standard ABI 1.0) over newmad");
        text_out(text.as_bytes(), version, MPI_MAX_LIBRARY_VERSION_STRING, resultlen)
    }

    anytime fn MPI_Abort(_comm: MPI_Comm, errorcode: c_int) {
        let rank = process::get().map_or(String::new(), |process| format!("rank {}: ", process.session.rank()));
        eprintln!("madmpi: {rank}MPI_Abort: the program ends the job with code {errorcode}");
        process::exit(errorcode)
    }
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Wtime() -> f64 {
    process::elapsed()
}

#[unsafe(no_mangle)]
extern "C" fn PMPI_Wtime() -> f64 {
    process::elapsed()
}
