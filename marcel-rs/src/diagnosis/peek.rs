//! Reads memory of this process that other threads may change or unmap meanwhile.
//!
//! The kernel makes the copy, which is no memory access in Rust's sense. Bytes that another thread writes meanwhile are
//! old or new, and unmapped memory is an error instead of a fault. The caller checks afterwards that the thread has not
//! switched meanwhile (`DebugInfo::is_still`).
//!
//! This module makes system calls only, since the signal handler of `sample` uses it too.

/// Copies up to `to.len()` bytes from address `from`, and returns the number of bytes read.
pub(super) fn read(from: usize, to: &mut [u8]) -> usize {
    // SAFETY: `to` is writable.
    unsafe { read_raw(from, to.as_mut_ptr(), to.len()) }
}

/// As [`read`].
///
/// # Safety
/// `to` is valid for writes of `len` bytes, which no other thread accesses.
pub(super) unsafe fn read_raw(from: usize, to: *mut u8, len: usize) -> usize {
    let local = libc::iovec { iov_base: to.cast(), iov_len: len };
    let remote = libc::iovec { iov_base: from as *mut libc::c_void, iov_len: len };
    // SAFETY: one valid vector each; the kernel checks the remote one. getpid has no arguments.
    let got = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    if got >= 0 {
        return got as usize;
    }
    // Some containers deny the call, but not the file.
    // SAFETY: a valid path; then a buffer that is writable, by the caller's promise.
    unsafe {
        let fd = libc::open(c"/proc/self/mem".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return 0;
        }
        let got = libc::pread(fd, to.cast(), len, from as libc::off_t);
        libc::close(fd);
        got.max(0) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::memory;

    #[test]
    fn what_is_there_is_copied_and_what_is_not_is_no_fault() {
        let source = [7u8; 100];
        let mut copy = [0u8; 100];
        assert_eq!(read(source.as_ptr() as usize, &mut copy), 100);
        assert_eq!(copy, source);
        assert_eq!(read(16, &mut copy), 0);
    }

    #[test]
    fn a_read_stops_where_the_memory_ends() {
        const PAGE: usize = 4096;
        // SAFETY: two fresh pages of which the second is taken back.
        let at = unsafe {
            let at = memory::map(2 * PAGE, 0).unwrap();
            libc::mprotect(at.byte_add(PAGE), PAGE, libc::PROT_NONE);
            at as usize
        };
        let mut copy = vec![0u8; 2 * PAGE];
        assert_eq!(read(at + PAGE - 8, &mut copy), 8);
        // SAFETY: mapped above.
        unsafe { libc::munmap(at as *mut libc::c_void, 2 * PAGE) };
    }
}
