//! The engine behind its lock: how requests get in, how progress is made, how its owners wait.
//!
//! Callers try the lock. When it is free and nothing was left by others, a request is begun inline: the
//! latency path. Otherwise it goes on the submission list and its work is left with the holder (DESIGN §4.2).
//!
//! Who polls without pause leaves its work again as soon as it is done, and would keep a holder that came for something else
//! (a caller who sends, the porter) for as long as it polls. So a holder looks [`FAVOURS`] times for others, and then lets
//! go: who polls on, or is a tick, comes again, and who is about to sleep arms, which is always done.
//!
//! Wakers and callbacks of requests that end may use the engine. So they are held back while a caller has the lock (from
//! the first request on that has one); when the I/O manager polls, it holds them back.

pub(crate) mod cover;
mod locking;
pub(crate) mod offload;
mod progress;

pub use locking::Locking;

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pioman::plumbing::{BiasedGuard, BiasedLock, Handover, WakersHeld, hold_wakers};
use pioman::{Hint, Looking, Manager, Source, SourceId};

use crate::collect::lease::Lane;
use crate::engine::cover::Covered;
use crate::engine::offload::Offload;
use crate::error::Error;
use crate::gate::lease::InlineLease;
use crate::gate::signals::Signals;
use crate::memory::span::Span;
use crate::net::{AnyDriver, Bell, Driver, Ready};
use crate::proto::core::Core;
use crate::proto::inline::Found;
use crate::request::{Ref, Request};
use crate::sys::{self, KeepErrno};

/// Requests were left on the submission list.
pub(crate) const WORK: u64 = 1;
/// Somebody wanted to look for events.
pub(crate) const POLL: u64 = 2;
/// Nobody polls from now on: peers must ring.
const ARM: u64 = 4;
/// A lane that was wanted is left.
const LANE: u64 = 8;
/// How often who has the lock looks for events because others wanted to.
pub(crate) const FAVOURS: u32 = 2;
/// Most calls of `progress` before a sleep.
const SETTLE: usize = 100;
/// The same, by a caller that has more to do.
const FEW: usize = 4;
/// So often who waits for a short message looks for it at once, before the I/O manager says how to wait: about the time of
/// a round trip over shared memory.
const LOOKS: u32 = 64;
/// How long who waits for a long message polls in vain before the I/O manager says how to wait: about what a sleep costs.
const STAY: Duration = Duration::from_micros(5);
/// The same over sockets alone: what comes next is a system call of the peer's away, which copies some 100 KiB.
const STAY_SOCKETS: Duration = Duration::from_micros(50);
/// So often a thread that leaves the watch asks the kernel for a ring that is under way: the time of a peer's system call.
const LANDING: u32 = 16;
/// Polls between two looks at the clock.
const POLLS: u32 = 8;
/// From this length on a message takes longer than a spin is worth.
const LONG: usize = 512 * 1024;

