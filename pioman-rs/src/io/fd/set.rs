//! The set, and how it is looked at. See the module above.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::time::Instant;

use marcel::plumbing::signal::KeepErrno;

use crate::epoll::Epoll;
use crate::fork::Birth;
use crate::io::fd::arena::{Arena, Place};
use crate::io::fd::readiness::Readiness;
use crate::manager::Manager;
use crate::progress::policy::hints::Hints;
use crate::progress::source::Source;

/// Events fetched by one system call; on the stack, which may be a signal handler's.
const BATCH: usize = 64;
/// Most system calls of one look.
const ROUNDS: usize = 16;

/// See the module's description.
pub(crate) struct FdSource {
    epoll: Epoll,
    arena: Arena,
    /// Threads that wait for a descriptor.
    waiters: AtomicUsize,
    /// A thread sleeps, or is about to, on our descriptor: events without a waiter have to be fetched all the
    /// same, or they would wake that one again and again.
    armed: AtomicBool,
    /// A thread polls; two would only hold each other up in the kernel.
    looking: AtomicBool,
    birth: Birth,
}

/// What a descriptor can be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interest {
    /// That it can be read from: data, a connection to accept, or the end.
    Readable,
    /// That it can be written to, or that a connection is made or refused.
    Writable,
}

/// A descriptor's place, as its owner keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u32);

impl FdSource {
    pub(crate) fn new() -> io::Result<FdSource> {
        Ok(FdSource {
            epoll: Epoll::new()?,
            arena: Arena::default(),
            waiters: AtomicUsize::new(0),
            armed: AtomicBool::new(false),
            looking: AtomicBool::new(false),
            birth: Birth::here(),
        })
    }

    /// Adds a descriptor. The kernel reports what it is ready for already, as an event.
    pub(crate) fn add(&self, fd: RawFd, interest: u32) -> io::Result<Key> {
        self.birth.check()?;
        let Some((index, place)) = self.arena.take() else {
            return Err(io::Error::other("no room for another descriptor"));
        };
        place.interest.store(interest, Relaxed);
        let added = self.epoll.add(fd, (interest | EDGE) as i32, data(index, place));
        if added.is_err() {
            self.arena.give(index);
        }
        added.map(|()| Key(index))
    }

    /// Asks for more events. The kernel reports what the descriptor is ready for already. Not twice at once.
    pub(crate) fn widen(&self, key: Key, fd: RawFd, interest: u32) -> io::Result<()> {
        let place = self.place(key);
        let wanted = place.interest.load(Relaxed) | interest;
        if wanted == place.interest.load(Relaxed) {
            return Ok(());
        }
        self.birth.check()?;
        self.epoll.modify(fd, (wanted | EDGE) as i32, data(key.0, place))?;
        place.interest.store(wanted, Release);
        Ok(())
    }

    /// Whether these events have been asked for.
    pub(crate) fn is_wide(&self, key: Key, interest: u32) -> bool {
        self.place(key).interest.load(Acquire) & interest == interest
    }

    /// Takes a descriptor out, which is still open.
    pub(crate) fn remove(&self, key: Key, fd: RawFd) {
        if self.birth.is_here() {
            self.epoll.remove(fd);
            self.arena.give(key.0);
        }
    }

    /// One direction of a descriptor.
    pub(crate) fn readiness(&self, key: Key, interest: Interest) -> &Readiness {
        match interest {
            Interest::Readable => &self.place(key).read,
            Interest::Writable => &self.place(key).write,
        }
    }

    /// Waits until something has happened since `seen` was read; false after the deadline.
    pub(crate) fn wait(
        &self,
        manager: &Manager,
        hints: Hints,
        readiness: &Readiness,
        seen: u64,
        deadline: Option<Instant>,
    ) -> io::Result<bool> {
        self.birth.check()?;
        if marcel::is_stopping() {
            return Err(io::Error::other(
                "the runtime of the thread stops: it cannot wait for I/O",
            ));
        }
        self.waiters.fetch_add(1, SeqCst);
        let _counted = Counted(&self.waiters);
        Ok(readiness.wait(seen, |done| match deadline {
            None => {
                manager.wait(done, hints);
                true
            }
            Some(deadline) => manager.wait_until(done, hints, deadline),
        }))
    }

    /// # Panics
    /// Never: keys are made by `add`, and places stay.
    fn place(&self, key: Key) -> &Place {
        self.arena.get(key.0).expect("a key has a place")
    }

    /// Fetches events until none is left, in bounded work.
    fn look(&self) -> bool {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; BATCH];
        let mut found = false;
        for _ in 0..ROUNDS {
            let n = self.epoll.wait(&mut events, 0).max(0) as usize;
            for event in &events[..n] {
                self.note(event.events, event.u64);
            }
            found |= n > 0;
            if n < BATCH {
                break;
            }
        }
        found
    }

    fn note(&self, events: u32, data: u64) {
        let Some(place) = self.arena.get(data as u32) else { return };
        let generation = (data >> 32) as u32;
        if events & (READ | OVER) != 0 {
            place.read.note(generation);
        }
        if events & (WRITE | OVER) != 0 {
            place.write.note(generation);
        }
    }
}

/// The events of either direction; the kernel adds errors and the end by itself.
pub(crate) const READ: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLPRI) as u32;
pub(crate) const WRITE: u32 = libc::EPOLLOUT as u32;
const OVER: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
const EDGE: u32 = libc::EPOLLET as u32;

fn data(index: u32, place: &Place) -> u64 {
    u64::from(place.generation()) << 32 | u64::from(index)
}

/// One of those that wait, until it is dropped.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

// SAFETY: atomics, a try-lock, `epoll_wait` that does not wait, and completions; errno is kept.
unsafe impl Source for FdSource {
    fn name(&self) -> &str {
        "descriptors"
    }

    #[inline]
    fn poll(&self) -> bool {
        if self.waiters.load(Relaxed) == 0 && !self.armed.load(Relaxed) || !self.birth.is_here() {
            return false;
        }
        if self.looking.load(Relaxed) || self.looking.swap(true, Acquire) {
            return false;
        }
        let errno = KeepErrno::new();
        let found = self.look();
        drop(errno);
        self.looking.store(false, Release);
        found
    }

    #[inline]
    fn pending(&self) -> bool {
        self.waiters.load(Relaxed) > 0
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.epoll.as_raw_fd())
    }

    /// Also while another thread looks: each event goes to one of the two.
    fn acknowledge(&self) {
        if self.birth.is_here() {
            self.look();
        }
    }

    fn arm(&self) -> bool {
        self.armed.store(true, Relaxed);
        true
    }

    fn disarm(&self) {
        if self.armed.load(Relaxed) {
            self.armed.store(false, Relaxed);
        }
    }
}
