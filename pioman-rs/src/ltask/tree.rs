//! The queues of light tasks, one for each node of the topology, and who looks at them.
//!
//! # A visit
//! A virtual processor looks at the queue of its core, then at those of the nodes above it, up to the machine's
//! (thesis, algorithm 1), at whether they hold anything first, and then into them (algorithm 2). It takes one task at a
//! time: of those in sight the first of the highest priority, the nearest queue first; so a task that is submitted
//! during a visit may still overtake others. No task runs twice in a visit, and a visit has an end
//! ([`BATCH`]).
//!
//! | who | when | what |
//! |---|---|---|
//! | an idle virtual processor | before it sleeps | its path |
//! | any virtual processor | at a context switch | its path, without the tasks of idle times |
//! | a thread in a wait | while it polls, and at the tick's pace | as the virtual processor that it is on; a kernel thread: the machine's queue |
//! | the spare watcher | at a submission that finds every virtual processor concerned busy, then at the tick's pace | see below |
//!
//! # Never lost
//! > **While tasks are queued or called, each virtual processor that was woken for one, and is idle, is awake or sleeps at
//! > the tick's pace; when it gets busy, the watcher keeps that pace in its place.**
//!
//! Whoever queues a new task wakes a virtual processor of its set that sleeps; one that is about to looks, after it has
//! announced that it sleeps, whether there are *news* that its path has not been visited since. When no virtual processor
//! concerned sleeps the watcher is woken, which keeps to the tick's pace as long as anything is queued. When one goes from
//! idle to busy while tasks are queued it makes sure of the same. (Not only those that *see* a task keep the pace: it may
//! be in the hands of somebody who will put it back and go.) The watcher wakes a virtual processor for a task that nobody
//! has touched for a tick although there is room for it.
//!
//! # Nobody of its set comes
//! A task is *stranded* while every virtual processor of its cores computes, and for ever if there is none. Stranded
//! tasks are run by the spare watcher, which binds itself to the task's cores first: so it stays within its set, where
//! the kernel lets it preempt the computation. Only where the cores do not stand for real ones (a synthetic machine
//! larger than this one), or the kernel refuses to bind it, the watcher runs it where it is. Without a watcher (modes
//! `no-thread` and `mono`, the point `block` off) any visitor that has nothing better to do runs what has been stranded
//! for a tick's time: to be run is worth more than where. On a virtual processor that never switches, without a watcher
//! and without a thread that waits, tasks wait as well: they are safe code, which does not run in the tick's handler.
//!
//! # How long idle processors poll
//! As long as tasks say [`crate::Progress::Again`]; for the spin time of waits after the last thing that happened when
//! they only say `Waiting`; at the tick's pace then, and those that can block are exported instead.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, AtomicUsize, Ordering::*, fence};
use std::time::{Duration, Instant};

use marcel::Vp;
use marcel::topology::{Topology, allowed_cpus, restrict_current_thread};
use marcel::trace::Stamp;

use crate::error::Error;
use crate::knobs;
use crate::ltask::block::Ltask;
use crate::ltask::counts::Counts;
use crate::ltask::inside::Caller;
use crate::ltask::place::{Cores, Place, Plan, Wanted};
use crate::ltask::queue::{LANES, Queue};
use crate::manager::Core;

/// Tasks looked at in one visit, so that a visit is bounded.
const BATCH: usize = 32;
/// Lanes of the tasks that are not for idle times only.
const EVERY_VISIT: u32 = 0b010101;
/// More levels than any topology has.
const DEPTH: usize = 16;
/// So many blocks may lie ended in queues before a submitter clears them away.
const MAY_LIE: isize = 64;

/// Numbers that a visit has for its parts.
const PARTS: u64 = 4;

/// What a visit has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ran {
    /// No task was called.
    Nothing,
    /// Those that were wait for something.
    Waiting,
    /// Some task has done something.
    Useful,
}

/// Who looks at the queues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visitor {
    /// Its core; `None`: nowhere in particular.
    pub(crate) core: Option<usize>,
    /// Whether it has nothing better to do: tasks of idle times as well, and late ones where there is no watcher.
    pub(crate) idle: bool,
    /// Whether it will sleep next: what can block is exported.
    pub(crate) patient: bool,
    pub(crate) caller: Caller,
}

