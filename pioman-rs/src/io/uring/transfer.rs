//! Operations that go on while their owner does something else: the buffer goes with them, and comes back with the
//! result.
//!
//! By the ring of the caller's manager. Where there is none, or it is full: a green thread makes the call on the
//! blocking pool, and a plain kernel thread makes it at once, so that nothing is left to wait for.

use std::cell::UnsafeCell;
use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use marcel::plumbing::budget;

use super::Uring;
use super::call::Call;
use super::make::MOST_SUBMISSIONS;
use super::slot::Slot;
use crate::ltask::inside::is_inside;
use crate::manager::Manager;
use crate::progress::point::Point;
use crate::progress::policy::hints::{Hint, Hints};
use crate::progress::source::Source;

/// What is in use until the slot is complete; then it is the [`Transfer`]'s alone. (In a child of fork the kernel uses
/// the parent's memory; there it is lost.)
struct Inner {
    slot: Slot,
    call: Call,
    buffer: UnsafeCell<Vec<u8>>,
    /// Stays open as long as the call may be made.
    file: Arc<fs::File>,
}

// SAFETY: the buffer is the call's until the slot is complete, and the transfer's then.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        debug_assert!(self.slot.done().is_done(), "the kernel may still use this memory");
    }
}

/// The thread that makes the call.
enum By {
    /// A ring, whose permit is to be given back.
    Ring(Arc<Uring>),
    /// A green thread, or no thread any more.
    Others,
}

/// A read, write or sync of a [`crate::fs::File`] that is under way.
///
/// Dropping it cancels it and waits for its end: what it has done by then is done. (In a light task, which must not
/// wait, a call that is made by the pool is left to it.)
#[must_use = "dropping it cancels it"]
pub struct Transfer {
    inner: Arc<Inner>,
    manager: Option<Arc<Manager>>,
    by: By,
}

impl Transfer {
    /// Begins a call, made by `call` from the address and length of `buffer`.
    ///
    /// # Safety
    /// The call uses that memory (only reading it, or all of it initialised) and the descriptor of `file`, nothing
    /// else.
    pub(crate) unsafe fn begin(
        file: Arc<fs::File>,
        mut buffer: Vec<u8>,
        call: impl FnOnce(*mut u8, usize) -> Call,
    ) -> Transfer {
        let call = call(buffer.as_mut_ptr(), buffer.len());
        let buffer = UnsafeCell::new(buffer); // what it owns does not move
        let inner = Arc::new(Inner { slot: Slot::submitted(), call, buffer, file });
        let manager = Manager::here().ok();
        if let Some(manager) = &manager
            && let Some(ring) = manager.uring()
            && ring.knows(&call)
            && let Some(permit) = ring.transfers().try_acquire()
        {
            let by = By::Ring(ring.clone());
            // SAFETY: a permit is ours; the transfer keeps `inner` until the slot is complete, or for ever.
            unsafe { ring.submit(&call, &inner.slot) };
            permit.forget(); // the transfer releases it when it is dropped
            // From here on its drop waits for the kernel, whatever unwinds.
            let transfer = Transfer { inner, manager: Some(manager.clone()), by };
            ring.poll();
            if !transfer.has_ended() {
                manager.ensure_watched();
            }
            return transfer;
        }
        let job = Job(Some(inner.clone()));
        if marcel::is_green() && !marcel::is_stopping() && manager.is_some() {
            drop(marcel::spawn(move || job.make()));
        } else {
            job.make();
        }
        Transfer { inner, manager, by: By::Others }
    }

    /// Whether it has ended: then [`Transfer::wait`] returns at once. Looks for events.
    ///
    /// # Context
    /// Green and kernel threads.
    ///
    /// # Blocking
    /// Does not block.
    pub fn is_done(&self) -> bool {
        if !self.has_ended()
            && let Some(manager) = &self.manager
        {
            manager.poll(Point::Library);
        }
        self.has_ended()
    }

    /// Whether its end has been found; does not look for it.
    pub fn has_ended(&self) -> bool {
        self.inner.slot.done().is_done() || self.check().is_err()
    }

    /// That it ends in this process. In a child of fork a transfer that its parent has begun by a ring does not.
    fn check(&self) -> io::Result<()> {
        match &self.by {
            By::Ring(ring) if !self.inner.slot.done().is_done() => ring.check(),
            _ => Ok(()),
        }
    }

    /// Asks for its end. It has one outcome: it is cancelled (`ECANCELED`), or it has ended before.
    ///
    /// # Context
    /// Green and kernel threads.
    ///
    /// # Blocking
    /// Does not block; [`Transfer::wait`] for the end, which a call that the kernel is making
    /// reaches in its own time.
    pub fn cancel(&self) {
        match &self.by {
            // SAFETY: submitted there; in place, since we are.
            By::Ring(ring) => unsafe { ring.cancel(&self.inner.slot) },
            By::Others => {
                if self.inner.slot.ask_to_cancel() {
                    self.inner.slot.ended(None);
                }
            }
        }
    }

