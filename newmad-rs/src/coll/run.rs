//! A collective under way: its plan, its memory, its requests, and the threads that push it forward.
//!
//! The thread that finds the end of one of its requests calls [`told`] (an idle virtual processor, a thread that waits
//! for something, a kernel thread of the library's; see [`crate::callback`]), which leaves the step and has the plan
//! carried on: by itself, or by the thread that is at it already ([`DelegationLock`]). So the next messages go out at
//! once, whatever the program does, and one that waits pushes too, since it polls. After [`BUDGET`] bytes of combining
//! and copying the rest is left to a light task, so that a passing thread is not held up for long; unless a thread waits
//! for the run: it has nothing else to do, and the task woke the watcher, beside it or on its core (`MPI_Alltoall` of
//! 1 MiB, 2 ranks: 140 to 190 µs, now 118).
//!
//! # Ownership
//! Handles, and every request under way, have a count of the [`Run`]. So its memory stays until the engine has done
//! with it, even if the handle is dropped or forgotten; then the collective goes on by itself.
//!
//! # Its end
//! *told*: the outcome is known. *over*: no request is under way any more, so memory that was borrowed is free. In good
//! times both come together; after a failure *over* comes later: receives are cancelled, but a long message whose
//! receiver has seen it already has to be fetched, or refused, first.

use std::any::Any;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicPtr};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::time::Instant;

use marcel::plumbing::{Chained, KernelMutex, RawInbox, budget};
use pioman::plumbing::{Delegated, DelegationLock};
use pioman::{Completion, Hint, Looking, Task, TaskBuilder};

use crate::callback::CallbackRequest;
use crate::coll::context::{Context, Member};
use crate::coll::failure::{Failure, PATIENCE};
use crate::coll::memory::{Memory, Places};
use crate::coll::operator::Operator;
use crate::coll::plan::{Action, Plan, Progress};
use crate::coll::scratch::Scratch;
use crate::coll::unwinding;
use crate::engine::call_gate::Deferred;
use crate::gate::absence::Waiting;
use crate::request::{ANY_SOURCE, Request};
use crate::session::Inner;

/// Go on.
const GO: u64 = 1;
/// The group is over.
const FAIL: u64 = 2;
/// A thread has waited for long: listen for notices of others' failures.
const LISTEN: u64 = 4;
/// The group is revoked.
const TAKE_BACK: u64 = 8;

/// Bytes that are combined or copied in one go.
const BUDGET: usize = 256 * 1024;

/// See the module.
pub(crate) struct Run {
    /// The outcome is known.
    pub(super) told: Completion,
    /// Nothing is under way any more.
    pub(super) over: Completion,
    /// A thread waits for it, or will at once.
    awaited: AtomicBool,
    pub(super) outcome: OnceLock<Result<(), Failure>>,
    /// What a panicking operator said. A thread that was unwound in one keeps that for itself.
    pub(super) panic: KernelMutex<Option<Box<dyn Any + Send>>>,
    /// Buffers that the program has given up until the end.
    pub(super) kept: KernelMutex<Option<Box<dyn Any + Send>>>,
    pub(super) context: Arc<Context>,
    waker: KernelMutex<Option<Waker>>,
    finished: RawInbox<Slot>,
    work: DelegationLock<Work>,
}

/// Who waits for a run that is begun.
pub(super) enum Waits {
    /// The caller waits for it.
    InTheCall,
    /// It goes on by itself, with buffers that the program has given up until then.
    Later(Option<Box<dyn Any + Send>>),
}

/// What the thread that carries the plan on works with.
struct Work {
    run: Weak<Run>,
    plan: Arc<Plan>,
    progress: Progress,
    places: Places,
    _scratch: Scratch,
    operator: Option<Operator>,
    tag: u64,
    /// One for each message, and one for notices at the end.
    slots: NonNull<[Slot]>,
    slot_of: Box<[u32]>,
    /// Messages under way, the one for notices not counted.
    open: usize,
    failed: bool,
    over: bool,
    listens: bool,
    /// The rest of what was too much for one go.
    task: Option<Task>,
}

// SAFETY: the buffers are memory that the maker of the run promised to it until it is over; the slots are its own.
unsafe impl Send for Work {}

/// A message of the plan.
#[repr(C)]
struct Slot {
    callback: CallbackRequest,
    /// Its place among the finished.
    link: AtomicPtr<Slot>,
    step: u32,
    /// While it is under way: a count of the run.
    run: AtomicPtr<Run>,
}

