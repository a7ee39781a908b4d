//! The I/O manager: what it is made of, and the one invariant that holds it together.
//!
//! A manager looks after the requests of its *sources* and runs *light tasks*. Events are found by whoever
//! is there: a thread inside a wait, an idle virtual processor, a context switch, a tick, or a spare kernel
//! thread that sleeps in the kernel. The invariant:
//!
//! > **While something is unattended and progress is on, a thread polls, or a kernel thread sleeps on armed
//! > sources, or a tick is armed.**
//!
//! (Unattended: it has a request whose owner does not ask for its end, see [`Source::unattended`](crate::Source::unattended).)
//!
//! Who keeps it:
//! * a *wait* polls for a bounded time (`wait`), then its virtual processor, or the kernel thread itself,
//!   takes the role of the sleeper in the *front watch* and arms the sources;
//! * whoever gives that role up, or returns to the application with something pending
//!   ([`Manager::left_pending`]), arms the *spare watch*, in which a spare kernel thread sleeps for ever: no
//!   wake-up is needed to hand the watch over, only a system call that arms it (`spare`);
//! * without a spare kernel thread (mono, or the point switched off), busy virtual processors get ticks.
//!
//! Which of them it is, the policy of the source chooses ([`crate::policy`]).
//!
//! Rejected: handing the watch over by waking the next sleeper (a wake-up for each message of a ping-pong);
//! one `epoll` set that several threads sleep in (the kernel would wake the wrong one half of the time).

pub(crate) mod cover;
pub(crate) mod current;
pub(crate) mod hooks;
pub(crate) mod on_call;
pub(crate) mod own_sources;
pub(crate) mod point;
pub(crate) mod registry;
pub(crate) mod runtime;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use marcel::plumbing::lwp::LwpPool;
use marcel::{Load, Mode, plumbing::Sleeper};

use crate::error::Error;
use crate::knobs;
use crate::ltask::TaskCounts;
use crate::ltask::tree::Tree;
use crate::manager::on_call::OnCall;
use crate::manager::own_sources::OwnSources;
use crate::manager::point::{Hits, Point, Points};
use crate::manager::registry::{MAX, Pinned, Registered, Registry, SourceId};
use crate::observe::{Counters, SourceCounters, report};
use crate::policy::hints::Hints;
use crate::policy::history::History;
use crate::policy::select::{self, Selection};
use crate::policy::wake_up::WakeUp;
use crate::policy::{Limit, Policy};
use crate::source::Source;
use crate::source::uring::Uring;
use crate::sync::completion::Completion;
use crate::watch::candidates::Candidates;
use crate::watch::dedicated::{Dedicated, Threads};
use crate::watch::patrol::Visits;
use crate::watch::pollers::Pollers;
use crate::watch::set::Watch;
use crate::watch::spare::Spare;

/// How long idle virtual processors poll for light tasks that wait for something, unless the knob says.
const TASKS_SPIN: Duration = Duration::from_micros(50);

/// Configures a [`Manager`]; what is not set comes from the knobs.
#[derive(Default)]
pub struct Builder {
    mode: Option<Mode>,
    points: Option<Points>,
    spin: Option<Option<Duration>>,
    #[cfg(test)]
    pub(crate) tasks: Option<Tree>,
    policy: Option<Arc<dyn Policy>>,
    uring: Option<bool>,
    times: Option<bool>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("mode", &self.mode)
            .field("points", &self.points)
            .field("spin", &self.spin)
            .field("policy", &self.policy.as_ref().map(|policy| policy.name()))
            .finish()
    }
}

impl Builder {
    /// The mode of the runtime that the manager will serve (`MARCEL_MODE`).
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Which points are on (`PIOM_POINTS`, `PIOM_ENABLE_PROGRESSION`).
    pub fn points(mut self, points: Points) -> Self {
        self.points = Some(points);
        self
    }

    /// How long a wait polls at the most before it sleeps; `None`: as long as it takes (`PIOM_BUSY_WAIT_USEC`).
    pub fn spin(mut self, spin: Option<Duration>) -> Self {
        self.spin = Some(spin);
        self
    }

    /// The policy of all sources, whatever `PIOM_POLICY` says. [`crate::policy::by_name`] gives those that are there.
    pub fn policy(mut self, policy: Arc<dyn Policy>) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Whether calls on files go by `io_uring`, where it is there (`PIOM_URING`).
    pub fn uring(mut self, on: bool) -> Self {
        self.uring = Some(on);
        self
    }

