//! What the scheduler calls: idle loop, context switch, tick, and going to sleep.

use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use marcel::{Hooks, Idle, Kind, Load, Vp, plumbing::Sleeper};

use crate::manager::point::Point;
use crate::manager::registry::Pinned;
use crate::manager::{Core, Manager};
use crate::policy::ask::Question;
use crate::policy::hints::Hint;
use crate::policy::{Asker, Method};
use crate::watch::pollers::bits;

/// A tick that finds a transfer under way goes on polling until nothing has come for this long (a peer that
/// has to be woken first answers within 5–10 µs, one that shares the core within a short slice of 100 µs)…
const LINGER: Duration = Duration::from_micros(120);
/// …but takes no more than this of the computation at a time.
const TICK_BOUND: Duration = Duration::from_millis(2);

/// Bound of one look for events.
const MAX_POLLS: usize = 1000;

// SAFETY: a tick polls sources, which promise as much, and runs no light task.
unsafe impl Hooks for Manager {
    fn started(&self, load: Load, vps: &[&'static Vp]) {
        for vp in vps {
            let added = vp.sleeper().fd().and_then(|fd| self.core.front.add_sleeper(fd));
            // It could not be called out of the set: it looks around by itself.
            if let Err(error) = added
                && !self.core.blind.swap(true, SeqCst)
            {
                eprintln!(
                    "pioman: no eventfd for a virtual processor ({error}): it wakes up at the pace of ticks"
                );
            }
        }
        self.core.tasks.serve(vps);
        let _ = self.core.load.set(load);
    }

    fn idle(&self, vp: &Vp, idle_since: Instant) -> Idle {
        self.core.idle(vp, idle_since)
    }

    fn switch(&self, vp: &Vp) {
        self.core.switch(vp);
    }

    fn tick(&self, _: &Vp) -> bool {
        self.core.tick();
        self.core.wants_ticks()
    }

    fn wants_ticks(&self) -> bool {
        self.core.wants_ticks()
    }

    fn sleep(
        &self,
        vp: &Vp,
        sleeper: &Sleeper,
        deadline: Option<Instant>,
        last_look: &dyn Fn() -> bool,
    ) -> bool {
        self.core.stop_idle(vp);
        self.core.call_for_help();
        self.core.sleep_vp(vp, sleeper, deadline, last_look)
    }

    fn busy(&self, vp: &Vp) {
        self.core.tasks_when_busy();
        if self.core.stop_idle(vp) {
            self.core.left_pending();
        }
    }

    fn ended(&self, vp: &Vp) {
        self.core.tasks.lose();
        if self.core.stop_idle(vp) {
            self.core.left_pending();
        }
        let reactive = u32::from(vp.kind() == Kind::Reactive) << 31;
        self.core.registry.counts().ended(vp.index() as u32 | reactive);
        if let Ok(fd) = vp.sleeper().fd() {
            self.core.front.remove_sleeper(fd);
        }
    }
}

impl Core {
    fn idle(&self, vp: &Vp, since: Instant) -> Idle {
        let progresses = self.points.idle || self.waiting.load(Relaxed) > 0;
        if !progresses {
            return Idle::Sleep;
        }
        let tasks = self.tasks_at_idle(vp);
        if tasks == Idle::Found {
            return tasks;
        }
        let sources = self.registry.pin();
        let pending = sources.unattended_of(u64::MAX);
        let on_call = self.is_on_call(vp);
        if !on_call && (pending == 0 || self.spun.swap(false, Relaxed)) {
            return tasks;
        }
        let mine = self.idle_poller.load(Relaxed) == address(vp);
        if !on_call && !mine && self.pollers.seems_unpolled(pending) == 0 {
            return tasks;
        }
        let polls = match on_call {
            true => sources.of(self.passed.load(Relaxed)),
            false => self.polled_by_idle(&sources, pending, since.elapsed()),
        };
        if polls == 0 {
            return tasks;
        }
        if !mine && !self.start_idle(vp) {
            return if on_call && !self.is_on_call_in_vain() { Idle::Again } else { tasks };
        }
        let before = self.idle_mask.load(Relaxed);
        if polls != before {
            self.idle_mask.store(polls, Relaxed);
            self.pollers.join(polls & !before);
            if before & !polls != 0 {
                self.pollers.leave(before & !polls);
                self.cover(Point::Idle, &sources);
            }
        }
        if on_call && self.pollers.seem_polled_by_others(polls) {
            self.is_busy_on_call();
            return Idle::Again;
        }
        if !sources.poll_these(Point::Idle, polls) {
            return Idle::Again;
        }
        if on_call {
            self.is_busy_on_call();
        }
        Idle::Found
    }

    /// The sources, a bit each, that an idle virtual processor is to poll.
    fn polled_by_idle(&self, sources: &Pinned<'_>, pending: u64, waited: Duration) -> u64 {
        let load = self.snapshot();
        let polls = |slot: &usize| {
            let question = Question::of(*slot, Asker::Idle, Hint::Short, waited);
            self.ask(sources, &question, &load).method == Method::Poll
        };
        bits(pending).filter(polls).fold(0, |mask, slot| mask | 1 << slot)
    }

    /// One idle virtual processor polls at a time; true if it is this one now.
    fn start_idle(&self, vp: &Vp) -> bool {
        let poller = &self.idle_poller;
        poller.load(Relaxed) == 0
            && poller.compare_exchange(0, address(vp), Acquire, Relaxed).is_ok()
    }