// SAFETY: the list of the finished alone has the field.
unsafe impl Chained for Slot {
    fn next(&self) -> &AtomicPtr<Slot> {
        &self.link
    }
}
// SAFETY: the request may be sent; the rest belongs to the thread that carries the plan on, or to the one call of
// `told`.
unsafe impl Send for Slot {}

/// A request of a run is over.
///
/// # Safety
/// The request is a slot's that was started, and this the only call for that.
unsafe fn told(callback: NonNull<CallbackRequest>) {
    let slot: NonNull<Slot> = callback.cast();
    // SAFETY: the slot stays as long as the run, of which it has a count.
    let run = unsafe { Arc::from_raw(slot.as_ref().run.swap(null_mut(), AcqRel).cast_const()) };
    // SAFETY: it is in no list, and it is taken out before the run ends.
    unsafe { run.finished.push(slot) };
    carry_on(run);
}

std::thread_local! {
    /// Runs that this kernel thread is to carry on when it is done with the one that it is at. It has no destructor: a program
    /// may have collectives in functions that `exit` calls, when values of this thread are gone.
    static AGENDA: ManuallyDrop<RefCell<Option<Vec<Arc<Run>>>>> =
        const { ManuallyDrop::new(RefCell::new(None)) };
}

/// Does something to the agenda.
fn with_agenda<T>(f: impl FnOnce(&mut Option<Vec<Arc<Run>>>) -> T) -> T {
    AGENDA.with(|agenda| f(&mut agenda.borrow_mut()))
}

/// The kernel thread's agenda, while it is at a run. Dropped, by unwinding too, it has the thread carry the others on.
struct Agenda;

impl Agenda {
    /// `None`: the thread is at a run already.
    fn open() -> Option<Agenda> {
        let opens = with_agenda(|agenda| {
            let opens = agenda.is_none();
            agenda.get_or_insert_default();
            opens
        });
        opens.then(|| Agenda)
    }

    /// Leaves the run to the agenda; false if there is none.
    fn add(run: &Arc<Run>) -> bool {
        with_agenda(|agenda| agenda.as_mut().map(|runs| runs.push(run.clone())).is_some())
    }

    /// The next run; when there is none, the agenda is closed.
    fn next() -> Option<Arc<Run>> {
        with_agenda(|agenda| {
            let next = agenda.as_mut().and_then(Vec::pop);
            if next.is_none() {
                *agenda = None;
            }
            next
        })
    }
}

impl Drop for Agenda {
    fn drop(&mut self) {
        while let Some(run) = Agenda::next() {
            run.work.delegate(GO);
            let_go(run);
        }
    }
}

/// Drops a count of the run. The last owner drops the program's buffers and operator: their panic is reported, but must not
/// leave the agenda behind, for this thread would carry no other run on.
fn let_go(run: Arc<Run>) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(run))) {
        unwinding::keep(panic);
    }
}

/// Carries on, now or, if this is called in the middle of another one, afterwards: else a thread would go deeper and
/// deeper into its stack, as the messages that it starts find the ends of others.
fn carry_on(run: Arc<Run>) {
    if Agenda::add(&run) {
        return;
    }
    run.go();
    let_go(run);
    unwinding::go_on();
}

impl Deferred for Run {
    fn resume(self: Arc<Self>) {
        carry_on(self);
    }

    fn owner(&self) -> usize {
        Arc::as_ptr(&self.session().engine).addr()
    }
}

impl Member for Run {
    fn fail(&self) {
        self.delegate(FAIL);
    }

    fn take_back(&self) {
        self.delegate(TAKE_BACK);
    }

    fn is_over(&self) -> bool {
        self.over.is_done()
    }
}

