//! One call of a light task, and its end.

use std::any::Any;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use marcel::plumbing::is_forced_unwinding;

use crate::fault::{self, Called};
use crate::ltask::block::{Exporter, Ltask};
use crate::ltask::exclusion::Exclusion;
use crate::ltask::inside::{Caller, Inside};
use crate::ltask::report::Progress;
use crate::ltask::scheduler::Tasks;
use crate::ltask::state::{After, Cancel, Claim, Detach, Outcome, Was};
use crate::ltask::tree::Tree;
use crate::ltask::visitor::{Ran, Visitor};
use crate::trace;

impl Ltask {
    /// A new task is exported without having been in a queue, if that is possible.
    pub(crate) fn start(&'static self, tasks: &Tasks) {
        self.state.start();
        let none = Visitor { core: None, idle: false, patient: false, caller: Caller::SCHEDULER };
        if self.may_export(tasks, &none) && self.export(tasks) {
            return;
        }
        match self.state.again() {
            After::Push => tasks.add(self),
            // Only the owner of the handle masks and cancels.
            After::Parked | After::Rests | After::End { .. } => {}
        }
    }

    /// It was just taken out of its queue, by a visitor that may run it.
    pub(crate) fn take(&'static self, tasks: &Tasks, visitor: &Visitor) -> Ran {
        // A tasklet's block may be another's when this one has ended, but its type is left then.
        let exclusion = self.fixed().exclusion.clone();
        if let Some(exclusion) = &exclusion
            && !exclusion.gate.enter(self, |next| tasks.push_again(next))
        {
            return Ran::Nothing;
        }
        // Left by unwinding, too: see `call`.
        let _entered = exclusion.map(|exclusion| Entered { exclusion, tasks });
        match self.state.claim() {
            Claim::Run => self.call(tasks, visitor),
            Claim::Parked => tasks.tree.forget(Ran::Nothing),
            ended => self.left_queue(ended, &tasks.tree),
        }
    }

    /// It has ended, and was just taken out of its queue.
    pub(crate) fn leave_queue(&'static self, tree: &Tree) {
        self.left_queue(self.state.claim(), tree);
    }

    fn left_queue(&'static self, claim: Claim, tree: &Tree) -> Ran {
        debug_assert!(matches!(claim, Claim::Ended { .. }));
        tree.ended_in_queue(-1);
        if claim == (Claim::Ended { free: true }) {
            self.recycle();
        }
        tree.forget(Ran::Nothing)
    }

    /// Calls it once, and sees to what comes next. RUNNING is the caller's.
    fn call(&'static self, tasks: &Tasks, visitor: &Visitor) -> Ran {
        if self.may_export(tasks, visitor) && self.export(tasks) {
            return tasks.tree.forget(Ran::Useful);
        }
        let called = {
            let _inside = Inside::enter(self, visitor.caller);
            let _told = self.tell_call();
            // SAFETY: RUNNING is ours.
            let work = unsafe { (*self.work.get()).as_mut() };
            fault::call(|| work.map_or(Progress::Done, |work| (work.run)()))
        };
        called.tell_time(self.kind(), self.name());
        let tasklet = self.fixed().exclusion.is_some();
        match called.result {
            Ok(Progress::Done) if tasklet => {
                tasks.tree.counts.note(Outcome::Completed);
                self.after(self.state.rest(), tasks, visitor, Ran::Useful)
            }
            Ok(Progress::Done) => self.end(Outcome::Completed, tasks, visitor),
            Ok(Progress::Again) => self.after(self.state.again(), tasks, visitor, Ran::Useful),
            Ok(Progress::Waiting) => self.after(self.state.again(), tasks, visitor, Ran::Waiting),
            Err(panic) if is_forced_unwinding(&*panic) => {
                // Not a fault: the task has waited for something.
                self.end(Outcome::Cancelled, tasks, visitor);
                resume_unwind(panic)
            }
            Err(_) => {
                self.tell_panic(&called);
                if tasklet {
                    tasks.tree.counts.note(Outcome::Failed);
                    return self.after(self.state.rest(), tasks, visitor, Ran::Useful);
                }
                // SAFETY: RUNNING is ours.
                unsafe { *self.failure.get() = called.message().map(Arc::from) };
                self.end(Outcome::Failed, tasks, visitor)
            }
        }
    }

    fn tell_call(&self) -> trace::Call {
        trace::Call::task(self.fixed().label)
    }

