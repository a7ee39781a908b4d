//! The worker of a virtual processor: what its kernel thread owns, and how threads come to it. The loop itself: `schedule`.
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
//! # Going to sleep without losing a wake-up
//! ```text
//!   sleeper                               whoever makes work visible
//!   1. announce: idle bit, sleeper word   1. push (inbox, deque or injector)
//!   2. fence                              2. fence
//!   3. last look at every queue           3. an idle bit set? clear it, notify that sleeper
//!   4. sleep
//! ```
//! One of the two sees the other. A thread pushed to an *inbox* has one possible runner, so its sleeper is
//! notified directly. A virtual processor that was woken and finds more than it takes wakes the next one, so
//! a burst of spawns needs no more than one notification each and none is forgotten.
//!
//! Rejected: a global run queue (one contended line for each switch); stealing started threads (unsound in
//! Rust: thread-locals and `!Send` values may be held across the switch), unless the program takes the
//! responsibility: see [`crate::RuntimeBuilder::migrate_started_threads`] and `steal`.

use std::cell::{Cell, UnsafeCell};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{Ordering::*, fence};
use std::time::Instant;

use crate::os::this_thread;
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
    own: UnsafeCell<Own>,
}

impl Deref for Worker {
    type Target = Vp;

    #[inline(always)]
    fn deref(&self) -> &Vp {
        &self.vp
    }
}

/// What only the virtual processor's kernel thread touches, and never a signal handler.
pub(crate) struct Own {
    pub(crate) order: Order,
    pub(crate) spawned: Spawned,
    pub(crate) tcbs: TcbCache,
    pub(crate) contexts: ContextCache,
    pub(crate) timers: Timers,
    /// Started, unfinished threads, to unwind at shutdown; each knows its place.
    pub(crate) live: Vec<&'static Tcb>,
    /// How many of them are suspended in a panic; see `ending`.
    pub(crate) panicking: usize,
    pub(crate) picks: Cell<u32>,
    /// To be run next, if it can: somebody yields to it.
    pub(crate) favourite: Cell<Option<&'static Tcb>>,
    /// It has just found something by looking around.
    pub(crate) looked_around: Cell<bool>,
    /// It is bound to its group's core.
    pub(crate) meets: bool,
    /// Which resumptions are recorded, and which of the other events of its threads.
    pub(crate) switches: Limiter,
    pub(crate) events: Limiter,
}

// SAFETY: `own` is touched by the virtual processor's kernel thread only (the `own()` accessor says so);
// the rest is atomics and `Sync` parts.
unsafe impl Sync for Worker {}
// SAFETY: built on one kernel thread, given to the one that will run it.
unsafe impl Send for Worker {}

/// What a virtual processor shares with the others, while its runtime lives. Used by its own kernel thread, and by who
/// keeps the runtime alive.
pub(crate) struct Link {
    shared: UnsafeCell<Option<Arc<Shared>>>,
    hooks: UnsafeCell<Option<Arc<dyn Hooks>>>,
}

/// What a runtime gives each of its workers: what they share, and the I/O manager.
pub(crate) type RuntimeParts = (Arc<Shared>, Option<Arc<dyn Hooks>>);

// SAFETY: changed only while the virtual processor has no kernel thread and nobody has its runtime.
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

thread_local! {
    /// Constant, and without a destructor: a signal handler may read it.
    static WORKER: Cell<Option<&'static Worker>> = const { Cell::new(None) };
}

/// The worker that the calling kernel thread is. Not inlined: see `here`.
#[inline(never)]
pub(crate) fn current() -> Option<&'static Worker> {
    this_thread::anew();
    WORKER.with(Cell::get)
}

/// The calling kernel thread is this worker from now on, or none.
pub(crate) fn set_current(worker: Option<&'static Worker>) {
    WORKER.with(|own| own.set(worker));
    here::set_vp(worker.map(|worker| &worker.vp));
}

