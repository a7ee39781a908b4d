//! The block of a light task: what it is made of, one call of it, and its end.
//!
//! Blocks are immortal and recycled: the holder of an outdated pointer (a queue's popper, a waker) finds a
//! block, if not the one it expected. Its parts and their owners:
//! * `fixed` is written by the submitter, the sole owner then, and only read until it is recycled;
//! * `work` belongs to the thread that runs or ends the task, as the state says;
//! * `failure` is written by the thread that ends the task, and read by threads that have seen the end.
//!
//! What the closure has captured is dropped where the task ends, before its waiters are woken (as the join of a thread
//! has it): in a visit, or by the canceller. So destructors run where closures do, never in the tick's handler.

use std::borrow::Cow;
use std::cell::UnsafeCell;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use marcel::plumbing::lwp::{JobNode, LwpJob};

use crate::completion::one_shot::Completion;
use crate::ltask::exclusion::Exclusion;
use crate::ltask::inside::{CalledBy, Callee};
use crate::ltask::place::Place;
use crate::ltask::report::{Progress, TaskError};
use crate::ltask::stack::{Linked, Stack};
use crate::ltask::state::{Outcome, State};
use crate::trace;

pub(crate) type Run = Box<dyn FnMut() -> Progress + Send>;
pub(crate) type Callback = Box<dyn FnOnce(&Result<(), TaskError>) + Send>;

/// A way to wait for a task's event in the kernel.
pub(crate) struct Blocking {
    pub(crate) call: Box<dyn FnOnce() + Send>,
    /// Not before then.
    pub(crate) after: Option<Instant>,
    pub(crate) exporter: Weak<dyn Exporter>,
    /// While it is in the hands of a spare kernel thread.
    pub(crate) held: Option<Arc<dyn Exporter>>,
}

/// What is called.
pub(crate) struct Work {
    pub(crate) run: Run,
    pub(crate) blocking: Option<Blocking>,
    pub(crate) callback: Option<Callback>,
}

/// What stays the same from submission to recycling.
pub(crate) struct Fixed {
    pub(crate) name: Cow<'static, str>,
    /// The name in traces.
    pub(crate) label: trace::Label,
    pub(crate) place: Place,
    pub(crate) lane: usize,
    /// It has a blocking alternative.
    pub(crate) can_block: bool,
    /// It is a tasklet of this type.
    pub(crate) exclusion: Option<Arc<Exclusion<Ltask>>>,
}

/// See the module's description.
#[repr(align(256))]
pub(crate) struct Ltask {
    link: AtomicU64,
    pub(crate) state: State,
    /// The last visit that has seen it.
    pub(crate) visit: AtomicU64,
    /// When a visitor that may not call it first saw it in its queue, by the tree's clock; 0: never.
    pub(crate) missed: AtomicU64,
    pub(crate) called_by: CalledBy,
    fixed: UnsafeCell<Fixed>,
    pub(crate) work: UnsafeCell<Option<Work>>,
    pub(crate) failure: UnsafeCell<Option<Arc<str>>>,
    done: UnsafeCell<Completion>,
    pub(crate) job: OnceLock<JobNode>,
}

// SAFETY: see the module's description for the owner of each cell at each time; all that is in them is `Send`, and
// `fixed` and `failure`, which several may read, are `Sync`.
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
    pub(crate) fn allocate(fixed: Fixed, work: Work) -> &'static Ltask {
        let block = FREE.pop().unwrap_or_else(Self::make);
        // SAFETY: a block from the pool has no other owner.
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

    /// For the thread that the state has told to.
    pub(crate) fn recycle(&'static self) {
        FREE.push(self);
    }

    /// For callers that keep the block from being recycled: it is in a queue, runs, or they have its handle.
    pub(crate) fn fixed(&self) -> &Fixed {
        // SAFETY: only a sole owner of the block writes it.
        unsafe { &*self.fixed.get() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.fixed().name
    }

    /// For callers that have a handle, or end the task.
    pub(crate) fn done(&self) -> &Completion {
        // SAFETY: only a sole owner of the block changes it.
        unsafe { &*self.done.get() }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.fixed().place
    }

    /// How it has ended; `None` if it has not. For callers that have a handle.
    pub(crate) fn result(&self) -> Option<Result<(), TaskError>> {
        self.state.outcome().map(|outcome| self.result_of(outcome))
    }

    /// What this outcome means. For callers that have seen the end, or bring it about.
    pub(crate) fn result_of(&self, outcome: Outcome) -> Result<(), TaskError> {
        let name = || self.name().to_owned();
        match outcome {
            Outcome::Completed => Ok(()),
            Outcome::Cancelled => Err(TaskError::Cancelled { name: name() }),
            Outcome::Failed => {
                // SAFETY: no thread writes any more.
                let message = unsafe { (*self.failure.get()).as_deref().unwrap_or_default() };
                Err(TaskError::Panicked { name: name(), message: message.to_owned() })
            }
        }
    }
}

/// Makes the blocking calls of light tasks: the manager's part that their blocks know.
pub(crate) trait Exporter: Send + Sync {
    /// Calls the blocking alternative of `task` and ends the task. BLOCKING is the caller's.
    fn export(&self, task: &'static Ltask, call: Box<dyn FnOnce() + Send>);
}

impl Callee for Ltask {
    fn called_by(&self) -> &CalledBy {
        &self.called_by
    }

    fn task_name(&self) -> &str {
        self.name()
    }
}

impl LwpJob for Ltask {
    fn run(&self) {
        // SAFETY: blocks are immortal.
        let this: &'static Ltask = unsafe { &*(self as *const Ltask) };
        // SAFETY: BLOCKING is ours.
        let blocking = unsafe { (*this.work.get()).as_mut().and_then(|work| work.blocking.take()) };
        let Some(Blocking { call, held: Some(exporter), .. }) = blocking else { return };
        exporter.export(this, call);
        // The last, perhaps: if the manager has gone, so do its queues and spare threads now.
        drop(exporter);
    }
}
