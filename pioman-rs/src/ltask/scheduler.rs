//! The light tasks of a manager: their queues, and the virtual processors and kernel threads that a submission wakes.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use marcel::plumbing::lwp::LwpPool;
use marcel::{Load, Vp};

use crate::ltask::block::Ltask;
use crate::ltask::place::Cores;
use crate::ltask::tree::Tree;
use crate::progress::machine::Machine;

/// See the module's description.
pub(crate) struct Tasks {
    pub(crate) tree: Tree,
    pub(crate) machine: Arc<Machine>,
    /// The pool for blocking alternatives, once a task has needed it.
    pub(crate) lwps: OnceLock<Arc<LwpPool>>,
    /// Blocking calls that have found an event.
    pub(crate) blocking_hits: AtomicU64,
}

impl Tasks {
    pub(crate) fn new(machine: Arc<Machine>, tree: Tree) -> Tasks {
        Tasks { tree, machine, lwps: OnceLock::new(), blocking_hits: AtomicU64::new(0) }
    }

    /// Whether any task is queued or being called.
    #[inline]
    pub(crate) fn pending(&self) -> bool {
        self.tree.pending()
    }

    /// Queues a new task, or one that was in no queue for a while, and calls a visitor to run it. Anywhere, signal
    /// handlers included, as long as the task has a handle.
    pub(crate) fn add(&self, task: &'static Ltask) {
        self.tree.begin(task);
        self.push_again(task);
    }

    /// As [`Tasks::add`], for a task that has been pending all the time.
    pub(crate) fn push_again(&self, task: &'static Ltask) {
        // Once it is queued it may come to its end, and its block be another's.
        let cores = task.place().cores.clone();
        self.tree.stir();
        self.tree.requeue(task);
        self.tree.has_new();
        self.call_for(cores.as_ref());
    }

    /// Puts a task back that this visitor may not call. Visitors that may have perhaps just looked in vain: one is
    /// woken for it, the first time.
    pub(crate) fn put_back(&self, task: &'static Ltask, is_new: bool) {
        let cores = task.place().cores.clone();
        self.tree.put(task);
        if is_new {
            self.tree.has_new();
            self.call_for(cores.as_ref());
        }
    }

    /// Whether no virtual processor of its cores has room for it.
    pub(crate) fn is_stranded(&self, task: &Ltask) -> bool {
        self.tree.is_orphan(task) || self.is_busy_on(task.place().cores.as_ref())
    }

    /// Before a virtual processor sleeps, having announced it: when it has to look for tasks again. At once, perhaps.
    pub(crate) fn before_sleep(&self, vp: &Vp) -> Option<Instant> {
        if !self.tree.pending() || !self.machine.points.idle {
            return None;
        }
        let now = Instant::now();
        if self.tree.has_news(vp.cpu()) {
            return Some(now);
        }
        Some(now + self.machine.tick_period)
    }

    /// A virtual processor that was idle is not any more: if tasks are queued the watcher sees to them, or the other
    /// virtual processors where there is none.
    #[inline]
    pub(crate) fn when_busy(&self) {
        if self.tree.pending() && !self.tree.is_paced() && !self.machine.call_watcher() {
            // As many as there are, not for as long as one goes back to sleep meanwhile.
            let Some(load) = self.machine.load() else { return };
            let vps = load.compute_vps() + load.reactive_vps();
            (0..vps).take_while(|_| load.wake_one()).for_each(drop);
        }
    }

    /// A task for `cores` was queued: wakes an idle virtual processor of them, or the spare watcher. With neither, it
    /// runs when a virtual processor next looks for something to run, or in a wait (2007, 3.3: "when it is safe").
    pub(crate) fn call_for(&self, cores: Option<&Cores>) {
        if !self.wake_for(cores) {
            self.machine.call_watcher();
        }
    }

    /// Wakes an idle virtual processor of `cores` that sleeps, if there is one.
    pub(crate) fn wake_for(&self, cores: Option<&Cores>) -> bool {
        self.machine.points.idle
            && self.machine.load().is_some_and(|load| match cores {
                None => load.wake_one(),
                Some(cores) => load.wake_on(&|core| cores.has(core)),
            })
    }

    /// Whether no virtual processor of `cores` has room for a task.
    pub(crate) fn is_busy_on(&self, cores: Option<&Cores>) -> bool {
        match cores {
            None => self.machine.is_loaded(),
            Some(cores) => {
                self.machine.load().is_none_or(|load: &Load| load.busy_on(&|core| cores.has(core)))
            }
        }
    }
}