impl<D: Driver> Handover for Core<D> {
    fn work(&mut self, bits: u64) {
        let _errno = KeepErrno::new();
        if bits & LANE != 0 {
            self.lease_is_back();
        }
        if bits & ARM != 0 {
            if !self.settle(SETTLE) {
                // There is more, and whoever asked may sleep already.
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
    /// By rank: what short messages need, for who sends them beside the engine.
    lanes: Box<[Arc<Lane<InlineLease>>]>,
    /// Those of the rails that have one.
    bells: Box<[Arc<Bell>]>,
    /// Those of the rails.
    ready: Box<[Arc<Ready>]>,
    fd: Option<RawFd>,
    /// What `fd` is when several rails have a descriptor: one that watches theirs.
    _epoll: Option<OwnedFd>,
    /// Whether requests have, or had, wakers.
    watching: AtomicBool,
    pub(crate) offload: Offload,
    covered: Covered,
    /// What the I/O manager calls it.
    source: OnceLock<SourceId>,
}

impl Engine {
    pub(crate) fn new(core: Core<AnyDriver>) -> Result<Engine, Error> {
        let bells =
            core.gates.rails.iter().filter_map(|rail| rail.driver.doorbell().cloned()).collect();
        let mut fd = None;
        let mut epoll = None;
        let ready = core.gates.rails.iter().filter_map(|rail| rail.driver.ready().cloned());
        let ready: Box<[_]> = ready.collect();
        for (index, own) in ready.iter().map(|ready| ready.fd()).enumerate() {
            let Some(first) = fd else {
                fd = Some(own);
                continue;
            };
            if epoll.is_none() {
                let all = sys::epoll()?;
                sys::watch(&all, first, libc::EPOLLIN, 0)?;
                fd = Some(all.as_raw_fd());
                epoll = Some(all);
            }
            if let Some(all) = &epoll {
                sys::watch(all, own, libc::EPOLLIN, index as u64)?;
            }
        }
        let signals = core.signals.clone();
        let lanes = core.gates.iter().map(|gate| gate.lease.lane()).collect();
        let offload = Offload::read(core.gates.rails.iter().all(|rail| !rail.driver.can_break()))?;
        let (lock, watching) = (BiasedLock::new(core), AtomicBool::new(false));
        let (covered, source) = (Covered::new(), OnceLock::new());
        let _epoll = epoll; // the field keeps it open
        Ok(Engine {
            lock,
            signals,
            lanes,
            bells,
            ready,
            fd,
            _epoll,
            watching,
            offload,
            covered,
            source,
        })
    }

    /// It is registered with the I/O manager.
    pub(crate) fn is_source(&self, source: SourceId) {
        let _ = self.source.set(source); // once, when the session is made
    }

    #[inline]
    fn try_lock(&self) -> Option<BiasedGuard<'_, Core<AnyDriver>>> {
        let mut core = self.lock.try_lock()?;
        core.favours = FAVOURS;
        Some(core)
    }

    /// What its owners ask the porter for.
    pub(crate) fn signals(&self) -> &Signals {
        &self.signals
    }

    /// Sends a short message without a request, if the engine is free and nothing else is to be done than to give it to
    /// the driver. False: it is still to be sent.
    #[inline]
    pub(crate) fn send_now(&self, to: u32, tag: u64, data: &[u8]) -> bool {
        if self.signals.fine.load(Ordering::Relaxed) {
            return self.send_apart(to, tag, data);
        }
        let _held; // dropped after the lock
        let Some(mut core) = self.try_lock() else { return false };
        _held = self.watching.load(Ordering::Relaxed).then(hold_wakers);
        core.drain();
        // SAFETY: borrowed; the driver copies it.
        core.send_inline(to, tag, unsafe { Span::new(data.as_ptr(), data.len()) })
    }

    /// Receives a short message into `buffer` without a request, if the engine is free and it is there, or comes soon: how
    /// long it is. `None`: it is still to be received.
    #[inline]
    pub(crate) fn recv_now(
        &self,
        from: u32,
        tag: (u64, u64),
        buffer: &mut [u8],
        manager: &Manager,
    ) -> Option<usize> {
        let _held; // dropped after the lock
        let mut core = self.try_lock()?;
        _held = self.watching.load(Ordering::Relaxed).then(hold_wakers);
        core.drain();
        match core.recv_inline(from, tag, buffer) {
            Found::Message(len) => return Some(len),
            Found::Other => return None,
            Found::Nothing => {}
        }
        let luck = core.hits(from);
        if luck == 0
            || core.pending.count() > 0
            || marcel::plumbing::others_runnable()
            || manager.is_loaded()
        {
            return None;
        }
        let bells = self.silence();
        let mut looks = 1;
        let found = loop {
            let found = core.recv_inline(from, tag, buffer);
            if found != Found::Nothing || looks == LOOKS * luck || core.is_wanted() {
                break found;
            }
            looks += 1;
        };
        if found == Found::Nothing {
            core.miss(from);
        }
        drop(core);
        if matches!(bells, Bells::Silenced) {
            manager.left_pending();
        }
        match found {
            Found::Message(len) => Some(len),
            _ => None,
        }
    }

    /// Looks for a short message a few times. The caller calls again at once, or sees to it that a thread watches.
    pub(crate) fn recv_soon(&self, from: u32, tag: (u64, u64), buffer: &mut [u8]) -> Found {
        let _held; // dropped after the lock
        let Some(mut core) = self.try_lock() else { return Found::Nothing };
        _held = self.watching.load(Ordering::Relaxed).then(hold_wakers);
        core.drain();
        if core.pending.count() > 0 {
            // Others are to be looked after, too.
            return match core.recv_inline(from, tag, buffer) {
                Found::Nothing => Found::Other,
                found => found,
            };
        }
        if self.bells.iter().any(|bell| bell.is_armed()) {
            self.disarm();
        }
        for _ in 0..LOOKS {
            let found = core.recv_inline(from, tag, buffer);
            if found != Found::Nothing || core.is_wanted() {
                return found;
            }
        }
        Found::Nothing
    }

    /// Hands a request to the engine. It may be finished when this returns.
    ///
    /// # Safety
    /// As [`Ref::new`]: the request stays where it is, untouched but for its atomic parts, until it is finished.
    #[inline]
    pub(crate) unsafe fn submit(&self, request: NonNull<Request>) {
        // SAFETY: the caller's promise.
        if unsafe { self.start(request) }.is_none() {
            // SAFETY: the caller's promise.
            unsafe { self.leave(request) };
        }
    }

    /// As [`Engine::submit`], for a caller that may compute: a long message is left to an idle core. If the request is not over
    /// and its spell is not covered ([`cover`]), the caller sees to it that a thread watches the request.
    ///
    /// # Safety
    /// As [`Engine::submit`].
    #[inline]
    pub(crate) unsafe fn submit_and_leave(&self, request: NonNull<Request>, manager: &Manager) {
        // SAFETY: valid, and not submitted yet.
        if self.offload.wants(unsafe { request.as_ref() }) && manager.offer() {
            // A poller finds it. A poller that stops calls `left_pending`, which has a thread look, if need be the caller.
            // SAFETY: the caller's promise; the request is in no list.
            unsafe { self.signals.submissions.push(request) };
        // SAFETY: the caller's promise.
        } else if let Some(mut started) = unsafe { self.start(request) } {
            let backlog = started.core.gates.backlog > 0;
            let spell = started.core.pending.spell(backlog);
            // SAFETY: the owner keeps it alive.
            if self.covered.is(spell) || unsafe { request.as_ref() }.is_finished() {
                return;
            }
            if !self.is_watched_by(manager) || !started.core.settle(FEW) {
                drop(started);
                manager.left_pending();
            }
            return self.covered.set(spell);
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.leave(request) };
        }
        // SAFETY: the owner keeps it alive.
        if !unsafe { request.as_ref() }.is_finished() {
            self.have_watched(manager);
        }
    }

    /// Sees to it that somebody watches what is unattended. The usual case in short: a spare kernel thread sleeps on the
    /// descriptor, and the peers have only to be asked to ring.
    pub(crate) fn have_watched(&self, manager: &Manager) {
        if !self.is_watched_by(manager) || !self.arm_and_settle() {
            manager.left_pending();
        }
    }

    /// A spare kernel thread sleeps on the descriptor.
    #[inline]
    fn is_watched_by(&self, manager: &Manager) -> bool {
        let watches = |source: &SourceId| self.unattended() && manager.watches(*source);
        self.source.get().is_some_and(watches)
    }

    /// Arms, and looks until nothing is left. False: there is more.
    fn arm_and_settle(&self) -> bool {
        let _held = hold_wakers(); // dropped after the lock
        let Some(mut core) = self.try_lock() else { return false };
        core.settle(FEW)
    }

    /// As [`Engine::submit`], for a caller that will wait at once: looks for events on the way.
    ///
    /// # Safety
    /// As [`Engine::submit`].
    #[inline]
    pub(crate) unsafe fn submit_and_look(&self, request: NonNull<Request>, manager: &Manager) {
        // SAFETY: valid, and not submitted yet.
        let asked = unsafe { request.as_ref() };
        let (short, peer) = (asked.is_short_receive(), asked.peer);
        // SAFETY: the caller's promise.
        let Some(mut started) = (unsafe { self.start(request) }) else {
            // SAFETY: the caller's promise.
            return unsafe { self.leave(request) };
        };
        let (core, before) = (&mut started.core, started.before);
        if core.pending.count() <= before {
            return;
        }
        core.progress();
        // Where every core computes, the peer may need the one on which this would look in vain.
        if short
            && core.pending.count() > before
            && !marcel::plumbing::others_runnable()
            && !manager.is_loaded()
        {
            let bells = self.silence();
            let mut looks = 0;
            while looks < LOOKS && core.pending.count() > before && !core.is_wanted() {
                core.poll_once(peer);
                looks += 1;
            }
            drop(started);
            if matches!(bells, Bells::Silenced) {
                manager.left_pending();
            }
        }
    }

    /// Begins the request, if the lock is free. The request may be over when this returns.
    #[inline]
    unsafe fn start(&self, request: NonNull<Request>) -> Option<Started<'_>> {
        let mut core = self.try_lock()?;
        let _held = self.watching.load(Ordering::Relaxed).then(hold_wakers);
        core.drain();
        if self.signals.starved.load(Ordering::Relaxed) {
            core.grow();
        }
        let before = core.pending.count();
        // SAFETY: the caller's promise.
        core.start(unsafe { Ref::new(request) });
        Some(Started { core, before, _held })
    }