    /// Whether the counters have times: until events were found, and of waits (`PIOM_STATS`, which also has all of them
    /// told at the end).
    pub fn times(mut self, on: bool) -> Self {
        self.times = Some(on);
        self
    }

    /// Builds it.
    ///
    /// # Errors
    /// A knob holds something unacceptable; the kernel gives no descriptors.
    pub fn build(self) -> Result<Arc<Manager>, Error> {
        let os = |doing| move |source: io::Error| Error::Os { doing, source };
        let mode = match self.mode {
            Some(mode) => mode,
            None => Mode::from_env().map_err(|error| match error {
                marcel::Error::Knob(knob) => Error::Knob(knob),
                other => Error::Os { doing: "MARCEL_MODE", source: io::Error::other(other) },
            })?,
        };
        let mut points = match self.points {
            Some(points) => points,
            None if !knobs::ENABLE_PROGRESSION.bool()? => Points::NONE,
            None => {
                let set = knobs::POINTS.set()?;
                let on = |name: &str| set.iter().any(|word| word == name);
                Points {
                    idle: on("idle"),
                    switch: on("switch"),
                    tick: on("tick"),
                    block: on("block"),
                }
            }
        };
        let lwps = knobs::SPARE_LWP.int()?.unwrap_or(4) as usize;
        if mode != Mode::Smp || lwps == 0 {
            points.block = false;
        }
        let limit = match (self.spin, knobs::BUSY_WAIT_USEC.int()?) {
            (Some(Some(time)), _) => Limit::For(time),
            (Some(None), _) | (None, Some(..0)) => Limit::Never,
            (None, Some(us)) => Limit::For(Duration::from_micros(us as u64)),
            (None, None) => Limit::Auto,
        };
        let policies = match self.policy {
            Some(policy) => Selection::all(policy),
            None => Selection::from_env()?,
        };
        let tick_period = Duration::from_micros(marcel::TIMER_PERIOD.int()?.unwrap_or(4000) as u64);
        let wants_uring = match self.uring {
            Some(on) => on,
            None => knobs::URING.bool()?,
        };
        let stats = knobs::STATS.bool()?;
        let prefers_waiters = knobs::PREFER_WAITERS.bool()?;
        marcel::trace::from_env().map_err(|error| match error {
            marcel::Error::Knob(knob) => Error::Knob(knob),
            other => Error::Os { doing: "MARCEL_TRACE", source: io::Error::other(other) },
        })?;
        knobs::LONG_CALLBACK_USEC.int()?; // told here, used by `fault`
        let spin = match limit {
            Limit::For(time) => Some(time),
            Limit::Never => None,
            Limit::Auto => Some(TASKS_SPIN),
        };
        let tasks = Tree::new(tick_period, spin)?;
        #[cfg(test)]
        let tasks = self.tasks.unwrap_or(tasks);
        let core = Core {
            mode,
            points,
            limit,
            policies,
            nameless: History::default(),
            registry: Registry::new(self.times.unwrap_or(stats)),
            gone: Mutex::default(),
            stats,
            front: Watch::new(0).map_err(os("making an epoll set"))?,
            spare: Watch::new(1).map_err(os("making an epoll set"))?,
            candidates: Candidates::default(),
            load: OnceLock::new(),
            pollers: Pollers::new(),
            passed: AtomicU64::new(0),
            ticked: AtomicU64::new(0),
            blocked: AtomicU64::new(0),
            ticker: AtomicBool::new(false),
            broken: AtomicU64::new(0),
            dedicated: Dedicated::default(),
            wake_up: WakeUp::new(),
            tick_period,
            lwps: OnceLock::new(),
            watcher: OnceLock::new(),
            blind: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            prefers_waiters,
            visits: Visits::default(),
            seldom: AtomicBool::new(false),
            spun: AtomicBool::new(false),
            idle_poller: AtomicUsize::new(0),
            idle_mask: AtomicU64::new(0),
            on_call: OnCall::new(),
            tasks,
            hits: Hits::default(),
            wants_uring,
            uring: OnceLock::new(),
            own_sources: OwnSources::default(),
        };
        let core = Arc::new(core);
        if stats {
            report::expect(&core);
        }
        let spare = Spare::new(core.clone(), lwps);
        let (number, cores) = select::dedicated()?;
        let dedicated = Threads::new(core.clone(), cores);
        let os = os("starting a dedicated kernel thread");
        dedicated.set(number.unwrap_or(0)).map_err(os)?;
        Ok(Arc::new(Manager { core, spare, dedicated, on_demand: number.is_none() }))
    }
}