impl Run {
    /// A run that has not begun; [`Run::go`] begins it. So many steps of the plan are done already, with this scratch
    /// memory.
    ///
    /// # Safety
    /// The memory is as long as the plan takes it to be. Until the run is over it stays, is not written to by others,
    /// and the output is not read.
    pub(super) unsafe fn new(
        context: &Arc<Context>,
        (plan, done, so_far): (Arc<Plan>, usize, &[u128]),
        operator: Option<Operator>,
        tag: u64,
        memory: Memory,
        waits: Waits,
    ) -> Arc<Run> {
        let (is_awaited, kept) = match waits {
            Waits::InTheCall => (true, None),
            Waits::Later(kept) => (false, kept),
        };
        let mut scratch = context.spare.take(plan.scratch);
        let known = so_far.len().min(scratch.len());
        scratch[..known].copy_from_slice(&so_far[..known]);
        let messages = plan.messages() as u32;
        let mut slot_of = vec![u32::MAX; plan.steps.len()].into_boxed_slice();
        let mut slots = Vec::with_capacity(messages as usize + 1);
        let mut slot = |step: u32| {
            let (engine, mine) = (&context.session.engine, context.session.mine());
            let callback = CallbackRequest::new(engine, mine, Request::close());
            slots.push(Slot {
                callback,
                link: AtomicPtr::new(null_mut()),
                step,
                run: AtomicPtr::new(null_mut()),
            });
        };
        let mut next = 0;
        for (index, step) in plan.steps.iter().enumerate() {
            if matches!(step.action, Action::Send { .. } | Action::Recv { .. }) {
                slot_of[index] = next;
                next += 1;
                slot(index as u32);
            }
        }
        slot(u32::MAX);
        let slots = NonNull::from(Box::leak(slots.into_boxed_slice()));
        let places = Places::new(&memory, &mut scratch);
        let progress = Progress::after(&plan, done);
        if combines_in_calls(operator.as_ref()) {
            context.session.calls().add_user();
        }
        Arc::new_cyclic(|run| Run {
            told: Completion::new(),
            over: Completion::new(),
            awaited: AtomicBool::new(is_awaited),
            outcome: OnceLock::new(),
            panic: KernelMutex::new(None),
            kept: KernelMutex::new(kept),
            context: context.clone(),
            waker: KernelMutex::new(None),
            finished: RawInbox::new(),
            work: DelegationLock::new(Work {
                run: run.clone(),
                plan,
                progress,
                places,
                _scratch: scratch,
                operator,
                tag,
                slots,
                slot_of,
                open: 0,
                failed: false,
                over: false,
                listens: false,
                task: None,
            }),
        })
    }

    /// Begins, or goes on.
    pub(super) fn go(&self) {
        self.delegate(GO);
    }

    /// From now on it hears of the failures of others.
    pub(crate) fn listen(&self) {
        self.delegate(LISTEN);
    }

    /// Has it done, by this thread or the one that is at the run. No other run is carried on before this one is let go of.
    fn delegate(&self, bits: u64) {
        let _agenda = Agenda::open();
        self.work.delegate(bits);
    }

    pub(crate) fn session(&self) -> &Inner {
        &self.context.session
    }

    /// Waits for one of its two ends. The caller is looking, or not; and if so, may be known to be in a call that waits, as
    /// long as it does not wait for long.
    pub(crate) fn wait(
        &self,
        end: &Completion,
        looking: Option<(Looking<'_>, Option<Waiting<'_>>)>,
    ) {
        unwinding::go_on(); // the run may have been begun by this thread
        let _open = self.context.session.waits();
        self.awaited.store(true, Relaxed);
        if looking.is_none() {
            budget::spend();
        }
        let manager = &self.context.session.manager;
        self.context.session.engine.send_held();
        let deadline = Some(Instant::now() + PATIENCE);
        let before_sleep = || self.context.session.engine.before_sleep();
        let ended = match looking {
            Some((looking, _there)) => {
                looking.wait_prepared(end, Hint::Short, deadline, &before_sleep)
            }
            None => {
                end.is_done() || manager.wait_prepared(end, Hint::Short, deadline, &before_sleep)
            }
        };
        if ended {
            return;
        }
        self.listen();
        unwinding::go_on();
        manager.wait_prepared(end, Hint::Long, None, &before_sleep);
    }

    /// This waker is called when the outcome is known, unless it is (true).
    pub(super) fn wake(&self, waker: &Waker) -> bool {
        // The program's code runs without the lock: to clone the waker, and to drop the old one.
        let new = waker.clone();
        let old = self.waker.lock().replace(new);
        drop(old);
        self.told.is_done()
    }

    fn tell(&self, outcome: Result<(), Failure>) {
        if self.outcome.set(outcome).is_ok() {
            self.told.complete();
            let waker = self.waker.lock().take();
            if let Some(waker) = waker {
                // Its panic is reported, and unwinds no thread in the middle of a run.
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
                    unwinding::keep(panic);
                }
            }
        }
    }
}