    fn kind(&self) -> &'static str {
        if self.fixed().exclusion.is_some() { "tasklet" } else { "light task" }
    }

    fn tell_panic<T>(&self, called: &Called<T>) {
        called.tell_panic(self.kind(), self.name(), "");
    }

    fn after(&'static self, after: After, tasks: &Tasks, visitor: &Visitor, ran: Ran) -> Ran {
        match after {
            After::Push if ran == Ran::Useful && visitor.caller != Caller::SCHEDULER => {
                // A waiter calls it once in a while; idle visitors can go on with it now.
                tasks.push_again(self);
                ran
            }
            After::Push => {
                tasks.tree.requeue(self);
                ran
            }
            After::Parked | After::Rests => tasks.tree.forget(ran),
            After::End { again } => {
                // A tasklet's run has been counted; that it was to run once more has been promised.
                if again || self.fixed().exclusion.is_none() {
                    tasks.tree.counts.note(Outcome::Cancelled);
                }
                let unwinding = self.finish(Outcome::Cancelled, &tasks.tree, Some(visitor.caller));
                let ran = tasks.tree.forget(Ran::Useful);
                unwinding.map_or(ran, |unwinding| resume_unwind(unwinding))
            }
        }
    }

    /// Ends it, from RUNNING.
    fn end(&'static self, outcome: Outcome, tasks: &Tasks, visitor: &Visitor) -> Ran {
        self.state.end();
        tasks.tree.counts.note(outcome);
        let unwinding = self.finish(outcome, &tasks.tree, Some(visitor.caller));
        let ran = tasks.tree.forget(Ran::Useful);
        unwinding.map_or(ran, |unwinding| resume_unwind(unwinding))
    }

    /// Drops what it has captured, tells how it has ended. ENDING is the caller's, the block perhaps another's
    /// afterwards. What the caller resumes, if the calling thread is unwound in a destructor or in the task's callback.
    #[must_use]
    fn finish(
        &'static self,
        outcome: Outcome,
        tree: &Tree,
        caller: Option<Caller>,
    ) -> Option<Box<dyn Any + Send>> {
        if self.fixed().can_block {
            tree.can_block(-1);
        }
        let mut unwinding = None;
        {
            let _inside = caller.map(|caller| Inside::enter(self, caller));
            // SAFETY: ENDING is ours.
            let work = unsafe { (*self.work.get()).take() };
            if let Some(mut work) = work {
                let callback = work.callback.take();
                let dropped = fault::call(|| drop(work));
                self.tell_panic(&dropped);
                unwinding = dropped.into_unwinding();
                if let Some(callback) = callback {
                    let result = self.result_of(outcome);
                    let called = fault::call(|| callback(&result));
                    self.tell_panic(&called);
                    called.tell_time("completion callback of light task", self.name());
                    unwinding = unwinding.or(called.into_unwinding());
                }
            }
        }
        self.state.tell(outcome);
        self.done().complete();
        if self.state.told() {
            self.recycle();
        }
        unwinding
    }

    /// Asks for its end; true unless it has an outcome, or is about to.
    pub(crate) fn cancel(&'static self, tree: &Tree) -> bool {
        match self.state.cancel() {
            Cancel::End { was } => {
                // What rests has nothing outstanding.
                if was != Was::Resting {
                    tree.counts.note(Outcome::Cancelled);
                }
                if was == Was::Queued {
                    tree.ended_in_queue(1);
                }
                let unwinding = self.finish(Outcome::Cancelled, tree, None);
                unwinding.is_none_or(|unwinding| resume_unwind(unwinding))
            }
            Cancel::Later => true,
            Cancel::TooLate => false,
        }
    }

    /// The handle goes.
    pub(crate) fn detach(&'static self, tasks: &Tasks) {
        match self.state.detach() {
            Detach::Nothing => {}
            Detach::Push => tasks.add(self),
            Detach::Free => self.recycle(),
        }
    }

    /// Whether its blocking alternative is to be used now. RUNNING is the caller's.
    pub(crate) fn may_export(&self, tasks: &Tasks, visitor: &Visitor) -> bool {
        // SAFETY: RUNNING is ours.
        let work = unsafe { (*self.work.get()).as_ref() };
        let Some(blocking) = work.and_then(|work| work.blocking.as_ref()) else { return false };
        tasks.machine.points.block
            && blocking.after.is_none_or(|after| Instant::now() >= after)
            && (visitor.patient || tasks.machine.is_loaded())
    }

    /// Hands the blocking alternative to a spare kernel thread; false if none is free, or the task was cancelled.
    /// RUNNING is the caller's.
    pub(crate) fn export(&'static self, tasks: &Tasks) -> bool {
        let (Some(lwps), Some(job)) = (tasks.lwps.get(), self.job.get()) else { return false };
        // SAFETY: RUNNING is ours.
        let work = unsafe { (*self.work.get()).as_mut() };
        let Some(blocking) = work.and_then(|work| work.blocking.as_mut()) else { return false };
        let Some(held) = blocking.exporter.upgrade() else { return false };
        if !tasks.tree.begin_blocking() {
            return false;
        }
        blocking.held = Some(held);
        if !self.state.export() {
            blocking.held = None;
            tasks.tree.end_blocking();
            return false;
        }
        lwps.submit(job);
        true
    }
}

/// The type of a tasklet, which is left when this is dropped.
struct Entered<'a> {
    exclusion: Arc<Exclusion<Ltask>>,
    tasks: &'a Tasks,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.exclusion.gate.leave(|next| self.tasks.push_again(next));
    }
}

impl Exporter for Tasks {
    fn export(&self, task: &'static Ltask, call: Box<dyn FnOnce() + Send>) {
        let outcome = if task.state.is_cancelled() {
            Outcome::Cancelled
        } else {
            let _told = task.tell_call();
            let called = fault::call(call);
            task.tell_panic(&called);
            // SAFETY: BLOCKING is ours.
            unsafe { *task.failure.get() = called.message().map(Arc::from) };
            if called.result.is_ok() { Outcome::Completed } else { Outcome::Failed }
        };
        self.blocking_hits.fetch_add(1, Relaxed);
        self.tree.end_blocking();
        self.tree.counts.note(outcome);
        task.state.end();
        let unwinding = task.finish(outcome, &self.tree, None);
        debug_assert!(unwinding.is_none(), "a kernel thread is not unwound");
    }
}

/// Tasks that are left when no visitor comes any more are cancelled.
impl Drop for Tasks {
    fn drop(&mut self) {
        while let Some(task) = self.tree.take_any() {
            task.cancel(&self.tree);
            task.leave_queue(&self.tree);
        }
    }
}
