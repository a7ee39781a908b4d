//! The queues of light tasks, one for each node of the topology, and their visitors.
//!
//! # A visit
//! A virtual processor looks at the queue of its core, then at those of the nodes above it, up to the machine's
//! (\[Trahay09\], algorithm 1), at whether they hold anything first, and then into them (algorithm 2). It takes one
//! task at a time: of those in sight the first of the highest priority, the nearest queue first; so a task that is
//! submitted during a visit may still overtake others. No task runs twice in a visit, and a visit has an end
//! ([`BATCH`]).
//!
//! | visitor | when | what |
//! |---|---|---|
//! | an idle virtual processor | before it sleeps | its path |
//! | any virtual processor | at a context switch | its path, without the tasks of idle times |
//! | a thread in a wait | while it polls, and at the tick's pace | as the virtual processor that it is on; a kernel thread: the machine's queue |
//! | the background watcher | at a submission that finds every virtual processor concerned busy, then at the tick's pace | see below |
//!
//! # Never lost
//! > **While tasks are queued or called, each virtual processor that was woken for one, and is idle, is awake or sleeps
//! > at the tick's pace; when it gets busy, the watcher keeps that pace in its place.**
//!
//! A submitter wakes a virtual processor of the task's set that sleeps. A virtual processor that is about to sleep
//! announces that, then looks whether there are *news* that its path has not been visited since. When no virtual
//! processor concerned sleeps the watcher is woken, which keeps to the tick's pace as long as anything is queued. When
//! one goes from idle to busy while tasks are queued it makes sure of the same. (Not only those that *see* a task keep
//! the pace: it may be in the hands of a visitor that will put it back and go.) The watcher wakes a virtual processor
//! for a task that no visitor has touched for a tick although there is room for it.
//!
//! # No visitor of its set comes
//! A task is *stranded* while every virtual processor of its cores computes, and for ever if there is none. Stranded
//! tasks are run by the background watcher, which binds itself to the task's cores first: so it stays within its set,
//! where the kernel lets it preempt the computation. Only where the cores do not stand for real ones (a synthetic
//! machine larger than this one), or the kernel refuses to bind it, the watcher runs it where it is. Without a watcher
//! (modes `no-thread` and `mono`, the point `block` off) any visitor that has nothing better to do runs what has been
//! stranded for a tick's time: to be run is worth more than where. On a virtual processor that never switches, without
//! a watcher and without a thread that waits, tasks wait as well: they are safe code, which does not run in the tick's
//! handler.
//!
//! # How long idle processors poll
//! As long as tasks say [`crate::Progress::Again`]; for the spin time of waits after the last thing that happened when
//! they only say `Waiting`; at the tick's pace then, and those that can block are exported instead.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, AtomicUsize, Ordering::*, fence};
use std::time::{Duration, Instant};

use marcel::Vp;
use marcel::topology::Topology;
use marcel::trace::Stamp;

use crate::error::Error;
use crate::knobs;
use crate::ltask::block::Ltask;
use crate::ltask::counts::Counts;
use crate::ltask::place::{Cores, Place, Plan, Wanted};
use crate::ltask::queue::{LANES, Queue};
use crate::ltask::visitor::Ran;

/// Tasks looked at in one visit, so that a visit is bounded.
pub(crate) const BATCH: usize = 32;
/// Lanes of the tasks that are not for idle times only.
const EVERY_VISIT: u32 = 0b010101;
/// More levels than any topology has.
pub(crate) const DEPTH: usize = 16;
/// So many blocks may lie ended in queues before a submitter clears them away.
pub(crate) const MAY_LIE: isize = 64;

/// Numbers that a visit has for its parts.
pub(crate) const PARTS: u64 = 4;

