//! What a virtual processor does when it has nothing to run: it asks the I/O manager, looks a little while longer,
//! then sleeps.
//!
//! The *little while* is for programs that hand work from core to core: a thread that is spawned or woken within it
//! costs no system call and no interrupt. It is bounded (`MARCEL_IDLE_SPIN`), at most half of the virtual processors of
//! a kind spin at once, and none where a core has more than one.
//!
//! # Going to sleep without losing a wake-up
//! ```text
//!   sleeper                               publisher of work
//!   0. spinning - 1, if it spun           1. push (inbox, deque or injector)
//!   1. announce: idle bit, sleeper word   2. fence
//!   2. fence                              3. a worker spins? done. Else an idle bit set? clear it and
//!   3. last look at every queue              notify that sleeper
//!   4. sleep
//! ```
//! One of the two sees the other. A thread pushed to an *inbox* has one possible runner, so its sleeper is notified
//! directly, whether workers spin or not.
//!
//! Several publishers rely on one spinning worker, which takes one thread. So the worker wakes the next one after its
//! pick if it spun, and found work or saw some in its last look; so does a worker that was woken for work, for the same
//! reason ([`Core::wakes_next`]). A burst needs one notification for each worker, and no thread is forgotten.

use std::cell::Cell;
use std::time::Instant;

use crate::recorder::event;
use crate::recorder::{self, Kind as Trace};
use crate::sched::hooks::Idle;
use crate::sched::vp::Kind;
use crate::sched::worker::{Core, Here, Worker};
use crate::tcb::traits::Priority;
use crate::topology;

impl Here {
    /// Nothing to run: poll as long as the I/O manager finds it worth while, look around, then sleep.
    pub(super) fn rest(self) {
        self.become_idle();
        let recorded = recorder::often(Trace::Rest, 0, 0);
        if !self.look_around() {
            self.sleep();
        }
        if recorded {
            recorder::record(Trace::RestEnd, 0, 0);
        }
    }

    fn sleep(self) {
        self.tick.disarm();
        self.meet();
        let deadline = self.next_deadline();
        event!("sleep", vp = self.number());
        recorder::record(Trace::Sleep, 0, 0);
        self.announce();
        let work_seen = Cell::new(true);
        let last_look = || {
            work_seen.set(self.has_work());
            work_seen.get() || self.shared.is_stopping()
        };
        let slept = match self.shared.hooks() {
            Some(hooks) => hooks.sleep(&self.vp, &self.sleeper, deadline, &last_look),
            None => false,
        };
        if !slept {
            self.sleeper.sleep(deadline, last_look);
        }
        let claimed = self.withdraw();
        self.with(|core| core.wakes_next = claimed || core.wakes_next && work_seen.get());
        event!("wake", vp = self.number());
        recorder::record(Trace::Wake, 0, 0);
    }

    /// It is about to sleep: a publisher of work may wake it.
    pub(super) fn announce(self) {
        match self.original {
            None => self.shared.idle(self.kind()).announce(self.index()),
            Some(original) => {
                let lent = self.shared.lent(self.kind());
                self.lending.announce(lent, original.index());
                // It may have been woken for work that it may not take any more.
                if !self.lending.is_on() {
                    self.wake_another();
                }
            }
        }
    }

    /// It is awake; true if a publisher has claimed it.
    pub(super) fn withdraw(self) -> bool {
        match self.original {
            None => self.shared.idle(self.kind()).withdraw(self.index()),
            Some(original) => self.shared.lent(self.kind()).withdraw(original.index()),
        }
    }

    /// Polls and looks for work, for a bounded time; true if there is some.
    fn look_around(self) -> bool {
        let hooks = self.shared.hooks();
        // Not a standby: publishers rely on a spinning worker to take what it sees.
        let spin = match self.original {
            None => self.shared.begin_spinning(self.kind()),
            Some(_) => None,
        };
        if hooks.is_none() && spin.is_none() {
            return false;
        }
        let since = Instant::now();
        let mut found = false;
        loop {
            let again = match hooks.map_or(Idle::Sleep, |hooks| hooks.idle(&self.vp, since)) {
                Idle::Found => {
                    found = true;
                    break;
                }
                Idle::Again => true,
                Idle::Sleep => spin.is_some_and(|time| since.elapsed() < time),
            };
            if self.has_work() || self.timer_is_due() {
                found = true;
                break;
            }
            if !again || self.shared.is_stopping() {
                break;
            }
            std::hint::spin_loop();
        }
        if spin.is_some() {
            self.shared.end_spinning(self.kind());
            self.with(|core| core.wakes_next = true);
        }
        found
    }

    /// A reactive virtual processor goes to its group's core when every core computes, and is free when not. A
    /// wake-up on the same core needs no interrupt to another one (measured on a virtual machine: half a
    /// ping-pong of 4.1 µs against 13–18), and under load no core is better than another.
    fn meet(self) {
        let Some(meeting) = &self.shared.meeting else { return };
        let loaded = self.shared.is_loaded();
        if self.kind() == Kind::Reactive
            && self.with(|core| std::mem::replace(&mut core.meets, loaded) != loaded) == Some(true)
        {
            let one = std::slice::from_ref(&meeting.core);
            // Refused: the kernel's choice is as right as ours, only slower.
            let _ = topology::restrict_current_thread(if loaded { one } else { &meeting.all });
        }
    }

    fn next_deadline(self) -> Option<Instant> {
        self.with(|core| core.timers.next()).flatten()
    }

    fn timer_is_due(self) -> bool {
        self.next_deadline().is_some_and(|d| d <= Instant::now())
    }
}

impl Worker {
    /// Whether a queue that it serves holds a thread, its core's or another.
    pub(crate) fn has_work_beside(&self, core: &Core) -> bool {
        self.has_mail()
            || core.order.len() > 0
            || !core.spawned.is_empty()
            || self.may_take() && self.fresh_in_sight()
    }

    /// Whether a thread that others keep, and that it could run, is to be had.
    fn fresh_in_sight(&self) -> bool {
        let shared = &self.shared;
        self.free_in_sight()
            || shared.is_special()
                && shared.bound_to(&self.place.path).any(|(_, queue)| !queue.is_empty())
    }

    /// One that every virtual processor of the kind could run.
    fn free_in_sight(&self) -> bool {
        let shared = &self.shared;
        let is_waiting = |priority| !shared.injector(self.kind(), priority).is_empty();
        is_waiting(Priority::Normal)
            || shared
                .vps(self.kind())
                .iter()
                .any(|vp| !vp.stealer.is_empty() || vp.is_busy() && !vp.movable.is_empty())
            || shared.is_special() && (is_waiting(Priority::High) || is_waiting(Priority::Low))
    }

    /// It does not take what is in sight, if anything is: wakes those that may, in its place. What is bound only they see.
    #[cold]
    pub(crate) fn wake_another(&self) {
        let shared = &self.shared;
        if self.free_in_sight() {
            shared.wake_for_work(self.kind());
        }
        if shared.is_special() {
            let waiting = shared.bound_to(&self.place.path).filter(|(_, queue)| !queue.is_empty());
            waiting.for_each(|(node, _)| shared.wake_for_bound(self.kind(), node));
        }
    }
}
