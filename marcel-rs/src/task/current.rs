//! What a thread does to itself, and the handle that others wake it by.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::os::sleeper::Sleeper;
use crate::sched::here;
use crate::sched::hooks::Hooks;
use crate::sched::vp::Vp;
use crate::sched::worker::{self, Here};
use crate::stack::Switch;
use crate::task::budget;
use crate::task::park::{self, is_stopping, unpark};
use crate::tcb::block::{Tcb, ThreadId};

/// A thread, green or kernel, that can be unparked.
#[derive(Clone, Copy)]
pub struct Thread {
    tcb: &'static Tcb,
    generation: u64,
}

impl Thread {
    pub(crate) fn new(tcb: &'static Tcb) -> Thread {
        Thread { tcb, generation: tcb.interrupt.generation() }
    }

    pub(crate) fn tcb(&self) -> &'static Tcb {
        self.tcb
    }

    /// What tells it from other threads.
    pub fn id(&self) -> ThreadId {
        ThreadId::new(self.tcb, self.generation)
    }

    /// Lets the thread's current or next [`park`] return, whatever else it waits for before that. If the thread has ended,
    /// the next user of its control block may see a spurious wake-up.
    ///
    /// # Context
    /// Anywhere, signal handlers included. # Wakes: the thread.
    pub fn unpark(&self) {
        self.tcb.unparked.notify();
        unpark(self.tcb);
    }

    /// Asks the thread to stop: its next interruptible call, or the one that it waits in, fails with
    /// [`crate::Interrupted`], and so do all others until the thread calls [`crate::clear_interrupt`]. Calls that
    /// are not interruptible ignore it. A thread that has ended is not asked.
    ///
    /// # Context
    /// Anywhere, signal handlers included. # Wakes: the thread.
    pub fn interrupt(&self) {
        if self.tcb.interrupt.ask(self.generation) {
            unpark(self.tcb);
        }
    }
}

/// Lets the thread's current or next [`wait_until`] return.
///
/// # Context
/// Anywhere, signal handlers included. # Wakes: the thread.
pub fn wake(thread: &Thread) {
    unpark(thread.tcb);
}

/// Waits until the calling thread is woken, by [`wake`] or [`Thread::unpark`], or until `deadline`. May return without
/// reason: callers wait in a loop. Takes no unpark away from [`park`]. `reason` is what dumps say that it waits for.
///
/// # Blocking
/// As [`park`].
pub fn wait_until(reason: &'static str, deadline: Option<Instant>) {
    park::park_until(reason, deadline);
}

/// A thread's handle as a pointer, for a lock-free cell.
pub fn into_raw(thread: Thread) -> *mut () {
    thread.tcb as *const Tcb as *mut ()
}

/// The handle back: that of the thread, or, if it has ended, of the thread that has its control block now. So it is for
/// [`wake`], which does no harm there; [`Thread::interrupt`] would stop a stranger.
///
/// # Safety
/// `raw` comes from [`into_raw`].
pub unsafe fn from_raw(raw: *mut ()) -> Thread {
    // SAFETY: control blocks are immortal, and the caller says that this is one.
    Thread::new(unsafe { &*(raw as *const Tcb) })
}

impl PartialEq for Thread {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.tcb, other.tcb) && self.generation == other.generation
    }
}

impl Eq for Thread {}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Thread({:p}.{})", self.tcb, self.generation)
    }
}

/// The calling thread.
pub fn current() -> Thread {
    Thread::new(park::current())
}

/// Where the calling kernel thread sleeps; `None` for a green thread, whose virtual processor sleeps for it.
pub fn current_sleeper() -> Option<&'static Sleeper> {
    if is_green() { None } else { Some(&park::current().sleeper) }
}

/// Whether other green threads wait for the caller's virtual processor to run them.
#[inline]
pub fn others_runnable() -> bool {
    worker::current().is_some_and(Here::has_runnable)
}

/// The caller's virtual processor.
pub fn current_vp() -> Option<&'static Vp> {
    here::vp()
}

