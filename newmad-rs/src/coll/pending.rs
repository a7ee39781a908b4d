//! Starting a collective, and the handle of one that goes on.

use std::any::Any;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context as Waking, Poll};
use std::time::{Duration, Instant};

use marcel::plumbing::budget;
use pioman::{Completion, Hint};

use crate::api::several::{Awaited, Collective, Seal, Waited, What};
use crate::coll::algo::choose::{Algorithm, choose};
use crate::coll::board::Stage;
use crate::coll::context::{Key, Member as _};
use crate::coll::failure::{Failure, PATIENCE};
use crate::coll::group::Group;
use crate::coll::memory::Memory;
use crate::coll::operator::Operator;
use crate::coll::plan::Plan;
use crate::coll::run::{Run, Waits};
use crate::coll::shared;
use crate::coll::straight::{self, Walk};
use crate::coll::task::Task;
use crate::coll::unwinding;
use crate::error::Error;
use crate::session::Inner;
use crate::strategy::selection::check_caller;

impl Group {
    /// Records the plan and begins.
    ///
    /// # Safety
    /// The memory is what the task takes it to be ([`Task`], checked by the caller). Until the run is over it stays, is
    /// not written to by others, and the output is not read.
    pub(super) unsafe fn start(
        &self,
        task: &Task,
        operator: Option<&Operator>,
        memory: Memory,
        in_place: bool,
        (series, kept): (Option<u16>, Option<Box<dyn Any + Send>>),
    ) -> Result<Arc<Run>, Error> {
        let plan = self.plan(task, self.choose(task, operator), operator, &memory, in_place)?;
        let context = &self.context;
        let next = match series {
            None => context.next(),
            Some(series) => (context.series_tag(series), false),
        };
        // SAFETY: the caller's promise.
        let run = unsafe { self.begin((plan, 0, &[]), next, operator, memory, Waits::Later(kept)) };
        let borrowed = Borrowed(&run);
        unwinding::go_on();
        std::mem::forget(borrowed);
        Ok(run)
    }

    fn choose(&self, task: &Task, operator: Option<&Operator>) -> Algorithm {
        let ordered = operator.is_some_and(|operator| !operator.commutative);
        choose(&self.context.choices(), task, self.size(), ordered)
    }

    /// Whether the caller may begin anything.
    fn check(&self) -> Result<(), Error> {
        check_caller()?;
        self.context.failure.get().map_or(Ok(()), |failure| Err(failure.of_another().error()))
    }

    /// The plan, and whether it may be carried out.
    pub(super) fn plan(
        &self,
        task: &Task,
        algorithm: Algorithm,
        operator: Option<&Operator>,
        memory: &Memory,
        in_place: bool,
    ) -> Result<Arc<Plan>, Error> {
        let context = &self.context;
        self.check()?;
        // Before it has a number: a member that is refused may try again with the same one.
        context.admit()?;
        let element = operator.map_or(1, |operator| operator.element);
        let plan = context.plan(Key { task: task.clone(), algorithm, element, in_place });
        // What the tasks' lengths were checked for already; all safety of memory comes to this.
        let [input, output, scratch] = plan.extents;
        if input > memory.input.len() || output > memory.output.len() || scratch > plan.scratch {
            let found = memory.input.len() + memory.output.len();
            let what = "bytes (the plan goes beyond its memory: a bug of newmad)";
            return Err(Error::BadBuffer { what, expected: input + output, found });
        }
        Ok(plan)
    }

    /// Begins a run, or goes on as one, with a tag that says whether it listens for notices.
    ///
    /// # Safety
    /// As [`Group::start`].
    pub(super) unsafe fn begin(
        &self,
        plan: (Arc<Plan>, usize, &[u128]),
        (tag, listens): (u64, bool),
        operator: Option<&Operator>,
        memory: Memory,
        waits: Waits,
    ) -> Arc<Run> {
        // SAFETY: the caller's promise.
        let run = unsafe { Run::new(&self.context, plan, operator.cloned(), tag, memory, waits) };
        self.launch(&run, listens);
        run
    }

    /// Has a new run begin. Other requests may end meanwhile, what they call may wait, and the thread may be unwound there.
    fn launch(&self, run: &Arc<Run>, listens: bool) {
        self.context.add(run.clone());
        if self.context.failure.get().is_some() {
            run.fail(); // it came too late for the thread that revoked the group
        } else {
            run.go();
            if listens {
                run.listen();
            }
        }
    }