/// The I/O manager; see the module's description. Give it to one runtime as its hooks.
#[derive(Debug)]
pub struct Manager {
    pub(crate) core: Arc<Core>,
    pub(crate) spare: Spare,
    dedicated: Threads,
    /// A dedicated thread is started when a policy wants one.
    on_demand: bool,
}

/// What the manager shares with its spare kernel threads.
pub(crate) struct Core {
    pub(crate) mode: Mode,
    pub(crate) points: Points,
    pub(crate) limit: Limit,
    pub(crate) policies: Selection,
    /// Of waits that name no source, while several have something pending.
    pub(crate) nameless: History,
    pub(crate) registry: Registry,
    /// What was counted for sources that have gone.
    pub(crate) gone: Mutex<Counters>,
    /// Times are taken, and all is told at the end.
    pub(crate) stats: bool,
    /// Where a waiting virtual processor or kernel thread sleeps.
    pub(crate) front: Watch,
    /// Where the spare kernel thread sleeps.
    pub(crate) spare: Watch,
    /// Kernel threads that wait without a watch.
    pub(crate) candidates: Candidates,
    pub(crate) load: OnceLock<Load>,
    /// Who polls what: each makes sure, when it stops, that somebody watches.
    pub(crate) pollers: Pollers<MAX>,
    /// A bit for each source that is looked at by those who look for others.
    pub(crate) passed: AtomicU64,
    /// A bit for each source that was last left to ticks…
    pub(crate) ticked: AtomicU64,
    /// …and for each that was left to a kernel thread that sleeps on it.
    pub(crate) blocked: AtomicU64,
    /// A bit for each source whose policy has panicked.
    pub(crate) broken: AtomicU64,
    /// Somebody who is idle looks at the pace of the tick.
    pub(crate) ticker: AtomicBool,
    pub(crate) dedicated: Dedicated,
    pub(crate) wake_up: WakeUp,
    /// Period of the tick, and of tasks that cannot block while everything is idle.
    pub(crate) tick_period: Duration,
    /// The pool for blocking alternatives, once a task has needed it.
    pub(crate) lwps: OnceLock<Arc<LwpPool>>,
    /// Where the spare watcher sleeps, once it runs.
    pub(crate) watcher: OnceLock<&'static Sleeper>,
    /// A virtual processor has no eventfd that would get it out of the front watch.
    pub(crate) blind: AtomicBool,
    /// Threads inside a wait; counted only when progress outside calls is off.
    pub(crate) waiting: AtomicUsize,
    /// Kernel threads that sleep in a wait ask for short time slices.
    pub(crate) prefers_waiters: bool,
    /// How often something was left pending.
    pub(crate) visits: Visits,
    /// The watcher looks now and then at what is pending.
    pub(crate) seldom: AtomicBool,
    /// A wait has just polled in vain: its virtual processor need not poll again before it sleeps.
    pub(crate) spun: AtomicBool,
    /// The idle virtual processor that polls (its address), and what: the others sleep.
    pub(crate) idle_poller: AtomicUsize,
    pub(crate) idle_mask: AtomicU64,
    pub(crate) on_call: OnCall,
    pub(crate) tasks: Tree,
    pub(crate) hits: Hits,
    pub(crate) wants_uring: bool,
    /// The ring for files, or why there is none; made when it is first needed.
    pub(crate) uring: OnceLock<Result<Arc<Uring>, String>>,
    pub(crate) own_sources: OwnSources,
}

impl Drop for Core {
    fn drop(&mut self) {
        if self.stats {
            report::tell(self);
        }
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("mode", &self.mode).field("points", &self.points).finish()
    }
}

impl Manager {
    /// A builder.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Registers a source. It is polled, watched and armed until the handle is dropped.
    ///
    /// # Context
    /// Not the progress path.
    ///
    /// # Errors
    /// The manager has 64 sources already; the kernel refuses the descriptor. (Without a spare or dedicated kernel thread
    /// events are found in other ways, which is told on standard error.)
    pub fn add_source(self: &Arc<Self>, source: Arc<dyn Source>) -> io::Result<SourceHandle> {
        let slot = self.register(source)?;
        Ok(SourceHandle { manager: self.clone(), slot, removed: Removed::default() })
    }

