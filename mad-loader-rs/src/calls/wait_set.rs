//! Waits of a green thread for descriptors that the program owns.
//!
//! pioman watches descriptors that it may make non-blocking. Those of a program stay as they are: they are put into an
//! `epoll` set of the call, and pioman watches the set. A call that need not wait makes no set.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use libc::{c_int, pollfd, socklen_t, timeval};
use pioman::fd::Registered;
use rustix::event::epoll;

use super::call::fail;

/// Events that end a wait and with which the call can do nothing, such as the end of a peer that the program does not ask for, come
/// again at once: after so many waits in vain the thread sleeps between them.
const VAIN: u32 = 16;
const NAP: Duration = Duration::from_millis(1);

/// Counts the waits of a call that were in vain.
#[derive(Default)]
pub(super) struct Vain(u32);

impl Vain {
    /// One more was, of a call that ends at the deadline; whether that has come.
    pub(super) fn is_over(&mut self, deadline: Option<Instant>) -> bool {
        let over = deadline.is_some_and(|deadline| deadline <= Instant::now());
        self.0 += 1;
        if self.0 > VAIN && !over {
            marcel::sleep(NAP);
        }
        over
    }
}

/// Waits until one of `descriptors` may be ready, or `deadline` has come; false after it.
///
/// # Blocking
/// The calling green thread.
///
/// # Errors
/// The kernel's limits. A descriptor that was closed counts as ready.
pub(super) fn wait(descriptors: &[pollfd], deadline: Option<Instant>) -> io::Result<bool> {
    if descriptors.iter().all(|descriptor| descriptor.fd < 0) {
        return sleep(deadline);
    }
    let set = match watch(descriptors) {
        Ok(Some(set)) => set,
        Ok(None) => return Ok(true),
        Err(error) if is_limit(&error) => return by_kernel_thread(descriptors, deadline),
        Err(error) => return Err(error),
    };
    match deadline {
        Some(deadline) => set.wait_readable_until(deadline),
        None => set.wait_readable().map(|()| true),
    }
}

/// As [`wait`], for no descriptor: without a deadline it never ends.
fn sleep(deadline: Option<Instant>) -> io::Result<bool> {
    match deadline {
        Some(deadline) => marcel::sleep_until(deadline),
        None => loop {
            marcel::park();
        },
    }
    Ok(false)
}

/// A set of `descriptors`; `None`: one of them is ready.
fn watch(descriptors: &[pollfd]) -> io::Result<Option<Registered<OwnedFd>>> {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for descriptor in descriptors.iter().filter(|descriptor| descriptor.fd >= 0) {
        if !add(&set, descriptor, descriptors)? {
            return Ok(None);
        }
    }
    Registered::new(set).map(Some)
}

/// Whether a set is refused that a call without one would do without: the process or the user has too many descriptors or
/// watches, sets are nested too deeply, or too many wait for one descriptor.
fn is_limit(error: &io::Error) -> bool {
    use libc::{EINVAL, ELOOP, EMFILE, ENFILE, ENOMEM, ENOSPC};
    matches!(error.raw_os_error(), Some(EINVAL | ELOOP | EMFILE | ENFILE | ENOMEM | ENOSPC))
}

/// As [`wait`], by a kernel thread that is spent on it.
fn by_kernel_thread(descriptors: &[pollfd], deadline: Option<Instant>) -> io::Result<bool> {
    loop {
        let mut list = descriptors.to_vec();
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // Rounded up.
        let milliseconds = left.map_or(-1, |left| {
            c_int::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(c_int::MAX)
        });
        let ready = marcel::blocking(move || {
            // SAFETY: a valid list.
            let ready =
                unsafe { libc::poll(list.as_mut_ptr(), list.len() as libc::nfds_t, milliseconds) };
            if ready < 0 { Err(io::Error::last_os_error()) } else { Ok(ready > 0) }
        });
        match ready {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            ready => return ready,
        }
    }
}

