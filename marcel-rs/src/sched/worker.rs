//! The worker of a virtual processor: what its kernel thread owns, and how threads come to it. The loop itself:
//! `schedule`.
//!
//! # What runs where
//! A *compute* virtual processor is bound to a core. A *reactive* one is bound to none and asks the kernel
//! for a short time slice: when something wakes its kernel thread, the kernel lets it preempt a computing
//! one. A started thread stays on its virtual processor for life; only threads that never ran
//! are taken by others.
//!
//! # Where a runnable thread waits
//! * never run: the deque of the virtual processor that spawned it (newest first for the owner, oldest first
//!   for thieves); or a queue that all may take from (`steal`) if a kernel thread or a virtual processor of the
//!   other kind spawned it, if it is bound to a part of the machine, or if its priority is not the usual one;
//! * woken by its own virtual processor, or yielding: its policy (no atomics);
//! * woken by anyone else, signal handlers included: the inbox (or, where threads migrate, another one that neighbours
//!   look into).
//!
//! How it goes to sleep without losing a wake-up: `rest`.
//!
//! Rejected: a global run queue (one contended line for each switch); stealing started threads (unsound in
//! Rust: thread-locals and `!Send` values may be held across the switch), unless the program takes the
//! responsibility: see [`crate::RuntimeBuilder::migrate_started_threads`] and `steal`.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{Ordering::*, fence};
use std::time::Instant;

use crate::os::this_thread;
use crate::os::words::{self, WORKER};
use crate::recorder::{self, Limiter, event};
use crate::sched::here;
use crate::sched::hooks::Hooks;
use crate::sched::policy::{Order, Why};
use crate::sched::shared::Shared;
use crate::sched::spawned::Spawned;
use crate::sched::timer::Timers;
use crate::sched::vp::{Kind, Place, Vp};
use crate::stack::pool::ContextCache;
use crate::tcb::block::{Tcb, TcbCache};

/// A virtual processor and what its kernel thread has. Immortal, as control blocks are.
pub(crate) struct Worker {
    pub(crate) vp: Vp,
    pub(crate) shared: Link,
    /// Of a standby: the virtual processor for which it stands by.
    pub(crate) original: Option<&'static Vp>,
    /// Whether it keeps what it has spawned first in, first out.
    pub(crate) fifo: bool,
    core: UnsafeCell<Core>,
    /// There is a [`CoreGuard`].
    #[cfg(debug_assertions)]
    taken: std::cell::Cell<bool>,
}

impl Deref for Worker {
    type Target = Vp;

    #[inline(always)]
    fn deref(&self) -> &Vp {
        &self.vp
    }
}

/// What only the worker's kernel thread touches, and never a signal handler.
///
/// [`Here::core`] reaches it, for the scheduler, for the running thread and for the I/O manager.
///
/// Invariant: while there is a guard nothing runs that could ask for another, but policies of the program's own. These
/// are fenced off (`Vp::fenced`): for them there is no core. Debug builds check the invariant.
pub(crate) struct Core {
    pub(crate) order: Order,
    pub(crate) spawned: Spawned,
    pub(crate) tcbs: TcbCache,
    pub(crate) contexts: ContextCache,
    pub(crate) timers: Timers,
    /// Started, unfinished threads, to unwind at shutdown; each knows its place.
    pub(crate) live: Vec<&'static Tcb>,
    /// How many of them are suspended in a panic; see `unwinding`.
    pub(crate) panicking: usize,
    pub(crate) picks: u32,
    /// To be run next, if it can: a thread yields to it.
    pub(crate) run_next: Option<&'static Tcb>,
    /// After its next pick it wakes another worker for what is left: see `rest`.
    pub(crate) wakes_next: bool,
    /// It is bound to its group's core.
    pub(crate) meets: bool,
    /// Which resumptions are recorded, and which of the other events of its threads.
    pub(crate) switches: Limiter,
    pub(crate) events: Limiter,
}