    /// The peers need not ring: somebody looks. If they were to, the caller tells the manager when it looks no more.
    #[inline]
    fn silence(&self) -> Bells {
        if !self.bells.iter().any(|bell| bell.is_armed()) {
            return Bells::Untouched;
        }
        self.disarm();
        Bells::Silenced
    }

    #[cold]
    unsafe fn leave(&self, request: NonNull<Request>) {
        let _held = hold_wakers();
        // SAFETY: the caller's promise; the request was in no list.
        unsafe { self.signals.submissions.push(request) };
        self.lock.leave(WORK);
    }

    /// Runs `f` with the engine, waiting for it if need be. Callers' context only.
    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut Core<AnyDriver>) -> T) -> T {
        let _held = hold_wakers();
        let mut tries = 0u32;
        let mut core = loop {
            if let Some(core) = self.try_lock() {
                break core;
            }
            tries += 1;
            if tries.is_multiple_of(64) {
                // The holder may be another kernel thread that lost its core.
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        };
        core.drain();
        f(&mut core)
    }

    /// Waits until the request is over. Even if the wait unwinds (a runtime that stops unwinds its threads)
    /// the request is over afterwards.
    ///
    /// # Safety
    /// As [`Engine::submit`], of which this is the counterpart: called by the request's owner.
    #[inline]
    pub(crate) unsafe fn wait(&self, request: NonNull<Request>, manager: &Manager) {
        // SAFETY: the owner keeps it alive.
        if unsafe { request.as_ref() }.is_finished() {
            return;
        }
        let unfinished = Unfinished { engine: self, request, manager };
        unfinished.wait();
        std::mem::forget(unfinished);
    }

    /// Looks for events as long as there are some, and a little longer: while both sides of a large message poll, both
    /// copy, through the cache that they share; a side that sleeps now and then makes that several times slower. Over
    /// sockets it would be woken for each piece. True:
    /// the request is over. The caller then sees to it that somebody watches what others wait for, or waits on.
    ///
    /// How long a message takes decides whether a wait that polls is in vain; here, whether it polls decides how long
    /// it takes. That is why this is not left to the manager, which looks at the past.
    fn stay(&self, manager: &Manager, mut over: impl FnMut() -> bool) -> bool {
        let _looking = self.looking(manager);
        self.disarm();
        let vain = if self.bells.is_empty() { STAY_SOCKETS } else { STAY };
        let mut since = Instant::now();
        while !marcel::plumbing::others_runnable() {
            let mut any = false;
            // Callbacks may use the engine: they are called between these looks, not inside one.
            let _held = hold_wakers();
            for _ in 0..POLLS {
                any |= self.poll();
                if over() {
                    return true;
                }
                std::hint::spin_loop();
            }
            let now = Instant::now();
            if any {
                since = now;
            } else if now - since > vain {
                break;
            }
        }
        false
    }

    /// Waits for several requests for as long as that is not in vain: they are shown to the peers together, and nobody is
    /// asked to watch between one and the next. Some may not be over when it returns; the caller waits for those.
    pub(crate) fn wait_together<'a>(
        &self,
        mut pending: impl Iterator<Item = &'a Request> + Clone,
        manager: &Manager,
    ) {
        let mut all_short = true;
        for request in pending.clone() {
            request.set_waiting();
            all_short &= request.is_short();
        }
        if manager.is_loaded() {
            return;
        }
        let shown = !all_short && !self.bells.is_empty();
        let _shown = shown.then(|| Waiter::new(self));
        let mut last = pending.next();
        let over = || {
            while last.is_some_and(Request::is_finished) {
                last = pending.next();
            }
            last.is_none()
        };
        self.stay(manager, over);
    }

    /// The caller begins requests and then waits for them, by what this returns: meanwhile nobody else is asked to watch.
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
            let request = unsafe { Ref::new(request) };
            !request.is_finished() && core.cancel(request)
        })
    }

    /// Somebody is to be woken by this request, or nudged: if the engine needs memory now, it gets it now.
    pub(crate) fn watched(&self, request: &Request) {
        if !request.set_watched() {
            return;
        }
        if !self.watching.load(Ordering::Relaxed) {
            // With the lock: nobody is left who holds it and did not look.
            self.with(|_| self.watching.store(true, Ordering::Relaxed));
        }
        self.unattend(request);
        if self.signals.starved.load(Ordering::SeqCst) {
            self.feed();
        }
    }

    /// Its owner, who calls this, asks for its end no more: somebody is told, or woken.
    pub(crate) fn unattend(&self, request: &Request) {
        if request.attended.get() {
            self.with(|core| {
                // SAFETY: its owner is here, and keeps it alive.
                let request = unsafe { Ref::new(NonNull::from(request)) };
                if !request.is_finished() {
                    core.pending.unattend(request);
                }
            });
        }
    }

    /// Its owner is about to block on it, and on others.
    pub(crate) fn will_wait(&self, request: &Request) {
        request.set_waiting();
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
            let request = unsafe { Ref::new(request) };
            if !request.is_finished() {
                request.rearm();
            }
            core.grow();
            core.progress();
        });
    }
}

