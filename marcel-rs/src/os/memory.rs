//! Memory from the kernel.

use std::io;

/// Maps `len` bytes of zeros where the kernel chooses, with `flags` beside the usual ones.
///
/// # Errors
/// What the kernel says.
pub(crate) fn map(len: usize, flags: i32) -> io::Result<*mut libc::c_void> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: a fresh mapping.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, -1, 0) };
    if memory == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(memory) }
}
