//! The registrar: a thread that registers memory with the adapter, forgets it, and has queue pairs fail.
//!
//! The progress path may do none of that: the library allocates, and the kernel looks up and locks each page. So the
//! driver leaves its work in the *mail* of a place, and finds the result there later.
//!
//! ```text
//!   driver (under the engine's lock)              registrar
//!   writes the work, turn := registrar's ─bell─▶  does it, writes the result, turn := driver's
//!   finds its turn, takes the result     ◀─wake── counts an answer
//! ```
//! Invariant: whoever has the turn of a mail, and no other, touches what is in it.

use std::cell::UnsafeCell;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

use super::ibv::{Adapter, Failing, Region};
use crate::error::{Error, os};
use crate::net::rdma::Access;
use crate::sys;

/// Memory that is to be registered.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    pub(super) at: *mut u8,
    pub(super) len: usize,
    pub(super) access: Access,
}

/// What is to be done, or was.
pub(super) enum Work {
    Nothing,
    Register(Memory),
    /// `None`: the memory cannot be registered.
    Registered(Option<Region>),
    Release(Region),
    Fail(Failing),
}

struct Mail {
    /// It is the registrar's turn.
    asked: AtomicBool,
    work: UnsafeCell<Work>,
}

struct Shared {
    adapter: Arc<Adapter>,
    mails: Box<[Mail]>,
    /// The driver's descriptor for waking the thread that sleeps on it.
    wake: Arc<OwnedFd>,
    bell: OwnedFd,
    answers: AtomicU32,
    ends: AtomicBool,
}

// SAFETY: the work is touched by the one whose turn it is (see the module). Regions and queue pairs may be used by any
// thread, and the address of memory is not followed here.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// See the module.
pub(super) struct Registrar {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Answers that the driver has looked at.
    seen: u32,
}

impl Registrar {
    /// Starts it, with so many places.
    ///
    /// # Errors
    /// The kernel refuses a thread, or a descriptor.
    pub(super) fn start(
        adapter: Arc<Adapter>,
        wake: Arc<OwnedFd>,
        places: usize,
    ) -> Result<Registrar, Error> {
        let mail = || Mail { asked: AtomicBool::new(false), work: UnsafeCell::new(Work::Nothing) };
        let shared = Arc::new(Shared {
            adapter,
            mails: (0..places).map(|_| mail()).collect(),
            wake,
            bell: sys::eventfd()?,
            answers: AtomicU32::new(0),
            ends: AtomicBool::new(false),
        });
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new()
            .name("newmad-register".into())
            .stack_size(marcel::plumbing::lwp::program_stack())
            .spawn(move || pioman::plumbing::library_thread(|| of_thread.run()))
            .map_err(|_| os("starting the thread that registers memory"))?;
        Ok(Registrar { shared, thread: Some(thread), seen: 0 })
    }

    /// Gives work to a place at which the driver has the turn, and the last result was taken. Progress path.
    pub(super) fn give(&mut self, place: usize, work: Work) {
        let mail = &self.shared.mails[place];
        debug_assert!(!mail.asked.load(Ordering::Relaxed));
        // SAFETY: it is the driver's turn, and there is one driver.
        unsafe { *mail.work.get() = work };
        // Pairs with the load in `run`: the registrar sees the work.
        mail.asked.store(true, Ordering::Release);
        sys::ring(self.shared.bell.as_raw_fd());
    }

    /// What has become of it; `None`: it is not done yet. Progress path.
    pub(super) fn take(&mut self, place: usize) -> Option<Work> {
        let mail = &self.shared.mails[place];
        // Pairs with the store in `run`: the driver sees the result.
        if mail.asked.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: as in `give`.
        Some(mem::replace(unsafe { &mut *mail.work.get() }, Work::Nothing))
    }

    /// Whether there are answers that were not looked for yet. Progress path.
    #[inline]
    pub(super) fn has_answers(&mut self) -> bool {
        let answers = self.shared.answers.load(Ordering::Acquire);
        mem::replace(&mut self.seen, answers) != answers
    }

    /// Waits until a place's work is done. Callers' context.
    pub(super) fn wait_for(&self, place: usize) {
        while self.shared.mails[place].asked.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }
}

impl Drop for Registrar {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Release);
        sys::ring(self.shared.bell.as_raw_fd());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self) {
        while self.sleep() {
            for mail in self.mails.iter().filter(|mail| mail.asked.load(Ordering::Acquire)) {
                // SAFETY: it is the registrar's turn.
                let work = mem::replace(unsafe { &mut *mail.work.get() }, Work::Nothing);
                let result = self.work(work);
                // SAFETY: as above.
                unsafe { *mail.work.get() = result };
                mail.asked.store(false, Ordering::Release);
                self.answers.fetch_add(1, Ordering::Release);
                sys::ring(self.wake.as_raw_fd());
            }
        }
    }

    fn work(&self, work: Work) -> Work {
        match work {
            Work::Register(Memory { at, len, access }) => {
                Work::Registered(Region::new(&self.adapter, at, len, access).ok())
            }
            Work::Release(region) => {
                drop(region);
                Work::Nothing
            }
            Work::Fail(failing) => {
                // SAFETY: the driver waits for the answer before it lets the queue pair go.
                unsafe { failing.fail() };
                Work::Nothing
            }
            done @ (Work::Nothing | Work::Registered(_)) => done,
        }
    }

    /// Sleeps until the bell rings. False: the thread is to end.
    fn sleep(&self) -> bool {
        let fd = self.bell.as_raw_fd();
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry of a local.
        unsafe { libc::poll(&raw mut poll, 1, -1) };
        sys::unring(fd);
        !self.ends.load(Ordering::Acquire)
    }
}
