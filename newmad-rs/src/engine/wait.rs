//! Waits: how the owner of a request waits for its end.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use marcel::plumbing::{Overdue, budget, others_runnable};
use pioman::plumbing::hold_wakers;
use pioman::{Hint, Manager, Point, Source};

use crate::engine::Engine;
use crate::engine::spin::{Budget, Poll, spin};
use crate::request::{Op, Request};
use crate::sys::now_ns;

/// How long the waiter of a long message polls in vain before the I/O manager says how to wait: about what a sleep
/// costs.
pub(crate) const STAY: Duration = Duration::from_micros(5);
/// The same over sockets alone: what comes next is a system call of the peer's away, which copies some 100 KiB.
pub(crate) const STAY_SOCKETS: Duration = Duration::from_micros(50);
/// A peer that copies tells of nothing but the end: it is waited for so many times as long as that takes, by the pace of the
/// rail. (Waiters slept while their peer copied 1 MiB, and were woken at the end, in which time they copied nothing
/// themselves.)
const PATIENCE: u32 = 2;
/// And no longer than this: they may be at something else.
const MOST_PATIENCE: Duration = Duration::from_millis(2);
/// Every so many looks meanwhile, others that want its core may have it.
const SELDOM: u32 = 32;
/// Polls between two looks at the clock.
const POLLS: u32 = 8;
/// Over sockets a message of this length comes in several pieces.
const LONG: usize = 512 * 1024;

/// How long a thread looks for what another rank of its process does, where its virtual processor has nothing else to run:
/// that rank may be on another core, and a wake-up of a core that sleeps takes a quarter of this.
const NEAR: Duration = Duration::from_micros(20);
/// Looks between two looks at anything else.
const LOOKS: u32 = 64;

/// Looks for a while for what another rank of the process does, polls in between, and stops when other green threads can run
/// here.
#[inline]
pub(crate) fn look_beside(manager: &Manager, over: impl Fn() -> bool) -> bool {
    !others_runnable() && spin_beside(manager, over)
}

#[inline(never)]
fn spin_beside(manager: &Manager, over: impl Fn() -> bool) -> bool {
    let mut begun = None;
    loop {
        for _ in 0..LOOKS {
            if over() {
                return true;
            }
            // Another core may have woken a thread of this one in the meantime.
            if others_runnable() {
                return false;
            }
            std::hint::spin_loop();
        }
        let now = Instant::now();
        let begun = begun.get_or_insert(now);
        if now - *begun > NEAR {
            return false;
        }
        manager.poll(Point::Library);
        manager.looked(false);
    }
}

impl Engine {
    /// Waits until the request is over. Even if the wait unwinds (a runtime that stops unwinds its threads)
    /// the request is over afterwards. The caller is no strategy, and has asked that before it submitted the request.
    ///
    /// # Safety
    /// As [`Engine::submit`], of which this is the counterpart: called by the request's owner.
    #[inline]
    pub(crate) unsafe fn wait(&self, request: NonNull<Request>, manager: &Manager) {
        // SAFETY: the caller's promise.
        unsafe { self.wait_for(request, manager, false) };
        // The thread may not have switched, since the request was over, or polls have found its end. It is over by now:
        // nothing is left to protect, should the thread be unwound here.
        budget::spend();
    }

    /// Submits these requests, one after the other, and waits until all are over, as by [`Engine::wait_together`] and
    /// [`Engine::wait`]. No thread is asked to watch in between, where that may be soon.
    ///
    /// # Safety
    /// As [`Engine::submit`], of each.
    pub(crate) unsafe fn submit_and_wait_for_all<const N: usize>(
        &self,
        requests: [NonNull<Request>; N],
        manager: &Manager,
    ) {
        {
            // SAFETY: valid, and alive until this returns: they are the caller's.
            let pending = requests.iter().map(|request| unsafe { request.as_ref() });
            let soon = pending.clone().any(|request| !request.is_short()) && !manager.is_crowded();
            let _looking = soon.then(|| self.looking(manager));
            for request in requests {
                // SAFETY: the caller's promise.
                unsafe { self.submit(request) };
            }
            if soon {
                self.wait_together(pending, manager);
            }
        }
        let waits =
            requests.map(|request| Unfinished { engine: self, request, manager, heeds: false });
        for unfinished in waits {
            unfinished.wait(None);
            std::mem::forget(unfinished);
        }
        budget::spend();
    }

    /// As [`Engine::wait`], or until the request is alarmed.
    ///
    /// # Safety
    /// As [`Engine::wait`].
    #[inline]
    pub(crate) unsafe fn wait_or_alarm(&self, request: NonNull<Request>, manager: &Manager) {
        // SAFETY: the caller's promise.
        unsafe { self.wait_for(request, manager, true) };
        budget::spend();
    }

