//! A source of our own: an eventfd, and a place for one request of each worker.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::SeqCst};

use pioman::{Completion, Source};

use crate::WORKERS;

pub(crate) struct Mailbox {
    fd: OwnedFd,
    places: [Place; WORKERS],
    pub(crate) submitted: AtomicU64,
    pub(crate) completed: AtomicU64,
    pub(crate) cancelled: AtomicU64,
}

#[derive(Default)]
struct Place {
    request: AtomicPtr<Completion>,
    arrived: AtomicBool,
}

impl Mailbox {
    pub(crate) fn new() -> Mailbox {
        // SAFETY: no pointers; the descriptor is ours.
        let fd = unsafe {
            OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC))
        };
        Mailbox {
            fd,
            places: Default::default(),
            submitted: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
        }
    }

    /// # Safety
    /// `completion` stays in place until it is complete, or [`Mailbox::cancel`] has said true.
    pub(crate) unsafe fn submit(&self, place: usize, completion: &Completion) {
        self.submitted.fetch_add(1, SeqCst);
        self.places[place].arrived.store(false, SeqCst);
        let before = self.places[place].request.swap((&raw const *completion).cast_mut(), SeqCst);
        assert!(before.is_null());
    }

    /// False: it is complete, or about to be.
    pub(crate) fn cancel(&self, place: usize) -> bool {
        let won = !self.places[place].request.swap(std::ptr::null_mut(), SeqCst).is_null();
        self.cancelled.fetch_add(u64::from(won), SeqCst);
        won
    }

    pub(crate) fn deliver(&self, place: usize) {
        self.places[place].arrived.store(true, SeqCst);
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
        for place in &self.places {
            if place.arrived.swap(false, SeqCst) {
                let request = place.request.swap(std::ptr::null_mut(), SeqCst);
                if !request.is_null() {
                    self.completed.fetch_add(1, SeqCst);
                    // SAFETY: nobody else has taken it, so it is in place until this.
                    unsafe { (*request).complete() };
                }
            }
        }
        true
    }
    fn pending(&self) -> bool {
        self.places.iter().any(|place| !place.request.load(SeqCst).is_null())
    }
    fn fd(&self) -> Option<RawFd> {
        Some(self.fd.as_raw_fd())
    }
    fn arm(&self) -> bool {
        true
    }
    fn disarm(&self) {}
}
