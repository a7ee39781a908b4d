//! Thin wrappers over the system calls that the drivers use.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use crate::error::{Error, os};

/// The calling thread's `errno`.
#[inline]
pub(crate) fn errno() -> i32 {
    // SAFETY: always a valid thread-local address.
    unsafe { *libc::__errno_location() }
}

/// Restores `errno` when dropped: progress may interrupt any code.
pub(crate) struct KeepErrno(i32);

impl KeepErrno {
    #[inline]
    pub(crate) fn new() -> KeepErrno {
        KeepErrno(errno())
    }
}

impl Drop for KeepErrno {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: always a valid thread-local address.
        unsafe { *libc::__errno_location() = self.0 }
    }
}

/// The descriptor that a system call returned.
pub(crate) fn own(fd: libc::c_int, doing: &'static str) -> Result<OwnedFd, Error> {
    if fd < 0 {
        return Err(os(doing));
    }
    // SAFETY: the kernel has just returned it, and it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A new epoll descriptor.
pub(crate) fn epoll() -> Result<OwnedFd, Error> {
    // SAFETY: no memory is passed.
    own(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }, "creating an epoll descriptor")
}

/// A new non-blocking event counter.
pub(crate) fn eventfd() -> Result<OwnedFd, Error> {
    // SAFETY: no memory is passed.
    own(
        unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) },
        "creating an event counter",
    )
}

/// Adds `fd` to an epoll descriptor.
pub(crate) fn watch(
    epoll: &OwnedFd,
    fd: RawFd,
    events: libc::c_int,
    data: u64,
) -> Result<(), Error> {
    let mut event = libc::epoll_event { events: events as u32, u64: data };
    // SAFETY: `event` lives through the call.
    let done = unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) };
    if done == 0 { Ok(()) } else { Err(os("watching a descriptor")) }
}

/// Puts `fd` back into an epoll descriptor, without an error to allocate: true if it is watched now.
pub(crate) fn rewatch(epoll: &OwnedFd, fd: RawFd, events: libc::c_int, data: u64) -> bool {
    let mut event = libc::epoll_event { events: events as u32, u64: data };
    // SAFETY: `event` lives through the call.
    unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) == 0 }
}

/// Takes `fd` out of an epoll descriptor.
pub(crate) fn unwatch(epoll: &OwnedFd, fd: RawFd) {
    // SAFETY: a null event is allowed for this operation.
    unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) };
}

/// The events that are there now.
#[inline]
pub(crate) fn ready<'a>(
    epoll: &OwnedFd,
    events: &'a mut [libc::epoll_event],
) -> &'a [libc::epoll_event] {
    // SAFETY: the array lives through the call and its length is passed.
    let count = unsafe {
        libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), events.len() as libc::c_int, 0)
    };
    &events[..usize::try_from(count).unwrap_or(0).min(events.len())]
}

/// Nanoseconds of a clock that never goes back. Progress path, signal handlers included.
#[inline]
pub(crate) fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a local; the call is async-signal-safe.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Adds one to an event counter.
pub(crate) fn ring(fd: RawFd) {
    let one = 1u64;
    // SAFETY: eight bytes of a local; a full counter (the only failure) is as good as rung.
    unsafe { libc::write(fd, (&raw const one).cast(), 8) };
}

/// Resets an event counter.
pub(crate) fn unring(fd: RawFd) {
    let mut count = 0u64;
    // SAFETY: eight bytes of a local; a counter at zero fails, which is fine.
    unsafe { libc::read(fd, (&raw mut count).cast(), 8) };
}

/// Waits until `fd` is ready for `events`, up to `deadline`. False: the time is over.
pub(crate) fn wait_fd(fd: RawFd, events: i16, deadline: Instant) -> io::Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let ms = libc::c_int::try_from(left.as_millis()).unwrap_or(libc::c_int::MAX);
        let mut poll = libc::pollfd { fd, events, revents: 0 };
        // SAFETY: one entry of a local.
        let count = unsafe { libc::poll(&mut poll, 1, ms.saturating_add(1)) };
        if count > 0 {
            return Ok(true);
        }
        if count < 0 && errno() != libc::EINTR {
            return Err(io::Error::last_os_error());
        }
        if left.is_zero() {
            return Ok(false);
        }
    }
}

/// Writes all of `data` to a socket, up to `deadline`.
pub(crate) fn send_all(fd: RawFd, mut data: &[u8], deadline: Instant) -> io::Result<()> {
    while !data.is_empty() {
        // SAFETY: the slice is readable for its length.
        let sent = unsafe {
            libc::send(
                fd,
                data.as_ptr().cast(),
                data.len(),
                libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
            )
        };
        if sent > 0 {
            data = &data[sent as usize..];
        } else {
            retry(fd, libc::POLLOUT, deadline)?;
        }
    }
    Ok(())
}

/// After a call failed: waits if it only had to wait, and gives the error otherwise.
pub(crate) fn retry(fd: RawFd, events: i16, deadline: Instant) -> io::Result<()> {
    match errno() {
        libc::EINTR => Ok(()),
        libc::EAGAIN => match wait_fd(fd, events, deadline)? {
            true => Ok(()),
            false => Err(io::ErrorKind::TimedOut.into()),
        },
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets an integer option of a socket.
pub(crate) fn set_option(fd: RawFd, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: the option's value is a local integer whose size is passed.
    let done = unsafe {
        libc::setsockopt(fd, level, option, (&raw const value).cast(), mem::size_of::<i32>() as u32)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Random bytes from the kernel.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    // SAFETY: the array is writable for its length; up to 256 bytes come whole.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) };
    if got == N as isize { Ok(bytes) } else { Err(os("reading random bytes")) }
}

/// A moment that far from now.
pub(crate) fn deadline(timeout: Duration) -> Instant {
    Instant::now() + timeout
}

/// Process number and user of the other end of a Unix socket, by the kernel's word.
pub(crate) fn peer_of(fd: RawFd) -> Option<(i32, u32)> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = mem::size_of::<libc::ucred>() as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: a local of the size that is passed.
    let done =
        unsafe { libc::getsockopt(fd, level, option, (&raw mut credentials).cast(), &mut len) };
    (done == 0).then_some((credentials.pid, credentials.uid))
}
