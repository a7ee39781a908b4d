//! The engine: the protocol behind its lock, as the session, its requests and the I/O manager use it.
//!
//! Callers try the lock. When it is free and nothing was delegated, a request begins inline: the latency path.
//! Otherwise the request goes on the submission list, and the caller delegates the work to the lock holder.
//!
//! A thread that polls without pause delegates again as soon as its poll is done, and would keep a holder that came for
//! something else (a sender, the connection manager) for as long as it polls. So a holder polls at most [`FAVOURS`]
//! times for others, and then lets go. Pollers and ticks retry. An arm request is always served.
//!
//! Wakers and callbacks of requests that end may use the engine. So they are held back while a caller has the lock
//! (from the first request on that has one); when the I/O manager polls, it holds them back.
//!
//! | file | what |
//! |---|---|
//! | `locking` | the modes of the lock, and sending beside it |
//! | `progress` | what the lock holder does: begin requests, poll, arm |
//! | `wait`, `spin` | how owners wait for their requests |
//! | `call_gate` | code that is called inside the program's calls only |
//! | `cover`, `offload` | whether a pending request is watched; whether an idle core sends |
//! | `source`, `doorbells` | the engine as the I/O manager sees it, and how its sleepers are woken |

pub(crate) mod call_gate;
pub(crate) mod cover;
mod doorbells;
mod locking;
pub(crate) mod offload;
mod progress;
mod source;
mod spin;
#[cfg(test)]
mod tests;
pub(crate) mod wait;

pub use locking::Locking;
pub(crate) use wait::look_beside;

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pioman::plumbing::{BiasedGuard, BiasedLock, Delegated, WakersHeld, hold_wakers};
use pioman::{Looking, Manager, Source, SourceId};

use crate::collect::lease::Lease;
use crate::engine::call_gate::CallGate;
use crate::engine::cover::Covered;
use crate::engine::doorbells::Doorbells;
use crate::engine::offload::Offload;
use crate::engine::spin::{Budget, Poll, spin};
use crate::error::Error;
use crate::gate::absence::Posting;
use crate::gate::lease::InlineLease;
use crate::gate::ranks::{Beside, Ranks};
use crate::gate::signals::{FINE, SEVERAL, Signals};
use crate::memory::span::Span;
use crate::net::virtual_rails::VirtualRails;
use crate::net::{AnyDriver, Driver};
use crate::proto::core::Core;
use crate::proto::finders::Finders;
use crate::proto::inline::Found;
use crate::request::{Op, Ref, Request};
use crate::strategy::selection::assert_caller;
use crate::sys::KeepErrno;
use crate::wire::{Ends, Envelope};

/// Requests are on the submission list.
pub(crate) const WORK: u64 = 1;
/// Another thread wanted to poll.
pub(crate) const POLL: u64 = 2;
/// The caller polls no more: peers must ring.
const ARM: u64 = 4;
/// A thread has left a lease that the engine wants back: the engine claims it.
const LEASE: u64 = 8;
/// How often a lock holder polls for others.
pub(crate) const FAVOURS: u32 = 2;
/// Most calls of `progress` before a sleep.
const SETTLE: usize = 100;
/// The same, by a caller that has more to do.
const FEW: usize = 4;
/// So often a thread that needs the engine tries before it takes its holder for one without a core: some 100 µs.
const SHORT_WAIT: u32 = 64 * 64;
/// How long it sleeps then, from time to time.
const ENGINE_TAKEN: Duration = Duration::from_micros(100);
/// So often the receiver of a short message polls for it at once, before the I/O manager says how to wait: about the
/// time of a round trip over shared memory.
const SPINS: u32 = 64;