/// The lock holder has begun a request.
struct Started<'a> {
    // Dropped first: wakers and callbacks may use the engine.
    core: BiasedGuard<'a, Core<AnyDriver>>,
    /// Requests that were outstanding before.
    before: usize,
    _held: Option<WakersHeld>,
}

/// What a look has done to whoever sleeps for the session.
enum Bells {
    Untouched,
    /// Nobody is rung any more: somebody must be appointed to look.
    Silenced,
}

/// A request that its owner waits for.
struct Unfinished<'a> {
    engine: &'a Engine,
    request: NonNull<Request>,
    manager: &'a Manager,
}

impl Unfinished<'_> {
    fn wait(&self) {
        // SAFETY: `Engine::wait`'s caller owns it and is here.
        let request = unsafe { self.request.as_ref() };
        request.set_waiting();
        let hint = if request.capacity >= LONG { Hint::Long } else { Hint::Short };
        let shown = !request.is_short() && !self.engine.bells.is_empty();
        let _shown = shown.then(|| Waiter::new(self.engine));
        let sockets = self.engine.bells.is_empty() && request.capacity >= LONG;
        let stays = shown || (sockets && !self.manager.is_loaded());
        if stays && self.engine.stay(self.manager, || request.is_finished()) {
            return;
        }
        loop {
            if self.engine.signals.held.load(Ordering::Relaxed) {
                self.engine.with(|core| core.progress());
            }
            if self.engine.signals.starved.load(Ordering::SeqCst) {
                self.engine.feed();
            }
            let engine = self.engine;
            let before_sleep = || engine.unattend(request);
            self.manager.wait_prepared(&request.done, hint, None, &before_sleep);
            if request.is_finished() {
                return;
            }
            self.engine.nudged(self.request);
        }
    }
}

