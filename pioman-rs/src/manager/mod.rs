//! The I/O manager as its users see it.
//!
//! A manager looks after the requests of its *sources* and runs *light tasks*. Events are found by any thread that is
//! there: one inside a wait, an idle virtual processor, a context switch, a tick, or a kernel thread that sleeps in the
//! kernel. Which of them, and why none is forgotten: `driver`.

pub(crate) mod builder;
pub(crate) mod current;
pub(crate) mod explain;
pub(crate) mod hooks;
pub(crate) mod looking;
pub(crate) mod own_sources;
pub(crate) mod runtime;
pub(crate) mod source_handle;
mod waits;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use std::time::Instant;

use marcel::Mode;
use marcel::plumbing::budget;

use crate::completion::one_shot::Completion;
use crate::driver::core::Driver;
use crate::driver::dedicated_threads::DedicatedThreads;
use crate::driver::offers::Glance;
use crate::driver::wait;
use crate::driver::watcher::SpareThreads;
use crate::ltask::counts::TaskCounts;
use crate::manager::looking::Looking;
use crate::manager::own_sources::OwnSources;
use crate::observe::Counters;
use crate::progress::point::{Point, Points};
use crate::progress::policy::hints::Hints;
use crate::progress::source::{Source, SourceId};

/// The I/O manager; see the module's description. Give it to one runtime as its hooks.
#[derive(Debug)]
pub struct Manager {
    pub(crate) driver: Arc<Driver>,
    pub(crate) spare: SpareThreads,
    dedicated: DedicatedThreads,
    /// A dedicated thread is started when a policy wants one.
    on_demand: bool,
    pub(crate) own_sources: OwnSources,
    /// Calls on files go by `io_uring`, where it is there.
    pub(crate) wants_uring: bool,
}

impl Manager {
    /// A manager of these parts.
    fn new(
        driver: Arc<Driver>,
        spare: SpareThreads,
        dedicated: DedicatedThreads,
        on_demand: bool,
        wants_uring: bool,
    ) -> Manager {
        let own_sources = OwnSources::default();
        Manager { driver, spare, dedicated, on_demand, own_sources, wants_uring }
    }

    /// Registers a source of the manager's own, which goes with it.
    ///
    /// # Errors
    /// As [`Manager::add_source`].
    pub(crate) fn add_builtin(&self, source: Arc<dyn Source>) -> io::Result<SourceId> {
        self.register(source).map(|slot| SourceId(slot as u8))
    }

    pub(super) fn register(&self, source: Arc<dyn Source>) -> io::Result<usize> {
        if self.driver.machine.points.block {
            self.spare.start();
        }
        let slot = self.driver.add_source(source)?;
        if let Err(error) = self.policy_is_new(slot) {
            self.dedicated.tell_of(&error);
        }
        Ok(slot)
    }

    /// A source has got its policy.
    pub(super) fn policy_is_new(&self, slot: usize) -> io::Result<()> {
        let driver = &*self.driver;
        let debt = driver.owe();
        driver.advisor.has_new_policy(slot);
        let sources = driver.registry.pin();
        driver.advisor.refresh(&sources, slot);
        let starts = self.on_demand
            && driver.machine.dedicated() == 0
            && driver.advisor.wants_dedicated(&sources, slot);
        drop(sources);
        let set = if starts { self.dedicated.set(1) } else { Ok(()) };
        drop(debt);
        set
    }

    /// How many dedicated kernel threads poll, from now on (`PIOM_DEDICATED`; 16 at the most). What is pending changes
    /// its method, if its policy says so.
    ///
    /// # Context
    /// Not the progress path.
    ///
    /// # Errors
    /// The kernel gives no thread.
    pub fn set_dedicated(&self, threads: usize) -> io::Result<()> {
        self.dedicated.set(threads)?;
        self.driver.ensure_watched();
        Ok(())
    }

    /// Looks for events once. True if something was done.
    ///
    /// # Context
    /// Anywhere, signal handlers included.
    pub fn poll(&self, point: Point) -> bool {
        self.driver.poll(point)
    }

    /// Makes sure that outstanding requests are detected: called before a library returns to the application. A few
    /// loads where a thread polls or watches already.
    ///
    /// # Context
    /// Not a signal handler.
    ///
    /// # Wakes
    /// No thread.
    #[inline]
    pub fn ensure_watched(&self) {
        self.driver.ensure_watched();
    }

    /// Whether the next event of this source wakes the background watcher, which then polls all that is unattended: a
    /// few loads. If so, a source that arms itself after this need not have it watched by [`Manager::ensure_watched`].
    ///
    /// # Context
    /// Anywhere, the progress path included.
    #[inline]
    pub fn watches(&self, source: SourceId) -> bool {
        self.driver.watches(source.slot())
    }

