//! Virtual processors: one kernel thread each, and the scheduler's loop.
//!
//! # What runs where
//! A *compute* virtual processor is bound to a core. A *reactive* one is bound to none and asks the kernel
//! for a short time slice: when something wakes its kernel thread, the kernel lets it preempt a computing
//! one (DESIGN §5). A started thread stays on its virtual processor for life; only threads that never ran
//! are taken by others.
//!
//! # Where a runnable thread waits
//! * never run: the deque of the virtual processor that spawned it (newest first for the owner, oldest first
//!   for thieves), or the runtime's injector when a kernel thread or a virtual processor of the other kind
//!   spawned it;
//! * woken by its own virtual processor, or yielding: the run queue (no atomics);
//! * woken by anyone else, signal handlers included: the inbox.
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
//! Rust: thread-locals and `!Send` values may be held across the switch).

use std::cell::{Cell, UnsafeCell};
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering::*, fence};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crossbeam_deque::{Steal, Stealer};

use crate::context::Switch;
use crate::context::pool::ContextCache;
use crate::hooks::Idle;
use crate::runtime::Shared;
use crate::thread::join_word::End;
use crate::thread::look;
use crate::thread::spawn;
use crate::thread::tcb::{Tcb, TcbCache};
use crate::topology;
use crate::vp::ending::Panics;
use crate::vp::fresh::Fresh;
use crate::vp::lending::Lending;
use crate::vp::local;
use crate::vp::queue::{Inbox, RunQueue};
use crate::vp::sleeper::Sleeper;
use crate::vp::tick::Tick;
use crate::vp::timer::Timer;

/// Which threads a virtual processor runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Threads that compute; bound to a core.
    Compute,
    /// Threads that react to events; sleeps in the kernel, preempts by the kernel's grace.
    Reactive,
}

/// How often, in picks, threads that never ran go before woken ones, so that neither starves.
const FRESH_FIRST: u32 = 61;

/// A virtual processor.
pub struct Vp {
    pub(crate) shared: Arc<Shared>,
    kind: Kind,
    index: usize,
    cpu: Option<usize>,
    pub(super) inbox: Inbox,
    pub(crate) fresh: Stealer<&'static Tcb>,
    pub(crate) sleeper: Sleeper,
    pub(crate) tick: Tick,
    busy: AtomicBool,
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
    queue: RunQueue,
    fresh: Fresh,
    tcbs: TcbCache,
    contexts: ContextCache,
    timers: BinaryHeap<Timer>,
    /// Started, unfinished threads, to unwind at shutdown; each knows its place.
    pub(super) live: Vec<&'static Tcb>,
    /// How many of them are suspended in a panic; see `ending`.
    pub(super) panicking: usize,
    picks: Cell<u32>,
    /// The last thread has yielded: those that never ran come before it as well.
    yielded: Cell<bool>,
    /// It is bound to its group's core.
    meets: bool,
}

impl Own {
    /// Takes an ended thread off the list of living ones.
    fn forget(&mut self, tcb: &'static Tcb) {
        let place = tcb.own.place.get();
        self.live.swap_remove(place);
        if let Some(moved) = self.live.get(place) {
            moved.own.place.set(place);
        }
    }
}

// SAFETY: `own` is touched by the virtual processor's kernel thread only (the `own()` accessor says so);
// the rest is atomics and `Sync` parts.
unsafe impl Sync for Vp {}
// SAFETY: built on one kernel thread, given to the one that will run it.
unsafe impl Send for Vp {}

impl Vp {
    pub(crate) fn new(
        shared: Arc<Shared>,
        kind: Kind,
        index: usize,
        cpu: Option<usize>,
        alone: bool,
    ) -> Vp {
        let fresh = Fresh::new(alone);
        Vp {
            shared,
            kind,
            index,
            cpu,
            inbox: Inbox::default(),
            fresh: fresh.stealer(),
            sleeper: Sleeper::new(),
            tick: Tick::default(),
            busy: AtomicBool::new(false),
            running: AtomicPtr::new(std::ptr::null_mut()),
            busy_since: AtomicU64::new(0),
            tid: AtomicI32::new(0),
            standby: OnceLock::new(),
            original: None,
            lending: Lending::default(),
            own: UnsafeCell::new(Own {
                queue: RunQueue::default(),
                fresh,
                tcbs: TcbCache::default(),
                contexts: ContextCache::default(),
                timers: BinaryHeap::new(),
                live: Vec::new(),
                panicking: 0,
                picks: Cell::new(0),
                yielded: Cell::new(false),
                meets: false,
            }),
        }
    }