    /// Waits for its end: how many bytes, and the buffer.
    ///
    /// # Blocking
    /// The green thread, or the kernel thread.
    ///
    /// # Errors
    /// The kernel's; `ECANCELED` after [`Transfer::cancel`], or when the runtime that was to make the call stops, or when
    /// the kernel gives the call up again and again. In a child of fork, of a transfer that its parent has begun; the
    /// parent has the buffer, too.
    pub fn wait(mut self) -> (io::Result<usize>, Vec<u8>) {
        budget::spend();
        let mut submissions = 1;
        loop {
            self.until(None);
            if let Err(error) = self.check() {
                // SAFETY: the kernel uses the parent's memory, and no other thread of this process has it.
                let buffer = std::mem::take(unsafe { &mut *self.inner.buffer.get() });
                return (Err(error), buffer);
            }
            let result = self.inner.slot.result();
            let lost = result == -libc::ECANCELED && !self.inner.slot.was_asked();
            let again = lost && submissions < MOST_SUBMISSIONS;
            // SAFETY: complete: no other thread touches it.
            let buffer = std::mem::take(unsafe { &mut *self.inner.buffer.get() });
            if again && matches!(self.by, By::Ring(_)) {
                // The kernel thread that had submitted it has ended, and the kernel gave it up.
                submissions += 1;
                let (call, file) = (self.inner.call, self.inner.file.clone());
                // SAFETY: the same call, file and buffer as the first time.
                self = unsafe { Transfer::begin(file, buffer, |_, _| call) };
                continue;
            }
            let result = match result {
                0.. => Ok(result as usize),
                _ => Err(io::Error::from_raw_os_error(-result)),
            };
            return (result, buffer);
        }
    }

    /// As [`Transfer::wait`], until `deadline` at the latest: the transfer, which goes on, if it has not ended by then.
    ///
    /// # Errors
    /// It has not ended.
    #[allow(clippy::result_large_err)]
    pub fn wait_until(self, deadline: Instant) -> Result<(io::Result<usize>, Vec<u8>), Transfer> {
        match self.until(Some(deadline)) {
            true => Ok(self.wait()),
            false => Err(self),
        }
    }

    fn until(&self, deadline: Option<Instant>) -> bool {
        let done = self.inner.slot.done();
        let hints = match &self.by {
            By::Ring(ring) => ring.hints(Hint::Short),
            By::Others => Hints::new(Hint::Short),
        };
        match (&self.manager, deadline) {
            _ if self.has_ended() => true,
            (Some(manager), None) => {
                manager.wait(done, hints);
                true
            }
            (Some(manager), Some(deadline)) => manager.wait_until(done, hints, deadline),
            (None, _) => unreachable!("without a manager the call is made at once"),
        }
    }

    /// Waits for the end, whatever happens: a ring has done with the memory when this returns or unwinds.
    fn to_the_end(&self) {
        struct Again<'a>(&'a Transfer);
        impl Drop for Again<'_> {
            fn drop(&mut self) {
                self.0.until(None); // nothing, unless the first wait was unwound (a runtime that stops)
            }
        }
        if !is_inside() {
            let _again = Again(self);
            self.until(None);
        } else if let (By::Ring(_), Some(manager)) = (&self.by, &self.manager) {
            // A light task must not wait. (What others make keeps its memory by itself.)
            while !self.has_ended() {
                manager.poll(Point::Library);
                std::thread::yield_now();
            }
        }
    }
}

/// The permit of a transfer that goes. Dropped after its end has been waited for, also when that wait is unwound.
struct Permit<'a>(&'a By);

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if let By::Ring(ring) = self.0 {
            ring.transfers().release();
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        let _permit = Permit(&self.by);
        if self.check().is_err() {
            std::mem::forget(self.inner.clone()); // incomplete for ever, and never dropped
        } else if !self.has_ended() {
            self.cancel();
            self.to_the_end();
        }
    }
}

impl std::fmt::Debug for Transfer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let done = self.inner.slot.done().is_done();
        f.debug_struct("Transfer").field("call", &self.inner.call).field("done", &done).finish()
    }
}

/// The call of a transfer, for the thread that makes it. Dropped before: the call is cancelled.
struct Job(Option<Arc<Inner>>);

impl Job {
    fn make(mut self) {
        let Some(inner) = &self.0 else { return };
        if inner.slot.was_asked() {
            return;
        }
        let call = inner.call;
        let result = marcel::blocking(move || {
            let call = call; // all of it, which is `Send`
            // SAFETY: `inner` keeps the buffer and the file, and no code touches the buffer before the slot is
            // complete.
            unsafe { call.run() }
        });
        if let Some(inner) = self.0.take() {
            inner.slot.ended(Some(result));
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(inner) = self.0.take() {
            inner.slot.ended(Some(-libc::ECANCELED));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::File;
    use crate::manager::runtime::Runtime;
    use std::os::fd::OwnedFd;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    fn permits(ring: &Uring) -> usize {
        let taken: Vec<_> = std::iter::from_fn(|| ring.transfers().try_acquire()).collect();
        taken.len()
    }

    /// Threads that drop transfers wait for the ends when their runtime goes.
    #[test]
    fn a_drop_that_is_unwound_gives_its_permit_back() {
        for _ in 0..20 {
            let policy = crate::policy::by_name("always-block").unwrap();
            let manager = Manager::builder().mode(marcel::Mode::Mono).uring(true).policy(policy);
            let runtime = Runtime::build(manager, marcel::Runtime::builder()).unwrap();
            let Some(ring) = runtime.manager().uring().cloned() else { return };
            let all = permits(&ring);
            let (reader, _writer) = io::pipe().unwrap();
            let file = Arc::new(File::from(OwnedFd::from(reader)));
            let dropping = Arc::new(AtomicUsize::new(0));
            runtime.run(|| {
                for _ in 0..8 {
                    let (file, dropping) = (file.clone(), dropping.clone());
                    drop(marcel::spawn(move || {
                        let transfer = file.start_read(vec![0; 64]);
                        dropping.fetch_add(1, SeqCst);
                        drop(transfer);
                    }));
                }
                while dropping.load(SeqCst) < 8 {
                    marcel::yield_now();
                }
            });
            drop(runtime);
            assert_eq!(permits(&ring), all);
        }
    }
}