impl Delegated for Work {
    fn run_delegated(&mut self, bits: u64) {
        // The caller has a count of it.
        let Some(run) = self.run.upgrade() else { return };
        if bits & FAIL != 0
            && let Some(&failure) = run.context.failure.get()
        {
            self.fail(&run, failure.of_another());
        }
        if bits & TAKE_BACK != 0 && self.failed {
            self.cancel_all(&run, true);
        }
        if bits & LISTEN != 0 {
            self.listen(&run);
        }
        let (mut spent, mut deferred) = (0, Vec::new());
        loop {
            for slot in run.finished.take() {
                self.ended(&run, slot);
            }
            if self.failed {
                break;
            }
            if spent > BUDGET && self.progress.has_ready() && self.hand_on(&run) {
                break;
            }
            let Some(step) = self.progress.take() else { break };
            let turn = match self.is_combined_in_calls(step) {
                false => None,
                true => match run.session().calls().begin(&run) {
                    None => {
                        deferred.push(step);
                        continue;
                    }
                    turn => turn,
                },
            };
            spent += self.start(&run, step);
            drop(turn);
        }
        self.progress.put_back(deferred);
        self.settle(&run);
    }
}

impl Work {
    /// Whether a step calls an operator that is called inside the program's calls only.
    fn is_combined_in_calls(&self, step: u32) -> bool {
        combines_in_calls(self.operator.as_ref())
            && matches!(self.plan.action(step), Action::Combine { .. })
    }

    /// Starts a step; the bytes that were combined or copied.
    fn start(&mut self, run: &Arc<Run>, step: u32) -> usize {
        let members = &run.context.members;
        match self.plan.action(step) {
            Action::Send { to, from } => {
                // SAFETY: the plan's own place; the recorder lets no step write there before this step is over.
                let request = unsafe {
                    let data = std::ptr::slice_from_raw_parts(self.places.at(from), from.len);
                    Request::send(members[to as usize], self.tag, data, false)
                };
                self.submit(run, step, request);
                0
            }
            Action::Recv { from, into } => {
                // SAFETY: the plan's own place; the recorder lets no other step touch it before this step is over.
                let request = unsafe {
                    let data = std::ptr::slice_from_raw_parts_mut(self.places.at(into), into.len);
                    Request::recv(members[from as usize], self.tag, data, false)
                };
                self.submit(run, step, request);
                0
            }
            Action::Combine { left, right, keep } => {
                // SAFETY: the plan's own places, apart, which the recorder keeps from others meanwhile.
                let combined =
                    unsafe { self.places.combine(self.operator.as_ref(), left, right, keep) };
                if let Err(panic) = combined {
                    // The waiter's panic, unless it is the unwinding of this thread.
                    *run.panic.lock() = unwinding::keep(panic);
                    self.failed = true;
                }
                self.progress.ended(&self.plan, step);
                left.len
            }
            Action::Copy { from, into } => {
                // SAFETY: as of places that are combined.
                unsafe { self.places.copy(from, into) };
                self.progress.ended(&self.plan, step);
                from.len
            }
            Action::Nothing => {
                self.progress.ended(&self.plan, step);
                0
            }
        }
    }

    fn slot(&self, index: u32) -> NonNull<Slot> {
        debug_assert!((index as usize) < self.slots.len());
        // SAFETY: inside the slice.
        unsafe { self.slots.cast::<Slot>().add(index as usize) }
    }

    fn submit(&mut self, run: &Arc<Run>, step: u32, request: Request) {
        self.open += 1;
        let slot = self.slot(self.slot_of[step as usize]);
        let over = start(run, slot, request);
        self.progress.started(&self.plan, step);
        if over {
            self.ended(run, slot);
        }
    }

    /// A request is over.
    fn ended(&mut self, run: &Arc<Run>, slot: NonNull<Slot>) {
        // SAFETY: over, so it is ours alone.
        let slot = unsafe { slot.as_ref() };
        let result = slot.callback.result();
        if slot.step == u32::MAX {
            // A notice may come with the last message of the run: it is nobody else's, and the group is over.
            if let Ok(status) = result {
                let gone = status.tag == run.context.notice_tag(true);
                let failure = Failure::Revoked { by: status.source, gone };
                self.fail(run, failure);
                run.context.revoke(failure);
            }
            return;
        }
        self.open -= 1;
        let (expected, receives) = match self.plan.action(slot.step) {
            Action::Recv { into, .. } => (into.len, true),
            _ => (0, false),
        };
        match result {
            Ok(status) if receives && status.len != expected => {
                let (from, found) = (status.source, status.len);
                self.fail(run, Failure::Mismatch { from, expected, found });
            }
            Ok(_) => self.progress.ended(&self.plan, slot.step),
            Err(error) => self.fail(run, Failure::of(&error, expected)),
        }
    }