    /// As [`Group::start`] on borrowed memory: returns when it is free again.
    ///
    /// # Safety
    /// As [`Group::start`], until this returns or unwinds.
    pub(super) unsafe fn complete(
        &self,
        task: &Task,
        operator: Option<&Operator>,
        memory: Memory,
        in_place: bool,
    ) -> Result<(), Error> {
        budget::spend();
        self.check()?;
        let mut turn = self.context.shared.enter()?;
        if turn.is_due() {
            self.context.admit()?;
            *turn.stage() = Stage::Off;
            *turn.stage() = self.set_up()?;
        }
        if let Stage::Met | Stage::Teams = turn.stage()
            && let Some(meeting) = self.context.shared.meeting()
            && self.context.choices().are_free(task)
        {
            let Some(teams) = self.context.teams.get() else {
                let seat = self.rank();
                // SAFETY: the caller's promise.
                return unsafe { self.meet((meeting, seat), task, operator, &memory, in_place) };
            };
            if teams.can(task, operator) {
                let teams = (meeting, teams);
                // SAFETY: the caller's promise.
                return unsafe { self.meet_in_teams(teams, task, operator, &memory, in_place) };
            }
        }
        let mut passed = false;
        if let Stage::On(board) = turn.stage()
            && self.context.choices().are_free(task)
        {
            let fits = shared::fits(task, self.size(), operator, board.crowded);
            if board.lends && shared::is_lent(task, operator, in_place, (fits, board.crowded)) {
                // SAFETY: the caller's promise.
                let read = || unsafe { self.read_lent(board, task, operator, &memory, in_place) };
                let is_read = self.context.or_give_up(read)?;
                board.lends = is_read;
                if is_read {
                    return Ok(());
                }
                passed = true;
            } else if fits {
                // SAFETY: the caller's promise.
                let exchange =
                    || unsafe { self.exchange(board, task, operator, &memory, in_place) };
                return self.context.or_give_up(exchange);
            }
        }
        let plan = self.plan(task, self.choose(task, operator), operator, &memory, in_place)?;
        match turn.stage() {
            Stage::Counting(count) => *count += 1,
            Stage::On(board) if !passed => self.pass(board),
            Stage::On(_) | Stage::Off | Stage::Met | Stage::Teams => {}
        }
        drop(turn);
        // SAFETY: the caller's promise.
        unsafe { self.by_messages(plan, operator, memory) }
    }

    /// Carries a plan out that the caller waits for.
    ///
    /// # Safety
    /// As [`Group::complete`].
    pub(super) unsafe fn by_messages(
        &self,
        plan: Arc<Plan>,
        operator: Option<&Operator>,
        memory: Memory,
    ) -> Result<(), Error> {
        let next = self.context.next();
        let (mut scratch, mut done) = ([0; _], 0);
        // A run that listens for notices needs a request for that.
        if plan.is_short() && !next.1 {
            // SAFETY: the caller's promise.
            let walk = unsafe {
                straight::walk(&self.context, &plan, operator, next.0, &memory, &mut scratch)
            };
            done = match walk {
                Walk::Done => return Ok(()),
                Walk::Reached(step) => step,
                Walk::Failed(failure) => {
                    self.context.revoke(failure);
                    return Err(failure.error());
                }
                Walk::Panicked(panic) => {
                    self.context.revoke(Failure::Panicked);
                    resume_unwind(panic)
                }
            };
        }
        // SAFETY: the caller's promise.
        unsafe { self.run_out((plan, done, &scratch), next, operator, memory) }
    }

    /// Goes on as a run, and waits for its end.
    ///
    /// # Safety
    /// As [`Group::complete`].
    pub(super) unsafe fn run_out(
        &self,
        plan: (Arc<Plan>, usize, &[u128]),
        next: (u64, bool),
        operator: Option<&Operator>,
        memory: Memory,
    ) -> Result<(), Error> {
        let session = &self.context.session;
        let looking = session.engine.looking(&session.manager);
        // Others that want its virtual processor would have it as soon as it waits.
        let there = !marcel::plumbing::others_runnable();
        let there = there.then(|| session.engine.signals().absence.waiting());
        let (tag, listens) = next;
        let (context, operator) = (&self.context, operator.cloned());
        // SAFETY: the caller's promise, and `Borrowed` waits.
        let run = unsafe { Run::new(context, plan, operator, tag, memory, Waits::InTheCall) };
        let borrowed = Borrowed(&run);
        self.launch(&run, listens);
        run.wait(&run.over, looking.map(|looking| (looking, there)));
        std::mem::forget(borrowed);
        result(&run)
    }
}