    /// The caller polls this source itself, without [`Manager::wait`], until the result is dropped: meanwhile no other
    /// thread is asked to watch it. Dropping the result does what [`Manager::ensure_watched`] does.
    ///
    /// # Context
    /// Not the progress path. The thread neither waits nor runs anything else meanwhile.
    ///
    /// # Wakes
    /// No thread, but the background watcher where this is called very often for sockets: it then polls along.
    #[must_use = "dropped at once, it has the source watched at once"]
    pub fn looking(&self, source: SourceId) -> Looking<'_> {
        let sources = self.driver.registry.pin();
        Looking(self.driver.begin_polling(&sources, 1 << source.slot()))
    }

    /// Waits for `completion`: polls for a while, if the policy finds that worth while, then sleeps. The *mixed
    /// wait* of \[Trahay09\], 5.3.2.
    ///
    /// # Context
    /// Green and kernel threads; not the progress path.
    ///
    /// # Blocking
    /// Blocks the green thread, or the kernel thread.
    pub fn wait(&self, completion: &Completion, hints: impl Into<Hints>) {
        self.wait_prepared(completion, hints, None, &|| ());
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
        self.wait_prepared(completion, hints, Some(deadline), &|| ())
    }

    /// As [`Manager::wait`], or until `deadline`; `before_sleep` is called each time before the wait sleeps. There a
    /// library makes its source say that the owner of a request does not ask for its end any more
    /// ([`Source::unattended`]): as long as the wait polls, no other thread has to be woken for it.
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
        budget::spend();
        wait::wait(&self.driver, completion, hints.into(), deadline, before_sleep)
    }

    /// How often a point has found something so far.
    pub fn hits(&self, point: Point) -> u64 {
        let by_source = self.driver.counters().sources;
        let polls: u64 = by_source.iter().map(|source| source.at(point).hits).sum();
        let blocking = match point {
            Point::Block => self.driver.tasks.blocking_hits.load(Relaxed),
            _ => 0,
        };
        polls + blocking
    }

    /// What the manager has done so far, by source, point and kernel thread.
    ///
    /// # Context
    /// Not the progress path (it allocates).
    pub fn counters(&self) -> Counters {
        self.driver.counters()
    }

    /// How many light tasks there were, and what has become of them.
    pub fn tasks(&self) -> TaskCounts {
        self.driver.tasks.tree.counts.get()
    }

    /// The points that are on.
    pub fn points(&self) -> Points {
        self.driver.machine.points
    }

    /// The mode it was built for.
    pub fn mode(&self) -> Mode {
        self.driver.machine.mode
    }

    /// Offers work to idle virtual processors that the caller could do at once, but an idle core as well: to begin a
    /// request, say. True: the caller leaves it to the source, which then is pending, and a poller on another core
    /// takes it. False: no such poller is there, and the caller does it. If that happens again and again, an idle
    /// virtual processor stays awake for the next offer (*spinning helper*).
    ///
    /// # Context
    /// Not the progress path.
    ///
    /// # Wakes
    /// No thread.
    pub fn offer(&self) -> bool {
        self.driver.offer()
    }

    /// How many compute virtual processors have nothing to run, the caller's own not counted: each is a core that could
    /// take a light task at once. None without a runtime in smp mode. What it says may be over when it has been said.
    ///
    /// # Context
    /// Anywhere, the progress path included.
    pub fn idle_cores(&self) -> usize {
        self.driver.machine.idle_cores()
    }

    /// Whether every compute virtual processor is busy, the caller's own not counted.
    pub fn is_loaded(&self) -> bool {
        self.driver.machine.is_loaded()
    }

    /// Whether others want the core of a thread that polls: every compute virtual processor is busy, or other
    /// processes took the core of late when it was offered ([`Manager::looked`]).
    pub fn is_crowded(&self) -> bool {
        self.driver.is_crowded()
    }

    /// The caller has looked for events, `found` some or not, and will look again. One of many looks in vain lets other
    /// kernel threads have the core: one of them may be the sender. For how long they had it, as far as that is no part
    /// of the caller's looking: a thread that computes had it for longer.
    ///
    /// # Context
    /// Not a signal handler.
    ///
    /// # Blocking
    /// The calling kernel thread, while others have its core.
    ///
    /// # Wakes
    /// No thread.
    #[inline]
    pub fn looked(&self, found: bool) -> Duration {
        self.driver.looked(found)
    }

    /// The caller, which does not wait, begins to look for events: a test. [`Manager::glanced`] follows.
    ///
    /// # Context
    /// Not a signal handler.
    ///
    /// # Blocking
    /// No thread.
    ///
    /// # Wakes
    /// No thread.
    #[inline]
    pub fn glance(&self) -> Glance {
        self.driver.glance()
    }

    /// As [`Manager::looked`], at the end of a look that began with [`Manager::glance`]: a caller that computes between its
    /// looks keeps its core for most of them.
    #[inline]
    pub fn glanced(&self, glance: Glance, found: bool) {
        self.driver.glanced(glance, found);
    }
}
