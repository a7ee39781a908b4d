//! Where the manager comes by the queues of light tasks: idle loop, context switch, wait, sleep; and whom a
//! submission wakes.

use std::time::Instant;

use marcel::{Idle, Load, Vp};

use crate::ltask::inside::Caller;
use crate::ltask::place::Cores;
use crate::ltask::tree::{Ran, Visitor};
use crate::manager::Core;

impl Core {
    /// An idle virtual processor's visit; what it should do if it finds nothing else.
    #[inline]
    pub(crate) fn tasks_at_idle(&self, vp: &Vp) -> Idle {
        if !self.tasks.pending() {
            return Idle::Sleep;
        }
        let patient = !self.tasks.is_active();
        let caller = Caller::SCHEDULER;
        let visitor = Visitor { core: vp.cpu(), idle: true, patient, caller };
        match self.tasks.visit(self, &visitor) {
            Ran::Useful => Idle::Found,
            Ran::Waiting if !patient && !self.is_loaded() => Idle::Again,
            Ran::Waiting | Ran::Nothing => Idle::Sleep,
        }
    }

    /// A visit at a context switch.
    #[inline]
    pub(crate) fn tasks_at_switch(&self, vp: &Vp) {
        if self.tasks.pending() && self.points.switch {
            let caller = Caller::SCHEDULER;
            let visitor = Visitor { core: vp.cpu(), idle: false, patient: false, caller };
            self.tasks.visit(self, &visitor);
        }
    }

    /// The visit of a thread that waits: as the virtual processor that it is on. No source is pinned: a task may remove
    /// one. `patient`: it will sleep next.
    #[inline]
    pub(crate) fn tasks_in_wait(&self, patient: bool) {
        if self.tasks.pending() {
            let core = marcel::current_vp().and_then(Vp::cpu);
            let visitor = Visitor { core, idle: true, patient, caller: Caller::thread() };
            self.tasks.visit(self, &visitor);
        }
    }

    /// Before a virtual processor sleeps, having announced it: when it has to look for tasks again. At once, perhaps.
    pub(crate) fn tasks_before_sleep(&self, vp: &Vp) -> Option<Instant> {
        if !self.tasks.pending() || !self.points.idle {
            return None;
        }
        let now = Instant::now();
        if self.tasks.has_news(vp.cpu()) {
            return Some(now);
        }
        Some(now + self.tick_period)
    }

    /// A virtual processor that was idle is not any more: if tasks are queued the watcher sees to them, or the other
    /// virtual processors where there is none.
    #[inline]
    pub(crate) fn tasks_when_busy(&self) {
        if self.tasks.pending() && !self.tasks.is_paced() && !self.call_watcher() {
            // As many as there are, not for as long as one goes back to sleep meanwhile.
            let Some(load) = self.load.get() else { return };
            let vps = load.compute_vps() + load.reactive_vps();
            (0..vps).take_while(|_| load.wake_one()).for_each(drop);
        }
    }

    /// A task for `cores` was queued: wakes an idle virtual processor of them, or the spare watcher. With neither, it
    /// runs when a virtual processor next looks for something to run, or in a wait (2007, 3.3: "when it is safe").
    pub(crate) fn call_for_tasks(&self, cores: Option<&Cores>) {
        if !self.wake_for_tasks(cores) {
            self.call_watcher();
        }
    }

    /// Wakes an idle virtual processor of `cores` that sleeps, if there is one.
    pub(crate) fn wake_for_tasks(&self, cores: Option<&Cores>) -> bool {
        self.points.idle
            && self.load.get().is_some_and(|load| match cores {
                None => load.wake_one(),
                Some(cores) => load.wake_on(&|core| cores.has(core)),
            })
    }

    /// False if there is none.
    fn call_watcher(&self) -> bool {
        let watcher = self.watcher.get();
        watcher.inspect(|sleeper| sleeper.notify()).is_some()
    }

    /// Whether no virtual processor of `cores` has room for a task.
    pub(crate) fn is_busy_on(&self, cores: Option<&Cores>) -> bool {
        match cores {
            None => self.is_loaded(),
            Some(cores) => {
                self.load.get().is_none_or(|load: &Load| load.busy_on(&|core| cores.has(core)))
            }
        }
    }
}
