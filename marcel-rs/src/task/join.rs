//! Waiting for a thread's end, and what it leaves.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

use crate::sched::worker;
use crate::task::current::Thread;
use crate::task::{budget, interrupt, park};
use crate::tcb::block::Tcb;

/// Payload of the panic that a join handle reports for a thread that its runtime did not run to its end,
/// because it stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the thread did not run to its end: its runtime stopped")
    }
}

impl std::error::Error for Stopped {}

/// Payload of the panic that a join handle reports for a thread that never ran because there was no memory
/// for its stack.
#[derive(Debug)]
pub struct NoStack(pub(crate) io::Error);

impl NoStack {
    /// The cause, and the way out.
    pub fn source(&self) -> &io::Error {
        &self.0
    }
}

impl fmt::Display for NoStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the thread did not run: {}", self.0)
    }
}

impl std::error::Error for NoStack {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

/// Owned right to wait for a thread's end. Dropping it detaches the thread.
pub struct JoinHandle<T> {
    thread: Thread,
    _result: PhantomData<T>,
}

// SAFETY: the result, a `T`, is all that a handle gives access to, and only when it is consumed.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: as above: nothing of `T` can be reached by reference.
unsafe impl<T: Send> Sync for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    /// For a thread whose closure returns `T`, and that has no other handle.
    pub(crate) fn new(thread: Thread) -> JoinHandle<T> {
        JoinHandle { thread, _result: PhantomData }
    }

    fn tcb(&self) -> &'static Tcb {
        self.thread.tcb()
    }

    /// Waits for the thread's end: its value, or the payload of its panic.
    ///
    /// # Blocking
    /// The calling green thread; outside a runtime, the kernel thread.
    ///
    /// # Errors
    /// The thread panicked, or did not run to its end ([`Stopped`], [`NoStack`]).
    pub fn join(self) -> std::thread::Result<T> {
        let (tcb, me) = (self.tcb(), park::current());
        if !tcb.join.is_done() && tcb.join.register(me) {
            while !tcb.join.is_done() {
                park::park_as(me, "join");
            }
        } else {
            budget::spend_of(me);
        }
        self.collect(me)
    }

    /// As [`JoinHandle::join`], for at most `time`: then the handle comes back.
    ///
    /// # Blocking
    /// As [`JoinHandle::join`].
    ///
    /// # Errors
    /// The handle, after a time-out.
    pub fn join_timeout(self, time: Duration) -> Result<std::thread::Result<T>, JoinHandle<T>> {
        let deadline = Instant::now().checked_add(time);
        self.join_unless(|| {
            park::park_until("join", deadline);
            deadline.is_some_and(|d| Instant::now() >= d)
        })
    }

    /// As [`JoinHandle::join`], unless the calling thread has been asked to stop: then the handle comes back.
    ///
    /// # Blocking
    /// As [`JoinHandle::join`].
    ///
    /// # Errors
    /// The handle, when the caller has been asked to stop before the thread's end.
    pub fn join_interruptible(self) -> Result<std::thread::Result<T>, JoinHandle<T>> {
        self.join_unless(|| interrupt::wait_until_interruptible("join", None).is_err())
    }

    /// `park` waits, and says whether to give up.
    fn join_unless(
        self,
        mut park: impl FnMut() -> bool,
    ) -> Result<std::thread::Result<T>, JoinHandle<T>> {
        let word = &self.tcb().join;
        if word.register(park::current()) {
            while !word.is_done() {
                if park() && word.unregister() {
                    return Err(self);
                }
            }
        }
        Ok(self.collect(park::current()))
    }

    /// The thread has ended: its block is ours.
    #[inline]
    fn collect(self, me: &'static Tcb) -> std::thread::Result<T> {
        let tcb = ManuallyDrop::new(self).tcb();
        // SAFETY: the thread has ended, and we have its handle.
        let result = unsafe { tcb.own.payload.take_result() };
        let result = result.unwrap_or_else(|| match tcb.own.no_stack.take() {
            Some(error) => Err(Box::new(NoStack(error))),
            None => Err(Box::new(Stopped)),
        });
        // SAFETY: `me` is the calling thread.
        worker::recycle(tcb, unsafe { worker::here_of(me) });
        result
    }

    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.tcb().join.is_done()
    }

    /// The thread, to unpark it.
    pub fn thread(&self) -> &Thread {
        &self.thread
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        let tcb = self.tcb();
        if !tcb.join.detach() {
            let unwinding = tcb.discard_payload();
            worker::recycle(tcb, worker::current());
            if let Some(unwinding) = unwinding {
                unwinding.resume();
            }
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("finished", &self.is_finished()).finish()
    }
}