/// A thread that waits for a large message, for this process and for its peers to know.
struct Waiter<'a>(&'a Engine);

impl<'a> Waiter<'a> {
    fn new(engine: &'a Engine) -> Waiter<'a> {
        engine.signals.waiters.fetch_add(1, Ordering::Relaxed);
        engine.bells.iter().for_each(|bell| bell.waiter(true));
        Waiter(engine)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.signals.waiters.fetch_sub(1, Ordering::Relaxed);
        self.0.bells.iter().for_each(|bell| bell.waiter(false));
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        // SAFETY: `Engine::wait`'s caller owns it and is here.
        let _cancelled = unsafe { self.engine.cancel(self.request) };
        self.wait();
    }
}

// SAFETY: the engine's rules (see `core`): nothing is allocated or freed, only try-locks are taken, `errno` is kept; a
// test with an aborting allocator holds it to that.
unsafe impl Source for Engine {
    fn name(&self) -> &str {
        "newmad"
    }

    #[inline]
    fn poll(&self) -> bool {
        let _errno = KeepErrno::new();
        match self.try_lock() {
            Some(mut core) => core.progress(),
            None => {
                self.lock.leave(POLL);
                false
            }
        }
    }

    #[inline]
    fn pending(&self) -> bool {
        // In this order: what is in neither place of the first is counted by now.
        self.signals.submissions.is_pending()
            || self.signals.outstanding.load(Ordering::Relaxed) != 0
    }

