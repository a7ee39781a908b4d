//! Spare kernel threads: one that sleeps in the spare watch for ever, and a pool for requests that block.
//!
//! The watcher sleeps in `epoll_wait`; nobody has to wake it to give it the watch, arming the set is enough.
//! When an event comes it treats whatever there is (completes requests, answers rendezvous), then sleeps
//! again, armed if something is still unattended and nobody else watches.
//!
//! While attended requests are pending for which no descriptor is armed, the watcher looks twice a second ([`Seldom`]): a peer
//! may need an answer while the owner stays away. The first such request after a quiet time wakes the watcher once.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use marcel::plumbing::Sleeper;
use marcel::plumbing::lwp::{LwpPool, prefer_current_thread};

use crate::manager::Core;
use crate::manager::point::Point;
use crate::manager::registry::Pinned;
use crate::observe::threads::library_thread;
use crate::watch::patrol::Patrol;

pub(crate) struct Spare {
    shared: Arc<Shared>,
    watcher: Mutex<Option<JoinHandle<()>>>,
    lwps: Arc<LwpPool>,
    most: usize,
}

struct Shared {
    core: Arc<Core>,
    stopping: AtomicBool,
    /// Immortal, as sleepers are; a manager that never blocks has none.
    sleeper: &'static Sleeper,
}

impl std::fmt::Debug for Spare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spare").field("lwps", &self.lwps).finish()
    }
}

impl Spare {
    pub(crate) fn new(core: Arc<Core>, lwps: usize) -> Spare {
        let sleeper = Box::leak(Box::new(Sleeper::new()));
        let shared = Arc::new(Shared { core, stopping: AtomicBool::new(false), sleeper });
        Spare { shared, watcher: Mutex::new(None), lwps: Arc::new(LwpPool::new(lwps)), most: lwps }
    }

    /// Tries to have `n` spare threads for requests that block, up to the bound of the pool; how many there are.
    pub(crate) fn provide(&self, n: usize) -> usize {
        let _ = self.lwps.ensure(n); // refused: who asks makes do with what there is
        self.shared.core.lwps.get_or_init(|| self.lwps.clone());
        self.lwps.threads()
    }

    /// The pool of spare kernel threads.
    pub(crate) fn pool(&self) -> &Arc<LwpPool> {
        &self.lwps
    }

    /// How many threads it may have (`PIOM_SPARE_LWP`).
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Starts the watcher, if it does not run. Where the kernel gives no thread for it, that is told, and others look for
    /// events (see [`Core::has_watcher`]) until a later call has more luck.
    pub(crate) fn start(&self) {
        static TOLD: Once = Once::new();
        if let Err(error) = self.try_start() {
            TOLD.call_once(|| {
                eprintln!(
                    "pioman: no spare kernel thread ({error}): idle virtual processors, waits and ticks look for events"
                );
            });
        }
    }

    fn try_start(&self) -> io::Result<()> {
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        if watcher.is_none() {
            self.shared.core.spare.add_sleeper(self.shared.sleeper.fd()?)?;
            let shared = self.shared.clone();
            let thread = std::thread::Builder::new()
                .name("pioman-watch".into())
                .stack_size(256 * 1024)
                .spawn(move || library_thread(|| shared.watch()))?;
            *watcher = Some(thread);
            let _ = self.shared.core.watcher.set(self.shared.sleeper);
        }
        Ok(())
    }
}

/// Time between two looks at what is attended.
const SELDOM: Duration = Duration::from_millis(500);
/// After so many looks at which nothing was pending they end.
const QUIET: u32 = 3;

/// The watcher's looks at what is attended.
#[derive(Default)]
struct Seldom {
    next: Option<Instant>,
    quiet: u32,
}

impl Seldom {
    /// When the next look is due.
    fn next(&mut self, core: &Core) -> Option<Instant> {
        if !core.seldom.load(SeqCst) {
            self.next = None;
        } else if self.next.is_none() {
            self.next = Some(Instant::now() + SELDOM);
        }
        self.next
    }

    /// The sources to look at now, if a look is due.
    fn due(&mut self, core: &Core, sources: &Pinned<'_>) -> u64 {
        let now = Instant::now();
        if self.next.is_none_or(|next| now < next) {
            return 0;
        }
        self.next = Some(now + SELDOM);
        let pending = sources.pending_of(u64::MAX);
        self.quiet = if pending == 0 { self.quiet + 1 } else { 0 };
        if self.quiet == QUIET {
            self.quiet = 0;
            core.seldom.store(false, SeqCst);
            // A submitter that read the word before relies on the looks: they go on if its request is pending.
            core.seldom.store(sources.pending_of(u64::MAX) != 0, SeqCst);
        }
        pending
    }
}

impl Shared {
    fn watch(&self) {
        prefer_current_thread();
        let core = &self.core;
        core.wake_up.probe();
        let mut patrol = Patrol::new(core);
        let mut seldom = Seldom::default();
        while !self.stopping.load(SeqCst) {
            // Without a runtime there are no ticks but these.
            let ticks = core.load.get().is_none() && core.take_ticker();
            // Tasks that nobody else runs are run here; as long as there are any, at the tick's pace.
            let paced = core.tasks.visit_by_watcher(core) || ticks;
            let soon = paced.then(|| Instant::now() + core.tick_period);
            let soon = [soon, patrol.next(), seldom.next(core)].into_iter().flatten().min();
            let mut reported = 0;
            self.sleeper
                .sleep_in(|| self.stopping.load(SeqCst), || reported = core.spare.sleep(soon));
            core.wake_up.found();
            let sources = core.registry.pin();
            sources.acknowledge(reported);
            let found = core.drain(
                Point::Block,
                &sources,
                core.awaited() | patrol.polls() | seldom.due(core, &sources),
            );
            core.spare.woken(found);
            if ticks {
                core.release_ticker(Point::Tick, &sources);
            }
            patrol.looked(core, &sources, found);
            // Nothing more comes, or somebody polls, or whoever sleeps is armed. (Armed *again* if that is somebody
            // else: what woke us may have been meant for both, and is gone now.)
            core.cover(Point::Block, &sources);
        }
        patrol.end(core);
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        self.shared.stopping.store(true, SeqCst);
        self.shared.sleeper.notify();
        let watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The manager's last owner may be a value that the watcher has just dropped: it does not wait for itself.
        if let Some(thread) = watcher
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
            if let Ok(fd) = self.shared.sleeper.fd() {
                self.shared.core.spare.remove_sleeper(fd);
                self.shared.sleeper.retire();
            }
        }
    }
}
