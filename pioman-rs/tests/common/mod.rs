//! A source for tests: requests that are over when an eventfd has been written so many times.

#![allow(dead_code, unreachable_pub)] // each test program uses a part

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};

use pioman::{Completion, Source};

/// Completes request `i` when the counter of its eventfd has reached more than `i`.
pub struct Mailbox {
    fd: OwnedFd,
    arrived: AtomicU64,
    pub requests: Vec<Completion>,
    pub done: AtomicUsize,
    /// Requests so far: those below are pending until they are done.
    pub submitted: AtomicUsize,
    /// Whether the manager may sleep on its descriptor.
    shows_fd: bool,
}

impl Mailbox {
    pub fn new(requests: usize) -> Arc<Mailbox> {
        Mailbox::showing(true, requests)
    }

    /// One that only a poll looks at, unless it shows its descriptor.
    pub fn showing(shows_fd: bool, requests: usize) -> Arc<Mailbox> {
        // SAFETY: no pointers; the descriptor is ours.
        let fd = unsafe {
            OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC))
        };
        Arc::new(Mailbox {
            fd,
            arrived: AtomicU64::new(0),
            requests: (0..requests).map(|_| Completion::new()).collect(),
            done: AtomicUsize::new(0),
            submitted: AtomicUsize::new(0),
            shows_fd,
        })
    }

    pub fn deliver(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight readable bytes.
        unsafe { libc::write(self.fd.as_raw_fd(), one.as_ptr().cast(), 8) };
    }
}

// SAFETY: reads of an eventfd, atomics and completions.
unsafe impl Source for Mailbox {
    fn name(&self) -> &str {
        "mailbox"
    }
    fn poll(&self) -> bool {
        let mut counter = [0u8; 8];
        // SAFETY: eight writable bytes; then the error of this thread, put back: a tick may have interrupted it.
        let n = unsafe {
            let errno = *libc::__errno_location();
            let n = libc::read(self.fd.as_raw_fd(), counter.as_mut_ptr().cast(), 8);
            *libc::__errno_location() = errno;
            n
        };
        if n != 8 {
            return false;
        }
        let new = u64::from_ne_bytes(counter);
        let before = self.arrived.fetch_add(new, SeqCst);
        for i in before..before + new {
            self.done.fetch_add(1, SeqCst);
            self.requests[i as usize].complete();
        }
        true
    }
    fn pending(&self) -> bool {
        self.done.load(SeqCst) < self.submitted.load(SeqCst)
    }
    fn fd(&self) -> Option<RawFd> {
        self.shows_fd.then(|| self.fd.as_raw_fd())
    }
    fn arm(&self) -> bool {
        true
    }
    fn disarm(&self) {}
}