// SAFETY: `core` is touched through a `Here` only, which one kernel thread has, or by the owner of a worker without a
// kernel thread (`idle_core`). The rest is atomics and `Sync` parts.
unsafe impl Sync for Worker {}
// SAFETY: built on one kernel thread, given to the one that will run it.
unsafe impl Send for Worker {}

/// What a virtual processor shares with the others, while its runtime lives. Its own kernel thread and the owners of
/// the runtime use it.
pub(crate) struct Link {
    shared: UnsafeCell<Option<Arc<Shared>>>,
    hooks: UnsafeCell<Option<Arc<dyn Hooks>>>,
}

/// What a runtime gives each of its workers: what they share, and the I/O manager.
pub(crate) type RuntimeParts = (Arc<Shared>, Option<Arc<dyn Hooks>>);

// SAFETY: changed only while the virtual processor has no kernel thread and no thread has its runtime.
unsafe impl Sync for Link {}
// SAFETY: as above.
unsafe impl Send for Link {}

impl Link {
    pub(crate) fn new((shared, hooks): RuntimeParts) -> Link {
        Link { shared: UnsafeCell::new(Some(shared)), hooks: UnsafeCell::new(hooks) }
    }

    #[inline]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        // SAFETY: see `Sync`.
        unsafe { &*self.shared.get() }.as_ref().expect("its runtime lives")
    }

    /// The I/O manager, to keep.
    pub(crate) fn hooks_owned(&self) -> Option<Arc<dyn Hooks>> {
        // SAFETY: see `Sync`.
        unsafe { &*self.hooks.get() }.clone()
    }

    /// The I/O manager.
    #[inline]
    pub(crate) fn hooks(&self) -> Option<&dyn Hooks> {
        // SAFETY: see `Sync`.
        unsafe { &*self.hooks.get() }.as_deref()
    }

    /// Has another runtime from now on.
    ///
    /// # Safety
    /// No other thread uses it meanwhile.
    pub(crate) unsafe fn attach(&self, (shared, hooks): RuntimeParts) {
        // SAFETY: the caller's promise.
        unsafe {
            *self.shared.get() = Some(shared);
            *self.hooks.get() = hooks;
        }
    }

    /// Has no runtime from now on.
    ///
    /// # Safety
    /// No other thread uses it meanwhile.
    pub(crate) unsafe fn detach(&self) {
        // SAFETY: the caller's promise.
        unsafe {
            *self.shared.get() = None;
            *self.hooks.get() = None;
        }
    }
}

impl Deref for Link {
    type Target = Shared;

    #[inline]
    fn deref(&self) -> &Shared {
        self.shared()
    }
}

/// The right to a worker's core, for a moment.
pub(crate) struct CoreGuard(Here);

impl Deref for CoreGuard {
    type Target = Core;

    #[inline(always)]
    fn deref(&self) -> &Core {
        // SAFETY: on the worker's kernel thread, as a `Here` says, and there is one guard: the core's invariant.
        unsafe { &*self.0.worker.core.get() }
    }
}

impl DerefMut for CoreGuard {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Core {
        // SAFETY: as above.
        unsafe { &mut *self.0.worker.core.get() }
    }
}

#[cfg(debug_assertions)]
impl Drop for CoreGuard {
    fn drop(&mut self) {
        self.0.note_taken(false);
    }
}

/// The worker that the calling kernel thread is: the right to its core.
#[derive(Clone, Copy)]
pub(crate) struct Here {
    worker: &'static Worker,
    _not_send: PhantomData<*const ()>,
}

impl Deref for Here {
    type Target = Worker;

    #[inline(always)]
    fn deref(&self) -> &Worker {
        self.worker
    }
}

impl Here {
    /// The core, until the guard is dropped: before anything that may wait or wake. `None` in a policy of the program's
    /// own, which may call anything.
    ///
    /// # Context
    /// As [`Here::own_core`], policies included.
    #[inline(always)]
    pub(crate) fn core(self) -> Option<CoreGuard> {
        if self.vp.fenced.load(Relaxed) { None } else { Some(self.own_core()) }
    }