    #[inline]
    fn unattended(&self) -> bool {
        // In this order, as above.
        self.signals.submissions.is_pending() || self.signals.is_unattended()
    }

    fn fd(&self) -> Option<RawFd> {
        self.fd
    }

    fn figures(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("bells rung", self.bells.iter().map(|bell| bell.rung()).sum());
        each("self-wakes", self.signals.self_wakes.load(Ordering::Relaxed));
    }

    fn acknowledge(&self) {
        let _errno = KeepErrno::new();
        let collect = || self.ready.iter().fold(false, |any, ready| ready.collect() | any);
        let collected = collect();
        let under_way = self.bells.iter().fold(false, |any, bell| bell.is_under_way() | any);
        if under_way && !collected {
            (0..LANDING).any(|_| collect());
        }
    }

    /// When the engine is held, its holder arms and looks before it lets go, so the caller may sleep at once: were
    /// it to try again and again, it could keep a holder that it has preempted from its core.
    fn arm(&self) -> bool {
        let _errno = KeepErrno::new();
        let Some(mut core) = self.try_lock() else {
            self.lock.leave(ARM);
            return true;
        };
        if core.call_for_held() {
            return true;
        }
        core.settle(1)
    }

    #[inline]
    fn disarm(&self) {
        for bell in &self.bells {
            bell.disarm();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;
    use std::sync::atomic::Ordering;
    use std::sync::{Arc, mpsc};
    use std::time::{Duration, Instant};

    use marcel::Mode;
    use pioman::{Manager, Source};

    use super::Engine;
    use crate::Session;
    use crate::net::AnyDriver;
    use crate::net::Rings;
    use crate::proto::core::Core;
    use crate::raw::{Memory, RawRequest};
    use crate::request::Request;

    /// Two ranks, and the manager of both.
    pub(super) fn pair() -> (Session, Session, Arc<Manager>) {
        let manager = Manager::builder().mode(Mode::Smp).build().unwrap();
        let mut world = Session::local_world(2, &manager).unwrap();
        let (b, a) = (world.pop().unwrap(), world.pop().unwrap());
        (a, b, manager)
    }

    /// Either waits for the other.
    pub(super) fn close(a: Session, b: Session) {
        std::thread::scope(|scope| {
            scope.spawn(|| a.close().unwrap());
            b.close().unwrap();
        });
    }

    /// Until the bell asks for control packets alone, and none has come: to arm again needs no look. An attended receive is
    /// outstanding.
    fn settle_quietly(engine: &Engine, core: &mut Core<AnyDriver>) {
        engine.disarm();
        let quiet = (0..1000).any(|_| core.settle(1) && !core.arm());
        assert!(quiet, "something is to be looked for");
    }

    /// As when the watcher has taken the core of a thread that is in the engine.
    #[test]
    fn a_message_wakes_the_watcher_once_while_a_thread_is_in_the_engine() {
        let limit = Instant::now() + Duration::from_secs(60);
        let (a, b, manager) = pair();
        let sleeps = || manager.counters().sleeps[1];
        let (ended, end) = mpsc::channel();
        // A callback is to be called: somebody has to watch.
        let receive = a.irecv(1, 1, vec![0; 1]).unwrap();
        receive.on_done(move |result| ended.send(result.unwrap().0).unwrap());
        let (inside, is_inside) = mpsc::channel();
        let (leave, leaves) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let engine = &a.inner().engine;
            scope.spawn(move || {
                engine.with(|_| {
                    inside.send(()).unwrap();
                    leaves.recv().unwrap();
                });
            });
            is_inside.recv().unwrap();
            let before = sleeps();
            b.send(0, 1, &[7]).unwrap();
            while sleeps() == before {
                assert!(Instant::now() < limit, "nobody is woken");
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(50));
            let slept = sleeps() - before;
            leave.send(()).unwrap();
            assert!(slept <= 2, "one message has ended {slept} sleeps");
        });
        let left = limit.saturating_duration_since(Instant::now());
        assert_eq!(end.recv_timeout(left).unwrap(), [7]);
        close(a, b);
    }