    /// The virtual processor does not poll any more; true if it did. The caller sees to what is pending.
    #[inline]
    fn stop_idle(&self, vp: &Vp) -> bool {
        if self.idle_poller.load(Relaxed) != address(vp) {
            return false;
        }
        let mask = self.idle_mask.swap(0, Relaxed);
        self.idle_poller.store(0, Release);
        self.pollers.leave(mask);
        true
    }

    fn switch(&self, vp: &Vp) {
        self.tasks_at_switch(vp);
        // With nothing else to run, the virtual processor is about to look, armed, before it sleeps.
        let sources = self.registry.pin();
        let pending = sources.unattended_of(u64::MAX);
        if pending == 0 || self.pollers.unpolled(pending) == 0 || !marcel::plumbing::has_work() {
            return;
        }
        if self.points.switch {
            sources.poll_these(Point::Switch, pending & self.passed.load(Relaxed));
        }
        drop(sources);
        // The thread that ran last may have stopped polling to wait, and the next one may compute for long.
        self.left_pending();
    }

    /// In a signal handler: sources only. Light tasks are safe code, which may be in the middle of anything.
    fn tick(&self) {
        let sources = self.registry.pin();
        let looks = self.ticking() | self.passed.load(Relaxed);
        if !self.points.tick || !sources.poll_these(Point::Tick, sources.pending_of(looks)) {
            return;
        }
        let start = Instant::now();
        let mut last = start;
        loop {
            let pending = sources.pending_of(looks);
            if pending == 0 {
                break;
            }
            let found = sources.poll_these(Point::Tick, pending);
            let now = Instant::now();
            if found {
                last = now;
            }
            if now - last > LINGER || now - start > TICK_BOUND {
                break;
            }
        }
    }

    /// Who may take the front role: virtual processors whose kernel thread the kernel lets preempt others. A
    /// compute one, bound to a core that another process may be using, would be woken too late. Where no spare
    /// kernel thread watches either, late is better than never.
    fn may_watch(&self, vp: &Vp) -> bool {
        vp.kind() == Kind::Reactive || !self.has_watcher()
    }

    fn sleep_vp(
        &self,
        vp: &Vp,
        sleeper: &Sleeper,
        deadline: Option<Instant>,
        last_look: &dyn Fn() -> bool,
    ) -> bool {
        if !self.may_progress() {
            return false;
        }
        let tasks = self.tasks_before_sleep(vp);
        let until = [deadline, tasks].into_iter().flatten().min();
        let slept = self.sleep_watching(vp, sleeper, until, last_look);
        if !slept && tasks.is_some() {
            sleeper.sleep(until, last_look);
        }
        slept || tasks.is_some()
    }

    /// As [`Hooks::sleep`].
    fn sleep_watching(
        &self,
        vp: &Vp,
        sleeper: &Sleeper,
        deadline: Option<Instant>,
        last_look: &dyn Fn() -> bool,
    ) -> bool {
        let sources = self.registry.pin();
        // Whoever polls makes sure, when it stops, that somebody watches.
        let open = self.unpolled(&sources);
        if open == 0 {
            return false;
        }
        let plan = self.plan(&sources, open);
        let paced = plan.tick != 0 && self.take_ticker();
        let soon = paced.then(|| Instant::now() + self.tick_period);
        let until = [deadline, soon].into_iter().flatten().min();
        let slept = if plan.block != 0 && self.may_watch(vp) && self.front.take_role() {
            self.sleep_in_front(sources, plan.block, sleeper, until, last_look);
            let sources = self.registry.pin();
            // Up to the first thread that can run: if more is pending, `leave_front` looks again, armed.
            for _ in 0..MAX_POLLS {
                // Progress may be off outside waits, and the wait that we slept for over.
                if last_look()
                    || !self.may_progress()
                    || !sources.poll_these(Point::Idle, self.awaited())
                {
                    break;
                }
            }
            self.leave_front(&sources);
            true
        } else if plan.block != 0 && !self.watch_over(&sources, plan.block) {
            // It sleeps on the futex, but not before somebody watches.
            self.drain(Point::Idle, &sources, plan.block);
            self.cover(Point::Idle, &sources); // others may rely on our attempt
            true
        } else {
            drop(sources);
            if paced {
                sleeper.sleep(until, last_look);
            }
            paced
        };
        if paced {
            // It comes here again, or has ticks.
            self.release_ticker(Point::Idle, &self.registry.pin());
        }
        slept
    }

    /// Sleeps in the front watch, whose role the caller has, until one of these sources has something.
    pub(crate) fn sleep_in_front(
        &self,
        sources: Pinned<'_>,
        these: u64,
        sleeper: &Sleeper,
        until: Option<Instant>,
        last_look: impl FnOnce() -> bool,
    ) {
        let blind = self.blind.load(Relaxed).then(|| Instant::now() + self.tick_period);
        let until = [until, blind].into_iter().flatten().min();
        // First: a ring that is on its way when the last look finds what it is for would wake the watcher in vain. Whoever
        // leaves the front role sees to what is unattended then.
        self.spare.disarm(&sources, these);
        let armed = self.front.arm(&sources, these);
        drop(sources); // whoever removes a source waits for pins
        let mut reported = 0;
        if armed {
            sleeper.sleep_in(last_look, || reported = self.front.sleep(until));
        }
        // An event that came for this thread must not wake the next sleeper, even if this thread did not sleep.
        self.registry.pin().acknowledge(these | reported);
    }
}

/// What tells one virtual processor from another.
fn address(vp: &Vp) -> usize {
    std::ptr::from_ref(vp).addr()
}