    /// As [`Engine::wait`]; the thread does not yield if the request is over. `heeds`: an alarm ends the wait.
    ///
    /// # Safety
    /// As [`Engine::wait`].
    #[inline]
    unsafe fn wait_for(&self, request: NonNull<Request>, manager: &Manager, heeds: bool) {
        let unfinished = Unfinished { engine: self, request, manager, heeds };
        unfinished.wait(None);
        std::mem::forget(unfinished);
    }

    /// As [`Engine::wait`], for a request whose handle is dropped. A thread that panics meanwhile, or is unwound, reports
    /// after a second which request it waits for.
    ///
    /// # Safety
    /// As [`Engine::wait`].
    pub(crate) unsafe fn wait_out(&self, request: NonNull<Request>, manager: &Manager) {
        if !std::thread::panicking() {
            // SAFETY: the caller's promise.
            return unsafe { self.wait_for(request, manager, false) };
        }
        // SAFETY: the owner keeps it alive. A thread that panics is not unwound once more.
        if !unsafe { request.as_ref() }.is_finished() {
            drop(Unfinished { engine: self, request, manager, heeds: false });
        }
    }

    /// Whether the request is a short receive of what another rank of this process sends.
    #[inline]
    pub(super) fn comes_from_beside(&self, request: &Request) -> bool {
        request.is_short_receive() && self.beside.has(request.peer)
    }

    /// A thread waits for the request from now on.
    #[inline]
    pub(super) fn comes_to_wait(&self, request: &Request) {
        // That of a blocking call waits from its submission on, which the lock, or the list, has made known.
        if !request.is_waiting() {
            request.set_waiting();
        }
        if !request.is_short() {
            self.signals.absence.waits(now_ns);
        }
    }

    /// Sends the messages that were held for a look of their sender: before that one waits.
    #[inline]
    pub(crate) fn send_held(&self) {
        if self.signals.held.load(Ordering::Relaxed) {
            self.with(|core| core.progress());
        }
    }

    /// Polls as long as there are events, and a little longer: while both sides of a large message poll, both copy,
    /// through the cache that they share; a side that sleeps now and then makes that several times slower. Over sockets
    /// it would be woken for each piece. True: the request is over. The caller then has a thread watch what others wait
    /// for, or waits on.
    ///
    /// How long a message takes decides whether a wait that polls is in vain; here, whether it polls decides how long
    /// it takes. That is why this is not left to the I/O manager, which looks at the past.
    fn stay(&self, manager: &Manager, mut over: impl FnMut() -> bool) -> bool {
        let _looking = self.looking(manager);
        let mut look = || {
            if others_runnable() {
                return Poll::Stop;
            }
            // Callbacks may use the engine: they are called between these polls, not inside one.
            let _held = hold_wakers();
            let mut any = false;
            for _ in 0..POLLS {
                any |= self.poll_at(Point::Wait);
                if over() {
                    return Poll::Done;
                }
                std::hint::spin_loop();
            }
            if any { Poll::Events } else { Poll::Nothing }
        };
        let vain = if self.doorbells.are_absent() { STAY_SOCKETS } else { STAY };
        if spin(Budget::InVain(vain), &mut look) {
            return true;
        }
        if others_runnable() || manager.is_crowded() {
            return false;
        }
        let copying = self.enter(|core| core.peers_copy_for()).unwrap_or_default();
        let (patience, mut looks) = ((PATIENCE * copying).min(MOST_PATIENCE), 0u32);
        !copying.is_zero()
            && spin(Budget::Within(patience), || {
                looks += 1;
                if looks.is_multiple_of(SELDOM) {
                    // Its core may be the one on which a peer copies.
                    manager.looked(false);
                }
                if manager.is_crowded() { Poll::Stop } else { look() }
            })
    }

    /// Waits for several requests for as long as that is not in vain: they are shown to the peers together, and no
    /// watcher is asked for between one and the next. Some may not be over when it returns; the caller waits for those.
    pub(crate) fn wait_together<'a>(
        &self,
        mut pending: impl Iterator<Item = &'a Request> + Clone,
        manager: &Manager,
    ) {
        let (mut all_short, mut all_beside) = (true, true);
        for request in pending.clone() {
            self.comes_to_wait(request);
            all_short &= request.is_short();
            all_beside &= self.beside.has(request.peer);
        }
        if all_beside || manager.is_crowded() {
            return;
        }
        let shown = !all_short && !self.doorbells.are_absent();
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
}

/// A request that its owner waits for.
struct Unfinished<'a> {
    engine: &'a Engine,
    request: NonNull<Request>,
    manager: &'a Manager,
    /// An alarm ends the wait, too.
    heeds: bool,
}