    /// A message that waits for its peer is no progress: a thread that arms for it may sleep.
    #[test]
    fn what_only_waits_for_its_peer_is_no_progress() {
        let (a, b, _manager) = pair();
        let long = 1 << 20;
        let send = b.isend(0, 1, vec![7; long]).unwrap();
        let missed = a.irecv(1, 2, vec![0; long]).unwrap();
        for session in [&a, &b] {
            session.inner().engine.with(|core| {
                assert!((0..10).any(|_| !core.progress()), "it never ends");
                assert!((0..10).all(|_| !core.progress()), "nothing has come");
                core.arm();
                assert!(!core.progress());
            });
        }
        assert!(missed.cancel().is_ok());
        assert_eq!(a.irecv(1, 1, vec![0; long]).unwrap().wait().unwrap().0, vec![7; long]);
        send.wait().unwrap();
        assert_eq!(
            [&a, &b].map(|of| of.inner().engine.signals.self_wakes.load(Ordering::Relaxed)),
            [0, 0]
        );
        close(a, b);
    }

    /// A thread that was about to sleep finds the message by itself. The ring that came for it must not wake a later sleeper.
    #[test]
    fn a_ring_for_somebody_who_did_not_sleep_is_taken_away() {
        let (a, b, _manager) = pair();
        let engine = &a.inner().engine;
        let readable = || {
            let fd = engine.fd().unwrap();
            let mut asked = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            // SAFETY: one entry, as is said.
            unsafe { libc::poll(&raw mut asked, 1, 0) > 0 }
        };
        let bell = &engine.bells[0];
        for kept_armed in [false, true] {
            engine.with(|core| {
                bell.arm(Rings::ALL);
                b.send(0, 1, &[7]).unwrap();
                assert!(readable(), "it was to ring");
                if kept_armed {
                    while core.progress() {}
                    assert!(!bell.was_rung());
                }
                engine.disarm();
            });
            engine.acknowledge();
            assert!(!bell.is_under_way(), "the ring is still under way");
            assert!(!readable(), "the ring wakes the next sleeper in vain");
            assert_eq!(a.recv(1, 1, &mut [0; 1]).unwrap().len, 1);
        }
        // Not rung: there is nothing to wait for.
        engine.with(|_| bell.arm(Rings::ALL));
        engine.disarm();
        assert!(!bell.is_under_way());
        // The peer has taken the word, and not written the counter yet.
        engine.with(|_| bell.arm(Rings::ALL));
        assert_eq!(bell.taken_by_a_peer(), Rings::ALL.bits());
        engine.disarm();
        assert!(bell.is_under_way());
        close(a, b);
    }

