//! Light tasks: a function that is called where there is room for it, once or again and again until it says
//! that it is done; with a blocking alternative if the library has one.
//!
//! States (one word; every transition is a read-modify-write, the `Transition`s below say what to do next):
//!
//! ```text
//!   IDLE ──submit──▶ QUEUED ──claim──▶ RUNNING ──done──▶ IDLE, completed
//!                      ▲                 │ │
//!                      └──────again──────┘ └──export──▶ BLOCKING ──returned──▶ IDLE, completed
//!   any of them + CANCELLED: ends at the next transition instead of going on
//! ```
//!
//! A task is in one queue, or run by one thread, or in the hands of one spare kernel thread: never two of
//! these, so it never runs twice at once and is never lost. The completion is the last touch; blocks are
//! immortal and recycled, so nothing is freed on the progress path.
//!
//! A task that has a blocking alternative is *exported* to a spare kernel thread when every compute virtual
//! processor is busy (thesis 5.2.3): at submission, or later, at the tick that finds the machine loaded.

pub(crate) mod tree;

use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use marcel::lwp::{JobNode, LwpJob};

use crate::manager::point::Point;
use crate::manager::{Core, Manager};
use crate::sync::completion::Completion;
use crate::wait::Hint;

/// What a light task says after a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Call it again.
    Again,
    /// It has done its work.
    Done,
}

const IDLE: u32 = 0;
const QUEUED: u32 = 1;
const RUNNING: u32 = 2;
const BLOCKING: u32 = 3;
const STATE: u32 = 3;
const CANCELLED: u32 = 4;

type Run = Box<dyn Fn() -> Progress + Send + Sync>;
type Block = Box<dyn Fn() + Send + Sync>;

/// What a block is used for, from submission to recycling.
struct Work {
    run: Run,
    block: Option<Block>,
    core: Arc<Core>,
}

/// A task's immortal block.
pub(crate) struct Ltask {
    state: AtomicU32,
    /// Link in a queue.
    pub(crate) next: AtomicPtr<Ltask>,
    /// Node of the tree whose queue it belongs to.
    pub(crate) node: AtomicUsize,
    work: UnsafeCell<Option<Work>>,
    done: UnsafeCell<Completion>,
    job: OnceLock<JobNode>,
}

// SAFETY: `work` is written by the owner while the task is IDLE, and read by whoever runs it, which the state
// makes one thread at a time.
unsafe impl Sync for Ltask {}
// SAFETY: as above.
unsafe impl Send for Ltask {}

/// What the one who ran a task does next.
#[must_use]
enum Transition {
    /// Put it back into its queue.
    Requeue,
    /// Complete it.
    Complete,
}

static FREE: Mutex<Vec<&'static Ltask>> = Mutex::new(Vec::new());

impl Ltask {
    fn allocate() -> &'static Ltask {
        let recycled = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        recycled.unwrap_or_else(|| {
            let block: &'static Ltask = Box::leak(Box::new(Ltask {
                state: AtomicU32::new(IDLE),
                next: AtomicPtr::new(null_mut()),
                node: AtomicUsize::new(0),
                work: UnsafeCell::new(None),
                done: UnsafeCell::new(Completion::new()),
                job: OnceLock::new(),
            }));
            block.job.get_or_init(|| JobNode::new(block));
            block
        })
    }

    /// Takes a task that was just popped from its queue, runs it, and sees to what comes next.
    /// True if it is queued again.
    pub(crate) fn run(&'static self, core: &Core) -> bool {
        let state = self.state.fetch_add(RUNNING - QUEUED, AcqRel);
        debug_assert_eq!(state & STATE, QUEUED);
        if state & CANCELLED == 0 {
            // SAFETY: RUNNING is ours.
            let Some(work) = (unsafe { (*self.work.get()).as_ref() }) else { return false };
            if work.block.is_some()
                && core.points.block
                && core.is_loaded()
                && self.export(core, RUNNING)
            {
                return false;
            }
            let transition = match (work.run)() {
                Progress::Done => Transition::Complete,
                Progress::Again => self.again(),
            };
            if let Transition::Requeue = transition {
                core.tasks.push(self);
                return true;
            }
        }
        self.complete(core);
        false
    }

    fn done(&self) -> &Completion {
        // SAFETY: replaced by the owner only, when the block is nobody else's.
        unsafe { &*self.done.get() }
    }

    fn again(&self) -> Transition {
        match self.state.compare_exchange(RUNNING, QUEUED, AcqRel, Acquire) {
            Ok(_) => Transition::Requeue,
            Err(_) => Transition::Complete, // cancelled meanwhile
        }
    }

    fn complete(&self, core: &Core) {
        core.tasks.forget();
        self.state.store(IDLE, Release);
        self.done().complete();
    }

    /// Hands the blocking alternative to a spare kernel thread. From IDLE or RUNNING.
    fn export(&'static self, core: &Core, from: u32) -> bool {
        let Some(lwps) = core.lwps.get() else { return false };
        let Some(job) = self.job.get() else { return false };
        if self.state.compare_exchange(from, BLOCKING, AcqRel, Acquire).is_err() {
            return false;
        }
        lwps.submit(job);
        true
    }
}