/// The worker of a started green thread; `None` for a kernel thread and before the first run.
#[inline]
fn home_of(tcb: &Tcb, order: std::sync::atomic::Ordering) -> Option<&'static Worker> {
    // SAFETY: null, or an immortal worker: `set_home` has stored it.
    unsafe { tcb.home.load(order).cast::<Worker>().as_ref() }
}

/// The worker of the running thread `tcb`, which asks; none for a kernel thread outside a runtime, nor for a thread that
/// got no stack and drops its closure in the scheduler.
#[inline]
pub(crate) fn own_worker(tcb: &Tcb) -> Option<&'static Worker> {
    home_of(tcb, Relaxed)
}

/// Makes the token available, and the thread runnable if it is parked.
///
/// Safe in a signal handler: atomics, an intrusive push, at most one non-blocking system call.
pub(crate) fn unpark(tcb: &'static Tcb) {
    event!("unpark", thread = tcb.info.number());
    // Before the wake-up: afterwards the thread may be another one.
    recorder::often(recorder::Kind::Unpark, tcb.info.number().into(), 0);
    let parked = tcb.park.notify();
    // A parked thread has a home. It stays parked, and so at home there, until we have pushed it.
    match home_of(tcb, Acquire) {
        Some(home) if parked => home.wake(tcb),
        Some(_) => {}
        None => tcb.sleeper.notify(),
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
        Worker {
            vp: Vp::new(number, place, spawned.stealer()),
            shared: link,
            original: None,
            own: UnsafeCell::new(Own {
                order,
                spawned,
                tcbs: TcbCache::default(),
                contexts: ContextCache::default(),
                timers: Timers::default(),
                live: Vec::new(),
                panicking: 0,
                picks: Cell::new(0),
                favourite: Cell::new(None),
                looked_around: Cell::new(false),
                meets: false,
                switches: Limiter::default(),
                events: Limiter::default(),
            }),
        }
    }

    /// A standby for `original`: numbered after those of its kind; it steals from its original first.
    pub(crate) fn new_standby(original: &'static Worker) -> Worker {
        let shared = original.shared.shared().clone();
        let kind = original.kind();
        let number = (kind, shared.vps(kind).len() + original.index());
        let mut place = original.place.clone();
        place.steal_order.insert(0, original.index());
        let order = shared.new_order(kind);
        let link = Link::new((shared, original.shared.hooks_owned()));
        // No other worker steals from it: it keeps no thread that others could run.
        let worker = Worker::new(link, number, place, order, Spawned::new(true, false));
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

    /// As [`unpark`], by the scheduler of this worker.
    #[inline]
    pub(crate) fn unpark(&'static self, tcb: &'static Tcb) {
        event!("unpark", thread = tcb.info.number());
        self.record_often(recorder::Kind::Unpark, tcb.info.number(), 0);
        let parked = tcb.park.notify();
        match home_of(tcb, Acquire) {
            Some(home) if parked && std::ptr::eq(home, self) => self.wake_here(tcb),
            Some(home) if parked => home.wake_from_elsewhere(tcb),
            Some(_) => {}
            None => tcb.sleeper.notify(),
        }
    }

    /// # Safety
    /// On the virtual processor's kernel thread, not in a signal handler, and no other reference alive.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn own(&self) -> &mut Own {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.own.get() }
    }

    /// Whether woken or yielding threads wait in its queues; asked by its own running thread.
    pub(crate) fn has_runnable(&self) -> bool {
        debug_assert!(self.is_current());
        // SAFETY: on our kernel thread; see `wake`.
        self.has_mail() || unsafe { self.own() }.order.len() > 0
    }

    /// Whether it has started threads other than the running one, which asks, or others are on their way to it.
    pub(crate) fn holds_others(&self) -> bool {
        // SAFETY: on our kernel thread; see `wake`.
        self.has_runnable() || unsafe { self.own() }.live.len() > 1
    }

    /// Opens the threads that never ran to a thief, and closes them again: see [`Spawned`]. By its running thread.
    pub(crate) fn share_spawned(&self) -> bool {
        debug_assert!(self.is_current());
        // SAFETY: on our kernel thread; see `wake`.
        unsafe { self.own() }.spawned.share()
    }

    pub(crate) fn unshare_spawned(&self) {
        // Elsewhere, after a wait within the call: it stays open, which is only slower.
        if self.is_here() {
            // SAFETY: on our kernel thread; see `wake`.
            unsafe { self.own() }.spawned.unshare();
        }
    }

    /// Whether it may take threads that never ran from others.
    #[inline]
    pub(crate) fn may_take(&self) -> bool {
        self.original.is_none() || self.lending.is_on()
    }

    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        here::vp().is_some_and(|vp| std::ptr::eq(vp, &self.vp))
    }

    /// As `is_current`, by a thread that may have migrated since it last looked.
    #[inline(never)]
    pub(crate) fn is_here(&self) -> bool {
        self.is_current()
    }

    /// Makes a parked thread of this virtual processor runnable. Anywhere, signal handlers included.
    #[inline]
    pub(crate) fn wake(&self, tcb: &'static Tcb) {
        if self.is_current() && !this_thread::in_tick() {
            self.wake_here(tcb);
        } else {
            self.wake_from_elsewhere(tcb);
        }
    }

    /// As [`Vp::wake`], on its own kernel thread, not in a signal handler.
    #[inline]
    pub(crate) fn wake_here(&self, tcb: &'static Tcb) {
        debug_assert!(self.is_current() && !this_thread::in_tick());
        // SAFETY: on our kernel thread, not in a handler; nobody holds `own` across a call to here.
        unsafe { self.own() }.order.put(tcb, Why::Woken);
    }

    /// Once it is pushed the thread may come to its end, and its runtime with it: from there on only what is immortal
    /// is touched, or what those are waited for who still touch it.
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

    /// Queues a thread that never ran, spawned by the running thread of this virtual processor.
    #[inline]
    pub(crate) fn spawn(&self, tcb: &'static Tcb) {
        debug_assert!(self.is_current());
        if self.original.is_some() {
            return self.shared.inject(self.kind(), tcb); // it may not be there to run it
        }
        // SAFETY: on our kernel thread; see `wake`.
        let own = unsafe { self.own() };
        own.spawned.push(tcb);
        if own.spawned.is_shared() {
            self.shared.wake_for_work(self.kind());
        }
    }

    /// For the trace, what its running thread or its scheduler does: see [`trace::often`].
    #[inline(always)]
    pub(crate) fn record_often(&self, kind: recorder::Kind, a: u32, b: u32) {
        if recorder::is_on() {
            debug_assert!(self.is_current());
            // SAFETY: on our kernel thread; see `wake`.
            let events = unsafe { &self.own().events };
            if !events.holds() {
                recorder::let_through(events, kind, a, b);
            }
        }
    }

    /// The running thread yields to `tcb`.
    pub(crate) fn favour(&self, tcb: &'static Tcb) {
        debug_assert!(self.is_current());
        // SAFETY: on our kernel thread; see `wake`.
        unsafe { self.own() }.favourite.set(Some(tcb));
    }

    /// Free control blocks. On its kernel thread, not in a signal handler.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub(crate) fn tcbs(&self) -> &mut TcbCache {
        debug_assert!(self.is_current() && !this_thread::in_tick());
        // SAFETY: on our kernel thread; the borrow ends in the caller, which calls nothing of ours meanwhile.
        unsafe { &mut self.own().tcbs }
    }

    /// Wakes `tcb`, which parks right after this, at `deadline`.
    pub(crate) fn add_timer(&self, deadline: Instant, tcb: &'static Tcb) {
        debug_assert!(self.is_current());
        // SAFETY: on our kernel thread; see `wake`.
        unsafe { self.own() }.timers.add(deadline, tcb);
    }

    /// A timer that the running thread has set is not needed any more.
    pub(crate) fn forget_timer(&self) {
        debug_assert!(self.is_current());
        // SAFETY: on our kernel thread; see `wake`.
        unsafe { self.own() }.timers.forget_one();
    }
}
