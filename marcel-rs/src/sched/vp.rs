//! Virtual processors: what each owns, and how threads come to it. The loop itself: `schedule`.
//!
//! # What runs where
//! A *compute* virtual processor is bound to a core. A *reactive* one is bound to none and asks the kernel
//! for a short time slice: when something wakes its kernel thread, the kernel lets it preempt a computing
//! one (DESIGN §5). A started thread stays on its virtual processor for life; only threads that never ran
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
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering::*, fence,
};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crossbeam_deque::Stealer;

use crate::list::Inbox;
use crate::os::sleeper::Sleeper;
use crate::os::this_thread;
use crate::recorder::{self, Limiter};
use crate::sched::here;
use crate::sched::lending::Lending;
use crate::sched::policy::{Order, Why};
use crate::sched::shared::Shared;
use crate::sched::shell::Link;
use crate::sched::spawned::Spawned;
use crate::sched::steal::may_migrate;
use crate::sched::tick::Tick;
use crate::sched::timer::Timers;
use crate::stack::pool::ContextCache;
use crate::tcb::block::{Tcb, TcbCache};

/// Which threads a virtual processor runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Threads that compute; bound to a core.
    Compute,
    /// Threads that react to events; sleeps in the kernel, preempts by the kernel's grace.
    Reactive,
}

/// Where a virtual processor is in the topology; nowhere in particular for a reactive one.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Place {
    /// Its core in the topology.
    pub(crate) core: Option<usize>,
    /// The core of this machine to which its kernel thread is bound.
    pub(crate) real: Option<usize>,
    /// Nodes of the topology from its core up to the machine.
    pub(crate) path: Vec<usize>,
    /// The other virtual processors of its kind, the nearest first.
    pub(crate) steal_order: Vec<usize>,
}

/// A virtual processor.
pub struct Vp {
    pub(crate) shared: Link,
    kind: Kind,
    index: usize,
    pub(crate) place: Place,
    pub(super) inbox: Inbox<Tcb>,
    /// Where threads migrate, those of the inbox that neighbours may take.
    pub(super) movable: Inbox<Tcb>,
    pub(super) stealer: Stealer<&'static Tcb>,
    pub(crate) sleeper: Sleeper,
    /// Those who wake a thread of it and look for one who may take it: their runtime does not go meanwhile.
    pub(super) wakers: AtomicU32,
    pub(crate) tick: Tick,
    pub(super) busy: AtomicBool,
    /// Whom it resumed last; whether that one still runs, its `look` says.
    pub(crate) running: AtomicPtr<Tcb>,
    /// When it last began to have something to run, by `look`'s clock.
    pub(crate) busy_since: AtomicU64,
    /// The kernel's number of its kernel thread, once that runs.
    pub(crate) tid: AtomicI32,
    /// Its standby (`blocking::standby`), once a call has needed it.
    pub(crate) standby: OnceLock<&'static Vp>,
    /// For a standby: for whom it stands by, and whether it may take what that one would.
    pub(crate) original: Option<&'static Vp>,
    pub(crate) lending: Lending,
    own: UnsafeCell<Own>,
}

/// What only the virtual processor's kernel thread touches, and never a signal handler.
pub(super) struct Own {
    pub(super) order: Order,
    pub(super) spawned: Spawned,
    pub(super) tcbs: TcbCache,
    pub(super) contexts: ContextCache,
    pub(super) timers: Timers,
    /// Started, unfinished threads, to unwind at shutdown; each knows its place.
    pub(super) live: Vec<&'static Tcb>,
    /// How many of them are suspended in a panic; see `ending`.
    pub(super) panicking: usize,
    pub(super) picks: Cell<u32>,
    /// To be run next, if it can: somebody yields to it.
    pub(super) favourite: Cell<Option<&'static Tcb>>,
    /// It has just found something by looking around.
    pub(super) looked_around: Cell<bool>,
    /// It is bound to its group's core.
    pub(super) meets: bool,
    /// Which resumptions are recorded, and which of the other events of its threads.
    pub(super) switches: Limiter,
    pub(super) events: Limiter,
}

