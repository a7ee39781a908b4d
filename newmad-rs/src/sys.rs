//! Thin wrappers over the system calls that the drivers use.
//!
//! What the progress path calls goes straight to libc: a signal handler may interrupt any code, and POSIX says which of
//! libc's functions are safe there. The rest goes through rustix.

use std::mem;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::event::EventfdFlags;
use rustix::event::epoll::{self, CreateFlags};
use rustix::rand::GetRandomFlags;
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

use crate::error::{Error, during, os};

pub(crate) use marcel::plumbing::clock::monotonic as now_ns;
pub(crate) use marcel::plumbing::signal::{KeepErrno, errno};

/// A new epoll descriptor.
pub(crate) fn epoll() -> Result<OwnedFd, Error> {
    epoll::create(CreateFlags::CLOEXEC).map_err(during("creating an epoll descriptor"))
}

/// A new non-blocking event counter.
pub(crate) fn eventfd() -> Result<OwnedFd, Error> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    rustix::event::eventfd(0, flags).map_err(during("creating an event counter"))
}

/// A new timer descriptor, by the clock of [`now_ns`].
pub(crate) fn timerfd() -> Result<OwnedFd, Error> {
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    timerfd_create(TimerfdClockId::Monotonic, flags).map_err(during("creating a timer"))
}

/// Has a timer expire once, at that moment of [`now_ns`]; at 0: never. True: it will.
pub(crate) fn expire_at(timer: &OwnedFd, ns: u64) -> bool {
    let (tv_sec, tv_nsec) = ((ns / 1_000_000_000) as i64, (ns % 1_000_000_000) as _);
    let once = libc::itimerspec {
        it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
        it_value: libc::timespec { tv_sec, tv_nsec },
    };
    let (fd, flags) = (timer.as_raw_fd(), libc::TFD_TIMER_ABSTIME);
    // SAFETY: a local is read; a null pointer for the old value is allowed.
    unsafe { libc::timerfd_settime(fd, flags, &once, std::ptr::null_mut()) == 0 }
}

/// Adds `fd` to an epoll descriptor.
pub(crate) fn watch(
    epoll: &OwnedFd,
    fd: RawFd,
    events: libc::c_int,
    data: u64,
) -> Result<(), Error> {
    if rewatch(epoll, fd, events, data) { Ok(()) } else { Err(os("watching a descriptor")) }
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

/// `PIDFD_THREAD` of Linux 6.9.
const THREAD: libc::c_int = libc::O_EXCL;

/// A descriptor of a kernel thread, for [`signal_thread`]. Progress path.
pub(crate) fn thread_descriptor(thread: i32) -> Option<RawFd> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, thread, THREAD) };
    RawFd::try_from(fd).ok().filter(|&fd| fd >= 0)
}

/// Sends a signal to the thread of a descriptor; false: it has ended, or may not be signalled. Progress path.
pub(crate) fn signal_thread(fd: RawFd, signal: i32) -> bool {
    let info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: a null pointer is allowed; the descriptor says that one thread is meant.
    unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, info, 0) == 0 }
}

/// A descriptor of this process for what `fd` is in another, if the kernel permits that. Progress path.
#[cfg(target_arch = "x86_64")]
pub(crate) fn descriptor_of(process: i32, fd: RawFd) -> Option<RawFd> {
    let valid = |fd: libc::c_long| RawFd::try_from(fd).ok().filter(|&fd| fd >= 0);
    // SAFETY: no pointers.
    let process = valid(unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) })?;
    // SAFETY: no pointers.
    let copy = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process, fd, 0) };
    close(process);
    valid(copy)
}

/// Whether `thread` is a kernel thread of `process`. Progress path.
pub(crate) fn has_thread(process: i32, thread: i32) -> bool {
    // SAFETY: no pointers; signal 0 is none.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, 0) == 0 }
}

/// Closes a descriptor that is the caller's. Progress path.
pub(crate) fn close(fd: RawFd) {
    // SAFETY: the caller's own.
    unsafe { libc::close(fd) };
}

/// Whether this kernel has descriptors of threads.
pub(crate) fn signals_threads() -> bool {
    static THERE: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *THERE.get_or_init(|| {
        // SAFETY: no arguments.
        let own = unsafe { libc::gettid() };
        thread_descriptor(own).inspect(|&fd| close(fd)).is_some()
    })
}

/// Random bytes from the kernel.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    // Up to 256 bytes come whole.
    match rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(got) if got == N => Ok(bytes),
        Ok(_) => Err(os("reading random bytes")),
        Err(errno) => Err(during("reading random bytes")(errno)),
    }
}

/// A moment that far from now.
pub(crate) fn deadline(timeout: Duration) -> Instant {
    Instant::now() + timeout
}

/// Process number and user of the other end of a Unix socket, by the kernel's word. By libc: a process of another
/// namespace has number 0, which rustix's type does not have.
pub(crate) fn peer_of(fd: RawFd) -> Option<(i32, u32)> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = mem::size_of::<libc::ucred>() as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: a local of the size that is passed.
    let done =
        unsafe { libc::getsockopt(fd, level, option, (&raw mut credentials).cast(), &mut len) };
    (done == 0).then_some((credentials.pid, credentials.uid))
}
