//! Errors of the system, as faults.

use core::ffi::c_int;
use std::io;

use crate::abi::*;
use crate::error::Fault;

/// The class of an error of the system.
pub(super) fn class(error: &io::Error) -> c_int {
    match error.raw_os_error() {
        Some(libc::ENOENT) => MPI_ERR_NO_SUCH_FILE,
        Some(libc::EEXIST) => MPI_ERR_FILE_EXISTS,
        Some(libc::EACCES | libc::EPERM) => MPI_ERR_ACCESS,
        Some(libc::EROFS) => MPI_ERR_READ_ONLY,
        Some(libc::ENOSPC | libc::EFBIG) => MPI_ERR_NO_SPACE,
        Some(libc::EDQUOT) => MPI_ERR_QUOTA,
        Some(libc::ETXTBSY | libc::EBUSY) => MPI_ERR_FILE_IN_USE,
        Some(libc::ENAMETOOLONG | libc::ENOTDIR | libc::EISDIR | libc::ELOOP) => MPI_ERR_BAD_FILE,
        Some(libc::ENOMEM) => MPI_ERR_NO_MEM,
        _ => MPI_ERR_IO,
    }
}

/// The fault of a call of the system.
#[cold]
pub(super) fn fault(what: &str, error: &io::Error) -> Fault {
    Fault::new(class(error), format!("{what}: {error}"))
}

/// The fault of another rank, of which only the class is known here.
#[cold]
pub(super) fn elsewhere(what: &str, rank: usize, class: u64) -> Fault {
    let text =
        format!("{what}: rank {rank} has failed: {}", crate::errcode::describe(class as c_int));
    Fault::new(class as c_int, text)
}

#[cold]
pub(super) fn beyond() -> Fault {
    Fault::new(MPI_ERR_ARG, "the access reaches beyond the largest offset that a file can have")
}
