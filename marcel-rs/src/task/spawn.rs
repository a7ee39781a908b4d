//! Starting green threads.

use std::io;

use crate::recorder;
use crate::recorder::event;
use crate::sched::here;
use crate::sched::shared::Shared;
use crate::sched::vp::Kind;
use crate::sched::worker::{self, Here};
use crate::stack::memory::MIN_SIZE;
use crate::task::current::Thread;
use crate::task::join::JoinHandle;
use crate::tcb::block::Tcb;
use crate::tcb::traits::{Bubble, Priority, Traits};
use crate::topology::Object;

/// Configures a thread.
#[must_use = "a builder starts nothing until `spawn` is called"]
#[derive(Clone, Debug, Default)]
pub struct Builder {
    name: Option<String>,
    stack_size: usize,
    reactive: bool,
    priority: Priority,
    bubble: Option<Bubble>,
    place: Option<Object>,
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

    /// Its priority. That of a bound thread counts once it has started.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// The bubble that it belongs to, instead of its spawner's: see [`crate::policy::Bubbles`].
    pub fn bubble(mut self, bubble: Bubble) -> Self {
        self.bubble = Some(bubble);
        self
    }

    /// A part of the machine: the thread runs on a virtual processor whose core belongs to it.
    ///
    /// ```
    /// let runtime = marcel::Runtime::builder().build()?;
    /// runtime.run(|| {
    ///     let anywhere = "machine".parse().unwrap();
    ///     let thread = marcel::Builder::new().bind(anywhere).spawn(|| marcel::current_vp().unwrap().cpu());
    ///     assert!(thread.unwrap().join().unwrap().is_some());
    /// });
    /// # Ok::<(), marcel::Error>(())
    /// ```
    pub fn bind(mut self, place: Object) -> Self {
        self.place = Some(place);
        self
    }

    /// Starts the thread in the runtime of the calling green thread.
    ///
    /// # Context
    /// A green thread. # Wakes: a virtual processor that sleeps, if there is one.
    ///
    /// # Thread-locals
    /// The contract of [`spawn`] holds for every green thread, however it is started.
    ///
    /// # Errors
    /// The name holds a NUL; the stack is smaller than 16 KiB; there is no memory; the place does not exist, is
    /// outside the allowed cores, or has no virtual processor; the caller is not a green thread.
    pub fn spawn<T: Send + 'static>(
        self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let Some(worker) = worker::current() else {
            return Err(io::Error::other(
                "no runtime here: green threads are started by green threads or by Runtime::spawn",
            ));
        };
        // SAFETY: everything is 'static.
        unsafe { self.spawn_unchecked(&worker.shared, f) }
    }

    /// As [`Builder::spawn`], of a thread that will not be joined; what it returns is dropped.
    ///
    /// # Context, Wakes, Errors
    /// As [`Builder::spawn`].
    pub fn spawn_detached<T: Send + 'static>(
        self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Thread> {
        self.spawn(f).map(|handle| *handle.thread())
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
        let bound = self.place.map(|place| node_of(shared, place, self.reactive)).transpose()?;
        let worker = worker::current();
        // SAFETY: the caller's promise; `f` and `T` may go to other kernel threads.
        let tcb = unsafe { load(worker, f) }?;
        let bubble = self.bubble.unwrap_or_else(spawner_s_bubble);
        tcb.own.traits.set(Traits { priority: self.priority, bubble, bound });
        tcb.own.stack_size.set(self.stack_size);
        if let Some(name) = self.name {
            tcb.set_name(Some(name.into_boxed_str()));
        }
        event!("spawn", thread = tcb.info.number(), name = tcb.name());
        let name = tcb.own.traced.get();
        recorder::often(recorder::Kind::Spawn, tcb.info.number().into(), name.into());
        let handle = JoinHandle::new(Thread::new(tcb));
        let kind = shared.kind_for(self.reactive);
        let usual = self.priority == Priority::Normal && bound.is_none();
        match worker {
            Some(worker)
                if usual && worker.kind() == kind && std::ptr::eq(&*worker.shared, shared) =>
            {
                worker.spawn(tcb)
            }
            _ => shared.inject(kind, tcb),
        }
        Ok(handle)
    }
}

/// The bubble of the spawner. The default one, if no thread spawns: a virtual processor calls the I/O manager's callbacks
/// between two threads, and the one that it ran last may have ended.
#[inline]
fn spawner_s_bubble() -> Bubble {
    here::tcb().map_or(Bubble::default(), |me| me.own.traits.get().bubble)
}