    /// As [`Here::core`], for the scheduler's loop, which runs inside no policy.
    ///
    /// # Context
    /// Not a signal handler, not a policy, and not a holder of the core: debug builds panic. A release build does not
    /// check it, since each pick, each spawn and each wake-up would pay for two stores.
    #[inline(always)]
    pub(crate) fn own_core(self) -> CoreGuard {
        debug_assert!(!this_thread::in_tick() && !self.vp.fenced.load(Relaxed));
        self.note_taken(true);
        CoreGuard(self)
    }

    /// Calls `f` with the core: see [`Here::core`].
    #[inline(always)]
    pub(crate) fn with<R>(self, f: impl FnOnce(&mut Core) -> R) -> Option<R> {
        self.core().map(|mut core| f(&mut core))
    }

    #[inline(always)]
    fn note_taken(self, _now: bool) {
        #[cfg(debug_assertions)]
        assert!(self.worker.taken.replace(_now) != _now, "one at a time has a worker's core");
    }

    pub(crate) fn worker(self) -> &'static Worker {
        self.worker
    }
}

/// The worker that the calling kernel thread is. A signal handler may ask.
#[inline(always)]
pub(crate) fn current() -> Option<Here> {
    // SAFETY: null, or of `become_worker`.
    let worker = unsafe { words::get::<WORKER>().cast::<Worker>().as_ref() };
    worker.map(|worker| Here { worker, _not_send: PhantomData })
}

/// The calling kernel thread is this worker from now on.
///
/// # Safety
/// No other kernel thread is, or will be before [`cease`].
pub(crate) unsafe fn become_worker(worker: &'static Worker) -> Here {
    words::set::<WORKER>(std::ptr::from_ref(worker).cast_mut().cast());
    here::set_vp(Some(&worker.vp));
    Here { worker, _not_send: PhantomData }
}

/// The calling kernel thread is no worker any more.
pub(crate) fn cease() {
    words::set::<WORKER>(std::ptr::null_mut());
    here::set_vp(None);
}

/// The worker of a started green thread; `None` for a kernel thread and before the first run.
#[inline]
fn home_of(tcb: &Tcb, order: std::sync::atomic::Ordering) -> Option<&'static Worker> {
    // SAFETY: null, or an immortal worker: `set_home` has stored it.
    unsafe { tcb.home.load(order).cast::<Worker>().as_ref() }
}

/// The worker of the running thread `tcb`, which asks; none for a kernel thread outside a runtime, nor for a thread
/// that got no stack and drops its closure in the scheduler.
///
/// # Safety
/// The caller is that thread.
#[inline]
pub(crate) unsafe fn here_of(tcb: &Tcb) -> Option<Here> {
    home_of(tcb, Relaxed).map(|worker| Here { worker, _not_send: PhantomData })
}

/// A control block for a new thread.
#[inline]
pub(crate) fn allocate(here: Option<Here>) -> &'static Tcb {
    let kept = here.and_then(|here| here.with(|core| Tcb::allocate(Some(&mut core.tcbs))));
    kept.unwrap_or_else(|| Tcb::allocate(None))
}

/// Gives the block of an ended thread back.
#[inline]
pub(crate) fn recycle(tcb: &'static Tcb, here: Option<Here>) {
    let kept = here.and_then(|here| here.with(|core| tcb.recycle(Some(&mut core.tcbs))));
    kept.unwrap_or_else(|| tcb.recycle(None));
}

/// Makes the token available, and the thread runnable if it is parked.
///
/// Safe in a signal handler: atomics, an intrusive push, at most one non-blocking system call.
pub(crate) fn unpark(tcb: &'static Tcb) {
    event!("unpark", thread = tcb.info.number());
    // Before the wake-up: afterwards the thread may be another one.
    recorder::often(recorder::Kind::Unpark, tcb.info.number().into(), 0);
    let parked = tcb.park.notify();
    let home = home_of(tcb, Acquire);
    if parked {
        // It stays parked, and so at home there, until we have pushed it.
        home.expect("a parked thread has a home").wake(tcb);
    } else if home.is_none() {
        tcb.sleeper.notify();
    }
}

