//! Starting green threads, and joining them.

use std::cell::UnsafeCell;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::context::stack::MIN_SIZE;
use crate::runtime::Shared;
use crate::thread::current::Thread;
use crate::thread::latch::Latch;
use crate::thread::local_key;
use crate::thread::tcb::{Entry, Tcb};
use crate::vp::local;

/// Payload of the panic that a join handle reports for a thread that could not run to its end: its runtime
/// stopped, or there was no memory for its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the thread did not run to its end: its runtime stopped, or it got no stack")
    }
}

/// Where a thread leaves its result for whoever joins it.
struct Packet<T> {
    result: UnsafeCell<Option<std::thread::Result<T>>>,
    ended: Latch,
}

// SAFETY: the result is written before the latch is set and read after it is seen set.
unsafe impl<T: Send> Sync for Packet<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Packet<T> {}

/// The thread's end of a packet: sets the latch however the thread ends, or if it never starts.
struct Finish<T>(Arc<Packet<T>>);

impl<T> Finish<T> {
    fn set(&mut self, result: std::thread::Result<T>) {
        // SAFETY: only this end writes, before the latch is set.
        unsafe { *self.0.result.get() = Some(result) };
    }
}

impl<T> Drop for Finish<T> {
    fn drop(&mut self) {
        self.0.ended.set();
    }
}

/// Owned right to wait for a thread's end. Dropping it detaches the thread.
pub struct JoinHandle<T> {
    packet: Arc<Packet<T>>,
    thread: Thread,
}

impl<T> JoinHandle<T> {
    /// Waits for the thread's end: its value, or the payload of its panic.
    ///
    /// # Blocking
    /// The calling green thread; outside a runtime, the kernel thread.
    ///
    /// # Errors
    /// The thread panicked, or did not run to its end ([`Stopped`]).
    pub fn join(self) -> std::thread::Result<T> {
        self.packet.ended.wait("join");
        // SAFETY: the latch is set: the thread's end has written and is gone.
        unsafe { (*self.packet.result.get()).take() }.unwrap_or_else(|| Err(Box::new(Stopped)))
    }

    /// As [`JoinHandle::join`], unless the calling thread has been asked to stop: then the handle comes back.
    ///
    /// # Blocking
    /// As [`JoinHandle::join`].
    ///
    /// # Errors
    /// The handle, when the caller has been asked to stop before the thread's end.
    pub fn join_interruptible(self) -> Result<std::thread::Result<T>, JoinHandle<T>> {
        match self.packet.ended.wait_interruptible("join") {
            Ok(()) => Ok(self.join()),
            Err(_) => Err(self),
        }
    }

    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.packet.ended.is_set()
    }

    /// The thread, to unpark it.
    pub fn thread(&self) -> &Thread {
        &self.thread
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("finished", &self.is_finished()).finish()
    }
}

/// Configures a thread.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    name: Option<String>,
    stack_size: usize,
    reactive: bool,
}

impl Builder {
    /// A compute thread without a name, on a stack of the default size.
    pub fn new() -> Self {
        Self::default()
    }

    /// Its name, for messages.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Size of its stack in bytes; 0 for the default.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// A reactive thread lives on a virtual processor of its kind, whose kernel thread preempts computing
    /// ones when it is woken: for communication, completion handlers, services.
    pub fn reactive(mut self, yes: bool) -> Self {
        self.reactive = yes;
        self
    }

    /// Starts the thread in the runtime of the calling green thread.
    ///
    /// # Context
    /// A green thread.
    ///
    /// # Errors
    /// The name holds a NUL; the stack is smaller than 16 KiB; the caller is not a green thread.
    pub fn spawn<T: Send + 'static>(
        self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
        if self.name.as_deref().is_some_and(|n| n.contains('\0')) {
            return Err(invalid("a thread's name must not contain NUL".into()));
        }
        if self.stack_size != 0 && self.stack_size < MIN_SIZE {
            return Err(invalid(format!(
                "a stack of {} bytes is too small; at least {MIN_SIZE}",
                self.stack_size
            )));
        }
        let Some(vp) = local::vp() else {
            return Err(io::Error::other(
                "no runtime here: green threads are started by green threads or by Runtime::spawn",
            ));
        };
        // SAFETY: everything is 'static.
        Ok(unsafe { self.spawn_unchecked(&vp.shared, f) })
    }

    /// # Safety
    /// What `f` borrows must outlive the thread.
    pub(crate) unsafe fn spawn_unchecked<T: Send>(
        self,
        shared: &Shared,
        f: impl FnOnce() -> T + Send,
    ) -> JoinHandle<T> {
        let packet = Arc::new(Packet { result: UnsafeCell::new(None), ended: Latch::new() });
        let mut finish = Finish(packet.clone());
        let entry: Box<dyn FnOnce() + '_> = Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(f));
            // Before whoever joins goes on.
            local_key::destroy();
            // The payload of a forced unwind is the context's own business: `Stopped` stands for it.
            match crate::thread::tcb::current().own.unwinding.get() {
                true => finish.set(Err(Box::new(Stopped))),
                false => finish.set(result),
            }
            drop(finish);
            // A detached thread's result may have used some.
            local_key::finish();
        });
        // SAFETY: the caller's promise.
        let entry: Entry =
            unsafe { std::mem::transmute::<Box<dyn FnOnce() + '_>, Box<dyn FnOnce()>>(entry) };
        let tcb = Tcb::allocate();
        // SAFETY: a block from the pool is ours until it is queued.
        unsafe {
            *tcb.own.entry.get() = Some(entry);
        }
        if let Some(name) = self.name {
            tcb.set_name(Some(name.into_boxed_str()));
        }
        tcb.own.stack_size.set(self.stack_size);
        let kind = shared.kind_for(self.reactive);
        match local::vp() {
            Some(vp) if vp.kind() == kind && std::ptr::eq(&*vp.shared, shared) => vp.spawn(tcb),
            _ => shared.inject(kind, tcb),
        }
        JoinHandle { packet, thread: Thread::new(tcb) }
    }
}

/// Starts a compute thread in the runtime of the calling green thread.
///
/// # Context
/// A green thread. # Wakes: a virtual processor that sleeps, if there is one.
///
/// # Panics
/// Outside a runtime: use [`crate::Runtime::spawn`] there.
pub fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    match Builder::new().spawn(f) {
        Ok(handle) => handle,
        Err(error) => panic!("marcel::spawn: {error}"),
    }
}
