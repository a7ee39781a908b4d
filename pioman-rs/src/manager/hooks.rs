//! What the scheduler calls: idle loop, context switch, tick, and going to sleep.

use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use marcel::{Hooks, Idle, Kind, Load, Sleeper, Vp};

use crate::manager::point::Point;
use crate::manager::registry::Pinned;
use crate::manager::{Core, Manager};
use crate::policy::ask::Question;
use crate::policy::{Asker, Method};

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
            // Without its eventfd in the set a virtual processor sleeps on its futex.
            if let Ok(fd) = vp.sleeper().fd() {
                let _ = self.core.front.add_sleeper(fd);
            }
        }
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
        self.core.sleep_vp(vp, sleeper, deadline, last_look)
    }

    fn busy(&self, _: &Vp) {}

    fn ended(&self, vp: &Vp) {
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
        if self.tasks.run(vp.cpu(), self) {
            return Idle::Found;
        }
        let sources = self.registry.pin();
        if !sources.pending() || self.spinners.load(Relaxed) > 0 || self.spun.swap(false, Relaxed) {
            return Idle::Sleep;
        }
        if self.idle_spinner.load(Relaxed) || self.idle_spinner.swap(true, Acquire) {
            return Idle::Sleep;
        }
        let polls = self.chosen(&sources, Asker::Idle, since.elapsed(), Method::Poll);
        let found = polls != 0 && sources.poll_these(Point::Idle, polls);
        self.idle_spinner.store(false, Release);
        if found {
            Idle::Found
        } else if polls != 0 {
            Idle::Again
        } else {
            Idle::Sleep
        }
    }

    /// The sources, a bit each, in which something pends and for which the policy chooses `method`.
    fn chosen(&self, sources: &Pinned<'_>, asker: Asker, waited: Duration, method: Method) -> u64 {
        let load = self.snapshot();
        let mut mask = 0;
        for (slot, _) in sources.each().filter(|(_, slot)| slot.source.pending()) {
            let choice = self.ask(sources, &Question::of(slot, asker, waited), &load);
            mask |= u64::from(choice.method == method) << slot;
        }
        mask
    }

    fn switch(&self, vp: &Vp) {
        // With nothing else to run, the virtual processor is about to look, armed, before it sleeps.
        let sources = self.registry.pin();
        if !sources.pending() || self.spinners.load(SeqCst) > 0 || !vp.has_work() {
            return;
        }
        if self.points.switch {
            self.tasks.run(vp.cpu(), self);
            let polls = self.chosen(&sources, Asker::Passing, Duration::ZERO, Method::Poll);
            sources.poll_these(Point::Switch, polls);
        }
        drop(sources);
        // The thread that ran last may have stopped polling to wait, and the next one may compute for long.
        self.left_pending();
    }

    /// In a signal handler: sources only. Light tasks are safe code, which may be in the middle of anything.
    fn tick(&self) {
        let sources = self.registry.pin();
        if !self.points.tick || !sources.pending() {
            return;
        }
        if !sources.poll(Point::Tick) {
            return;
        }
        let start = Instant::now();
        let mut last = start;
        while sources.pending() {
            let found = sources.poll(Point::Tick);
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
        vp.kind() == Kind::Reactive || !self.points.block
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
        if self.tasks.pending() && self.points.idle {
            // Tasks that are to be called again and cannot block: at the pace of the tick.
            let soon = Instant::now() + self.tick_period;
            sleeper.sleep(Some(deadline.map_or(soon, |d| d.min(soon))), last_look);
            return true;
        }
        let sources = self.registry.pin();
        // A thread that polls makes sure, when it stops, that somebody watches.
        if !sources.pending() || self.spinners.load(SeqCst) > 0 {
            return false;
        }
        if self.may_watch(vp) && self.front.take_role() {
            let armed = self.front.arm(&sources);
            if armed {
                self.spare.disarm(&sources);
            }
            drop(sources); // whoever removes a source waits for pins
            if armed {
                sleeper.sleep_in(last_look, || self.front.sleep(deadline));
            }
            let sources = self.registry.pin();
            // Up to the first thread that can run: if more is pending, `leave_front` looks again, armed.
            for _ in 0..MAX_POLLS {
                // Progress may be off outside waits, and the wait that we slept for over.
                if last_look() || !self.may_progress() || !sources.poll(Point::Idle) {
                    break;
                }
            }
            self.leave_front(&sources);
            true
        } else {
            // Sleep on the futex, but not before somebody watches.
            if !self.watch_over(&sources) {
                self.drain(Point::Idle, &sources);
                return true;
            }
            false
        }
    }
}
