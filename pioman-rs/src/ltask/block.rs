//! The block of a light task: what it is made of, one call of it, and its end.
//!
//! Blocks are immortal and recycled: whoever holds a pointer that is out of date (a queue's popper, a waker) finds a
//! block, if not the one it expected. What of it is whose:
//! * `fixed` is written by the submitter, who owns the block alone, and only read until it is recycled;
//! * `work` belongs to whoever the state says runs or ends the task;
//! * `failure` is written by who ends it, and read by those who have seen that it has ended.
//!
//! What the closure has captured is dropped where the task ends, before its waiters are woken (as the join of a thread
//! has it): in a visit, or by who cancels. So destructors run where closures do, never in the tick's handler.

use std::borrow::Cow;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use marcel::plumbing::lwp::{JobNode, LwpJob};
use marcel::trace::Stamp;

use crate::fault;
use crate::ltask::inside::{CalledBy, Caller, Inside};
use crate::ltask::place::Place;
use crate::ltask::stack::{Linked, Stack};
use crate::ltask::state::{After, Cancel, Claim, Detach, Outcome, State, Was};
use crate::ltask::tasklet::Exclusion;
use crate::ltask::tree::{Ran, Tree, Visitor};
use crate::ltask::{Progress, TaskError};
use crate::manager::point::Point;
use crate::manager::{Core, Manager};
use crate::observe::trace;
use crate::policy::hints::Hint;
use crate::sync::completion::Completion;

pub(super) type Run = Box<dyn FnMut() -> Progress + Send>;
pub(super) type Callback = Box<dyn FnOnce(&Result<(), TaskError>) + Send>;

/// A way to wait for a task's event in the kernel.
pub(super) struct Blocking {
    pub(super) call: Box<dyn FnOnce() + Send>,
    /// Not before then.
    pub(super) after: Option<Instant>,
    pub(super) core: Weak<Core>,
    /// While it is in the hands of a spare kernel thread.
    pub(super) held: Option<Arc<Core>>,
}

/// What is called.
pub(super) struct Work {
    pub(super) run: Run,
    pub(super) blocking: Option<Blocking>,
    pub(super) callback: Option<Callback>,
}

/// What stays the same from submission to recycling.
pub(super) struct Fixed {
    pub(super) name: Cow<'static, str>,
    /// The name in traces.
    pub(super) label: trace::Label,
    pub(super) place: Place,
    pub(super) lane: usize,
    /// It has a blocking alternative.
    pub(super) can_block: bool,
    /// It is a tasklet of this type.
    pub(super) exclusion: Option<Arc<Exclusion>>,
}

/// See the module's description.
#[repr(align(256))]
pub(crate) struct Ltask {
    link: AtomicU64,
    pub(super) state: State,
    /// The last visit that has seen it.
    pub(super) visit: AtomicU64,
    /// When somebody first saw it in its queue who may not call it, by the tree's clock; 0: nobody.
    pub(super) missed: AtomicU64,
    pub(super) called_by: CalledBy,
    fixed: UnsafeCell<Fixed>,
    work: UnsafeCell<Option<Work>>,
    failure: UnsafeCell<Option<Arc<str>>>,
    done: UnsafeCell<Completion>,
    job: OnceLock<JobNode>,
}

// SAFETY: see the module's description for who touches which cell when; all that is in them is `Send`, and `fixed` and
// `failure`, which several may read, are `Sync`.
unsafe impl Sync for Ltask {}
// SAFETY: as above.
unsafe impl Send for Ltask {}

impl Linked for Ltask {
    fn link(&self) -> &AtomicU64 {
        &self.link
    }
}

static FREE: Stack<Ltask> = Stack::new();

