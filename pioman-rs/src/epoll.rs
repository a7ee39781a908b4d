//! An `epoll` set: adding and removing descriptors, and looking at events without waiting.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::event::epoll;

/// See the module.
#[derive(Debug)]
pub(crate) struct Epoll(OwnedFd);

impl Epoll {
    pub(crate) fn new() -> io::Result<Epoll> {
        Ok(Epoll(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Adds a descriptor: `data` comes with its events.
    pub(crate) fn add(&self, fd: RawFd, events: i32, data: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, events, data)
    }

    /// Asks for other events of a descriptor.
    pub(crate) fn modify(&self, fd: RawFd, events: i32, data: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, events, data)
    }

    /// Takes a descriptor out, if it is there.
    pub(crate) fn remove(&self, fd: RawFd) {
        let _ = self.control(libc::EPOLL_CTL_DEL, fd, 0, 0);
    }

    // By libc: sources give numbers of descriptors, which rustix takes as unsafely.
    fn control(&self, how: i32, fd: RawFd, events: i32, data: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: data };
        // SAFETY: a valid event; epoll_ctl keeps no pointer.
        match unsafe { libc::epoll_ctl(self.0.as_raw_fd(), how, fd, &mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Waits for events for so many milliseconds, without an end if that is negative; their number, or an error (-1 and
    /// `errno`). In a signal handler too, if it does not wait.
    pub(crate) fn wait(&self, events: &mut [libc::epoll_event], ms: i32) -> i32 {
        let (fd, len) = (self.0.as_raw_fd(), events.len() as i32);
        // SAFETY: `events` is writable for its length.
        unsafe { libc::epoll_wait(fd, events.as_mut_ptr(), len, ms) }
    }
}

impl AsRawFd for Epoll {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