/// The node of the topology that a thread is to be bound to.
fn node_of(shared: &Shared, place: Object, reactive: bool) -> io::Result<u32> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    if shared.kind_for(reactive) == Kind::Reactive {
        return Err(invalid(
            "a reactive thread is where the kernel puts it: it cannot be bound".into(),
        ));
    }
    let node = shared.topology.node_of(place).map_err(|error| invalid(error.to_string()))?;
    let compute = shared.vps(Kind::Compute);
    if compute.iter().any(|vp| vp.place.path.contains(&node)) {
        return Ok(node as u32);
    }
    let cores: Vec<_> = compute.iter().filter_map(|vp| vp.cpu()).collect();
    Err(invalid(format!(
        "this runtime has no virtual processor on {place}: they are on the cores {cores:?} \
         (MARCEL_NVP, MARCEL_FIRSTCPU)"
    )))
}

/// A control block that carries `f`.
///
/// # Safety
/// What `f` borrows must outlive the thread.
#[inline]
unsafe fn load<T: Send>(
    here: Option<Here>,
    f: impl FnOnce() -> T + Send,
) -> io::Result<&'static Tcb> {
    let tcb = worker::allocate(here);
    // SAFETY: a block from the pool is ours, and empty.
    match unsafe { tcb.own.payload.load(f) } {
        Ok(()) => Ok(tcb),
        Err(f) => {
            worker::recycle(tcb, here);
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
/// # Thread-locals
/// Threads of one virtual processor share the thread-locals of its kernel thread: those of `std` and of C. This is the
/// one place where safe code can break memory safety, so a thread, and what it calls, must keep to a contract. A thread
/// must not wait or yield while it is inside
///
/// * the initialiser of a lazy `std::thread_local!`: a second thread makes the value and borrows it, then the first one
///   replaces it and drops what is borrowed;
/// * a function that sets a thread-local to a reference, runs a closure and restores what was there, such as
///   `scoped_tls::ScopedKey::set`: scopes of two threads end out of turn, and a reference outlives its frame;
/// * a closure of `std::thread::LocalKey::with`, if unsafe code gives it a reference that another call of `with`, made
///   before the closure ends, could invalidate.
///
/// Fine are waits inside `with` of a value that safe code alone uses (a `RefCell` may be found borrowed, and panics),
/// values that are not `Send`, a `const { … }` initialiser, and all of [`crate::thread_local!`], which has a value for
/// each green thread. `MARCEL_CHECK=1`, the default in builds with debug assertions, ends the process with a message at
/// the first wait of the first two kinds.
///
/// # Panics
/// Outside a runtime: use [`crate::Runtime::spawn`] there. When there is no memory.
#[inline]
pub fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let Some(worker) = worker::current() else { refuse("no runtime here: use Runtime::spawn") };
    // SAFETY: everything is 'static.
    let tcb = match unsafe { load(Some(worker), f) } {
        Ok(tcb) => tcb,
        Err(error) => refuse(&error),
    };
    let bubble = spawner_s_bubble();
    if bubble != Bubble::default() {
        tcb.own.traits.set(Traits { bubble, ..Traits::default() });
    }
    event!("spawn", thread = tcb.info.number());
    worker.record_often(recorder::Kind::Spawn, tcb.info.number(), 0);
    let handle = JoinHandle::new(Thread::new(tcb));
    match worker.kind() == worker.shared.kind_for(false) {
        true => worker.spawn(tcb),
        false => worker.shared.inject(worker.shared.kind_for(false), tcb),
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
    let Some(tcb) = here::tcb() else { return };
    // A thread that would begin when its runtime stops only drops what it has.
    if !tcb.own.unwinding.get() {
        // SAFETY: a running thread owns its payload.
        unsafe { tcb.own.payload.run() };
    }
    tcb.own.locals.destroy();
    // The payload of a forced unwind is the context's own business: `Stopped` stands for it. The result of a
    // detached thread is dropped here rather than by the scheduler, which must not run the program's destructors.
    if (tcb.own.unwinding.get() || tcb.join.is_detached())
        && let Some(unwinding) = tcb.discard_payload()
    {
        unwinding.at_the_end_anyway();
    }
    // The result's destructor may have used some.
    tcb.own.locals.finish();
}