// SAFETY: `own` is touched by the virtual processor's kernel thread only (the `own()` accessor says so);
// the rest is atomics and `Sync` parts.
unsafe impl Sync for Vp {}
// SAFETY: built on one kernel thread, given to the one that will run it.
unsafe impl Send for Vp {}

impl Vp {
    pub(crate) fn new(
        shared: Arc<Shared>,
        (kind, index): (Kind, usize),
        place: Place,
        order: Order,
        spawned: Spawned,
    ) -> Vp {
        Vp {
            shared: Link::new(shared),
            kind,
            index,
            place,
            inbox: Inbox::default(),
            movable: Inbox::default(),
            stealer: spawned.stealer(),
            sleeper: Sleeper::new(),
            wakers: AtomicU32::new(0),
            tick: Tick::default(),
            busy: AtomicBool::new(false),
            running: AtomicPtr::new(std::ptr::null_mut()),
            tid: AtomicI32::new(0),
            standby: OnceLock::new(),
            original: None,
            lending: Lending::default(),
            busy_since: AtomicU64::new(0),
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
    pub(crate) fn new_standby(original: &'static Vp) -> Vp {
        let shared = original.shared.shared().clone();
        let number = (original.kind, shared.vps(original.kind).len() + original.index);
        let mut place = original.place.clone();
        place.steal_order.insert(0, original.index);
        let order = shared.new_order(original.kind);
        // Nobody steals from it: it keeps none that others could run.
        let vp = Vp::new(shared, number, place, order, Spawned::new(true, false));
        Vp { original: Some(original), ..vp }
    }

    /// Compute or reactive.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its number among those of its kind.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Its number among all, for `DebugInfo`: its index, and the highest bit of a reactive one.
    pub(crate) fn number(&self) -> u32 {
        self.index as u32 | ((self.kind == Kind::Reactive) as u32) << 31
    }

    /// Its core in the topology.
    pub fn cpu(&self) -> Option<usize> {
        self.place.core
    }

    /// Whether it runs a thread.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Relaxed)
    }

    /// # Safety
    /// On the virtual processor's kernel thread, not in a signal handler, and no other reference alive.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn own(&self) -> &mut Own {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.own.get() }
    }

    /// Where its kernel thread sleeps. Others notify it only: see the contexts of [`Sleeper`]'s functions.
    pub fn sleeper(&self) -> &Sleeper {
        &self.sleeper
    }

    /// Whether woken or yielding threads wait in its queues; asked by its own running thread.
    pub(crate) fn has_runnable(&self) -> bool {
        debug_assert!(self.is_current());
        // SAFETY: on our kernel thread; see `wake`.
        self.has_mail() || unsafe { self.own() }.order.len() > 0
    }

    /// Whether others have made threads runnable here.
    pub(super) fn has_mail(&self) -> bool {
        !self.inbox.is_empty() || !self.movable.is_empty()
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
    pub(super) fn may_take(&self) -> bool {
        self.original.is_none() || self.lending.is_on()
    }

    #[inline]
    pub(super) fn is_current(&self) -> bool {
        here::vp().is_some_and(|vp| std::ptr::eq(vp, self))
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
        if !self.shared.migrating() || !may_migrate(tcb) {
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
            self.shared.wake_for_work(self.kind);
        }
        self.wakers.fetch_sub(1, Release);
    }

    /// The running thread, which asks.
    #[inline]
    pub(crate) fn current(&self) -> Option<&'static Tcb> {
        // SAFETY: control blocks are immortal.
        unsafe { self.running.load(Relaxed).as_ref() }
    }

    /// Queues a thread that never ran, spawned by the running thread of this virtual processor.
    #[inline]
    pub(crate) fn spawn(&self, tcb: &'static Tcb) {
        debug_assert!(self.is_current());
        if self.original.is_some() {
            return self.shared.inject(self.kind, tcb); // it may not be there to run it
        }
        // SAFETY: on our kernel thread; see `wake`.
        let own = unsafe { self.own() };
        own.spawned.push(tcb);
        if own.spawned.is_shared() {
            self.shared.wake_for_work(self.kind);
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