    /// It cannot go on: nor can any other of the group.
    fn fail(&mut self, run: &Arc<Run>, failure: Failure) {
        if self.over || run.outcome.get().is_some() {
            return;
        }
        self.failed = true;
        run.tell(Err(failure));
        run.context.revoke(failure);
        self.cancel_all(run, failure == Failure::Context);
    }

    /// Takes back what is under way: receives, and where that is said sends.
    fn cancel_all(&self, run: &Run, and_sends: bool) {
        for index in 0..self.slots.len() as u32 - 1 {
            let slot = self.slot(index);
            if self.is_under_way(slot) {
                self.cancel(run, slot, and_sends);
            }
        }
    }

    /// Whether its request was started; it may be over by now.
    fn is_under_way(&self, slot: NonNull<Slot>) -> bool {
        // SAFETY: the run's own slot.
        unsafe { !slot.as_ref().run.load(Relaxed).is_null() }
    }

    /// Takes a receive back, and where that is said a send. (What others of the group do not ask for, their janitors receive. But
    /// where a context is revoked a member may not have made the group yet.)
    fn cancel(&self, run: &Run, slot: NonNull<Slot>, and_sends: bool) {
        let engine = &run.context.session.engine;
        // SAFETY: the slot's own request, which stays.
        unsafe {
            let request = CallbackRequest::pointer(slot.cast());
            engine.cancel(request);
            if and_sends {
                engine.take_back(request);
            }
        }
    }

    /// Begins to hear of the failures of others.
    fn listen(&mut self, run: &Arc<Run>) {
        let slot = self.slot(self.slots.len() as u32 - 1);
        if self.listens || self.over || self.failed {
            return;
        }
        self.listens = true;
        let nothing = std::ptr::slice_from_raw_parts_mut(NonNull::dangling().as_ptr(), 0);
        let (tag, mask) = run.context.notice_tags();
        // SAFETY: no byte is received.
        let request = unsafe { Request::recv(ANY_SOURCE, tag, nothing, false) }.masked(mask);
        if start(run, slot, request) {
            self.ended(run, slot);
        }
    }

    /// Leaves the rest to a light task; false if no thread would take it, or one waits for the run.
    fn hand_on(&mut self, run: &Arc<Run>) -> bool {
        if run.awaited.load(Relaxed) {
            return false;
        }
        let manager = &run.context.session.manager;
        // Elsewhere tasks are run in waits only, and a waiting thread may sleep.
        if manager.mode() != marcel::Mode::Smp || !manager.points().block {
            return false;
        }
        let rest = run.clone();
        let task = TaskBuilder::new().name("collective").submit_once(manager, move || {
            rest.go();
            unwinding::go_on();
        });
        self.task = task.ok();
        self.task.is_some()
    }

    /// Tells the end, if this is it.
    fn settle(&mut self, run: &Arc<Run>) {
        if self.failed && run.outcome.get().is_none() {
            self.fail(run, Failure::Panicked);
            for slot in run.finished.take() {
                self.ended(run, slot);
            }
        }
        if self.over || self.open > 0 || !(self.failed || self.progress.is_over()) {
            return;
        }
        self.over = true;
        run.tell(Ok(()));
        let listener = self.slot(self.slots.len() as u32 - 1);
        if self.is_under_way(listener) {
            self.cancel(run, listener, false);
        }
        if combines_in_calls(self.operator.as_ref()) {
            run.session().calls().remove_user(run);
        }
        run.over.complete();
    }
}

/// Whether the program wants the operator, if there is one, to be called inside its calls only.
fn combines_in_calls(operator: Option<&Operator>) -> bool {
    operator.is_some_and(|operator| operator.in_calls)
}

/// Submits; true if it is over already.
fn start(run: &Arc<Run>, slot: NonNull<Slot>, request: Request) -> bool {
    // SAFETY: the slot is not under way; it stays as long as the run, of which it gets a count; its memory was
    // promised.
    unsafe {
        slot.as_ref().run.store(Arc::into_raw(run.clone()).cast_mut(), Relaxed);
        let over = CallbackRequest::start(slot.cast(), &run.context.session.manager, request, told);
        if over {
            drop(Arc::from_raw(slot.as_ref().run.swap(null_mut(), AcqRel).cast_const()));
        }
        over
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // SAFETY: leaked by `Run::new`; nothing is under way, or the run would have counts.
        drop(unsafe { Box::from_raw(self.slots.as_ptr()) });
    }
}