/// See the module's description.
pub(crate) struct Tree {
    plan: Plan,
    queues: Box<[Queue<Ltask>]>,
    /// Tasks in queues or being called: somebody has to look.
    pending: AtomicUsize,
    /// Number of the last visit.
    visits: AtomicU64,
    /// Number of the last new task.
    news: AtomicU64,
    /// For the first queue of each path, the news that it was last visited after.
    seen: Box<[AtomicU64]>,
    /// Something has happened since somebody idle last looked at the clock.
    stirred: AtomicBool,
    /// When somebody idle first saw that something had happened, by `clock`.
    active: AtomicU64,
    start: Instant,
    late_after: Duration,
    spin: Option<Duration>,
    /// Number of the watcher's last visit.
    watched: AtomicU64,
    /// The spare watcher wakes up at the tick's pace.
    paced: AtomicBool,
    /// Cores that have a virtual processor.
    manned: OnceLock<Cores>,
    /// Number of virtual processors.
    living: AtomicUsize,
    /// Blocks that are ENDED and in a queue.
    lying: AtomicIsize,
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

    fn over(plan: Plan, late_after: Duration, spin: Option<Duration>) -> Tree {
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

    pub(super) fn place(&self, wanted: &Wanted) -> Result<Place, Error> {
        self.plan.place(wanted)
    }

    fn clock(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Whether any task is queued or being called.
    #[inline]
    pub(crate) fn pending(&self) -> bool {
        self.pending.load(Relaxed) != 0
    }

    /// Queues a new task, or one that was in no queue for a while, and calls for somebody to run it. Anywhere, signal
    /// handlers included, as long as the task has a handle.
    pub(super) fn add(&self, task: &'static Ltask, core: &Core) {
        self.pending.fetch_add(1, SeqCst);
        task.visit.store(0, Relaxed);
        self.push_again(task, core);
    }

    /// As [`Tree::add`], for a task that has been pending all the time.
    pub(super) fn push_again(&self, task: &'static Ltask, core: &Core) {
        // Once it is queued it may come to its end, and its block be another's.
        let cores = task.place().cores.clone();
        self.stir();
        self.requeue(task);
        self.news.fetch_add(1, SeqCst);
        core.call_for_tasks(cores.as_ref());
    }

    /// Queues a task that was just called.
    pub(super) fn requeue(&self, task: &'static Ltask) {
        task.missed.store(0, Relaxed);
        self.put(task);
    }

    fn put(&self, task: &'static Ltask) {
        let fixed = task.fixed();
        self.queues[fixed.place.queue].push(fixed.lane, task);
    }

    /// A task has left the queues, or ended: nobody has to look for it.
    pub(super) fn forget(&self, ran: Ran) -> Ran {
        self.pending.fetch_sub(1, SeqCst);
        ran
    }

    /// So many more blocks lie in queues although their tasks have ended.
    pub(super) fn ended_in_queue(&self, change: isize) {
        self.lying.fetch_add(change, Relaxed);
    }

    /// So many more tasks have a blocking alternative; how many there are now.
    pub(super) fn can_block(&self, change: isize) -> usize {
        self.can_block.fetch_add(change as usize, Relaxed).wrapping_add(change as usize)
    }

    /// So many spare kernel threads are there for blocking alternatives.
    pub(super) fn has_spares(&self, n: usize) {
        self.spares.fetch_max(n, Relaxed);
    }

    /// Takes one of them for a blocking alternative; false if none is free: then the task is polled.
    pub(super) fn begin_blocking(&self) -> bool {
        if self.blocking.fetch_add(1, AcqRel) < self.spares.load(Relaxed) {
            return true;
        }
        self.end_blocking();
        false
    }

    pub(super) fn end_blocking(&self) {
        self.blocking.fetch_sub(1, AcqRel);
    }

    /// Something happens. Who submits and calls does not look at the clock, which costs as much as the rest of it.
    fn stir(&self) {
        if !self.stirred.load(Relaxed) {
            self.stirred.store(true, Relaxed);
        }
    }

    /// Whether something has happened within the time that waits spin; asked by those who are idle.
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

    /// Calls the tasks that a visitor may call, as far as a visit goes. Progress path, but not in a signal handler.
    #[inline]
    pub(crate) fn visit(&self, core: &Core, visitor: &Visitor) -> Ran {
        if !self.pending() {
            return Ran::Nothing;
        }
        self.visit_sight(core, visitor)
    }

    fn visit_sight(&self, core: &Core, visitor: &Visitor) -> Ran {
        let path = self.plan.path(visitor.core);
        let news = self.news.load(SeqCst);
        let may = |task: &Ltask| task.place().allows(visitor.core);
        let mut visit = 0;
        let mut ran = self.visit_queues(path, core, visitor, &may, &mut visit, 1);
        if visitor.idle {
            if core.watcher.get().is_none() {
                let may =
                    |task: &Ltask| !may(task) && self.is_late(task) && self.is_stranded(task, core);
                for queue in 0..self.queues.len() {
                    ran = ran.max(self.visit_queues(&[queue], core, visitor, &may, &mut visit, 2));
                }
            }
            self.seen[path[0]].store(news, Relaxed);
        }
        if ran == Ran::Useful {
            self.stir();
        }
        ran
    }

    /// The part of a visit that concerns `queues`. `visit` is the visit's number, 0 until there is something to see: a
    /// task that was called in it is marked with that, and one that was put back in this part with that and `part`.
    fn visit_queues(
        &self,
        queues: &[usize],
        core: &Core,
        visitor: &Visitor,
        may: &dyn Fn(&Ltask) -> bool,
        visit: &mut u64,
        part: u64,
    ) -> Ran {
        let mut ran = Ran::Nothing;
        let mut done = [0; DEPTH];
        for _ in 0..BATCH {
            let Some((at, task)) = self.next(queues, visitor.idle, &mut done) else { break };
            if *visit == 0 {
                *visit = self.visits.fetch_add(PARTS, Relaxed) + PARTS;
            }
            let before = task.visit.load(Relaxed);
            if before == *visit || before == *visit + part {
                // All that was before it has had its turn.
                done[at] |= 1 << task.fixed().lane;
                self.put(task);
            } else if !may(task) {
                task.visit.store(*visit + part, Relaxed);
                self.put_back(task, before == 0, core);
            } else {
                task.visit.store(*visit, Relaxed);
                ran = ran.max(task.take(core, visitor));
            }
        }
        ran
    }

    /// The first task in sight, and which of `queues` it comes from. Lanes that are `done` are left out.
    fn next(
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

    /// Puts a task back that this visitor may not call. Those who may have perhaps just looked in vain: somebody is
    /// woken for it, the first time.
    fn put_back(&self, task: &'static Ltask, is_new: bool, core: &Core) {
        let cores = task.place().cores.clone();
        self.put(task);
        if is_new {
            self.news.fetch_add(1, SeqCst);
            core.call_for_tasks(cores.as_ref());
        }
    }

    /// Whether it has been waiting for a tick's time since somebody first missed those who may call it. The task was just
    /// taken out of its queue.
    fn is_late(&self, task: &Ltask) -> bool {
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

    /// Whether no virtual processor of its cores has room for it.
    fn is_stranded(&self, task: &Ltask, core: &Core) -> bool {
        self.is_orphan(task) || core.is_busy_on(task.place().cores.as_ref())
    }

    /// Whether no virtual processor is on any of its cores.
    fn is_orphan(&self, task: &Ltask) -> bool {
        self.living.load(Relaxed) == 0
            || task
                .place()
                .cores
                .as_ref()
                .is_some_and(|cores| self.manned.get().is_none_or(|manned| !manned.meets(cores)))
    }

    /// The spare watcher's visit; it wakes up at the tick's pace as long as this returns true.
    pub(crate) fn visit_by_watcher(&self, core: &Core) -> bool {
        if self.pending() {
            let visitor =
                Visitor { core: None, idle: true, patient: true, caller: Caller::thread() };
            let watcher = Bound { plan: &self.plan, before: None };
            let watcher = std::cell::RefCell::new(watcher);
            let last = self.watched.load(Relaxed);
            let may = |task: &Ltask| {
                let yes = !core.points.idle || self.is_stranded(task, core);
                if yes {
                    watcher.borrow_mut().bind(task.place().cores.as_ref());
                } else if task.visit.load(Relaxed) == last + 1 {
                    core.wake_for_tasks(task.place().cores.as_ref());
                }
                yes
            };
            let mut visit = 0;
            for queue in 0..self.queues.len() {
                self.visit_queues(&[queue], core, &visitor, &may, &mut visit, 1);
            }
            self.watched.store(visit, Relaxed);
        }
        self.paced.store(true, SeqCst);
        fence(SeqCst);
        let pending = self.pending();
        if !pending {
            self.paced.store(false, SeqCst);
        }
        pending || self.pending()
    }

    /// Blocks whose tasks were cancelled in their queues, and which nobody has come for, are cleared away. Not the
    /// progress path.
    pub(super) fn clear_away(&self, core: &Core) {
        if self.lying.load(Relaxed) <= MAY_LIE {
            return;
        }
        let mut kept = Vec::new();
        for queue in &self.queues {
            for lane in 0..LANES {
                while let Some(task) = queue.pop(lane) {
                    match task.state.outcome() {
                        Some(_) => task.leave_queue(self),
                        None => kept.push(task),
                    }
                }
            }
        }
        // As they were, and new for everybody: they were out of sight for a moment.
        let any = !kept.is_empty();
        kept.into_iter().for_each(|task| self.put(task));
        if any {
            self.news.fetch_add(1, SeqCst);
            core.call_for_tasks(None);
        }
    }
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tree").field("counts", &self.counts).finish_non_exhaustive()
    }
}

/// What is left when nobody visits any more is cancelled.
impl Drop for Tree {
    fn drop(&mut self) {
        for queue in &self.queues {
            for lane in 0..LANES {
                while let Some(task) = queue.pop(lane) {
                    task.cancel(self);
                    task.leave_queue(self);
                }
            }
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