impl LwpJob for Ltask {
    fn run(&self) {
        // SAFETY: BLOCKING is ours.
        let Some(work) = (unsafe { (*self.work.get()).as_ref() }) else { return };
        if let Some(block) = &work.block
            && self.state.load(Acquire) & CANCELLED == 0
        {
            block();
        }
        // Held past the last touch of the task, which lets its owner drop the work.
        let core = work.core.clone();
        core.hits.note(Point::Block, true);
        self.complete(&core);
    }
}

/// Configures a light task.
#[derive(Default)]
pub struct TaskBuilder {
    cpu: Option<usize>,
    block: Option<Block>,
}

impl TaskBuilder {
    /// A task that any virtual processor may run.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only the virtual processor bound to this core runs it.
    pub fn cpu(mut self, cpu: usize) -> Self {
        self.cpu = Some(cpu);
        self
    }

    /// A way to wait for the same event in the kernel: returns when the task is done. It may be called, on a
    /// spare kernel thread, instead of further polls.
    pub fn blocking(mut self, block: impl Fn() + Send + Sync + 'static) -> Self {
        self.block = Some(Box::new(block));
        self
    }

    /// Submits the task: `run` is called on the progress path (DESIGN §4.1) until it is done.
    ///
    /// # Context
    /// Not the progress path. # Wakes: an idle virtual processor.
    ///
    /// # Errors
    /// No spare kernel thread can be had for the blocking alternative.
    pub fn submit(
        self,
        manager: &Arc<Manager>,
        run: impl Fn() -> Progress + Send + Sync + 'static,
    ) -> std::io::Result<Task> {
        let core = &manager.core;
        let ltask = Ltask::allocate();
        let blocks = self.block.is_some() && core.points.block;
        if core.points.block {
            manager.spare.start()?;
        }
        if blocks {
            manager.spare.reserve()?;
        }
        ltask.node.store(core.tasks.node_of(self.cpu), Relaxed);
        // SAFETY: a block from the pool is ours.
        unsafe {
            *ltask.work.get() =
                Some(Work { run: Box::new(run), block: self.block, core: core.clone() });
        }
        core.tasks.expect();
        if !(blocks && core.is_loaded() && ltask.export(core, IDLE)) {
            ltask.state.store(QUEUED, Release);
            core.tasks.push(ltask);
            core.call_for_tasks();
        }
        Ok(Task { ltask, manager: manager.clone(), blocks })
    }
}

impl std::fmt::Debug for TaskBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskBuilder").field("cpu", &self.cpu).finish()
    }
}

/// A submitted light task. Dropping it cancels the task, and waits as long as it is being run.
pub struct Task {
    ltask: &'static Ltask,
    manager: Arc<Manager>,
    blocks: bool,
}

impl Task {
    /// Whether it is done (or cancelled).
    pub fn is_done(&self) -> bool {
        self.ltask.done().is_done()
    }

    /// Waits until it is done.
    ///
    /// # Context
    /// Green and kernel threads. # Blocking: as [`Manager::wait`].
    pub fn wait(&mut self) {
        self.manager.wait(self.ltask.done(), Hint::Short);
    }

    /// As [`Task::wait`], until `deadline` at the latest; true if it is done.
    pub fn wait_until(&mut self, deadline: Instant) -> bool {
        self.manager.wait_until(self.ltask.done(), Hint::Short, deadline)
    }

    /// Asks for an early end: the task is not called any more after the call that may be under way. A
    /// blocking call that is under way is waited for.
    pub fn cancel(&mut self) {
        self.ltask.state.fetch_or(CANCELLED, AcqRel);
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.cancel();
        let core = &self.manager.core;
        while !self.ltask.done().is_done() {
            // Nobody need be idle to take it off its queue: do it ourselves.
            if !core.tasks.run_all(core) {
                marcel::yield_now();
            }
        }
        if self.blocks {
            self.manager.spare.release();
        }
        // SAFETY: done: nobody else has the block any more.
        unsafe {
            *self.ltask.work.get() = None;
            (*self.ltask.done.get()).reset();
        }
        self.ltask.state.store(IDLE, Release);
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self.ltask);
    }
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("done", &self.is_done()).finish()
    }
}