impl<D: Driver> Delegated for Core<D> {
    fn run_delegated(&mut self, bits: u64) {
        let _errno = KeepErrno::new();
        if bits & LEASE != 0 {
            self.lease_is_back();
        }
        if bits & ARM != 0 {
            self.end_waits(true);
            if !self.settle(SETTLE) {
                // There is more, and the thread that asked may sleep already.
                self.wake_oneself();
            }
        } else if bits & POLL != 0 && self.favours > 0 {
            self.favours -= 1;
            self.progress();
        } else {
            self.drain();
        }
    }
}

/// See the module. Shared by the session, its requests and the I/O manager.
pub(crate) struct Engine {
    lock: BiasedLock<Core<AnyDriver>>,
    signals: Arc<Signals>,
    /// Who holds which ranks.
    ranks: Arc<Ranks>,
    beside: Beside,
    /// There is no other process.
    is_alone: bool,
    /// By process: what sends short messages beside the engine.
    leases: Box<[Arc<Lease<InlineLease>>]>,
    doorbells: Doorbells,
    /// Whether requests have, or had, wakers.
    watching: AtomicBool,
    pub(crate) offload: Offload,
    /// By the rank's place.
    calls: Box<[Arc<CallGate>]>,
    covered: Covered,
    /// What the I/O manager calls it.
    source: OnceLock<SourceId>,
    /// Who finds whose messages, where the process has several ranks.
    finders: Option<Arc<Finders>>,
    virtual_rails: Option<Arc<VirtualRails>>,
}

impl Engine {
    /// `calls`: the gate of the program's code of the only rank here, if it has one already.
    pub(crate) fn new(
        mut core: Core<AnyDriver>,
        calls: Option<Arc<CallGate>>,
    ) -> Result<Engine, Error> {
        let signals = core.signals.clone();
        let doorbells = Doorbells::new(&core.gates.rails)?;
        let (ranks, process) = (core.gates.ranks.clone(), core.process);
        signals.set_way(SEVERAL, !ranks.are_one_each());
        let leases = core.gates.iter().map(|gate| gate.lease.lease()).collect();
        let offload = Offload::read(core.gates.rails.iter().all(|rail| !rail.driver.can_break()))?;
        let (covered, source) = (Covered::new(), OnceLock::new());
        let own = ranks.of(process).len();
        let beside = ranks.sources_beside(process);
        let is_alone = ranks.processes() == 1;
        let finders = (own > 1).then(|| Arc::new(Finders::new(own)));
        core.pending.finders = finders.clone();
        let virtual_rails = core.gates.routes.clone();
        let (lock, watching) = (BiasedLock::new(core), AtomicBool::new(false));
        let calls =
            (0..own).map(|_| calls.clone().filter(|_| own == 1).unwrap_or_default()).collect();
        Ok(Engine {
            lock,
            signals,
            ranks,
            beside,
            is_alone,
            leases,
            doorbells,
            watching,
            offload,
            calls,
            covered,
            source,
            finders,
            virtual_rails,
        })
    }

    /// The engine is registered with the I/O manager, under this name.
    pub(crate) fn is_source(&self, source: SourceId) {
        let _ = self.source.set(source); // once, when the session is made
    }