impl Ltask {
    /// A block for a new task, which rests and has a handle.
    pub(super) fn allocate(fixed: Fixed, work: Work) -> &'static Ltask {
        let block = FREE.pop().unwrap_or_else(Self::make);
        // SAFETY: nobody else has a block from the pool.
        unsafe {
            *block.fixed.get() = fixed;
            *block.work.get() = Some(work);
            *block.failure.get() = None;
            (*block.done.get()).reset();
        }
        block.state.renew();
        block
    }

    #[cold]
    fn make() -> &'static Ltask {
        let place = Place::default();
        let fixed = Fixed {
            name: Cow::Borrowed(""),
            label: trace::Label::Number(0),
            place,
            lane: 0,
            can_block: false,
            exclusion: None,
        };
        let block: &'static Ltask = Box::leak(Box::new(Ltask {
            link: AtomicU64::new(0),
            state: State::new(),
            visit: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            called_by: CalledBy::default(),
            fixed: UnsafeCell::new(fixed),
            work: UnsafeCell::new(None),
            failure: UnsafeCell::new(None),
            done: UnsafeCell::new(Completion::new()),
            job: OnceLock::new(),
        }));
        assert!(Stack::fits(block), "addresses of more than 48 bits");
        block.job.get_or_init(|| JobNode::new(block));
        block
    }

    /// By whoever the state has told to.
    pub(super) fn recycle(&'static self) {
        FREE.push(self);
    }

    /// By those for whom the block is not recycled: it is in a queue, runs, or has a handle that they have.
    pub(super) fn fixed(&self) -> &Fixed {
        // SAFETY: written only by who owns the block alone.
        unsafe { &*self.fixed.get() }
    }

    pub(super) fn name(&self) -> &str {
        &self.fixed().name
    }

    /// By those who have a handle, or end the task.
    fn done(&self) -> &Completion {
        // SAFETY: changed only by who owns the block alone.
        unsafe { &*self.done.get() }
    }

    pub(super) fn place(&self) -> &Place {
        &self.fixed().place
    }

    /// How it has ended; `None` if it has not. By those who have a handle.
    pub(super) fn result(&self) -> Option<Result<(), TaskError>> {
        let name = || self.name().to_owned();
        Some(match self.state.outcome()? {
            Outcome::Completed => Ok(()),
            Outcome::Cancelled => Err(TaskError::Cancelled { name: name() }),
            Outcome::Failed => {
                // SAFETY: it has ended: nobody writes any more.
                let message = unsafe { (*self.failure.get()).as_deref().unwrap_or_default() };
                Err(TaskError::Panicked { name: name(), message: message.to_owned() })
            }
        })
    }

    /// It was just taken out of its queue, by somebody who may run it.
    pub(super) fn take(&'static self, core: &Core, visitor: &Visitor) -> Ran {
        // A tasklet's block may be another's when this one has ended, but its type is left then.
        let exclusion = self.fixed().exclusion.clone();
        if let Some(exclusion) = &exclusion
            && !exclusion.enter(self, core)
        {
            return Ran::Nothing;
        }
        // Left by unwinding, too: see `call`.
        let _entered = exclusion.map(|exclusion| Entered { exclusion, core });
        match self.state.claim() {
            Claim::Run => self.call(core, visitor),
            Claim::Parked => core.tasks.forget(Ran::Nothing),
            ended => self.left_queue(ended, &core.tasks),
        }
    }

    /// It has ended, and was just taken out of its queue.
    pub(super) fn leave_queue(&'static self, tree: &Tree) {
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
    fn call(&'static self, core: &Core, visitor: &Visitor) -> Ran {
        if self.may_export(core, visitor) && self.export(core) {
            return core.tasks.forget(Ran::Useful);
        }
        let start = Stamp::now();
        let was_stopping = marcel::is_stopping();
        let result = {
            let _inside = Inside::enter(self, visitor.caller);
            let _told = self.tell_call();
            // SAFETY: RUNNING is ours.
            let work = unsafe { (*self.work.get()).as_mut() };
            catch_unwind(AssertUnwindSafe(|| work.map_or(Progress::Done, |work| (work.run)())))
        };
        let end = Stamp::now();
        if result.is_ok() && fault::may_be_long(start, end) {
            fault::check_time(self.kind(), self.name(), start.until(end));
        }
        let tasklet = self.fixed().exclusion.is_some();
        match result {
            Ok(Progress::Done) if tasklet => {
                core.tasks.counts.note(Outcome::Completed);
                self.after(self.state.rest(), core, visitor, Ran::Useful)
            }
            Ok(Progress::Done) => self.end(Outcome::Completed, core, visitor),
            Ok(Progress::Again) => self.after(self.state.again(), core, visitor, Ran::Useful),
            Ok(Progress::Waiting) => self.after(self.state.again(), core, visitor, Ran::Waiting),
            Err(panic) if !was_stopping && marcel::is_stopping() => {
                // Not a fault: the task has waited for something, and the green thread that called it is unwound
                // there, since its runtime stops. (When that had begun before, a panic is the task's own.)
                self.end(Outcome::Cancelled, core, visitor);
                resume_unwind(panic)
            }
            Err(panic) => {
                let message = self.tell_panic(&*panic, start, end);
                if tasklet {
                    core.tasks.counts.note(Outcome::Failed);
                    return self.after(self.state.rest(), core, visitor, Ran::Useful);
                }
                // SAFETY: RUNNING is ours.
                unsafe { *self.failure.get() = Some(message.into()) };
                self.end(Outcome::Failed, core, visitor)
            }
        }
    }

    fn tell_call(&self) -> trace::Call {
        trace::Call::task(self.fixed().label)
    }

    fn kind(&self) -> &'static str {
        if self.fixed().exclusion.is_some() { "tasklet" } else { "light task" }
    }

    fn tell_panic<'a>(
        &self,
        panic: &'a (dyn std::any::Any + Send),
        start: Stamp,
        end: Stamp,
    ) -> &'a str {
        let (message, took) = (fault::message(panic), start.until(end));
        fault::report(self.kind(), self.name(), format_args!("panicked after {took:?}: {message}"));
        message
    }

    fn after(&'static self, after: After, core: &Core, visitor: &Visitor, ran: Ran) -> Ran {
        match after {
            After::Push if ran == Ran::Useful && visitor.caller != Caller::SCHEDULER => {
                // Who waits calls it once in a while; those who are idle can go on with it now.
                core.tasks.push_again(self, core);
                ran
            }
            After::Push => {
                core.tasks.requeue(self);
                ran
            }
            After::Parked | After::Rests => core.tasks.forget(ran),
            After::End { again } => {
                // A tasklet's run has been counted; that it was to run once more has been promised.
                if again || self.fixed().exclusion.is_none() {
                    core.tasks.counts.note(Outcome::Cancelled);
                }
                self.finish(Outcome::Cancelled, &core.tasks, Some(visitor.caller));
                core.tasks.forget(Ran::Useful)
            }
        }
    }

    /// Ends it, from RUNNING.
    fn end(&'static self, outcome: Outcome, core: &Core, visitor: &Visitor) -> Ran {
        self.state.end();
        core.tasks.counts.note(outcome);
        self.finish(outcome, &core.tasks, Some(visitor.caller));
        core.tasks.forget(Ran::Useful)
    }

    /// Drops what it has captured, tells how it has ended. ENDING is the caller's, the block perhaps another's
    /// afterwards.
    fn finish(&'static self, outcome: Outcome, tree: &Tree, caller: Option<Caller>) {
        if self.fixed().can_block {
            tree.can_block(-1);
        }
        {
            let _inside = caller.map(|caller| Inside::enter(self, caller));
            // SAFETY: ENDING is ours.
            let work = unsafe { (*self.work.get()).take() };
            if let Some(mut work) = work {
                let callback = work.callback.take();
                let start = Stamp::now();
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(work))) {
                    self.tell_panic(&*panic, start, Stamp::now());
                }
                if let Some(callback) = callback {
                    self.call_back(callback, outcome);
                }
            }
        }
        self.state.tell(outcome);
        self.done().complete();
        if self.state.told() {
            self.recycle();
        }
    }

    fn call_back(&self, callback: Callback, outcome: Outcome) {
        let name = || self.name().to_owned();
        let result = match outcome {
            Outcome::Completed => Ok(()),
            Outcome::Cancelled => Err(TaskError::Cancelled { name: name() }),
            Outcome::Failed => {
                // SAFETY: ENDING is ours.
                let message = unsafe { (*self.failure.get()).as_deref().unwrap_or_default() };
                Err(TaskError::Panicked { name: name(), message: message.to_owned() })
            }
        };
        let start = Stamp::now();
        let panic = catch_unwind(AssertUnwindSafe(|| callback(&result))).err();
        let end = Stamp::now();
        if let Some(panic) = panic {
            self.tell_panic(&*panic, start, end);
        } else if fault::may_be_long(start, end) {
            let took = start.until(end);
            fault::check_time("completion callback of light task", self.name(), took);
        }
    }

    /// Asks for its end; true unless it has an outcome, or is about to.
    pub(super) fn cancel(&'static self, tree: &Tree) -> bool {
        match self.state.cancel() {
            Cancel::End { was } => {
                // What rests has nothing outstanding.
                if was != Was::Resting {
                    tree.counts.note(Outcome::Cancelled);
                }
                if was == Was::Queued {
                    tree.ended_in_queue(1);
                }
                self.finish(Outcome::Cancelled, tree, None);
                true
            }
            Cancel::Later => true,
            Cancel::TooLate => false,
        }
    }

    /// The handle goes.
    pub(super) fn detach(&'static self, core: &Core) {
        match self.state.detach() {
            Detach::Nothing => {}
            Detach::Push => core.tasks.add(self, core),
            Detach::Free => self.recycle(),
        }
    }

    /// Waits for its end, or `deadline`, or less. By who has the handle.
    pub(super) fn wait(&self, manager: &Manager, deadline: Option<Instant>) {
        match deadline {
            None => manager.wait(self.done(), Hint::Short),
            Some(deadline) => drop(manager.wait_until(self.done(), Hint::Short, deadline)),
        }
    }

    /// Whether its blocking alternative is to be used now. RUNNING is the caller's.
    pub(super) fn may_export(&self, core: &Core, visitor: &Visitor) -> bool {
        // SAFETY: RUNNING is ours.
        let work = unsafe { (*self.work.get()).as_ref() };
        let Some(blocking) = work.and_then(|work| work.blocking.as_ref()) else { return false };
        core.points.block
            && blocking.after.is_none_or(|after| Instant::now() >= after)
            && (visitor.patient || core.is_loaded())
    }

    /// Hands the blocking alternative to a spare kernel thread; false if none is free, or the task was cancelled.
    /// RUNNING is the caller's.
    pub(super) fn export(&'static self, core: &Core) -> bool {
        let (Some(lwps), Some(job)) = (core.lwps.get(), self.job.get()) else { return false };
        // SAFETY: RUNNING is ours.
        let work = unsafe { (*self.work.get()).as_mut() };
        let Some(blocking) = work.and_then(|work| work.blocking.as_mut()) else { return false };
        let Some(held) = blocking.core.upgrade() else { return false };
        if !core.tasks.begin_blocking() {
            return false;
        }
        blocking.held = Some(held);
        if !self.state.export() {
            blocking.held = None;
            core.tasks.end_blocking();
            return false;
        }
        lwps.submit(job);
        true
    }
}