impl Worker {
    pub(crate) fn new(
        link: Link,
        number: (Kind, usize),
        place: Place,
        order: Order,
        spawned: Spawned,
    ) -> Worker {
        let (vp, fifo) = (Vp::new(number, place, spawned.stealer()), spawned.is_fifo());
        let core = Core {
            order,
            spawned,
            tcbs: TcbCache::default(),
            contexts: ContextCache::default(),
            timers: Timers::default(),
            live: Vec::new(),
            panicking: 0,
            picks: 0,
            run_next: None,
            wakes_next: false,
            meets: false,
            switches: Limiter::default(),
            events: Limiter::default(),
        };
        Worker {
            vp,
            shared: link,
            original: None,
            fifo,
            core: UnsafeCell::new(core),
            #[cfg(debug_assertions)]
            taken: std::cell::Cell::new(false),
        }
    }

    /// A standby for `original`: numbered after those of its kind; it steals from its original first.
    pub(crate) fn new_standby(original: &'static Worker, parts: RuntimeParts) -> Worker {
        let kind = original.kind();
        let number = (kind, parts.0.vps(kind).len() + original.index());
        let mut place = original.place.clone();
        place.steal_order.insert(0, original.index());
        let order = parts.0.new_order(kind);
        // No other worker steals from it: it keeps no thread that others could run.
        let worker = Worker::new(Link::new(parts), number, place, order, Spawned::new(true, false));
        Worker { original: Some(&original.vp), ..worker }
    }

    /// The started thread `tcb` is at home here.
    #[inline]
    pub(crate) fn take_home(&'static self, tcb: &Tcb) {
        tcb.home.store(std::ptr::from_ref(self).cast_mut().cast(), Release);
    }

    /// Whether the started thread `tcb` is at home here.
    #[inline]
    pub(crate) fn is_home_of(&self, tcb: &Tcb) -> bool {
        std::ptr::eq(tcb.home.load(Relaxed).cast(), self)
    }

    /// The core of a worker without a kernel thread.
    ///
    /// # Safety
    /// It has none, and no other thread calls this.
    pub(crate) unsafe fn idle_core<R>(&self, f: impl FnOnce(&mut Core) -> R) -> R {
        // SAFETY: the caller's promise.
        f(unsafe { &mut *self.core.get() })
    }

    /// Whether it may take threads that never ran from others.
    #[inline]
    pub(crate) fn may_take(&self) -> bool {
        self.original.is_none() || self.lending.is_on()
    }

    /// Whether the caller runs on this worker. A thread that may have migrated since it last looked may ask.
    #[inline(never)]
    pub(crate) fn is_here(&self) -> bool {
        current().is_some_and(|here| std::ptr::eq(here.worker, self))
    }

    /// Makes a parked thread of this worker runnable. Anywhere, signal handlers included.
    #[inline]
    fn wake(&'static self, tcb: &'static Tcb) {
        if let Some(here) = current()
            && std::ptr::eq(here.worker, self)
            && !this_thread::in_tick()
            && let Some(mut core) = here.core()
        {
            core.order.put(tcb, Why::Woken);
        } else {
            self.wake_from_elsewhere(tcb);
        }
    }

    /// After the push the thread may come to its end, and its runtime with it: from there on this touches only what is
    /// immortal, or what `abandon` protects by waiting for `wakers`.
    pub(crate) fn wake_from_elsewhere(&self, tcb: &'static Tcb) {
        if !self.shared.migrating() || !tcb.may_migrate() {
            self.inbox.push(tcb);
            fence(SeqCst);
            self.sleeper.notify();
            return;
        }
        self.wakers.fetch_add(1, Relaxed);
        self.movable.push(tcb);
        fence(SeqCst);
        self.sleeper.notify();
        if self.is_busy() {
            self.shared.wake_for_work(self.kind());
        }
        self.wakers.fetch_sub(1, Release);
    }