    /// Registers a source of the manager's own, which goes with it.
    ///
    /// # Errors
    /// As [`Manager::add_source`].
    pub(crate) fn add_builtin(&self, source: Arc<dyn Source>) -> io::Result<SourceId> {
        self.register(source).map(|slot| SourceId(slot as u8))
    }

    fn register(&self, source: Arc<dyn Source>) -> io::Result<usize> {
        let fd = source.fd();
        if self.core.points.block {
            self.spare.start();
        }
        let policy = self.core.policies.of(source.name()).clone();
        let Some(slot) = self.core.registry.add(Registered { source, fd }, policy) else {
            return Err(io::Error::other(format!("a manager takes at most {MAX} sources")));
        };
        if let Some(fd) = fd {
            let core = &self.core;
            let added = core.front.add_source(slot, fd);
            if let Err(error) = added.and_then(|()| core.spare.add_source(slot, fd)) {
                core.remove_source(slot);
                return Err(error);
            }
        }
        if let Err(error) = self.policy_is_new(slot) {
            self.dedicated.tell_of(&error);
        }
        Ok(slot)
    }

    /// A source has got its policy.
    fn policy_is_new(&self, slot: usize) -> io::Result<()> {
        self.core.broken.fetch_and(!(1 << slot), SeqCst);
        let sources = self.core.registry.pin();
        self.core.refresh(&sources, slot);
        if self.on_demand
            && self.core.dedicated.on() == 0
            && self.core.wants_dedicated(&sources, slot)
        {
            drop(sources);
            let set = self.dedicated.set(1);
            self.core.left_pending();
            return set;
        }
        drop(sources);
        self.core.left_pending();
        Ok(())
    }

    /// How many dedicated kernel threads poll, from now on (`PIOM_DEDICATED`; 16 at the most). What is pending changes its
    /// method, if its policy says so.
    ///
    /// # Context
    /// Not the progress path.
    ///
    /// # Errors
    /// The kernel gives no thread.
    pub fn set_dedicated(&self, threads: usize) -> io::Result<()> {
        self.dedicated.set(threads)?;
        self.core.left_pending();
        Ok(())
    }

    /// Looks for events once. True if something was done.
    ///
    /// # Context
    /// Anywhere, signal handlers included.
    pub fn poll(&self, point: Point) -> bool {
        self.core.poll(point)
    }

    /// To be called before returning to the application with requests outstanding: makes sure that somebody
    /// watches them (see the module's invariant). A few loads when somebody does already.
    ///
    /// # Context
    /// Not a signal handler. # Wakes: nobody.
    #[inline]
    pub fn left_pending(&self) {
        self.core.left_pending();
    }

    /// Whether the next event of this source wakes a spare kernel thread, which then sees to all that is unattended: a few
    /// loads. If so, a source that arms itself after this need not have it watched by [`Manager::left_pending`].
    ///
    /// # Context
    /// Anywhere, the progress path included.
    #[inline]
    pub fn watches(&self, source: SourceId) -> bool {
        self.core.watches(usize::from(source.0) % MAX)
    }