    #[inline]
    fn try_lock(&self) -> Option<Locked<'_>> {
        let mut core = self.lock.try_lock()?;
        core.favours = FAVOURS;
        Some(core)
    }

    /// Locks the engine if it is free, begins what is on the submission list, and makes the call. Wakers are held back
    /// from the first request on that has one, until the lock is free again.
    #[inline(always)]
    fn enter<R>(&self, call: impl FnOnce(&mut Locked<'_>) -> R) -> Option<R> {
        let _held; // dropped after the lock
        let mut core = self.try_lock()?;
        _held = self.hold_wakers();
        core.drain();
        Some(call(&mut core))
    }

    #[inline(always)]
    fn hold_wakers(&self) -> Option<WakersHeld> {
        self.watching.load(Ordering::Relaxed).then(hold_wakers)
    }

    /// The calling thread is that of the rank at that place.
    pub(crate) fn adopt_thread(&self, mine: u16) {
        if let Some(finders) = &self.finders {
            finders.adopt(mine);
        }
    }

    /// The gate of the program's code of the rank at that place.
    #[inline]
    pub(crate) fn calls(&self, mine: u16) -> &Arc<CallGate> {
        &self.calls[usize::from(mine)]
    }

    /// Forgets what is deferred here, at all gates: the session has closed.
    pub(crate) fn clear_calls(&self) {
        self.calls.iter().for_each(|gate| gate.clear((&raw const *self).addr()));
    }

    /// Which process holds which ranks.
    pub(crate) fn ranks(&self) -> &Ranks {
        &self.ranks
    }

    /// What is known of it without its lock.
    pub(crate) fn signals(&self) -> &Signals {
        &self.signals
    }

    /// The same, to be kept.
    pub(crate) fn shared_signals(&self) -> Arc<Signals> {
        self.signals.clone()
    }

    /// Sends a short message of the rank at place `mine` without a request, if the engine is free and nothing else is to
    /// be done than to give it to the driver. False: it is still to be sent.
    #[inline]
    pub(crate) fn send_now(&self, mine: u16, to: u32, tag: u64, data: &[u8]) -> bool {
        match self.beside.has(to) {
            true => self.send_beside(mine, to, tag, data),
            false => self.send_away(mine, to, tag, data),
        }
    }

    /// As [`Engine::send_now`], to another process, or to the only rank of this one.
    #[inline(never)]
    fn send_away(&self, mine: u16, to: u32, tag: u64, data: &[u8]) -> bool {
        if self.signals.has_way(FINE | SEVERAL) {
            return self.send_apart(mine, to, tag, data);
        }
        // SAFETY: borrowed; the driver copies it.
        let data = unsafe { Span::new(data.as_ptr(), data.len()) };
        // Ranks and processes have the same numbers.
        let envelope = Envelope { tag, ends: Ends::default() };
        self.enter(|core| core.send_to(to, envelope, data)).unwrap_or(false)
    }

    /// As [`Engine::send_now`], to a process whose packets are no system calls.
    #[inline]
    pub(crate) fn send_lightly(&self, mine: u16, to: u32, tag: u64, data: &[u8]) -> bool {
        let (process, _) = self.ranks.place(to);
        self.enter(|core| core.gates.is_light(process)).unwrap_or(false)
            && self.send_now(mine, to, tag, data)
    }

    /// Receives a short message into `buffer` without a request, if the engine is free and it is there, or comes soon:
    /// how long it is. `None`: it is still to be received.
    #[inline]
    pub(crate) fn recv_now(
        &self,
        mine: u16,
        from: u32,
        tag: (u64, u64),
        buffer: &mut [u8],
        manager: &Manager,
    ) -> Option<usize> {
        let (found, silenced) = self.enter(|core| {
            let found = core.recv_inline(mine, from, tag, buffer);
            if found != Found::Nothing {
                return (found, false);
            }
            let gate = core.gates.ranks.home(from) as usize;
            let hits = u32::from(core.gates[gate].hits);
            if hits == 0
                || core.pending.count() > 0
                || marcel::plumbing::others_runnable()
                || manager.is_crowded()
            {
                return (found, false);
            }
            let silenced = self.doorbells.silence();
            let found = poll_for(core, (mine, from), tag, buffer, SPINS * hits);
            if found == Found::Nothing {
                core.gates[gate].miss();
            }
            (found, silenced)
        })?;
        if silenced {
            manager.ensure_watched();
        }
        match found {
            Found::Message(len) => Some(len),
            _ => None,
        }
    }

    /// Polls for a short message a few times. The caller calls again at once, or has a thread watch.
    pub(crate) fn recv_soon(
        &self,
        mine: u16,
        from: u32,
        tag: (u64, u64),
        buffer: &mut [u8],
    ) -> Found {
        let found = self.enter(|core| {
            if core.pending.count() > 0 {
                // Other requests are outstanding: their events count, too.
                return match core.recv_inline(mine, from, tag, buffer) {
                    Found::Nothing => Found::Other,
                    found => found,
                };
            }
            self.doorbells.silence();
            poll_for(core, (mine, from), tag, buffer, SPINS)
        });
        found.unwrap_or(Found::Nothing)
    }

    /// Hands a request to the engine. It may be finished when this returns.
    ///
    /// # Safety
    /// As [`Ref::new`]: the request stays where it is, untouched but for its atomic parts, until it is finished.
    #[inline]
    pub(crate) unsafe fn submit(&self, request: NonNull<Request>) {
        // SAFETY: the caller's promise.
        if unsafe { self.begin(request, |_| ()) }.is_none() {
            // SAFETY: the caller's promise.
            unsafe { self.enqueue(request) };
        }
    }

    /// As [`Engine::submit`], for a caller that may compute: a long message is left to an idle core. If the request is
    /// not over and its spell is not covered ([`cover`]), the caller sees to it that a thread watches the request.
    ///
    /// # Safety
    /// As [`Engine::submit`].
    #[inline]
    pub(crate) unsafe fn submit_then_compute(&self, request: NonNull<Request>, manager: &Manager) {
        // SAFETY: valid, and kept alive by its owner, the caller.
        let asked = unsafe { request.as_ref() };
        if asked.is_short_receive() {
            // No idle core is to begin it, and its peer may ring.
            // SAFETY: the caller's promise.
            unsafe { self.begin_and_leave(request, manager, Core::start_short_receive, false) };
        } else {
            let _posting = self.posting(asked);
            // SAFETY: the caller's promise.
            unsafe { self.submit_and_leave(request, manager) };
        }
        if self.signals.held.load(Ordering::Relaxed) && !self.is_watched_by(manager) {
            // The watcher looks now and then (its polling mode), which is too late for what is held.
            self.send_held();
        }
    }

    /// The caller posts the request: if that is long, how long the program stays away counts from when this is dropped.
    #[inline]
    fn posting(&self, asked: &Request) -> Option<Posting<'_>> {
        (!asked.is_short()).then(|| self.signals.absence.posting(!self.pending()))
    }

    /// A blocking call begins: until this is dropped the program is not away.
    #[inline]
    pub(crate) fn pausing(&self, asked: &Request) -> Option<Posting<'_>> {
        if asked.is_short() { None } else { self.signals.absence.pausing(!self.pending()) }
    }

    /// The submission of anything but a short receive.
    ///
    /// # Safety
    /// As [`Engine::submit`].
    #[inline]
    unsafe fn submit_and_leave(&self, request: NonNull<Request>, manager: &Manager) {
        // SAFETY: valid, and kept alive by its owner, the caller.
        let asked = unsafe { request.as_ref() };
        if self.offload.wants(asked) && manager.offer() {
            // A poller finds it. A poller that stops calls `ensure_watched`, which has a thread look, if need be the
            // caller.
            // SAFETY: the caller's promise; the request is in no list.
            unsafe { self.signals.submissions.push(request) };
            return self.leave_submitted(asked, manager, false);
        }
        // This thread is here, arms again before it leaves, and is expected to wait then: its peer, which may send to it in
        // this moment, need not ring.
        let silenced = asked.op == Op::Send
            && !asked.is_short()
            && self.signals.absence.is_expected_to_be_short()
            && self.doorbells.are_everywhere()
            && self.doorbells.silence();
        // SAFETY: the caller's promise.
        unsafe { self.begin_and_leave(request, manager, Core::start, silenced) };
    }

    /// Begins the request if the lock is free, and sees to it that it is watched. `silenced`: the doorbells were silenced
    /// for it.
    ///
    /// # Safety
    /// As [`Engine::submit`].
    #[inline(always)]
    unsafe fn begin_and_leave(
        &self,
        request: NonNull<Request>,
        manager: &Manager,
        start: impl FnOnce(&mut Core<AnyDriver>, Ref),
        silenced: bool,
    ) {
        // SAFETY: valid, and kept alive by its owner, the caller.
        let asked = unsafe { request.as_ref() };
        let begun = |core: &mut Locked<'_>| {
            if self.beside.has(asked.peer) && asked.is_short_receive() && !core.has_work() {
                return None;
            }
            let backlog = core.gates.backlog > 0;
            let spell = core.pending.spell(backlog);
            if asked.is_finished() && !silenced {
                return None;
            }
            // No event brings a copy that this request has begun: its announcement had come before.
            if self.covered.is(spell) && core.copies.is_empty() && !silenced {
                core.call_for_held();
                return None;
            }
            let settled = self.is_watched_by(manager) && core.settle(FEW);
            if settled {
                self.covered.set(spell);
            }
            (!settled).then_some(spell)
        };
        // SAFETY: the caller's promise.
        match unsafe { self.begin_by(request, start, begun) } {
            Some(None) if asked.is_finished() => self.watch_held_back(manager),
            Some(None) => {}
            Some(Some(spell)) => {
                manager.ensure_watched();
                self.covered.set(spell);
            }
            None => {
                // SAFETY: the caller's promise.
                unsafe { self.enqueue(request) };
                self.leave_submitted(asked, manager, silenced);
            }
        }
    }

    /// The request is on the submission list, or was, and its owner computes on.
    #[inline(never)]
    fn leave_submitted(&self, asked: &Request, manager: &Manager, silenced: bool) {
        if silenced || !asked.is_finished() {
            self.have_watched(manager);
        } else {
            self.watch_held_back(manager);
        }
    }

    /// Has a thread watch when a driver holds bytes back: the request that sent them may be over.
    #[inline]
    pub(crate) fn watch_held_back(&self, manager: &Manager) {
        if self.doorbells.hold_back() {
            self.have_watched(manager);
        }
    }

    /// Has a thread watch what is unattended. The usual case in short: a spare kernel thread sleeps on the descriptor,
    /// and the peers have only to be asked to ring.
    #[inline(never)]
    pub(crate) fn have_watched(&self, manager: &Manager) {
        if !self.is_watched_by(manager) || !self.arm_and_settle() {
            manager.ensure_watched();
        }
    }

    /// A spare kernel thread sleeps on the descriptor.
    #[inline]
    fn is_watched_by(&self, manager: &Manager) -> bool {
        let watches = |source: &SourceId| self.unattended() && manager.watches(*source);
        self.source.get().is_some_and(watches)
    }

    /// Arms, and polls until nothing is left. False: there is more.
    fn arm_and_settle(&self) -> bool {
        self.enter(|core| core.settle(FEW)).unwrap_or(false)
    }

    /// As [`Engine::submit`], for a caller that will wait at once: polls on the way.
    ///
    /// # Safety
    /// As [`Engine::submit`].
    #[inline]
    pub(crate) unsafe fn submit_then_wait(&self, request: NonNull<Request>, manager: &Manager) {
        // SAFETY: valid, and not submitted yet.
        let asked = unsafe { request.as_ref() };
        let (short, peer) = (asked.is_short_receive(), asked.peer);
        // Not by the count of those outstanding: other threads' requests end, too.
        let begun = |core: &mut Locked<'_>| {
            if asked.is_finished() {
                return false;
            }
            if short && self.beside.has(peer) {
                // Its sender brings it. What this receive has begun goes on here.
                if core.has_work() {
                    core.progress();
                }
                return false;
            }
            core.progress();
            // Where every core computes, the peer may need the one on which this would poll in vain.
            if !short
                || asked.is_finished()
                || marcel::plumbing::others_runnable()
                || manager.is_crowded()
                || self.sockets_are_watched(manager)
            {
                return false;
            }
            let silenced = self.doorbells.silence();
            spin(Budget::Polls(SPINS), || {
                core.poll_once(peer);
                let over = asked.is_finished();
                if over || core.is_wanted() { Poll::Stop } else { Poll::Nothing }
            });
            silenced
        };
        // SAFETY: the caller's promise.
        match unsafe { self.begin(request, begun) } {
            Some(true) => manager.ensure_watched(),
            Some(false) => {}
            // SAFETY: the caller's promise.
            None => unsafe { self.enqueue(request) },
        }
    }

    /// Whether what comes over a socket wakes the watcher, until a thread that polls says so to the I/O manager: no silence does.
    fn sockets_are_watched(&self, manager: &Manager) -> bool {
        self.doorbells.are_absent()
            && self.source.get().is_some_and(|source| manager.watches(*source))
    }

    /// Begins the request if the lock is free, and makes the call. The request may be over then.
    #[inline(always)]
    unsafe fn begin<R>(
        &self,
        request: NonNull<Request>,
        call: impl FnOnce(&mut Locked<'_>) -> R,
    ) -> Option<R> {
        // SAFETY: the caller's promise.
        unsafe { self.begin_by(request, Core::start, call) }
    }

    /// As [`Engine::begin`], by that function of the engine's.
    #[inline(always)]
    unsafe fn begin_by<R>(
        &self,
        request: NonNull<Request>,
        start: impl FnOnce(&mut Core<AnyDriver>, Ref),
        call: impl FnOnce(&mut Locked<'_>) -> R,
    ) -> Option<R> {
        self.enter(|core| {
            if self.signals.starved.load(Ordering::Relaxed) {
                core.grow();
            }
            // SAFETY: the caller's promise.
            start(core, unsafe { Ref::new(request) });
            call(core)
        })
    }

    #[cold]
    unsafe fn enqueue(&self, request: NonNull<Request>) {
        let _held = hold_wakers();
        // SAFETY: the caller's promise; the request was in no list.
        unsafe { self.signals.submissions.push(request) };
        self.lock.delegate(WORK);
    }

    /// Runs `f` with the engine, waiting for it if need be. Callers' context only.
    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut Core<AnyDriver>) -> T) -> T {
        let _held = hold_wakers();
        let mut core = self.try_lock().unwrap_or_else(|| self.wait_for_lock());
        core.drain();
        f(&mut core)
    }

    /// The thread that holds the engine leaves it after a few microseconds, unless the kernel has taken its core. Then it
    /// may get one again milliseconds later. A caller that spins meanwhile does not bring that about: so it sleeps.
    #[cold]
    fn wait_for_lock(&self) -> Locked<'_> {
        assert_caller();
        let mut tries = 0u32;
        self.signals.callers.fetch_add(1, Ordering::Relaxed);
        loop {
            tries = tries.wrapping_add(1);
            if !tries.is_multiple_of(64) {
                std::hint::spin_loop();
            } else if tries < SHORT_WAIT {
                std::thread::yield_now();
            } else {
                std::thread::sleep(ENGINE_TAKEN);
            }
            if let Some(core) = self.try_lock() {
                self.signals.callers.fetch_sub(1, Ordering::Relaxed);
                return core;
            }
        }
    }

    /// The caller begins requests and then waits for them, by what this returns: meanwhile no other thread is asked to
    /// watch.
    pub(crate) fn looking<'a>(&self, manager: &'a Manager) -> Option<Looking<'a>> {
        self.source.get().map(|source| manager.looking(*source))
    }

    /// Takes a receive back if nothing has matched it; whether that was so.
    ///
    /// # Safety
    /// As [`Engine::wait`].
    pub(crate) unsafe fn cancel(&self, request: NonNull<Request>) -> bool {
        self.with(|core| {
            // SAFETY: its owner keeps it alive while it is here.
            unsafe { Ref::of_owner(request) }.is_some_and(|request| core.cancel(request))
        })
    }

    /// Takes a send back, or asks its receiver to give it back if nothing has matched it: how it ends says whether.
    ///
    /// # Safety
    /// As [`Engine::wait`].
    pub(crate) unsafe fn take_back(&self, request: NonNull<Request>) {
        self.with(|core| {
            // SAFETY: its owner keeps it alive while it is here.
            if let Some(request) = unsafe { Ref::of_owner(request) } {
                core.take_back(request);
            }
        });
    }

    /// A thread is to be woken by this request, or nudged: if the engine needs memory now, it gets it now.
    pub(crate) fn watched(&self, request: &Request) {
        if !request.set_watched() {
            return;
        }
        if !self.watching.load(Ordering::Relaxed) {
            // With the lock: no holder is left that has not seen it.
            self.with(|_| self.watching.store(true, Ordering::Relaxed));
        }
        self.unattend(request);
        if self.signals.starved.load(Ordering::SeqCst) {
            self.feed();
        }
    }

    /// Its owner, the caller, asks for its end no more: it is woken, and sleeps until then.
    pub(crate) fn unattend(&self, request: &Request) {
        if request.attended.get() {
            self.with(|core| {
                // SAFETY: its owner is here, and keeps it alive.
                if let Some(request) = unsafe { Ref::of_owner(NonNull::from(request)) } {
                    core.pending.unattend(request);
                }
            });
        }
        self.before_sleep();
    }

    /// The calling thread is about to sleep, whatever for: this side waits, and rings the peers that it has not rung at once.
    /// (What another thread comes to owe from now on, that thread pays.)
    #[inline]
    pub(crate) fn before_sleep(&self) {
        if self.doorbells.owe() {
            self.pay_owed();
        }
    }

    #[cold]
    fn pay_owed(&self) {
        self.with(Core::pay_owed);
    }

    /// Its owner is about to block on it, and on others.
    pub(crate) fn will_wait(&self, request: &Request) {
        self.comes_to_wait(request);
        self.feed_if_starved();
    }

    /// Gives the engine memory if it needs some; whether it did.
    #[inline]
    pub(crate) fn feed_if_starved(&self) -> bool {
        let starved = self.signals.starved.load(Ordering::SeqCst);
        if starved {
            self.feed();
        }
        starved
    }

    #[cold]
    fn feed(&self) {
        self.with(|core| {
            core.grow();
            core.progress();
        });
    }

    /// As [`Engine::with`]; gives the engine memory first if it needs some.
    pub(crate) fn with_memory<T>(&self, f: impl FnOnce(&mut Core<AnyDriver>) -> T) -> T {
        self.with(|core| {
            if self.signals.starved.load(Ordering::Relaxed) {
                core.grow();
            }
            f(core)
        })
    }

    /// The engine needs memory, and woke the owner of this request to get it.
    #[cold]
    pub(crate) fn nudged(&self, request: NonNull<Request>) {
        self.with(|core| {
            // SAFETY: the owner keeps it alive while it is here.
            if let Some(request) = unsafe { Ref::of_owner(request) } {
                request.rearm();
            }
            core.grow();
            core.progress();
        });
    }
}

/// The engine's lock.
type Locked<'a> = BiasedGuard<'a, Core<AnyDriver>>;

/// Polls at most so often for a short message, while no other thread wants the engine.
#[inline(always)]
fn poll_for(
    core: &mut Locked<'_>,
    (mine, from): (u16, u32),
    tag: (u64, u64),
    buffer: &mut [u8],
    polls: u32,
) -> Found {
    let mut found = Found::Nothing;
    spin(Budget::Polls(polls), || {
        found = core.recv_inline(mine, from, tag, buffer);
        match found {
            Found::Nothing if !core.is_wanted() => Poll::Nothing,
            _ => Poll::Stop,
        }
    });
    found
}