/// See the module's description.
pub(crate) struct Tree {
    pub(crate) plan: Plan,
    pub(crate) queues: Box<[Queue<Ltask>]>,
    /// Tasks in queues or being called: a visitor has to look.
    pending: AtomicUsize,
    /// Number of the last visit.
    pub(crate) visits: AtomicU64,
    /// Number of the last new task.
    pub(crate) news: AtomicU64,
    /// For the first queue of each path, the news that it was last visited after.
    pub(crate) seen: Box<[AtomicU64]>,
    /// Something has happened since an idle visitor last looked at the clock.
    stirred: AtomicBool,
    /// When an idle visitor first saw that something had happened, by `clock`.
    active: AtomicU64,
    start: Instant,
    late_after: Duration,
    spin: Option<Duration>,
    /// Number of the watcher's last visit.
    pub(crate) watched: AtomicU64,
    /// The spare watcher wakes up at the tick's pace.
    pub(crate) paced: AtomicBool,
    /// Cores that have a virtual processor.
    pub(crate) manned: OnceLock<Cores>,
    /// Number of virtual processors.
    pub(crate) living: AtomicUsize,
    /// Blocks that are ENDED and in a queue.
    pub(crate) lying: AtomicIsize,
    /// Tasks that have a blocking alternative; those whose spare kernel thread is on it; how many there can be.
    can_block: AtomicUsize,
    blocking: AtomicUsize,
    spares: AtomicUsize,
    pub(crate) counts: Counts,
}

impl Tree {
    /// # Errors
    /// `MARCEL_TOPOLOGY` or `PIOM_BINDING_LEVEL` is not acceptable.
    pub(crate) fn new(tick: Duration, spin: Option<Duration>) -> Result<Tree, Error> {
        let level = knobs::BINDING_LEVEL.text()?;
        let topology = Topology::current().map_err(Error::Topology)?;
        Ok(Self::over(Plan::new(topology, &level), tick, spin))
    }

    pub(crate) fn over(plan: Plan, late_after: Duration, spin: Option<Duration>) -> Tree {
        let queues = plan.queues();
        Stamp::now(); // the first one has to find out about the clock
        Tree {
            plan,
            queues: (0..queues).map(|_| Queue::new()).collect(),
            pending: AtomicUsize::new(0),
            visits: AtomicU64::new(0),
            news: AtomicU64::new(0),
            seen: (0..queues).map(|_| AtomicU64::new(0)).collect(),
            stirred: AtomicBool::new(false),
            active: AtomicU64::new(0),
            start: Instant::now(),
            late_after,
            spin,
            watched: AtomicU64::new(0),
            paced: AtomicBool::new(false),
            manned: OnceLock::new(),
            living: AtomicUsize::new(0),
            lying: AtomicIsize::new(0),
            can_block: AtomicUsize::new(0),
            blocking: AtomicUsize::new(0),
            spares: AtomicUsize::new(0),
            counts: Counts::default(),
        }
    }