    /// A standby for `original`: numbered after those of its kind.
    pub(crate) fn new_standby(original: &'static Vp) -> Vp {
        let shared = original.shared.clone();
        let index = shared.vps(original.kind).len() + original.index;
        let vp = Vp::new(shared, original.kind, index, original.cpu, true);
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

    /// Its number among all, for `Look`: its index, and the highest bit of a reactive one.
    pub(crate) fn number(&self) -> u32 {
        self.index as u32 | ((self.kind == Kind::Reactive) as u32) << 31
    }

    /// The core it is bound to.
    pub fn cpu(&self) -> Option<usize> {
        self.cpu
    }

    /// Whether it runs a thread.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Relaxed)
    }

    /// # Safety
    /// On the virtual processor's kernel thread, not in a signal handler, and no other reference alive.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn own(&self) -> &mut Own {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.own.get() }
    }

    /// Where its kernel thread sleeps.
    pub fn sleeper(&self) -> &Sleeper {
        &self.sleeper
    }

    /// Whether woken or yielding threads wait in its queues; asked by its own running thread.
    pub(crate) fn has_runnable(&self) -> bool {
        debug_assert!(self.is_current());
        // SAFETY: on our kernel thread; see `wake`.
        !self.inbox.is_empty() || unsafe { self.own() }.queue.len() > 0
    }

    /// Whether it has started threads other than the running one, which asks, or others are on their way to it.
    pub(crate) fn holds_others(&self) -> bool {
        // SAFETY: on our kernel thread; see `wake`.
        self.has_runnable() || unsafe { self.own() }.live.len() > 1
    }

    /// Opens the threads that never ran to a thief, and closes them again: see [`Fresh`]. By its running thread.
    pub(crate) fn share_fresh(&self) -> bool {
        debug_assert!(self.is_current());
        // SAFETY: on our kernel thread; see `wake`.
        unsafe { self.own() }.fresh.share()
    }

    pub(crate) fn unshare_fresh(&self) {
        // Elsewhere, after a wait within the call: it stays open, which is only slower.
        if self.is_current() {
            // SAFETY: on our kernel thread; see `wake`.
            unsafe { self.own() }.fresh.unshare();
        }
    }

    /// Whether a thread of its kind that never ran is to be had.
    pub(crate) fn fresh_in_sight(&self) -> bool {
        !self.shared.injector(self.kind).is_empty()
            || self.shared.vps(self.kind).iter().any(|vp| !vp.fresh.is_empty())
    }

    /// Whether it may take threads that never ran from others.
    fn may_take(&self) -> bool {
        self.original.is_none() || self.lending.is_on()
    }

    fn is_current(&self) -> bool {
        local::vp().is_some_and(|vp| std::ptr::eq(vp, self))
    }

    /// Makes a parked thread of this virtual processor runnable. Anywhere, signal handlers included.
    pub(crate) fn wake(&self, tcb: &'static Tcb) {
        if self.is_current() && !local::in_handler() {
            // SAFETY: on our kernel thread, not in a handler; nobody holds `own` across a call to here.
            unsafe { self.own() }.queue.push(tcb);
        } else {
            self.inbox.push(tcb);
            fence(SeqCst);
            self.sleeper.notify();
        }
    }

    /// Queues a thread that never ran, spawned by the running thread of this virtual processor.
    pub(crate) fn spawn(&self, tcb: &'static Tcb) {
        debug_assert!(self.is_current());
        if self.original.is_some() {
            return self.shared.inject(self.kind, tcb); // it may not be there to run it
        }
        // SAFETY: on our kernel thread; see `wake`.
        let own = unsafe { self.own() };
        own.fresh.push(tcb);
        if own.fresh.is_shared() {
            self.shared.wake_for_work(self.kind);
        }
    }

    /// Free control blocks. On its kernel thread, not in a signal handler.
    #[allow(clippy::mut_from_ref)]
    pub(crate) fn tcbs(&self) -> &mut TcbCache {
        debug_assert!(self.is_current() && !local::in_handler());
        // SAFETY: on our kernel thread; the borrow ends in the caller, which calls nothing of ours meanwhile.
        unsafe { &mut self.own().tcbs }
    }

    /// Wakes `tcb`, which parks right after this, at `deadline`.
    pub(crate) fn add_timer(&self, deadline: Instant, tcb: &'static Tcb) {
        debug_assert!(self.is_current());
        // SAFETY: on our kernel thread; see `wake`.
        unsafe { self.own() }.timers.push(Timer { deadline, tcb, wait: tcb.own.wait.get() });
    }

    /// The scheduler's loop; returns when the runtime stops.
    pub(crate) fn run(&'static self) {
        // SAFETY: gettid has no arguments.
        self.tid.store(unsafe { libc::gettid() }, Relaxed);
        local::set_vp(Some(self));
        local::set_in_scheduler(true);
        // Refused (`mad doctor` tries it): a computing thread is not interrupted, requests wait for a call.
        let _ = self.tick.create(self.shared.period);
        while !self.shared.stopping.load(Acquire) {
            match self.next() {
                Some(tcb) => self.execute(tcb),
                None => self.idle(),
            }
        }
        self.end_all();
        self.become_idle();
        // SAFETY: on our kernel thread; no thread is left. We are immortal, our stacks need not be.
        let own = unsafe { self.own() };
        own.contexts.empty(&self.shared.contexts);
        own.tcbs.spill(0);
        self.tick.delete();
        if let Some(hooks) = self.shared.hooks() {
            hooks.ended(self);
        }
        self.sleeper.retire();
        local::set_vp(None);
        local::set_in_scheduler(false);
    }

    pub(super) fn next(&self) -> Option<&'static Tcb> {
        // SAFETY: on our kernel thread, in the scheduler.
        let own = unsafe { self.own() };
        self.inbox.drain_into(&mut own.queue);
        let pick = own.picks.get().wrapping_add(1);
        own.picks.set(pick);
        if !own.timers.is_empty() && (pick.is_multiple_of(8) || own.queue.len() == 0) {
            self.fire_timers(own);
        }
        if own.yielded.take() && !own.fresh.is_empty() {
            return own.fresh.pop();
        }
        if pick.is_multiple_of(FRESH_FIRST)
            && let Some(tcb) = self.next_fresh(own)
        {
            return Some(tcb);
        }
        own.queue.pop().or_else(|| self.next_fresh(own))
    }

    /// A thread that never ran: our own newest, else from the injector, else a neighbour's oldest.
    fn next_fresh(&self, own: &mut Own) -> Option<&'static Tcb> {
        if let Some(tcb) = own.fresh.pop() {
            return Some(tcb);
        }
        if !self.may_take() {
            return None;
        }
        let injector = self.shared.injector(self.kind);
        if !injector.is_empty()
            && let Some(tcb) = own.fresh.take_from(injector)
        {
            if !own.fresh.is_empty() || !injector.is_empty() {
                self.shared.wake_for_work(self.kind);
            }
            return Some(tcb);
        }
        // Neighbours in the order of their numbers, which follow the topology; a standby begins with its original.
        let vps = self.shared.vps(self.kind);
        for step in self.original.is_none() as usize..vps.len() {
            let victim = &vps[(self.index + step) % vps.len()];
            loop {
                match victim.fresh.steal() {
                    Steal::Success(tcb) => {
                        if !victim.fresh.is_empty() {
                            self.shared.wake_for_work(self.kind);
                        }
                        return Some(tcb);
                    }
                    Steal::Empty => break,
                    Steal::Retry => {}
                }
            }
        }
        None
    }

    fn fire_timers(&self, own: &mut Own) {
        let now = Instant::now();
        while own.timers.peek().is_some_and(|t| t.deadline <= now) {
            if let Some(timer) = own.timers.pop()
                && timer.tcb.own.wait.get() == timer.wait
                && std::ptr::eq(timer.tcb.home.load(Relaxed), self)
                && timer.tcb.notify()
            {
                own.queue.push(timer.tcb);
            }
        }
    }

    pub(super) fn execute(&'static self, tcb: &'static Tcb) {
        if !self.busy.load(Relaxed) {
            self.become_busy();
        }
        // SAFETY: the thread was taken from a queue, so its context is ours.
        if unsafe { (*tcb.own.context.get()).is_none() } && !self.start(tcb) {
            return;
        }
        local::set_tcb(Some(tcb));
        local::set_in_scheduler(false);
        self.running.store(tcb as *const Tcb as *mut Tcb, Relaxed);
        tcb.look.resumed();
        // SAFETY: as above; it is there by now, and the thread does not replace it.
        let how = unsafe { (*tcb.own.context.get()).as_ref().map(|context| context.resume()) };
        if how != Some(Switch::Ended) {
            tcb.look.suspended();
            if std::thread::panicking() || tcb.own.panics.get() != Panics::No {
                self.note_panics(tcb);
            }
        }
        local::set_in_scheduler(true);
        local::set_tcb(None);
        match how {
            Some(Switch::Yield) => {
                // SAFETY: on our kernel thread, in the scheduler.
                let own = unsafe { self.own() };
                own.yielded.set(true);
                own.queue.push(tcb);
            }
            Some(Switch::Park) => {
                if !tcb.settle() {
                    // SAFETY: as above.
                    unsafe { self.own() }.queue.push(tcb);
                }
            }
            Some(Switch::Ended) | None => self.retire(tcb),
        }
        if let Some(hooks) = self.shared.hooks() {
            hooks.switch(self);
        }
    }

    /// Gives a thread that never ran a stack and a home; false if there is no memory for it (its handle
    /// reports it).
    fn start(&'static self, tcb: &'static Tcb) -> bool {
        // SAFETY: on our kernel thread, in the scheduler.
        let own = unsafe { self.own() };
        match own.contexts.take(&self.shared.contexts, tcb.own.stack_size.get()) {
            Ok(context) => {
                tcb.home.store(self as *const Vp as *mut Vp, Release);
                let usable = context.stack().usable();
                tcb.look.started(usable, self.number(), self.tid.load(Relaxed) as u32);
                // SAFETY: the thread was taken from a queue, so its block is ours.
                unsafe { *tcb.own.context.get() = Some(context) };
                tcb.own.place.set(own.live.len());
                own.live.push(tcb);
                true
            }
            Err(error) => {
                tcb.own.no_stack.set(Some(error));
                // The closure is somebody's: its destructors run here, where they may not wait.
                tcb.own.unwinding.set(true);
                local::set_tcb(Some(tcb));
                spawn::discard(tcb);
                local::set_tcb(None);
                tcb.own.unwinding.set(false);
                self.end(tcb);
                false
            }
        }
    }

    fn retire(&'static self, tcb: &'static Tcb) {
        // SAFETY: on our kernel thread, in the scheduler; the thread has ended.
        let (own, context) = unsafe { (self.own(), (*tcb.own.context.get()).take()) };
        tcb.own.wait.set(tcb.own.wait.get() + 1);
        tcb.own.unwinding.set(false);
        if tcb.own.panics.get() != Panics::No {
            self.forget_panics(tcb);
        }
        if let Some(context) = context {
            own.contexts.put(&self.shared.contexts, context);
        }
        own.forget(tcb);
        self.end(tcb);
    }

    /// Whoever owns the handle may have the block now.
    fn end(&'static self, tcb: &'static Tcb) {
        tcb.look.leave();
        match tcb.join.end() {
            End::Owned => {}
            End::Awaited(waiter) => waiter.unpark(),
            End::Detached if tcb.own.cargo.is_empty() => tcb.recycle(),
            // Detached between the thread's last look and its end: a thread drops the result, not the scheduler.
            End::Detached => {
                tcb.join.reset();
                tcb.join.detach();
                tcb.look.enter(look::NEW);
                tcb.home.store(std::ptr::null_mut(), Relaxed);
                self.spawn(tcb);
            }
        }
    }

    fn become_busy(&self) {
        self.busy.store(true, Relaxed);
        self.busy_since.store(look::now(), Relaxed);
        self.count_busy(1);
        if let Some(hooks) = self.shared.hooks() {
            hooks.busy(self);
            if hooks.wants_ticks() {
                self.tick.arm();
            }
        }
    }

    fn become_idle(&self) {
        if self.busy.swap(false, Relaxed) {
            self.count_busy(-1);
        }
    }

    /// A standby is not one of those that make a machine loaded: its original counts, as busy, during a call.
    fn count_busy(&self, change: isize) {
        if self.original.is_none() {
            self.shared.count_busy(self.kind, change);
        }
    }

    /// A reactive virtual processor goes to its group's core when every core computes, and is free when not. A
    /// wake-up on the same core needs no interrupt to another one (measured on a virtual machine: half a
    /// ping-pong of 4.1 µs against 13–18), and under load no core is better than another.
    fn meet(&self) {
        let Some(meeting) = &self.shared.meeting else { return };
        let loaded = self.shared.is_loaded();
        // SAFETY: on our kernel thread, in the scheduler.
        let own = unsafe { self.own() };
        if self.kind == Kind::Reactive && own.meets != loaded {
            own.meets = loaded;
            let one = std::slice::from_ref(&meeting.core);
            // Refused: the kernel's choice is as right as ours, only slower.
            let _ = topology::restrict_current_thread(if loaded { one } else { &meeting.all });
        }
    }

    /// Nothing to run: poll as long as the I/O manager finds it worth while, then sleep.
    fn idle(&'static self) {
        self.become_idle();
        if let Some(hooks) = self.shared.hooks() {
            let since = Instant::now();
            loop {
                match hooks.idle(self, since) {
                    Idle::Found => return,
                    Idle::Again => std::hint::spin_loop(),
                    Idle::Sleep => break,
                }
                if self.has_work() || self.timer_is_due() {
                    return;
                }
            }
        }
        self.tick.disarm();
        self.meet();
        let deadline = self.next_deadline();
        self.announce();
        let last_look = || self.has_work() || self.shared.stopping.load(SeqCst);
        let slept = match self.shared.hooks() {
            Some(hooks) => hooks.sleep(self, &self.sleeper, deadline, &last_look),
            None => false,
        };
        if !slept {
            self.sleeper.sleep(deadline, last_look);
        }
        self.withdraw();
    }

    /// It is about to sleep: whoever makes work visible may wake it for it.
    pub(super) fn announce(&self) {
        match self.original {
            None => self.shared.idle(self.kind).announce(self.index),
            Some(original) => {
                let lent = self.shared.lent(self.kind);
                self.lending.announce(lent, original.index);
                // It may have been woken for work that it may not take any more.
                if !self.lending.is_on() && self.fresh_in_sight() {
                    self.shared.wake_for_work(self.kind);
                }
            }
        }
    }

    pub(super) fn withdraw(&self) {
        match self.original {
            None => self.shared.idle(self.kind).withdraw(self.index),
            Some(original) => self.shared.lent(self.kind).withdraw(original.index),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        // SAFETY: on our kernel thread, in the scheduler.
        unsafe { self.own() }.timers.peek().map(|t| t.deadline)
    }

    fn timer_is_due(&self) -> bool {
        self.next_deadline().is_some_and(|d| d <= Instant::now())
    }

    /// Whether a queue that this virtual processor serves holds a thread. From another kernel thread than its
    /// own, the queue that nobody else may look at is left out.
    pub fn has_work(&self) -> bool {
        !self.inbox.is_empty()
            // SAFETY: on our kernel thread; see `wake`.
            || self.is_current() && unsafe { self.own() }.queue.len() > 0
            || self.may_take() && self.fresh_in_sight()
    }
}