    /// As [`unpark`], by the scheduler of this worker.
    #[inline]
    pub(crate) fn unpark(&'static self, core: &mut Core, tcb: &'static Tcb) {
        event!("unpark", thread = tcb.info.number());
        core.record_often(recorder::Kind::Unpark, tcb.info.number(), 0);
        let parked = tcb.park.notify();
        match home_of(tcb, Acquire) {
            Some(home) if parked && std::ptr::eq(home, self) => core.order.put(tcb, Why::Woken),
            Some(home) if parked => home.wake_from_elsewhere(tcb),
            Some(_) => {}
            None => tcb.sleeper.notify(),
        }
    }
}

/// What the running thread, or the I/O manager, asks of its worker.
impl Here {
    /// Whether woken or yielding threads wait in its queues.
    #[inline]
    pub(crate) fn has_runnable(self) -> bool {
        self.has_mail() || self.with(|core| core.order.len() > 0) == Some(true)
    }

    /// Whether it has started threads other than the running one, or others are on their way to it.
    pub(crate) fn holds_others(self) -> bool {
        self.has_runnable() || self.with(|core| core.live.len() > 1) == Some(true)
    }

    /// Whether a queue that it serves holds a thread.
    pub(crate) fn has_work(self) -> bool {
        self.with(|core| self.has_work_beside(core)) == Some(true)
    }

    /// Opens the threads that never ran to a thief: see [`Spawned`].
    pub(crate) fn share_spawned(self) -> bool {
        self.with(|core| core.spawned.share()) == Some(true)
    }

    /// Closes them again.
    pub(crate) fn unshare_spawned(self) {
        self.with(|core| core.spawned.unshare());
    }

    /// Queues a thread that never ran.
    #[inline]
    pub(crate) fn spawn(self, tcb: &'static Tcb) {
        let pushed = self.with(|core| self.spawn_from(core, tcb));
        pushed.unwrap_or_else(|| self.shared.inject(self.kind(), tcb));
    }

    /// As [`Here::spawn`], by the holder of the core.
    #[inline]
    pub(crate) fn spawn_from(self, core: &mut Core, tcb: &'static Tcb) {
        if self.original.is_some() {
            return self.shared.inject(self.kind(), tcb); // it may not be there to run it
        }
        core.spawned.push(tcb);
        if core.spawned.is_shared() {
            self.shared.wake_for_work(self.kind());
        }
    }

    /// For the trace, what its running thread does: see [`recorder::often`].
    #[inline(always)]
    pub(crate) fn record_often(self, kind: recorder::Kind, a: u32, b: u32) {
        if recorder::is_on() {
            self.with(|core| core.record_often(kind, a, b));
        }
    }

    /// The running thread yields to `tcb`.
    pub(crate) fn run_next(self, tcb: &'static Tcb) {
        self.with(|core| core.run_next = Some(tcb));
    }

    /// Wakes `tcb`, which parks right after this, at `deadline`.
    pub(crate) fn add_timer(self, deadline: Instant, tcb: &'static Tcb) {
        let added = self.with(|core| {
            core.timers.add(deadline, tcb);
            if self.shared.migrating() {
                core.timers.forget(self.stale_timers.swap(0, Relaxed));
            }
        });
        added.expect("a thread that parks does not run inside the scheduler");
    }

    /// A timer that the running thread has set here is not needed any more. The thread may have migrated since.
    pub(crate) fn forget_timer(self) {
        if self.is_here() {
            self.with(|core| core.timers.forget(1));
        } else {
            self.stale_timers.fetch_add(1, Relaxed);
        }
    }
}

impl Core {
    /// For the trace: see [`recorder::often`].
    #[inline(always)]
    pub(crate) fn record_often(&self, kind: recorder::Kind, a: u32, b: u32) {
        if recorder::is_on() && !self.events.holds() {
            recorder::let_through(&self.events, kind, a, b);
        }
    }
}
