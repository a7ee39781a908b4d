//! Initialising, finalising, and what a process may ask about itself.

use core::ffi::{c_char, c_int, c_void};

use crate::abi::*;
use crate::call::mpi;
use crate::error::{Fault, out};
use crate::info::{self, Entries};
use crate::process;

/// Writes a string and its length to where the program wants them; the place has room for the terminating zero.
pub(crate) fn text_out(
    text: &[u8],
    place: *mut c_char,
    most: c_int,
    len: *mut c_int,
) -> Result<(), Fault> {
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

/// Memory for `MPI_Alloc_mem`: on a cache line of its own, or as the program wants it.
fn allocate(size: MPI_Aint, info: MPI_Info) -> Result<*mut c_void, Fault> {
    let Ok(size) = usize::try_from(size) else {
        return Err(Fault::argument(MPI_ERR_SIZE, "size", size, "it is not negative"));
    };
    info::check(info)?;
    let mut alignment = 64;
    if info != MPI_INFO_NULL {
        let info = info::get(info)?;
        let entries = info.entries();
        if let Some(text) = entries.get(b"mpi_minimum_memory_alignment") {
            let text = String::from_utf8_lossy(text);
            let wanted = text.trim().parse().ok().filter(|wanted: &usize| wanted.is_power_of_two());
            let why = "an alignment is a power of two";
            let wanted = wanted.ok_or_else(|| {
                Fault::argument(MPI_ERR_INFO_VALUE, "mpi_minimum_memory_alignment", &text, why)
            })?;
            alignment = wanted.max(alignment);
        }
    }
    let mut at = std::ptr::null_mut();
    // SAFETY: the place is there; the alignment is a power of two, and one of pointers.
    match unsafe { libc::posix_memalign(&raw mut at, alignment, size.max(1)) } {
        0 => Ok(at),
        _ => Err(Fault::argument(MPI_ERR_NO_MEM, "size", size, "so much memory is not there")),
    }
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

    fn MPI_Is_thread_main(flag: *mut c_int) {
        out(flag, "flag", c_int::from(process::is_main()))
    }

    anytime fn MPI_Get_processor_name(name: *mut c_char, resultlen: *mut c_int) {
        text_out(&process::host(), name, MPI_MAX_PROCESSOR_NAME, resultlen)
    }

    /// What this process is bound to one of.
    anytime fn MPI_Get_hw_resource_info(hw_info: *mut MPI_Info) {
        let mut entries = Entries::default();
        entries.set(b"mpi_shared_memory", b"true");
        out(hw_info, "hw_info", MPI_INFO_NULL)?;
        out(hw_info, "hw_info", info::handle(entries)?)
    }

    /// There is no profiler inside that could be told; one that takes the place of this function is.
    fn MPI_Pcontrol(_level: c_int) { Ok(()) }

    fn MPI_Alloc_mem(size: MPI_Aint, info: MPI_Info, baseptr: *mut c_void) {
        let at = allocate(size, info)?;
        out(baseptr.cast::<*mut c_void>(), "baseptr", at)
    }

    fn MPI_Free_mem(base: *mut c_void) {
        if base.is_null() {
            return Err(Fault::argument(MPI_ERR_BASE, "base", "null", "it comes from MPI_Alloc_mem"));
        }
        // SAFETY: the program's promise that it comes from `MPI_Alloc_mem`, which gave what C's allocator had.
        unsafe { libc::free(base) };
        Ok(())
    }

    /// The processes of a communicator are those of the job, as far as ending them goes.
    anytime fn MPI_Abort(_comm: MPI_Comm, errorcode: c_int) { process::abort(errorcode) }
}

// SAFETY: the name is the standard's, and nobody else's in this process. So are those that follow.
#[unsafe(no_mangle)]
extern "C" fn MPI_Wtick() -> f64 {
    1e-9
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn PMPI_Wtick() -> f64 {
    1e-9
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Wtime() -> f64 {
    process::elapsed()
}

#[unsafe(no_mangle)]
extern "C" fn PMPI_Wtime() -> f64 {
    process::elapsed()
}
