//! Who looks after what is pending when somebody stops looking: the second half of the invariant in `manager`.

use std::sync::atomic::Ordering::*;
use std::time::Duration;

use marcel::{Load, Mode};

use crate::manager::Core;
use crate::manager::point::Point;
use crate::manager::registry::Pinned;
use crate::policy::ask::Question;
use crate::policy::hints::Hint;
use crate::policy::{Asker, Method};
use crate::watch::pollers::bits;

/// How the sources that nobody polls are looked after: a bit each. (Those for dedicated threads are with them.)
pub(crate) struct Plan {
    /// A kernel thread is to sleep on them.
    pub(crate) block: u64,
    /// Ticks find their events, and at the same pace whoever is idle.
    pub(crate) tick: u64,
}

impl Core {
    /// Whether somebody other than a caller may look for events now: always, or only on behalf of a wait.
    pub(crate) fn may_progress(&self) -> bool {
        self.progresses() || self.waiting.load(SeqCst) > 0
    }

    /// Whether a spare kernel thread is there to sleep on sources: it is wanted, and the kernel has given one.
    #[inline]
    pub(crate) fn has_watcher(&self) -> bool {
        self.points.block && self.watcher.get().is_some()
    }

    /// The sources that busy virtual processors look at when they tick: those that are to be found so, and without a
    /// spare kernel thread all.
    pub(crate) fn ticking(&self) -> u64 {
        match (self.points.tick, self.has_watcher()) {
            (false, _) => 0,
            (true, true) => self.ticked.load(Relaxed),
            (true, false) => u64::MAX,
        }
    }

    /// Whether busy virtual processors need ticks. Signal handlers included.
    pub(crate) fn wants_ticks(&self) -> bool {
        let ticking = self.ticking();
        ticking != 0 && self.registry.pin().pending_of(ticking) != 0
    }

    pub(crate) fn left_pending(&self) {
        if !self.may_progress() {
            return;
        }
        let sources = self.registry.pin();
        let pending = sources.pending_of(u64::MAX);
        if pending == 0 {
            return;
        }
        if sources.unattended_of(u64::MAX) != 0 {
            self.visits.count();
            self.cover(Point::Library, &sources);
        } else if self.has_watcher() {
            self.look_seldom();
        }
        if pending & self.ticking() != 0
            && let Some(load) = self.load.get()
        {
            load.arm_ticks();
        }
    }

    /// Requests are pending, and all are attended: the watcher looks now and then (`watch::spare`). A peer may need an answer
    /// while an owner stays away, and cannot wake a thread of this process.
    #[inline]
    fn look_seldom(&self) {
        if !self.seldom.load(Relaxed)
            && !self.seldom.swap(true, SeqCst)
            && let Some(watcher) = self.watcher.get()
        {
            watcher.notify();
        }
    }

    /// Whether the watcher sleeps on this source's descriptor, armed, by the policy's choice; or has its event in hand, and
    /// then covers what is unattended (`watch::arming`).
    #[inline]
    pub(crate) fn watches(&self, slot: usize) -> bool {
        self.visits.count();
        self.blocked.load(Relaxed) >> slot & 1 != 0
            && self.has_watcher()
            && !self.front.has_sleeper()
            && self.spare.is_armed(slot)
    }

    /// What is unattended and polled by nobody. After [`crate::watch::pollers::Pollers::leave`], if the caller polled.
    pub(crate) fn unpolled(&self, sources: &Pinned<'_>) -> u64 {
        match sources.unattended_of(u64::MAX) {
            0 => 0,
            unattended => self.pollers.unpolled(unattended),
        }
    }

    /// Until everything that pends is polled by somebody (who will do the same when it stops), or a kernel thread sleeps on
    /// it, armed, or a tick will find it.
    pub(crate) fn cover(&self, point: Point, sources: &Pinned<'_>) {
        let mut vain = false;
        loop {
            let open = self.unpolled(sources);
            if open == 0 {
                return;
            }
            let plan = self.plan(sources, open);
            if plan.tick != 0 {
                self.call_ticker();
            }
            if plan.block == 0 || self.watch_over(sources, plan.block) {
                return;
            }
            // Arming may have treated the event that it found.
            let found = self.drain(point, sources, plan.block);
            if vain && !found {
                // Another thread holds what is needed to arm, or the event that is there. If the kernel has taken that
                // thread's core away, perhaps for us, it gets it back sooner.
                std::thread::yield_now();
            }
            vain = !found;
        }
    }

