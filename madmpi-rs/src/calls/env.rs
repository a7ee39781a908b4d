//! Initialising, finalising, and queries about the process.

use core::ffi::{c_int, c_void};

use super::entry::{mpi, twins};
use crate::abi::*;
use crate::args::{Out, TextOut, out};
use crate::error::Fault;
use crate::info::{self, Entries};
use crate::{job, process};

/// Memory for `MPI_Alloc_mem`, aligned to a cache line or as the program asks.
fn allocate(size: MPI_Aint, info: MPI_Info) -> Result<*mut c_void, Fault> {
    let Ok(size) = usize::try_from(size) else {
        return Err(Fault::argument(MPI_ERR_SIZE, "size", size, "it must not be negative"));
    };
    info::check(info)?;
    let mut alignment = 64;
    if info != MPI_INFO_NULL {
        let info = info::get(info)?;
        let entries = info.entries();
        if let Some(text) = entries.get(b"mpi_minimum_memory_alignment") {
            let text = String::from_utf8_lossy(text);
            let wanted = text.trim().parse().ok().filter(|wanted: &usize| wanted.is_power_of_two());
            let why = "an alignment must be a power of two";
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
        _ => Err(Fault::argument(MPI_ERR_NO_MEM, "size", size, "out of memory")),
    }
}

mpi! {
    anytime fn MPI_Init(_argc: Out<c_int>, _argv: *mut c_void) { process::init(MPI_THREAD_SINGLE) }

    anytime fn MPI_Init_thread(
        _argc: Out<c_int>, _argv: *mut c_void, required: c_int, provided: Out<c_int>,
    ) {
        process::init(required)?;
        out(provided, "provided", MPI_THREAD_MULTIPLE)
    }

    anytime fn MPI_Finalize() { process::finalize() }

    anytime fn MPI_Initialized(flag: Out<c_int>) {
        out(flag, "flag", c_int::from(job::was_initialized()))
    }

    anytime fn MPI_Finalized(flag: Out<c_int>) {
        out(flag, "flag", c_int::from(job::is_over()))
    }

    fn MPI_Query_thread(provided: Out<c_int>) { out(provided, "provided", MPI_THREAD_MULTIPLE) }

    anytime fn MPI_Get_version(version: Out<c_int>, subversion: Out<c_int>) {
        out(version, "version", MPI_VERSION)?;
        out(subversion, "subversion", MPI_SUBVERSION)
    }

    anytime fn MPI_Get_library_version(version: TextOut<{ MPI_MAX_LIBRARY_VERSION_STRING }>, resultlen: Out<c_int>) {
        let text = concat!("madmpi ", env!("CARGO_PKG_VERSION"), " (MPI 5.0, standard ABI 1.0) over newmad");
        out(resultlen, "resultlen", version.put(text.as_bytes(), "version")?)
    }

    fn MPI_Is_thread_main(flag: Out<c_int>) {
        out(flag, "flag", c_int::from(process::is_main()))
    }

    anytime fn MPI_Get_processor_name(name: TextOut<{ MPI_MAX_PROCESSOR_NAME }>, resultlen: Out<c_int>) {
        out(resultlen, "resultlen", name.put(&job::host(), "name")?)
    }

    /// The resources of which this process is bound to one.
    anytime fn MPI_Get_hw_resource_info(hw_info: Out<MPI_Info>) {
        let mut entries = Entries::default();
        entries.set(b"mpi_shared_memory", b"true");
        hw_info.made("hw_info", MPI_INFO_NULL, || info::handle(entries))
    }

    /// The library has no profiler that this could control.
    fn MPI_Pcontrol(_level: c_int) { Ok(()) }

    fn MPI_Alloc_mem(size: MPI_Aint, info: MPI_Info, baseptr: Out<*mut c_void>) {
        let at = allocate(size, info)?;
        out(baseptr, "baseptr", at)
    }

    fn MPI_Free_mem(base: *mut c_void) {
        if base.is_null() {
            return Err(Fault::argument(MPI_ERR_BASE, "base", "null", "it comes from MPI_Alloc_mem"));
        }
        // SAFETY: the program's promise that it comes from `MPI_Alloc_mem`, which gave what C's allocator had.
        unsafe { libc::free(base) };
        Ok(())
    }

    /// Ends the whole job, whatever the communicator.
    anytime fn MPI_Abort(_comm: MPI_Comm, errorcode: c_int) { job::abort(errorcode) }
}

const _: () = {
    twins!(MPI_Wtick, () -> f64, { 1e-9 });
};
const _: () = {
    twins!(MPI_Wtime, () -> f64, { job::elapsed() });
};