/// The type of a tasklet, which is left when this is dropped.
struct Entered<'a> {
    exclusion: Arc<Exclusion>,
    core: &'a Core,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.exclusion.leave(self.core);
    }
}

impl LwpJob for Ltask {
    fn run(&self) {
        // SAFETY: blocks are immortal.
        let this: &'static Ltask = unsafe { &*(self as *const Ltask) };
        // SAFETY: BLOCKING is ours.
        let blocking = unsafe { (*this.work.get()).as_mut().and_then(|work| work.blocking.take()) };
        let Some(Blocking { call, held: Some(core), .. }) = blocking else { return };
        let outcome = if this.state.is_cancelled() {
            Outcome::Cancelled
        } else {
            let start = Stamp::now();
            let _told = this.tell_call();
            match catch_unwind(AssertUnwindSafe(call)) {
                Ok(()) => Outcome::Completed,
                Err(panic) => {
                    let message = this.tell_panic(&*panic, start, Stamp::now());
                    // SAFETY: as above.
                    unsafe { *this.failure.get() = Some(message.into()) };
                    Outcome::Failed
                }
            }
        };
        core.hits.note(Point::Block, true);
        core.tasks.end_blocking();
        core.tasks.counts.note(outcome);
        this.state.end();
        this.finish(outcome, &core.tasks, None);
        // The last, perhaps: if the manager has gone, so do its queues and spare threads now.
        drop(core);
    }
}