    /// Asks the policies how these sources are looked after, now that nobody polls them, and calls who is to poll.
    pub(crate) fn plan(&self, sources: &Pinned<'_>, open: u64) -> Plan {
        let load = self.snapshot();
        let mut plan = Plan { block: 0, tick: 0 };
        for slot in bits(open) {
            let question = Question::of(slot, Asker::Leaving, Hint::Short, Duration::ZERO);
            let choice = self.ask(sources, &question, &load);
            let bit = 1 << slot;
            match self.possible(sources, slot, choice.method) {
                Method::Block => plan.block |= bit,
                Method::Tick => plan.tick |= bit,
                Method::Dedicated => drop(self.dedicated.call(bit)),
                Method::Poll => {
                    // If whoever is woken finds a thread to run, it is a tick that looks.
                    plan.tick |= bit;
                    let _ = self.load.get().is_some_and(Load::wake_one);
                }
            }
        }
        for (mask, now) in [(&self.ticked, plan.tick), (&self.blocked, plan.block)] {
            if mask.load(Relaxed) & open != now {
                mask.fetch_or(now, SeqCst);
                mask.fetch_and(!(open & !now), SeqCst);
            }
        }
        plan
    }

    /// The sources that may be looked at by whoever is woken up on behalf of one of them.
    pub(crate) fn awaited(&self) -> u64 {
        self.blocked.load(Relaxed) | self.passed.load(Relaxed)
    }

    /// Takes the role of the one who looks at the pace of the tick, if there is something to look at.
    pub(crate) fn take_ticker(&self) -> bool {
        let ticked = self.ticked.load(Relaxed);
        ticked != 0
            && self.registry.pin().unattended_of(ticked) != 0
            && !self.ticker.swap(true, SeqCst)
    }

    /// Looks, and gives the role up. What is pending is to be seen to.
    pub(crate) fn release_ticker(&self, point: Point, sources: &Pinned<'_>) {
        sources.poll_these(point, self.ticked.load(Relaxed));
        self.ticker.store(false, SeqCst);
    }

    /// The nearest method that there is, for what nobody waits for.
    pub(crate) fn possible(&self, sources: &Pinned<'_>, slot: usize, method: Method) -> Method {
        let has_fd = sources.get(slot).is_some_and(|registered| registered.fd.is_some());
        let has_ticks = match self.mode {
            Mode::NoThread => false,
            Mode::Mono | Mode::Smp => self.load.get().is_some() || self.watcher.get().is_some(),
        };
        let can_tick = self.points.tick && has_ticks;
        match method {
            Method::Dedicated if self.snapshot().dedicated == 0 => {
                self.possible(sources, slot, Method::Block)
            }
            Method::Poll if !self.points.idle || self.load.get().is_none() => {
                self.possible(sources, slot, Method::Tick)
            }
            Method::Tick if !can_tick && has_fd => Method::Block,
            Method::Block if !has_fd && can_tick => Method::Tick,
            method => method,
        }
    }

    /// Something is to be looked for at the pace of the tick: if nobody does that yet, wakes somebody who is idle.
    pub(crate) fn call_ticker(&self) {
        if self.ticker.load(SeqCst) || self.load.get().is_some_and(Load::wake_one) {
            return;
        }
        if self.load.get().is_none()
            && let Some(sleeper) = self.watcher.get()
        {
            sleeper.notify();
        }
    }

    /// Makes sure that somebody who sleeps is woken by the next event; false if one is there already, or may
    /// be: then poll, and try again. Whoever stops here with false has left nobody armed, although others may rely on
    /// that (`watch::arming`).
    pub(crate) fn watch_over(&self, sources: &Pinned<'_>, these: u64) -> bool {
        if self.front.has_sleeper() {
            self.front.arm(sources, these)
        } else if self.has_watcher() {
            self.spare.arm(sources, these)
        } else {
            self.appoint();
            true
        }
    }

    /// Without a spare thread: wakes somebody who sleeps without a watch, to take the front role. If there
    /// is nobody, ticks and calls have to do.
    fn appoint(&self) -> bool {
        self.candidates.wake_one() || self.load.get().is_some_and(Load::wake_one)
    }

    /// Gives up the front role, and hands the watch on. What was asked for on behalf of the thread that had it is not wanted
    /// any more: it may be more than what is wanted now.
    pub(crate) fn leave_front(&self, sources: &Pinned<'_>) {
        self.front.release_role();
        sources.each().for_each(|(_, slot)| slot.source.disarm());
        if self.may_progress() {
            self.cover(Point::Wait, sources);
        }
    }
}