impl Unfinished<'_> {
    /// `overdue`: its thread is unwound, and the wait is told of when it lasts.
    #[inline]
    fn wait(&self, overdue: Option<Overdue>) {
        // SAFETY: `Engine::wait`'s caller owns it and is here.
        let request = unsafe { self.request.as_ref() };
        if request.is_finished() {
            return; // another one's wait has found its end
        }
        self.engine.comes_to_wait(request);
        if overdue.is_none() && self.engine.comes_from_beside(request) && marcel::is_green() {
            self.engine.wait_beside(request, self.manager);
        } else {
            self.wait_for_events(request, overdue);
        }
    }

    /// Waits for a request whose end a poll finds. Apart, so that waits for other ranks of the process save no registers
    /// for it.
    #[inline(never)]
    fn wait_for_events(&self, request: &Request, mut overdue: Option<Overdue>) {
        let shown = !request.is_short() && !self.engine.doorbells.are_absent();
        let _shown = shown.then(|| Waiter::new(self.engine));
        let _open = self.engine.calls(request.mine.get()).open(self.manager);
        let sockets = self.engine.doorbells.are_absent() && request.capacity >= LONG;
        let stays = shown || (sockets && !self.manager.is_crowded());
        if stays && self.engine.stay(self.manager, || request.is_finished()) {
            return;
        }
        loop {
            self.engine.send_held();
            if self.engine.signals.starved.load(Ordering::SeqCst) {
                self.engine.feed();
            }
            let engine = self.engine;
            let before_sleep = || engine.unattend(request);
            let deadline = overdue.as_ref().map(Overdue::at);
            // A thread that is unwound may not leave the request's memory before its end.
            if self.heeds && overdue.is_none() && request.is_alarmed() {
                return;
            }
            // (Short: the length of a message does not say when its peer begins with it.)
            self.manager.wait_prepared(&request.done, Hint::Short, deadline, &before_sleep);
            if request.is_finished() {
                return;
            }
            if let Some(lasts) = overdue.as_mut().and_then(Overdue::due) {
                tell_of(request, lasts);
            }
            self.engine.nudged(self.request);
        }
    }
}

impl Engine {
    /// Waits for what another rank of this process brings. No poll finds its end, and none is asked for (`Pending`): the
    /// thread gives its virtual processor to the others at once.
    #[inline(never)]
    fn wait_beside(&self, request: &Request, manager: &Manager) {
        let _open = self.calls(request.mine.get()).open(manager);
        loop {
            self.send_held();
            self.feed_if_starved();
            // The lock holder that began this for the caller may have left a copy to be made.
            if self.pending() && !request.is_finished() {
                manager.poll(Point::Library);
            }
            if !look_beside(manager, || request.done.is_done()) {
                self.before_sleep();
                request.done.latch().wait("a message");
            }
            if request.is_finished() {
                return;
            }
            self.nudged(NonNull::from(request));
        }
    }
}

/// Tells of a thread that is unwound and waits for a request, whose memory it may not leave.
#[cold]
fn tell_of(request: &Request, lasts: Duration) {
    let thread = marcel::current_name()
        .or_else(|| std::thread::current().name().map(str::to_owned))
        .unwrap_or_else(|| "<unnamed>".to_owned());
    let (len, peer, tag) = (request.capacity, request.peer, request.tag);
    let what = match request.op {
        Op::Send => format!(
            "its send of {len} bytes to rank {peer}, tag {tag:#x}: no receive has taken it, and a send cannot be taken back"
        ),
        Op::Recv => {
            format!("a receive, tag {tag:#x}, whose message has begun to come and has not ended")
        }
        Op::Probe { .. } => format!("a probe, tag {tag:#x}"),
        Op::Close => "the end of its session".to_owned(),
    };
    let seconds = lasts.as_secs_f64();
    // One write, and no panic: the thread may be in one already.
    let text =
        format!("newmad: thread '{thread}' is unwound and has waited {seconds:.0} s for {what}\n");
    let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
}

/// A thread that waits for a large message, for this process and for its peers to know.
struct Waiter<'a>(&'a Engine);

impl<'a> Waiter<'a> {
    fn new(engine: &'a Engine) -> Waiter<'a> {
        engine.signals.waiters.fetch_add(1, Ordering::Relaxed);
        engine.doorbells.show_waiter(true);
        Waiter(engine)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.signals.waiters.fetch_sub(1, Ordering::Relaxed);
        self.0.doorbells.show_waiter(false);
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        // SAFETY: `Engine::wait`'s caller owns it and is here.
        let _cancelled = unsafe { self.engine.cancel(self.request) };
        self.wait(Some(Overdue::new()));
    }
}