    /// The caller polls this source itself, without [`Manager::wait`], until what is returned is dropped: meanwhile nobody
    /// else is asked to watch it. Then it is seen to that somebody does, if something is pending.
    ///
    /// # Context
    /// Not the progress path. The thread neither waits nor runs anything else meanwhile.
    #[must_use = "somebody is asked to watch when it is dropped"]
    pub fn looking(&self, source: SourceId) -> Looking<'_> {
        let mask = 1 << (usize::from(source.0) % MAX);
        self.core.pollers.join(mask);
        Looking { core: &self.core, mask }
    }

    /// Waits for `completion`: polls for a while, if the policy finds that worth while, then sleeps. The *mixed
    /// wait* of the thesis (5.3.2).
    ///
    /// # Context
    /// Green and kernel threads; not the progress path. # Blocking: the green thread, or the kernel thread.
    pub fn wait(&self, completion: &Completion, hints: impl Into<Hints>) {
        self.core.wait(completion, hints.into(), None, &|| ());
    }

    /// As [`Manager::wait`], until `deadline` at the latest; true if `completion` is complete.
    ///
    /// # Context, Blocking
    /// As [`Manager::wait`].
    pub fn wait_until(
        &self,
        completion: &Completion,
        hints: impl Into<Hints>,
        deadline: Instant,
    ) -> bool {
        self.core.wait(completion, hints.into(), Some(deadline), &|| ())
    }

    /// As [`Manager::wait`], or until `deadline`; `before_sleep` is called each time before the wait sleeps. There a library
    /// makes its source say that somebody does not ask any more ([`Source::unattended`]): as long as the wait polls, nobody
    /// has to be woken for it.
    ///
    /// # Context, Blocking
    /// As [`Manager::wait`].
    pub fn wait_prepared(
        &self,
        completion: &Completion,
        hints: impl Into<Hints>,
        deadline: Option<Instant>,
        before_sleep: &dyn Fn(),
    ) -> bool {
        self.core.wait(completion, hints.into(), deadline, before_sleep)
    }

    /// As [`Manager::wait`], for what only this source will find. A library's handle ([`SourceHandle`]) may be dropped while
    /// its users wait.
    ///
    /// ```
    /// # use pioman::{Completion, Manager, Source, SourceHandle};
    /// fn wait(done: &Completion, source: &SourceHandle) -> Result<(), pioman::SourceRemoved> {
    ///     Manager::here().expect("a manager").wait_unless_removed(done, &source.removed())
    /// }
    /// ```
    ///
    /// # Context, Blocking
    /// As [`Manager::wait`].
    ///
    /// # Errors
    /// The source was removed, now or before, and `completion` is not complete.
    pub fn wait_unless_removed(
        &self,
        completion: &Completion,
        source: &Removed,
    ) -> Result<(), SourceRemoved> {
        self.wait_any(&[completion.into(), (&*source.0).into()]);
        if completion.is_done() { Ok(()) } else { Err(SourceRemoved) }
    }

    /// How often a point has found something so far.
    pub fn hits(&self, point: Point) -> u64 {
        let by_source = self.core.counters().sources;
        let polls: u64 = by_source.iter().map(|source| source.at(point).hits).sum();
        polls + self.core.hits.get(point)
    }

    /// What the manager has done so far, by source, point and kernel thread.
    ///
    /// # Context
    /// Not the progress path (it allocates).
    pub fn counters(&self) -> Counters {
        self.core.counters()
    }

    /// How many light tasks there were, and what has become of them.
    pub fn tasks(&self) -> TaskCounts {
        self.core.tasks.counts.get()
    }

    /// The points that are on.
    pub fn points(&self) -> Points {
        self.core.points
    }

    /// The mode it was built for.
    pub fn mode(&self) -> Mode {
        self.core.mode
    }

    /// Offers to idle virtual processors what the caller could do at once, but an idle core as well: to begin a request,
    /// say. True: leave it to the source, which then is pending; who looks for events on another core takes it. False:
    /// nobody looks, and the caller had better do it; if that happens again and again, an idle virtual processor will
    /// stay awake for it.
    ///
    /// # Context
    /// Not the progress path.
    /// # Blocking
    /// No.
    /// # Wakes
    /// Nobody.
    pub fn offer(&self) -> bool {
        self.core.offer()
    }

    /// How many compute virtual processors have nothing to run, the caller's own not counted: each is a core that could
    /// take a light task at once. None without a runtime in smp mode. What it says may be over when it has been said.
    ///
    /// # Context
    /// Anywhere, the progress path included.
    /// # Blocking
    /// No.
    /// # Wakes
    /// Nobody.
    pub fn idle_cores(&self) -> usize {
        self.core.idle_cores()
    }

    /// Whether every compute virtual processor is busy, the caller's own not counted.
    pub fn is_loaded(&self) -> bool {
        self.core.is_loaded()
    }
}

impl Core {
    /// One look for events, by whoever is there.
    #[inline]
    pub(crate) fn poll(&self, point: Point) -> bool {
        self.registry.pin().poll(point)
    }

    /// Polls until nothing is left (events coalesce: DESIGN §4.3), within bounds.
    pub(crate) fn drain(&self, point: Point, sources: &Pinned<'_>, these: u64) -> bool {
        let mut found = false;
        for _ in 0..1000 {
            if !sources.poll_these(point, these) {
                break;
            }
            found = true;
        }
        found
    }

