//! An `epoll` set, in which at most one thread sleeps until a source has something.
//!
//! The set holds the sources' descriptors, one-shot and *disarmed* while no thread sleeps there, so that a busy network
//! wakes no thread while another one polls it; and the eventfds of the threads that may sleep in it
//! (see [`marcel::plumbing::Sleeper`]).
//!
//! A child of `fork` shares the set in the kernel with its parent: there every change is left out, and no thread sleeps
//! here. A thread of the child that waits looks at the pace of the tick.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

use marcel::trace::{self, Kind};

use crate::driver::arming::{Arming, Begin};
use crate::epoll::Epoll;
use crate::fork::Birth;
use crate::progress::registry::Pinned;
use crate::progress::source::MAX;

/// Marks the eventfd of a sleeper in the event's data; the rest is the descriptor.
const SLEEPER: u64 = 1 << 63;

pub(crate) struct EpollSet {
    epoll: Epoll,
    arming: [Arming; MAX],
    /// 0: the leader's, 1: the background watcher's; in a trace.
    number: u64,
    sleeps: AtomicU64,
    /// Sleeps after which nothing was found.
    vain: AtomicU64,
    wake_ups: [AtomicU64; MAX],
    birth: Birth,
}

impl EpollSet {
    pub(crate) fn new(number: u64) -> io::Result<EpollSet> {
        Ok(EpollSet {
            epoll: Epoll::new()?,
            arming: std::array::from_fn(|_| Arming::new()),
            number,
            sleeps: AtomicU64::new(0),
            vain: AtomicU64::new(0),
            wake_ups: [const { AtomicU64::new(0) }; MAX],
            birth: Birth::here(),
        })
    }

    /// Whether this process is a child of the one that has made the set.
    pub(crate) fn is_inherited(&self) -> bool {
        !self.birth.is_here()
    }

    /// Lets the owner of a sleeper's eventfd sleep here. May be repeated.
    ///
    /// # Errors
    /// The kernel's; the set is inherited.
    pub(crate) fn add_sleeper(&self, fd: RawFd) -> io::Result<()> {
        self.birth.check()?;
        match self.epoll.add(fd, libc::EPOLLIN, SLEEPER | fd as u64) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
            other => other,
        }
    }

    /// Takes the eventfd of a sleeper out again.
    pub(crate) fn remove_sleeper(&self, fd: RawFd) {
        if !self.is_inherited() {
            self.epoll.remove(fd);
        }
    }

    /// Adds a source's descriptor, disarmed.
    pub(crate) fn add_source(&self, slot: usize, fd: RawFd) -> io::Result<()> {
        self.arming[slot].reset();
        self.wake_ups[slot].store(0, Relaxed);
        if self.is_inherited() {
            return Ok(());
        }
        self.epoll.add(fd, libc::EPOLLONESHOT, slot as u64)
    }

    pub(crate) fn remove_source(&self, slot: usize, fd: RawFd) {
        if !self.is_inherited() {
            self.epoll.remove(fd);
        }
        self.arming[slot].reset();
    }

    /// Arms the descriptors of these sources here and then the sources themselves. False if one has an event already,
    /// or could not be armed: poll, and try again. Progress path, but not in a signal handler: a few system
    /// calls that do not block, none for what is armed.
    pub(crate) fn arm(&self, sources: &Pinned<'_>, these: u64) -> bool {
        self.arm_but(sources, these) == 0
    }

    /// As [`EpollSet::arm`]; a bit for each source that has an event already, or could not be armed.
    pub(crate) fn arm_but(&self, sources: &Pinned<'_>, these: u64) -> u64 {
        let mut awake = 0;
        for (slot, registered) in sources.these(these) {
            let mut quiet = true;
            if let Some(fd) = sources.fd(slot) {
                let wanted = libc::EPOLLIN | libc::EPOLLONESHOT;
                quiet &= self.turn(sources, slot, fd, true, wanted);
            }
            quiet &= registered.source.arm();
            awake |= u64::from(!quiet) << slot;
        }
        awake
    }

    /// Whether the next event of this source wakes the thread that sleeps here.
    #[inline]
    pub(crate) fn is_armed(&self, slot: usize) -> bool {
        self.arming[slot].is_on()
    }

    /// Disarms the descriptors (not the sources): another thread sleeps on them, armed.
    pub(crate) fn disarm(&self, sources: &Pinned<'_>, these: u64) {
        for (slot, _) in sources.these(these) {
            if let Some(fd) = sources.fd(slot)
                && self.arming[slot].is_on()
            {
                self.turn(sources, slot, fd, false, libc::EPOLLONESHOT);
            }
        }
    }

    /// Arms or disarms a descriptor; true if it is as wanted now, or another thread goes on until it is. A caller that
    /// arms and gets false tries again: other threads may rely on it. A descriptor that the kernel refuses for good is
    /// the source's no more, so the next try does without it.
    fn turn(&self, sources: &Pinned<'_>, slot: usize, fd: RawFd, on: bool, events: i32) -> bool {
        if self.is_inherited() {
            return true;
        }
        match self.arming[slot].begin(on) {
            Begin::Already | Begin::Others => true,
            Begin::Busy => false,
            Begin::Yours => {
                let done = self.epoll.modify(fd, events, slot as u64);
                if let Err(error) = &done
                    && error.raw_os_error() != Some(libc::ENOMEM)
                {
                    sources.lose_fd(slot, error);
                }
                self.arming[slot].end(on, done.is_ok())
            }
        }
    }

    /// Sleeps until a source has something, a sleeper's eventfd is written, or `deadline`. Returns the sources whose
    /// descriptors were reported, a bit each: the caller acknowledges them ([`Source::acknowledge`]). At once where the set
    /// is inherited.
    ///
    /// [`Source::acknowledge`]: crate::Source::acknowledge
    #[must_use]
    pub(crate) fn sleep(&self, deadline: Option<Instant>) -> u64 {
        if self.is_inherited() {
            return 0;
        }
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 8];
        self.sleeps.fetch_add(1, Relaxed);
        trace::record(Kind::Block, self.number, 0);
        let n = loop {
            let timeout = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            let n = wait(&self.epoll, &mut events, timeout);
            if n >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
                break n;
            }
        };
        let mut reported = 0;
        for event in &events[..n.max(0) as usize] {
            let data = event.u64;
            if data & SLEEPER != 0 {
                let mut counter = [0u8; 8];
                // SAFETY: eight writable bytes; the descriptor does not block.
                unsafe { libc::read((data & !SLEEPER) as RawFd, counter.as_mut_ptr().cast(), 8) };
            } else if let Some(arming) = self.arming.get(data as usize) {
                arming.note_event();
                self.wake_ups[data as usize].fetch_add(1, Relaxed);
                reported |= 1 << data;
            }
        }
        trace::record(Kind::BlockEnd, n.max(0) as u64, 0);
        reported
    }

    /// How often a thread went to sleep here.
    pub(crate) fn sleeps(&self) -> u64 {
        self.sleeps.load(Relaxed)
    }

    /// The thread that slept here has looked, and found something or not.
    pub(crate) fn woken(&self, found: bool) {
        if !found {
            self.vain.fetch_add(1, Relaxed);
            trace::often(Kind::Vain, self.number, 0);
        }
    }

    /// How often the thread that slept here was woken and found nothing.
    pub(crate) fn vain(&self) -> u64 {
        self.vain.load(Relaxed)
    }

    /// How often a source has woken the thread that slept here.
    pub(crate) fn wake_ups(&self, slot: usize) -> u64 {
        self.wake_ups[slot].load(Relaxed)
    }
}