    /// A control packet came before the receiver armed, behind a short message for which the receiver does not arm.
    #[test]
    fn a_sender_that_waits_behind_a_short_message_is_answered_while_its_receiver_computes() {
        let (a, b, _manager) = pair();
        for _ in 0..10 {
            a.inner().engine.disarm(); // forget earlier rings for everything
            b.send(0, 1, &[1]).unwrap();
            let (answered, answer) = mpsc::channel();
            let sent = b.issend(0, 2, vec![2]).unwrap();
            sent.on_done(move |result| answered.send(result.is_ok()).unwrap());
            let (mut receive, mut word) = (RawRequest::idle(), [0]);
            // SAFETY: it is over before the memory goes: it is waited for, or dropped.
            unsafe { receive.recv(&a, 1, 2, Memory::Whole(word.as_mut_ptr(), 1)).unwrap() };
            assert!(
                answer.recv_timeout(Duration::from_secs(60)).expect("the receiver does not answer")
            );
            assert_eq!(receive.wait().unwrap().len, 1);
            assert_eq!(word, [2]);
            assert_eq!(a.recv(1, 1, &mut [0; 1]).unwrap().len, 1);
        }
        close(a, b);
    }

    /// A thread that arms begins the requests that others have submitted, even if it need not look.
    #[test]
    fn what_was_left_is_begun_by_who_arms() {
        let (a, b, _manager) = pair();
        let engine = &a.inner().engine;
        let (mut before, mut word) = (RawRequest::idle(), [0]);
        // SAFETY: no memory.
        unsafe { before.recv(&a, 1, 2, Memory::Whole(word.as_mut_ptr(), 0)).unwrap() };
        // SAFETY: the memory outlives the request, which is over at the end, as is asserted.
        let mut left = unsafe { Request::recv(1, 1, &raw mut word[..], true) }.attended();
        engine.with(|core| {
            settle_quietly(engine, core);
            // SAFETY: it stays where it is until it is over.
            unsafe { engine.signals.submissions.push(NonNull::from(&mut left)) };
            core.settle(1);
            assert!(engine.signals.submissions.is_empty());
        });
        b.send(0, 1, &[7]).unwrap();
        // SAFETY: its owner is here.
        unsafe { engine.wait(NonNull::from(&mut left), a.manager()) };
        assert_eq!(word, [7]);
        assert!(before.cancel());
        close(a, b);
    }

    /// Another thread has collected an event, and delegated its look: the thread that arms must treat the event.
    #[test]
    fn a_thread_that_arms_looks_at_what_another_has_collected() {
        let (a, b, _manager) = pair();
        let engine = &a.inner().engine;
        let (mut receive, mut word) = (RawRequest::idle(), [0]);
        // SAFETY: no memory.
        unsafe { receive.recv(&a, 1, 1, Memory::Whole(word.as_mut_ptr(), 0)).unwrap() };
        engine.with(|core| {
            settle_quietly(engine, core);
            core.wake_oneself();
            engine.acknowledge();
            assert!(core.arm(), "the event would stay where it is");
        });
        assert!(receive.cancel());
        close(a, b);
    }

    /// The owner of a receive asks for its end: nobody is woken for a short message.
    #[test]
    fn nobody_is_woken_for_a_short_message_whose_receiver_computes() {
        let (a, b, _manager) = pair();
        let rung = || b.inner().engine.bells.iter().map(|bell| bell.rung()).sum::<u64>();
        let mut receive = a.irecv(1, 1, vec![0; 1000]).unwrap();
        let before = rung();
        for tag in [1, 2] {
            b.send(0, tag, &[3; 1000]).unwrap();
        }
        assert_eq!(rung(), before, "for short messages");
        assert!(receive.test());
        assert_eq!(receive.wait().unwrap().0, [3; 1000]);
        // A sender that waits for its receiver is served while that computes.
        let receive = a.irecv(1, 3, vec![0; 1000]).unwrap();
        b.ssend(0, 3, &[4; 1000]).unwrap();
        assert!(rung() > before, "for an announcement");
        assert_eq!(receive.wait().unwrap().0, [4; 1000]);
        close(a, b);
    }
}
