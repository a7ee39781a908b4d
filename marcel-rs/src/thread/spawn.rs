//! Starting green threads.

use std::io;

use crate::context::stack::MIN_SIZE;
use crate::runtime::Shared;
use crate::thread::current::Thread;
use crate::thread::join::JoinHandle;
use crate::thread::local_key;
use crate::thread::tcb::Tcb;
use crate::vp::local;

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
    /// A green thread. # Wakes: a virtual processor that sleeps, if there is one.
    ///
    /// # Errors
    /// The name holds a NUL; the stack is smaller than 16 KiB; there is no memory; the caller is not a green
    /// thread.
    pub fn spawn<T: Send + 'static>(
        self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let Some(vp) = local::vp() else {
            return Err(io::Error::other(
                "no runtime here: green threads are started by green threads or by Runtime::spawn",
            ));
        };
        // SAFETY: everything is 'static.
        unsafe { self.spawn_unchecked(&vp.shared, f) }
    }

    /// # Safety
    /// What `f` borrows must outlive the thread.
    pub(crate) unsafe fn spawn_unchecked<T: Send>(
        self,
        shared: &Shared,
        f: impl FnOnce() -> T + Send,
    ) -> io::Result<JoinHandle<T>> {
        let invalid = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        if self.name.as_deref().is_some_and(|n| n.contains('\0')) {
            return invalid("a thread's name must not contain NUL".into());
        }
        if self.stack_size != 0 && self.stack_size < MIN_SIZE {
            return invalid(format!(
                "a stack of {} bytes is too small; at least {MIN_SIZE}",
                self.stack_size
            ));
        }
        // SAFETY: the caller's promise; `f` and `T` may go to other kernel threads.
        let tcb = unsafe { load(f) }?;
        tcb.own.stack_size.set(self.stack_size);
        if let Some(name) = self.name {
            tcb.set_name(Some(name.into_boxed_str()));
        }
        let handle = JoinHandle::new(Thread::new(tcb));
        let kind = shared.kind_for(self.reactive);
        match local::vp() {
            Some(vp) if vp.kind() == kind && std::ptr::eq(&*vp.shared, shared) => vp.spawn(tcb),
            _ => shared.inject(kind, tcb),
        }
        Ok(handle)
    }
}

/// A control block that carries `f`.
///
/// # Safety
/// What `f` borrows must outlive the thread.
#[inline]
unsafe fn load<T: Send>(f: impl FnOnce() -> T + Send) -> io::Result<&'static Tcb> {
    let tcb = Tcb::allocate();
    // SAFETY: a block from the pool is ours, and empty.
    match unsafe { tcb.own.cargo.load(f) } {
        Ok(()) => Ok(tcb),
        Err(f) => {
            tcb.recycle();
            drop(f);
            Err(io::Error::new(
                io::ErrorKind::OutOfMemory,
                "no memory for what the thread is to run or to return",
            ))
        }
    }
}

/// Starts a compute thread in the runtime of the calling green thread.
///
/// # Context
/// A green thread. # Wakes: a virtual processor that sleeps, if there is one.
///
/// # Panics
/// Outside a runtime: use [`crate::Runtime::spawn`] there. When there is no memory.
#[inline]
pub fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let Some(vp) = local::vp() else { refuse("no runtime here: use Runtime::spawn") };
    // SAFETY: everything is 'static.
    let tcb = match unsafe { load(f) } {
        Ok(tcb) => tcb,
        Err(error) => refuse(&error),
    };
    let handle = JoinHandle::new(Thread::new(tcb));
    match vp.kind() == vp.shared.kind_for(false) {
        true => vp.spawn(tcb),
        false => vp.shared.inject(vp.shared.kind_for(false), tcb),
    }
    handle
}

#[cold]
fn refuse(why: impl std::fmt::Display) -> ! {
    panic!("marcel::spawn: {why}")
}

/// What a thread does from its first resume to its end, on its own stack. Does not unwind.
pub(crate) fn body() {
    // The virtual processor that resumes a context has made its thread the current one.
    let Some(tcb) = local::tcb() else { return };
    // A thread that would begin when its runtime stops only drops what it has.
    if !tcb.own.unwinding.get() {
        // SAFETY: a running thread owns its cargo.
        unsafe { tcb.own.cargo.run() };
    }
    local_key::destroy();
    // The payload of a forced unwind is the context's own business: `Stopped` stands for it. And what nobody
    // will ask for is dropped here rather than by the scheduler, which must not run anyone's code.
    if tcb.own.unwinding.get() || tcb.join.is_detached() {
        discard(tcb);
    }
    // The result's destructor may have used some.
    local_key::finish();
}

/// Drops the closure or the result of a thread of the caller's.
pub(crate) fn discard(tcb: &'static Tcb) {
    // SAFETY: the caller owns the thread.
    let drop = || unsafe { tcb.own.cargo.discard() };
    // The panic hook has said what there is to say.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(drop));
}