/// Adds one of `all` descriptors, unless the kernel does not watch its kind, such as files: what these have they have now, and
/// the caller has looked. False if there is none with that number.
fn add(set: &OwnedFd, descriptor: &pollfd, all: &[pollfd]) -> io::Result<bool> {
    let events = descriptor.events as u16 as u32;
    let mut event = libc::epoll_event { events, u64: 0 };
    // SAFETY: a valid event. The descriptor is the program's: it may be closed meanwhile, or be none.
    let result =
        unsafe { libc::epoll_ctl(set.as_raw_fd(), libc::EPOLL_CTL_ADD, descriptor.fd, &mut event) };
    match result {
        0 => Ok(true),
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EEXIST) => {
                widen(set, descriptor, all).map(|()| true)
            }
            error if error.raw_os_error() == Some(libc::EPERM) => Ok(true),
            error if error.raw_os_error() == Some(libc::EBADF) => Ok(false),
            error => Err(error),
        },
    }
}

/// A descriptor that is named more than once: all events that are asked for end the wait.
fn widen(set: &OwnedFd, descriptor: &pollfd, all: &[pollfd]) -> io::Result<()> {
    let same = all.iter().filter(|other| other.fd == descriptor.fd);
    let events = same.fold(0, |events, other| events | other.events as u16 as u32);
    let mut event = libc::epoll_event { events, u64: 0 };
    // SAFETY: as in `add`.
    let result =
        unsafe { libc::epoll_ctl(set.as_raw_fd(), libc::EPOLL_CTL_MOD, descriptor.fd, &mut event) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// As [`wait`], for one descriptor.
pub(super) fn wait_one(fd: c_int, events: i16, deadline: Option<Instant>) -> io::Result<bool> {
    wait(&[pollfd { fd, events, revents: 0 }], deadline)
}

/// Looks at one descriptor, without waiting.
fn is_ready(fd: c_int, events: i16) -> bool {
    let mut look = pollfd { fd, events, revents: 0 };
    loop {
        // SAFETY: one valid entry.
        match unsafe { libc::poll(&mut look, 1, 0) } {
            0 => return false,
            1 => return true,
            // A tick interrupts it. Other errors are for the call itself to report.
            _ if io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => {}
            _ => return true,
        }
    }
}

/// Whether calls on the descriptor are to wait: the program has not made it non-blocking.
pub(super) fn is_blocking(fd: c_int) -> bool {
    // SAFETY: reads a flag.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    flags >= 0 && flags & libc::O_NONBLOCK == 0
}

/// The end of a wait that begins now, by the socket's own limit (`SO_RCVTIMEO`, `SO_SNDTIMEO`). Other descriptors have none.
pub(super) fn time_limit(fd: c_int, events: i16) -> Option<Instant> {
    let option = if events == libc::POLLIN { libc::SO_RCVTIMEO } else { libc::SO_SNDTIMEO };
    let mut time = timeval { tv_sec: 0, tv_usec: 0 };
    let mut len = size_of::<timeval>() as socklen_t;
    // SAFETY: a valid place of that length.
    unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, option, (&raw mut time).cast(), &mut len);
    }
    let seconds = Duration::from_secs(time.tv_sec.try_into().unwrap_or(0));
    let time = seconds + Duration::from_micros(time.tv_usec.try_into().unwrap_or(0));
    if time.is_zero() { None } else { Instant::now().checked_add(time) }
}

/// Waits until a read, or what else `events` says, need not wait. False: with `errno`, the call fails, as it does when the
/// socket's limit of waiting has come.
pub(super) fn await_ready(fd: c_int, events: i16) -> bool {
    let mut deadline = None;
    let mut is_over = false;
    while !is_ready(fd, events) && is_blocking(fd) {
        if is_over {
            fail(libc::EAGAIN);
            return false;
        }
        let deadline = *deadline.get_or_insert_with(|| time_limit(fd, events));
        match wait_one(fd, events, deadline) {
            Ok(may_be_ready) => is_over = !may_be_ready,
            Err(error) => {
                fail(error.raw_os_error().unwrap_or(libc::ENOMEM));
                return false;
            }
        }
    }
    true
}