/// A run on borrowed memory. If the wait for it unwinds (a runtime that stops), the group is over; then it ends.
struct Borrowed<'a>(&'a Arc<Run>);

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        self.0.context.revoke(Failure::Abandoned);
        self.0.context.session.manager.wait(&self.0.over, Hint::Long);
    }
}

/// The outcome of a run that was told.
fn result(run: &Run) -> Result<(), Error> {
    let panic = run.panic.lock().take();
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
    match run.outcome.get() {
        Some(Ok(())) => Ok(()),
        Some(Err(failure)) => Err(failure.error()),
        None => Err(Error::Closed),
    }
}

/// A collective that goes on; its result comes from [`Pending::wait`], or by awaiting it. Dropped or forgotten, it goes
/// on by itself, for the others wait for it, and its result is lost.
#[must_use = "the result comes from waiting for it"]
pub struct Pending<R> {
    run: Arc<Run>,
    begun: Instant,
    listens: AtomicBool,
    result: Take<R>,
}

/// Makes the result of what the run has kept.
pub(super) type Take<R> = fn(Option<Box<dyn Any + Send>>) -> Option<R>;

impl<R> Pending<R> {
    pub(super) fn new(run: Arc<Run>, result: Take<R>) -> Pending<R> {
        Pending { run, begun: Instant::now(), listens: AtomicBool::new(false), result }
    }

    /// Waits for the end; gives the result, and the memory that it is in.
    ///
    /// # Context
    /// Green threads and kernel threads.
    /// # Blocking
    /// The calling thread.
    /// # Errors
    /// [`Error::PeerDied`], [`Error::Revoked`], [`Error::Mismatch`], [`Error::Closed`]. Then the memory is freed as
    /// soon as it is used no more.
    /// # Panics
    /// When an operator did.
    pub fn wait(self) -> Result<R, Error> {
        self.run.wait(&self.run.told, None);
        self.take()
    }

    /// Whether it is over. Looks for events if it is not.
    pub fn test(&mut self) -> bool {
        self.look(&self.run.told)
    }

    fn look(&self, end: &Completion) -> bool {
        if end.is_done() || self.run.session().look() && end.is_done() {
            return true;
        }
        if self.begun.elapsed() > PATIENCE && !self.listens.swap(true, Relaxed) {
            self.run.listen();
            unwinding::go_on();
        }
        end.is_done()
    }

    fn take(&self) -> Result<R, Error> {
        result(&self.run)?;
        let kept = self.run.kept.lock().take();
        (self.result)(kept).ok_or(Error::Closed)
    }
}

impl Pending<()> {
    /// Its end after which memory is free: to wait for, beside others; then [`Pending::wait_over`] does not block.
    pub fn awaited(&self) -> Awaited<'_> {
        Awaited(What::Collective(&*self.run, &self.run.over))
    }

    /// Whether it has come to that end. Looks for events if it has not.
    pub fn test_over(&self) -> bool {
        self.look(&self.run.over)
    }

    /// As [`Pending::wait`], and waits until nothing is under way any more: after that the memory of
    /// [`Group::bytes`] is free, whatever this says; and it says it again when asked again.
    ///
    /// # Blocking
    /// The calling thread.
    /// # Errors
    /// As [`Pending::wait`].
    pub fn wait_over(&self) -> Result<(), Error> {
        self.run.wait(&self.run.over, None);
        self.take()
    }
}

impl Collective for Run {
    fn session(&self) -> &Inner {
        Run::session(self)
    }

    fn listen(&self) {
        Run::listen(self);
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }

    fn wait(&self, end: &Completion) {
        Run::wait(self, end, None);
    }
}

impl<R> Waited for Pending<R> {
    fn awaited(&self, _: Seal) -> Awaited<'_> {
        Awaited(What::Collective(&*self.run, &self.run.told))
    }
}

impl<R> Future for Pending<R> {
    type Output = Result<R, Error>;

    fn poll(self: Pin<&mut Self>, waking: &mut Waking<'_>) -> Poll<Self::Output> {
        if self.run.told.is_done() || self.run.wake(waking.waker()) {
            return Poll::Ready(self.take());
        }
        if !self.listens.swap(true, Relaxed) {
            self.run.listen();
            unwinding::go_on();
        }
        Poll::Pending
    }
}

impl<R> std::fmt::Debug for Pending<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pending")
    }
}
