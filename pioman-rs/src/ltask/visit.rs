//! Visits of the queues: at the idle loop, at context switches, in waits, by the background watcher.

use std::sync::atomic::{Ordering::*, fence};

use marcel::topology::{allowed_cpus, restrict_current_thread};
use marcel::{Idle, Vp};

use crate::ltask::block::Ltask;
use crate::ltask::inside::Caller;
use crate::ltask::place::{Cores, Plan};
use crate::ltask::queue::LANES;
use crate::ltask::scheduler::Tasks;
use crate::ltask::tree::{BATCH, DEPTH, MAY_LIE, PARTS};
use crate::ltask::visitor::{Ran, Visitor};

impl Tasks {
    /// An idle virtual processor's visit; what it should do if it finds nothing else.
    #[inline]
    pub(crate) fn at_idle(&self, vp: &Vp) -> Idle {
        if !self.tree.pending() {
            return Idle::Sleep;
        }
        let patient = !self.tree.is_active();
        let caller = Caller::SCHEDULER;
        let visitor = Visitor { core: vp.cpu(), idle: true, patient, caller };
        match self.visit(&visitor) {
            Ran::Useful => Idle::Found,
            Ran::Waiting if !patient && !self.machine.is_loaded() => Idle::Again,
            Ran::Waiting | Ran::Nothing => Idle::Sleep,
        }
    }

    /// A visit at a context switch.
    #[inline]
    pub(crate) fn at_switch(&self, vp: &Vp) {
        if self.tree.pending() && self.machine.points.switch {
            let caller = Caller::SCHEDULER;
            let visitor = Visitor { core: vp.cpu(), idle: false, patient: false, caller };
            self.visit(&visitor);
        }
    }

    /// The visit of a thread that waits: as the virtual processor that it is on. No source is pinned: a task may remove
    /// one. `patient`: it will sleep next.
    #[inline]
    pub(crate) fn in_wait(&self, patient: bool) {
        if self.tree.pending() {
            let core = marcel::current_vp().and_then(Vp::cpu);
            let visitor = Visitor { core, idle: true, patient, caller: Caller::thread() };
            self.visit(&visitor);
        }
    }

    /// Calls the tasks that a visitor may call, as far as a visit goes. Progress path, but not in a signal handler.
    #[inline]
    pub(crate) fn visit(&self, visitor: &Visitor) -> Ran {
        if !self.tree.pending() {
            return Ran::Nothing;
        }
        self.visit_sight(visitor)
    }

    fn visit_sight(&self, visitor: &Visitor) -> Ran {
        let path = self.tree.plan.path(visitor.core);
        let news = self.tree.news.load(SeqCst);
        let may = |task: &Ltask| task.place().allows(visitor.core);
        let mut visit = 0;
        let mut ran = self.visit_queues(path, visitor, &may, &mut visit, 1);
        if visitor.idle {
            if self.machine.watcher().is_none() {
                let may =
                    |task: &Ltask| !may(task) && self.tree.is_late(task) && self.is_stranded(task);
                for queue in 0..self.tree.queues.len() {
                    ran = ran.max(self.visit_queues(&[queue], visitor, &may, &mut visit, 2));
                }
            }
            self.tree.seen[path[0]].store(news, Relaxed);
        }
        if ran == Ran::Useful {
            self.tree.stir();
        }
        ran
    }

    /// The part of a visit that concerns `queues`. `visit` is the visit's number, 0 until there is something to see: a
    /// task that was called in it is marked with that, and one that was put back in this part with that and `part`.
    fn visit_queues(
        &self,
        queues: &[usize],
        visitor: &Visitor,
        may: &dyn Fn(&Ltask) -> bool,
        visit: &mut u64,
        part: u64,
    ) -> Ran {
        let mut ran = Ran::Nothing;
        let mut done = [0; DEPTH];
        for _ in 0..BATCH {
            let Some((at, task)) = self.tree.next(queues, visitor.idle, &mut done) else { break };
            if *visit == 0 {
                *visit = self.tree.visits.fetch_add(PARTS, Relaxed) + PARTS;
            }
            let before = task.visit.load(Relaxed);
            if before == *visit || before == *visit + part {
                // All that was before it has had its turn.
                done[at] |= 1 << task.fixed().lane;
                self.tree.put(task);
            } else if !may(task) {
                task.visit.store(*visit + part, Relaxed);
                self.put_back(task, before == 0);
            } else {
                task.visit.store(*visit, Relaxed);
                ran = ran.max(task.take(self, visitor));
            }
        }
        ran
    }

    /// The background watcher's visit; it wakes up at the tick's pace as long as this returns true.
    pub(crate) fn visit_by_watcher(&self) -> bool {
        if self.tree.pending() {
            let visitor =
                Visitor { core: None, idle: true, patient: true, caller: Caller::thread() };
            let watcher = Bound { plan: &self.tree.plan, before: None };
            let watcher = std::cell::RefCell::new(watcher);
            let last = self.tree.watched.load(Relaxed);
            let may = |task: &Ltask| {
                let yes = !self.machine.points.idle || self.is_stranded(task);
                if yes {
                    watcher.borrow_mut().bind(task.place().cores.as_ref());
                } else if task.visit.load(Relaxed) == last + 1 {
                    self.wake_for(task.place().cores.as_ref());
                }
                yes
            };
            let mut visit = 0;
            for queue in 0..self.tree.queues.len() {
                self.visit_queues(&[queue], &visitor, &may, &mut visit, 1);
            }
            self.tree.watched.store(visit, Relaxed);
        }
        self.tree.paced.store(true, SeqCst);
        fence(SeqCst);
        let pending = self.tree.pending();
        if !pending {
            self.tree.paced.store(false, SeqCst);
        }
        pending || self.tree.pending()
    }

    /// Blocks whose tasks were cancelled in their queues, and which no visitor has taken out, are cleared away. Not the
    /// progress path.
    pub(crate) fn clear_away(&self) {
        if self.tree.lying.load(Relaxed) <= MAY_LIE {
            return;
        }
        let mut kept = Vec::new();
        for queue in &self.tree.queues {
            for lane in 0..LANES {
                while let Some(task) = queue.pop(lane) {
                    match task.state.outcome() {
                        Some(_) => task.leave_queue(&self.tree),
                        None => kept.push(task),
                    }
                }
            }
        }
        // As they were, and new for all visitors: they were out of sight for a moment.
        let any = !kept.is_empty();
        kept.into_iter().for_each(|task| self.tree.put(task));
        if any {
            self.tree.has_new();
            self.call_for(None);
        }
    }
}

/// A kernel thread that binds itself for a while.
struct Bound<'a> {
    plan: &'a Plan,
    /// Where it may run otherwise.
    before: Option<Vec<usize>>,
}

impl Bound<'_> {
    fn bind(&mut self, cores: Option<&Cores>) {
        let Some(cores) = cores else { return self.unbind() };
        if let Some(real) = self.plan.real(cores) {
            if self.before.is_none() {
                self.before = Some(allowed_cpus());
            }
            let _ = restrict_current_thread(&real); // refused: it runs where it is
        }
    }

    fn unbind(&mut self) {
        if let Some(before) = self.before.take() {
            let _ = restrict_current_thread(&before);
        }
    }
}

impl Drop for Bound<'_> {
    fn drop(&mut self) {
        self.unbind();
    }
}

#[cfg(test)]
mod tests;
