//! The registrar: a thread that registers memory with the adapter, forgets it, and has queue pairs fail.
//!
//! The progress path may do none of that: the library allocates, and the kernel looks up and locks each page. So the
//! driver leaves its work at a place ([`mail`](super::mail)), and finds the result there later.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::ibv::{Adapter, Failing, Region};
use super::mail::{Asker, Worker, places};
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

// SAFETY: an address that is handed on, not followed.
unsafe impl Send for Memory {}

/// What is to be done, or was.
pub(super) enum Work {
    Register(Memory),
    /// `None`: the memory cannot be registered.
    Registered(Option<Region>),
    Release(Region),
    Fail(Failing),
}

/// What the two threads share beside the work.
struct Bells {
    /// Rings for the registrar.
    work: OwnedFd,
    /// The driver's own, for the thread that sleeps on it.
    wake: Arc<OwnedFd>,
    ends: AtomicBool,
}

/// See the module.
pub(super) struct Registrar {
    asker: Asker<Work>,
    bells: Arc<Bells>,
    thread: Option<JoinHandle<()>>,
}

impl Registrar {
    /// Starts it, with so many places.
    ///
    /// # Errors
    /// The kernel refuses a thread, or a descriptor.
    pub(super) fn start(
        adapter: Arc<Adapter>,
        wake: Arc<OwnedFd>,
        count: usize,
    ) -> Result<Registrar, Error> {
        let (asker, worker) = places(count);
        let bells = Arc::new(Bells { work: sys::eventfd()?, wake, ends: AtomicBool::new(false) });
        let of_thread = bells.clone();
        let run = move || pioman::plumbing::library_thread(|| run(&adapter, worker, &of_thread));
        let thread = std::thread::Builder::new()
            .name("newmad-register".into())
            .stack_size(marcel::plumbing::lwp::program_stack());
        let thread = marcel::plumbing::signal::spawn_blocked(thread, run)
            .map_err(|_| os("starting the thread that registers memory"))?;
        Ok(Registrar { asker, bells, thread: Some(thread) })
    }

    /// Gives work to a place where the last one is done. Progress path.
    pub(super) fn give(&mut self, place: usize, work: Work) {
        self.asker.give(place, work);
        sys::ring(self.bells.work.as_raw_fd());
    }

    /// Whether it is not done yet. Progress path.
    pub(super) fn is_at_work(&self, place: usize) -> bool {
        self.asker.is_at_work(place)
    }

    /// What has become of it, if it is done and has a result. Progress path.
    pub(super) fn take(&mut self, place: usize) -> Option<Work> {
        self.asker.take(place)
    }

    /// Whether there are answers that were not looked for yet. Progress path.
    #[inline]
    pub(super) fn has_answers(&mut self) -> bool {
        self.asker.has_answers()
    }

    /// Waits until a place's work is done. Callers' context.
    pub(super) fn wait_for(&self, place: usize) {
        while self.is_at_work(place) {
            std::thread::yield_now();
        }
    }
}

impl Drop for Registrar {
    fn drop(&mut self) {
        self.bells.ends.store(true, Ordering::Release);
        sys::ring(self.bells.work.as_raw_fd());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(adapter: &Arc<Adapter>, mut worker: Worker<Work>, bells: &Bells) {
    while sleep(bells) {
        worker.serve(|work| treat(adapter, work), || sys::ring(bells.wake.as_raw_fd()));
    }
}

/// Does one thing; its result.
fn treat(adapter: &Arc<Adapter>, work: Work) -> Option<Work> {
    match work {
        Work::Register(Memory { at, len, access }) => {
            Some(Work::Registered(Region::new(adapter, at, len, access).ok()))
        }
        Work::Release(region) => {
            drop(region);
            None
        }
        Work::Fail(failing) => {
            // SAFETY: the driver waits until this is done before it lets the queue pair go.
            unsafe { failing.fail() };
            None
        }
        done @ Work::Registered(_) => Some(done),
    }
}

/// Sleeps until the bell rings. False: the thread is to end.
fn sleep(bells: &Bells) -> bool {
    let fd = bells.work.as_raw_fd();
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry of a local.
    unsafe { libc::poll(&raw mut poll, 1, -1) };
    sys::unring(fd);
    !bells.ends.load(Ordering::Acquire)
}