    pub(crate) fn is_loaded(&self) -> bool {
        let Some(load) = self.load.get() else { return false };
        let own = marcel::current_vp().is_some_and(|vp| vp.kind() == marcel::Kind::Compute);
        let compute = load.compute_vps();
        self.mode == Mode::Smp && compute > 0 && load.busy_compute_vps() >= compute + own as usize
    }

    fn idle_cores(&self) -> usize {
        let Some(load) = self.load.get().filter(|_| self.mode == Mode::Smp) else { return 0 };
        let compute = |vp: &marcel::Vp| vp.kind() == marcel::Kind::Compute;
        // The caller's own looks idle when its scheduler calls.
        let own = marcel::current_vp().is_some_and(|vp| compute(vp) && !vp.is_busy());
        load.compute_vps().saturating_sub(load.busy_compute_vps() + usize::from(own))
    }

    /// Whether progress outside calls is on at all.
    pub(crate) fn progresses(&self) -> bool {
        self.points != Points::NONE
    }

    fn remove_source(&self, slot: usize) {
        // Before another source can get the slot.
        self.registry.remove(slot, |registered| {
            let counted = self.count(slot, &*registered.source);
            let counted = SourceCounters { is_there: false, ..counted };
            self.gone.lock().unwrap_or_else(PoisonError::into_inner).add(counted);
            if let Some(fd) = registered.fd {
                self.front.remove_source(slot, fd);
                self.spare.remove_source(slot, fd);
            }
        });
        for mask in [&self.passed, &self.ticked, &self.blocked] {
            mask.fetch_and(!(1 << slot), SeqCst);
        }
    }
}

/// A registered source; dropping it unregisters the source and returns when nobody uses it any more. So it is not dropped
/// by what is called while somebody looks for events (a source, a waker, a callback): that would wait for itself.
#[derive(Debug)]
pub struct SourceHandle {
    manager: Arc<Manager>,
    slot: usize,
    removed: Removed,
}

/// A thread that polls a source: see [`Manager::looking`].
#[derive(Debug)]
pub struct Looking<'a> {
    core: &'a Core,
    mask: u64,
}

impl Looking<'_> {
    /// As [`Manager::wait_until`], by the poller itself: between the last poll and the wait nobody is asked to watch, and
    /// the wait polls or sees to it that somebody does.
    ///
    /// # Context
    /// As [`Manager::wait`].
    /// # Blocking
    /// As [`Manager::wait`].
    pub fn wait_until(
        self,
        completion: &Completion,
        hints: impl Into<Hints>,
        deadline: Option<Instant>,
    ) -> bool {
        let Looking { core, mask } = *std::mem::ManuallyDrop::new(self);
        core.pollers.leave(mask);
        core.wait(completion, hints.into(), deadline, &|| ())
    }
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        self.core.pollers.leave(self.mask);
        self.core.left_pending();
    }
}

/// The end of a source, for those who wait for what it was to find: see [`Manager::wait_unless_removed`].
#[derive(Clone, Debug, Default)]
pub struct Removed(Arc<Completion>);

impl Removed {
    /// Whether the source has been removed.
    pub fn is_removed(&self) -> bool {
        self.0.is_done()
    }
}

/// The source was removed before it had found what was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceRemoved;

impl std::fmt::Display for SourceRemoved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the source of the event was removed")
    }
}

impl std::error::Error for SourceRemoved {}

impl SourceHandle {
    /// What waits name it by ([`Hints::on`]).
    pub fn id(&self) -> SourceId {
        SourceId(self.slot as u8)
    }

    /// For those who wait for its events, and are to be told when it is removed.
    pub fn removed(&self) -> Removed {
        self.removed.clone()
    }

    /// From now on this policy chooses, also for what is pending. The one before is returned.
    ///
    /// # Context
    /// Not the progress path, nor a waker or callback: it waits for those who look for events.
    ///
    /// # Errors
    /// The policy wants a dedicated kernel thread, and the kernel gives none. It is in force all the same.
    pub fn set_policy(&self, policy: Arc<dyn Policy>) -> io::Result<Option<Arc<dyn Policy>>> {
        let before = self.manager.core.registry.set_policy(self.slot, policy);
        self.manager.policy_is_new(self.slot)?;
        Ok(before)
    }
}

impl Drop for SourceHandle {
    fn drop(&mut self) {
        self.manager.core.remove_source(self.slot);
        // It finds nothing any more: who still waits, waits in vain.
        self.removed.0.complete();
    }
}