    /// Virtual processors of the runtime that this serves: all, then standbys.
    pub(crate) fn serve(&self, vps: &[&'static Vp]) {
        self.living.fetch_add(vps.len(), Relaxed);
        self.manned.get_or_init(|| Cores::of(vps.iter().filter_map(|vp| vp.cpu())));
    }

    /// One of them has gone.
    pub(crate) fn lose(&self) {
        self.living.fetch_sub(1, Relaxed);
    }

    pub(crate) fn place(&self, wanted: &Wanted) -> Result<Place, Error> {
        self.plan.place(wanted)
    }

    pub(crate) fn clock(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Whether any task is queued or being called.
    #[inline]
    pub(crate) fn pending(&self) -> bool {
        self.pending.load(Relaxed) != 0
    }

    /// Queues a task that was just called.
    pub(crate) fn requeue(&self, task: &'static Ltask) {
        task.missed.store(0, Relaxed);
        self.put(task);
    }

    /// Any task, from whatever queue.
    pub(crate) fn take_any(&self) -> Option<&'static Ltask> {
        self.queues.iter().find_map(|queue| (0..LANES).find_map(|lane| queue.pop(lane)))
    }

    /// Something new is queued: those that have looked before look again.
    pub(crate) fn has_new(&self) {
        self.news.fetch_add(1, SeqCst);
    }

    /// A task is queued or called from now on.
    pub(crate) fn begin(&self, task: &Ltask) {
        self.pending.fetch_add(1, SeqCst);
        task.visit.store(0, Relaxed);
    }

    pub(crate) fn put(&self, task: &'static Ltask) {
        let fixed = task.fixed();
        self.queues[fixed.place.queue].push(fixed.lane, task);
    }

    /// A task has left the queues, or ended: no visitor has to look for it.
    pub(crate) fn forget(&self, ran: Ran) -> Ran {
        self.pending.fetch_sub(1, SeqCst);
        ran
    }

    /// So many more blocks lie in queues although their tasks have ended.
    pub(crate) fn ended_in_queue(&self, change: isize) {
        self.lying.fetch_add(change, Relaxed);
    }

    /// So many more tasks have a blocking alternative; how many there are now.
    pub(crate) fn can_block(&self, change: isize) -> usize {
        self.can_block.fetch_add(change as usize, Relaxed).wrapping_add(change as usize)
    }

    /// So many spare kernel threads are there for blocking alternatives.
    pub(crate) fn has_spares(&self, n: usize) {
        self.spares.fetch_max(n, Relaxed);
    }

    /// Takes one of them for a blocking alternative; false if none is free: then the task is polled.
    pub(crate) fn begin_blocking(&self) -> bool {
        if self.blocking.fetch_add(1, AcqRel) < self.spares.load(Relaxed) {
            return true;
        }
        self.end_blocking();
        false
    }

    pub(crate) fn end_blocking(&self) {
        self.blocking.fetch_sub(1, AcqRel);
    }

    /// Something happens. Submitters and callers do not look at the clock, which costs as much as the rest of it.
    pub(crate) fn stir(&self) {
        if !self.stirred.load(Relaxed) {
            self.stirred.store(true, Relaxed);
        }
    }

    /// Whether something has happened within the time that waits spin; asked by idle visitors.
    pub(crate) fn is_active(&self) -> bool {
        let now = self.clock();
        if self.stirred.load(Relaxed) && self.stirred.swap(false, Relaxed) {
            self.active.store(now, Relaxed);
        }
        let idle = now.saturating_sub(self.active.load(Relaxed));
        self.spin.is_none_or(|spin| u128::from(idle) < spin.as_nanos())
    }

    /// Whether the spare watcher looks at the tick's pace.
    pub(crate) fn is_paced(&self) -> bool {
        fence(SeqCst);
        self.paced.load(Relaxed)
    }

    /// Whether a task is new since its last visit; after it has announced that it sleeps.
    pub(crate) fn has_news(&self, core: Option<usize>) -> bool {
        fence(SeqCst);
        let seen = &self.seen[self.plan.path(core)[0]];
        self.pending() && self.news.load(SeqCst) != seen.load(Relaxed)
    }

    /// The first task in sight, and which of `queues` it comes from. Lanes that are `done` are left out.
    pub(crate) fn next(
        &self,
        queues: &[usize],
        idle: bool,
        done: &mut [u32; DEPTH],
    ) -> Option<(usize, &'static Ltask)> {
        let lanes = if idle { !0 } else { EVERY_VISIT };
        let left = |at: usize| self.queues[queues[at]].occupied() & lanes & !done[at];
        let queues_here = queues.len().min(DEPTH);
        if (0..queues_here).fold(0, |all, at| all | left(at)) == 0 {
            return None;
        }
        (0..LANES).find_map(|lane| {
            (0..queues_here)
                .filter(|&at| left(at) >> lane & 1 == 1)
                .find_map(|at| Some((at, self.queues[queues[at]].pop(lane)?)))
        })
    }

    /// Whether it has been waiting for a tick's time since a visitor first missed those that may call it. The task was
    /// just taken out of its queue.
    pub(crate) fn is_late(&self, task: &Ltask) -> bool {
        if self.is_orphan(task) {
            return true;
        }
        let now = self.clock().max(1);
        let first = match task.missed.load(Relaxed) {
            0 => {
                task.missed.store(now, Relaxed);
                now
            }
            first => first,
        };
        now.saturating_sub(first) >= self.late_after.as_nanos() as u64
    }

    /// Whether no virtual processor is on any of its cores.
    pub(crate) fn is_orphan(&self, task: &Ltask) -> bool {
        self.living.load(Relaxed) == 0
            || task
                .place()
                .cores
                .as_ref()
                .is_some_and(|cores| self.manned.get().is_none_or(|manned| !manned.meets(cores)))
    }
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tree").field("counts", &self.counts).finish_non_exhaustive()
    }
}