/// Whether a queue that the calling kernel thread, a virtual processor, serves holds a thread.
pub fn has_work() -> bool {
    worker::current().is_some_and(Here::has_work)
}

/// The hooks of the calling green thread's runtime, if it has any.
pub fn current_hooks() -> Option<Arc<dyn Hooks>> {
    worker::current()?.shared.hooks_owned()
}

/// Name of the calling green thread, if it has one.
pub fn current_name() -> Option<String> {
    here::tcb().and_then(|tcb| tcb.name().map(str::to_owned))
}

/// Whether the caller is a green thread.
#[inline]
pub fn is_green() -> bool {
    here::vp().is_some()
}

/// Bytes of the calling green thread's stack, in whole pages from its top, that it or an earlier thread on the same
/// memory has used; `None` for a kernel thread. Stacks are reused, and their memory goes back to the kernel
/// when many are idle: the largest value that many threads of a kind see is what that kind needs.
///
/// # Blocking
/// One system call for each 2 MiB of the stack.
pub fn stack_high_water() -> Option<usize> {
    let tcb = here::tcb().filter(|_| is_green())?;
    // SAFETY: a running thread's context stays where it is.
    unsafe { (*tcb.own.context.get()).as_ref() }.map(|context| context.stack().touched())
}

/// Waits until the calling thread is unparked. May return without reason.
///
/// # Blocking
/// The green thread; outside a runtime, the kernel thread.
pub fn park() {
    park::park_for_unpark("park", None);
}

/// As [`park`], for at most `time`.
///
/// # Blocking
/// As [`park`].
pub fn park_timeout(time: Duration) {
    park::park_for_unpark("park", deadline(time));
}

/// As [`park`], until `deadline` at the latest; `reason` is what dumps say that it waits for.
///
/// # Blocking
/// As [`park`].
pub fn park_until(reason: &'static str, deadline: Option<Instant>) {
    park::park_for_unpark(reason, deadline);
}

/// Lets the other runnable threads of the virtual processor run first; outside a runtime, the kernel's.
///
/// Inlined down to the switch, since a return after a switch is predicted wrong unless all threads yield in one
/// place (14 ns); but not what looks at thread-locals, whose addresses may be others where the thread goes on.
#[inline]
pub fn yield_now() {
    if let Some(tcb) = running() {
        // SAFETY: `tcb` is the calling thread.
        unsafe { tcb.switch(Switch::Yield) }
    }
}

/// The calling thread, if it is green and can switch out; another one lets the kernel's others run, here.
#[inline(never)]
fn running() -> Option<&'static Tcb> {
    let tcb = here::vp().and_then(|_| here::tcb());
    let tcb = tcb.filter(|tcb| tcb.has_context());
    if tcb.is_none() {
        std::thread::yield_now();
    }
    tcb
}

/// As [`yield_now`], and lets `thread` run next, if it can run, belongs to the caller's virtual processor, has run
/// before, and is among the first 64 in its line. Elsewhere, or else, it is a [`yield_now`].
#[inline(never)]
pub fn yield_to(thread: &Thread) {
    if let Some(worker) = worker::current() {
        worker.run_next(thread.tcb);
    }
    yield_now();
}

/// Waits for `time`.
///
/// # Blocking
/// The green thread; outside a runtime, the kernel thread.
pub fn sleep(time: Duration) {
    sleep_until_some(deadline(time));
}

/// Waits until `deadline`.
///
/// # Blocking
/// As [`sleep`].
pub fn sleep_until(deadline: Instant) {
    sleep_until_some(Some(deadline));
}

/// Without an end when there is none.
fn sleep_until_some(end: Option<Instant>) {
    budget::spend();
    while end.is_none_or(|end| Instant::now() < end) && !is_stopping() {
        park::park_until("sleep", end);
    }
}

fn deadline(time: Duration) -> Option<Instant> {
    Instant::now().checked_add(time)
}
