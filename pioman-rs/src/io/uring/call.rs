//! The operations: each as an entry of the submission queue, and as the system call that it stands for.

use std::ffi::c_char;
use std::os::fd::RawFd;

use io_uring::opcode;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, FsyncFlags};

/// The offset that stands for the file's own position.
pub(crate) const POSITION: u64 = u64::MAX;
/// What the kernel transfers at once at most, as in the standard library.
pub(crate) const MAX_LEN: usize = 0x7fff_f000;

/// An operation; its maker vouches for pointers and descriptors.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    Read { fd: RawFd, to: *mut u8, len: u32, offset: u64 },
    Write { fd: RawFd, from: *const u8, len: u32, offset: u64 },
    Readv { fd: RawFd, to: *const libc::iovec, n: u32, offset: u64 },
    Writev { fd: RawFd, from: *const libc::iovec, n: u32, offset: u64 },
    Sync { fd: RawFd, data_only: bool },
    Allocate { fd: RawFd, mode: i32, offset: u64, len: u64 },
    Open { path: *const c_char, flags: i32, mode: u32 },
    Close { fd: RawFd },
}

// SAFETY: what it refers to may be used by any thread, its maker's promise (`unsafe` functions).
unsafe impl Send for Call {}

impl Call {
    /// The code of its operation, to ask whether the kernel knows it.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Call::Read { .. } => opcode::Read::CODE,
            Call::Write { .. } => opcode::Write::CODE,
            Call::Readv { .. } => opcode::Readv::CODE,
            Call::Writev { .. } => opcode::Writev::CODE,
            Call::Sync { .. } => opcode::Fsync::CODE,
            Call::Allocate { .. } => opcode::Fallocate::CODE,
            Call::Open { .. } => opcode::OpenAt::CODE,
            Call::Close { .. } => opcode::Close::CODE,
        }
    }

    /// Those that are used here, by code and name.
    pub(crate) const NEEDED: [(u8, &'static str); 9] = [
        (opcode::Read::CODE, "read"),
        (opcode::Write::CODE, "write"),
        (opcode::Readv::CODE, "readv"),
        (opcode::Writev::CODE, "writev"),
        (opcode::Fsync::CODE, "fsync"),
        (opcode::Fallocate::CODE, "fallocate"),
        (opcode::OpenAt::CODE, "openat"),
        (opcode::Close::CODE, "close"),
        (opcode::AsyncCancel::CODE, "async_cancel"),
    ];

    /// Its entry for the submission queue.
    pub(crate) fn entry(&self) -> Entry {
        match *self {
            Call::Read { fd, to, len, offset } => {
                opcode::Read::new(Fd(fd), to, len).offset(offset).build()
            }
            Call::Write { fd, from, len, offset } => {
                opcode::Write::new(Fd(fd), from, len).offset(offset).build()
            }
            Call::Readv { fd, to, n, offset } => {
                opcode::Readv::new(Fd(fd), to, n).offset(offset).build()
            }
            Call::Writev { fd, from, n, offset } => {
                opcode::Writev::new(Fd(fd), from, n).offset(offset).build()
            }
            Call::Sync { fd, data_only } => {
                let flags = if data_only { FsyncFlags::DATASYNC } else { FsyncFlags::empty() };
                opcode::Fsync::new(Fd(fd)).flags(flags).build()
            }
            Call::Allocate { fd, mode, offset, len } => {
                opcode::Fallocate::new(Fd(fd), len).offset(offset).mode(mode).build()
            }
            Call::Open { path, flags, mode } => {
                // The kernel would try with O_NONBLOCK first, and a FIFO's end would not wait for the other one: a
                // reader would find the end of the file, a writer an error. Its worker opens as the flags say.
                let by_worker = match flags & libc::O_NONBLOCK {
                    0 => Flags::ASYNC,
                    _ => Flags::empty(),
                };
                let open = opcode::OpenAt::new(Fd(libc::AT_FDCWD), path).flags(flags).mode(mode);
                open.build().flags(by_worker)
            }
            Call::Close { fd } => opcode::Close::new(Fd(fd)).build(),
        }
    }

    /// Makes the system call, and says what the kernel would in a completion entry. Blocks the kernel thread.
    ///
    /// # Safety
    /// Pointers are good for what they are used for.
    pub(crate) unsafe fn run(&self) -> i32 {
        // SAFETY: the caller's promise.
        let result = unsafe {
            match *self {
                Call::Read { fd, to, len, offset: POSITION } => {
                    libc::read(fd, to.cast(), len as usize)
                }
                Call::Read { fd, to, len, offset } => {
                    libc::pread64(fd, to.cast(), len as usize, offset as i64)
                }
                Call::Write { fd, from, len, offset: POSITION } => {
                    libc::write(fd, from.cast(), len as usize)
                }
                Call::Write { fd, from, len, offset } => {
                    libc::pwrite64(fd, from.cast(), len as usize, offset as i64)
                }
                Call::Readv { fd, to, n, offset: POSITION } => libc::readv(fd, to, n as i32),
                Call::Readv { fd, to, n, offset } => {
                    libc::preadv64(fd, to, n as i32, offset as i64)
                }
                Call::Writev { fd, from, n, offset: POSITION } => libc::writev(fd, from, n as i32),
                Call::Writev { fd, from, n, offset } => {
                    libc::pwritev64(fd, from, n as i32, offset as i64)
                }
                Call::Sync { fd, data_only: true } => libc::fdatasync(fd) as isize,
                Call::Sync { fd, .. } => libc::fsync(fd) as isize,
                Call::Allocate { fd, mode, offset, len } => {
                    libc::fallocate64(fd, mode, offset as i64, len as i64) as isize
                }
                Call::Open { path, flags, mode } => libc::open64(path, flags, mode) as isize,
                Call::Close { fd } => libc::close(fd) as isize,
            }
        };
        match result {
            0.. => result as i32,
            _ => -std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO),
        }
    }

    /// What can be had without waiting for a disk: the bytes of a read that the page cache holds. `None`: none, or the
    /// file system cannot tell.
    ///
    /// # Safety
    /// As [`Call::run`].
    pub(crate) unsafe fn run_at_once(&self) -> Option<i32> {
        let Call::Read { fd, to, len, offset } = *self else { return None };
        let one = libc::iovec { iov_base: to.cast(), iov_len: len as usize };
        let offset = if offset == POSITION { -1 } else { offset as i64 };
        // SAFETY: the caller's promise.
        let n = unsafe { libc::preadv2(fd, &one, 1, offset, libc::RWF_NOWAIT) };
        (n >= 0).then_some(n as i32)
    }

    /// What is left of a read of which `n` bytes have come; `None`: nothing, or it was the end of the file, or there is
    /// nothing to wait for: a pipe gives what it has.
    pub(crate) fn rest(&self, n: i32) -> Option<Call> {
        let n = n as u32;
        match *self {
            Call::Read { fd, to, len, offset } if 0 < n && n < len && is_regular(fd) => {
                let offset = if offset == POSITION { offset } else { offset + n as u64 };
                Some(Call::Read { fd, to: to.wrapping_add(n as usize), len: len - n, offset })
            }
            _ => None,
        }
    }
}

/// Whether a descriptor is that of a regular file.
pub(crate) fn is_regular(fd: RawFd) -> bool {
    let mut stat = std::mem::MaybeUninit::<libc::stat64>::uninit();
    // SAFETY: room for the answer, which is there when the call succeeds.
    unsafe {
        libc::fstat64(fd, stat.as_mut_ptr()) == 0
            && stat.assume_init().st_mode & libc::S_IFMT == libc::S_IFREG
    }
}