/// `epoll_pwait2` for its nanoseconds; kernels before 5.11 get the time-out rounded up to milliseconds.
fn wait(epoll: &Epoll, events: &mut [libc::epoll_event], timeout: Option<Duration>) -> i32 {
    let Some(timeout) = timeout else { return epoll.wait(events, -1) };
    let spec = libc::timespec {
        tv_sec: timeout.as_secs().min(i64::MAX as u64) as i64,
        tv_nsec: timeout.subsec_nanos() as i64,
    };
    // SAFETY: `events` is writable for its length, `spec` valid, no signal mask.
    let n = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            events.as_mut_ptr(),
            events.len(),
            &spec,
            std::ptr::null::<libc::sigset_t>(),
            0usize,
        ) as i32
    };
    if n < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) {
        let ms = timeout.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32;
        return epoll.wait(events, ms);
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{FromRawFd, OwnedFd};

    /// The child would empty the counter that wakes a sleeper of the parent's, and take the parent's descriptors out.
    #[test]
    fn a_child_of_fork_leaves_the_set_alone() {
        let set = EpollSet::new(0).unwrap();
        // SAFETY: no pointers; the descriptors are ours.
        let [sleeper, source] = [(); 2].map(|()| unsafe {
            OwnedFd::from_raw_fd(libc::eventfd(1, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC))
        });
        set.add_sleeper(sleeper.as_raw_fd()).unwrap();
        set.add_source(3, source.as_raw_fd()).unwrap();
        // SAFETY: the child makes system calls, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let nothing = set.sleep(Some(Instant::now())) == 0;
            set.remove_source(3, source.as_raw_fd());
            set.remove_sleeper(sleeper.as_raw_fd());
            // SAFETY: ends the child.
            unsafe { libc::_exit(if nothing { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: our child; a writable integer.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        let (mut counter, fd) = ([0u8; 8], sleeper.as_raw_fd());
        // SAFETY: eight writable bytes.
        assert_eq!(unsafe { libc::read(fd, counter.as_mut_ptr().cast(), 8) }, 8, "it was emptied");
        for fd in [sleeper, source] {
            let again = set.epoll.add(fd.as_raw_fd(), 0, 0).unwrap_err();
            assert_eq!(again.raw_os_error(), Some(libc::EEXIST), "it was taken out");
        }
    }
}
