//! Reads and writes of pipes, sockets, terminals and the like.
//!
//! A call that can be made at once is made. Otherwise, if the program has not made the descriptor non-blocking, the green
//! thread waits. Regular files are always ready.
//!
//! A blocking write to a pipe or socket ends when everything is written, so it goes in pieces that do not block: for a
//! pipe, as many bytes as the kernel takes at once when it says that there is room (`PIPE_BUF`).

use std::io;
use std::mem::MaybeUninit;

use libc::{c_int, c_void, iovec, size_t, ssize_t};

use super::call::{Call, check_room, waits_green};
use super::sockets;
use super::wait_set::{await_ready, is_blocking};

pub(super) fn calls() -> [Call; 5] {
    [
        ("read", read as *const () as usize),
        ("__read_chk", read_checked as *const () as usize),
        ("write", write as *const () as usize),
        ("readv", readv as *const () as usize),
        ("writev", writev as *const () as usize),
    ]
}

unsafe extern "C-unwind" fn read(fd: c_int, to: *mut c_void, len: size_t) -> ssize_t {
    // Nothing is there at once.
    if len > 0 && waits_green() && !await_ready(fd, libc::POLLIN) {
        return -1;
    }
    // SAFETY: the caller's own call.
    unsafe { libc::read(fd, to, len) }
}

unsafe extern "C-unwind" fn read_checked(
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    room: size_t,
) -> ssize_t {
    check_room(len, room);
    // SAFETY: the caller's own call.
    unsafe { read(fd, to, len) }
}

unsafe extern "C-unwind" fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    if waits_green() && !await_ready(fd, libc::POLLIN) {
        return -1;
    }
    // SAFETY: the caller's own call.
    unsafe { libc::readv(fd, parts, count) }
}

/// What a write may have to wait for.
enum Kind {
    Pipe,
    Socket,
    Other,
}

fn kind(fd: c_int) -> Kind {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: a valid place; read only if it has been filled in.
    let mode = unsafe {
        if libc::fstat(fd, stat.as_mut_ptr()) != 0 {
            return Kind::Other;
        }
        stat.assume_init().st_mode
    };
    match mode & libc::S_IFMT {
        libc::S_IFIFO => Kind::Pipe,
        libc::S_IFSOCK => Kind::Socket,
        _ => Kind::Other,
    }
}

unsafe extern "C-unwind" fn write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
    let kind = if waits_green() { kind(fd) } else { Kind::Other };
    // SAFETY: the caller's own call.
    unsafe {
        match kind {
            Kind::Pipe if len > 0 && is_blocking(fd) => write_pipe(fd, from, len),
            Kind::Socket => sockets::send_all(fd, from, len, 0),
            _ => libc::write(fd, from, len),
        }
    }
}

/// # Safety
/// As `write`.
unsafe fn write_pipe(fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
    let mut done = 0;
    loop {
        if !await_ready(fd, libc::POLLOUT) {
            return if done > 0 { done as ssize_t } else { -1 };
        }
        let piece = (len - done).min(libc::PIPE_BUF);
        // SAFETY: a part of the caller's buffer.
        let written = unsafe { libc::write(fd, from.cast::<u8>().add(done).cast(), piece) };
        if written < 0 {
            let interrupted = io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
            if interrupted {
                continue; // by a tick
            }
            return if done > 0 { done as ssize_t } else { -1 };
        }
        done += written as usize;
        if done >= len {
            return done as ssize_t;
        }
    }
}

unsafe extern "C-unwind" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    let waits = waits_green() && !matches!(kind(fd), Kind::Other) && is_blocking(fd);
    let valid = !parts.is_null() && (0..=libc::UIO_MAXIOV).contains(&count);
    if !waits || !valid {
        // SAFETY: the caller's own call.
        return unsafe { libc::writev(fd, parts, count) };
    }
    // SAFETY: the caller's array.
    let list = unsafe { std::slice::from_raw_parts(parts, count as usize) };
    let len = list.iter().try_fold(0usize, |len, part| len.checked_add(part.iov_len));
    let mut bytes = Vec::new();
    // One piece, so that a short record stays whole.
    if len.is_none_or(|len| bytes.try_reserve_exact(len).is_err()) {
        // More than there can be: the kernel says so.
        // SAFETY: the caller's own call.
        return unsafe { libc::writev(fd, parts, count) };
    }
    for part in list.iter().filter(|part| part.iov_len > 0) {
        // SAFETY: the caller's buffers.
        bytes.extend_from_slice(unsafe {
            std::slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len)
        });
    }
    // SAFETY: valid bytes.
    unsafe { write(fd, bytes.as_ptr().cast(), bytes.len()) }
}
