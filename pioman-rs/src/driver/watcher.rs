//! The background watcher, a kernel thread that sleeps in its `epoll` set for ever; and the pool of spare kernel
//! threads for requests that block.
//!
//! The watcher sleeps in `epoll_wait`: arming the set is enough to give it the watch, no wake-up is needed. When an
//! event comes it treats all that there is (completes requests, answers rendezvous), then sleeps again, armed if a
//! source is still unattended and no other thread watches.
//!
//! While attended requests are pending for which no descriptor is armed, the watcher looks twice a second ([`Seldom`]):
//! a peer may need an answer while the owner stays away. The first such request after a quiet time wakes the watcher
//! once.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Once};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use marcel::plumbing::KernelMutex;
use marcel::plumbing::Sleeper;
use marcel::plumbing::lwp::{LwpPool, prefer_current_thread, program_stack};
use marcel::plumbing::signal::spawn_blocked;

use crate::driver::core::Driver;
use crate::driver::polling_mode::PollingMode;
use crate::kernel_threads::library_thread;
use crate::progress::point::Point;
use crate::progress::registry::Pinned;
use crate::stderr::say;

/// The kernel threads of a manager that block.
pub(crate) struct SpareThreads {
    shared: Arc<Shared>,
    watcher: KernelMutex<Option<JoinHandle<()>>>,
    lwps: Arc<LwpPool>,
    most: usize,
}

struct Shared {
    driver: Arc<Driver>,
    stopping: AtomicBool,
    /// Immortal, as sleepers are; a manager that never blocks has none.
    sleeper: &'static Sleeper,
}

impl std::fmt::Debug for SpareThreads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpareThreads").field("lwps", &self.lwps).finish()
    }
}

impl SpareThreads {
    /// The watcher's descriptor is had here: by the time that the watcher is wanted, the program may have used up its
    /// descriptors.
    pub(crate) fn new(driver: Arc<Driver>, lwps: usize) -> io::Result<SpareThreads> {
        let sleeper: &'static Sleeper = Box::leak(Box::new(Sleeper::new()));
        if driver.machine.points.block {
            sleeper.fd()?;
        }
        let shared = Arc::new(Shared { driver, stopping: AtomicBool::new(false), sleeper });
        Ok(SpareThreads {
            shared,
            watcher: KernelMutex::new(None),
            lwps: Arc::new(LwpPool::new(lwps)),
            most: lwps,
        })
    }

    /// Tries to have `n` spare threads for requests that block, up to the bound of the pool; how many there are.
    pub(crate) fn provide(&self, n: usize) -> usize {
        let _ = self.lwps.ensure(n); // refused: the caller makes do with the threads that there are
        self.shared.driver.tasks.lwps.get_or_init(|| self.lwps.clone());
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

    /// Starts the watcher, if it does not run. Where the kernel gives no thread for it, that is told, and others look
    /// for events (see [`Machine::has_watcher`](crate::progress::machine::Machine::has_watcher)) until a later call has
    /// more luck.
    pub(crate) fn start(&self) {
        static TOLD: Once = Once::new();
        if let Err(error) = self.try_start() {
            TOLD.call_once(|| {
                say(format_args!(
                    "pioman: no background watcher ({error}): idle virtual processors, waits and ticks look for events"
                ));
            });
        }
    }

    fn try_start(&self) -> io::Result<()> {
        let mut watcher = self.watcher.lock();
        if watcher.is_none() {
            self.shared.driver.background.set.add_sleeper(self.shared.sleeper.fd()?)?;
            let shared = self.shared.clone();
            let thread =
                std::thread::Builder::new().name("pioman-watch".into()).stack_size(program_stack());
            let watch = move || library_thread(|| shared.watch());
            *watcher = Some(spawn_blocked(thread, watch)?);
            self.shared.driver.machine.has_started_watcher(self.shared.sleeper);
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
    fn next(&mut self, driver: &Driver) -> Option<Instant> {
        if !driver.background.looks_seldom() {
            self.next = None;
        } else if self.next.is_none() {
            self.next = Some(Instant::now() + SELDOM);
        }
        self.next
    }

    /// The sources to look at now, if a look is due.
    fn due(&mut self, driver: &Driver, sources: &Pinned<'_>) -> u64 {
        let now = Instant::now();
        if self.next.is_none_or(|next| now < next) {
            return 0;
        }
        self.next = Some(now + SELDOM);
        let pending = sources.pending_of(u64::MAX);
        self.quiet = if pending == 0 { self.quiet + 1 } else { 0 };
        if self.quiet == QUIET {
            self.quiet = 0;
            driver.background.set_seldom(false);
            // A submitter that read the word before relies on the looks: they go on if its request is pending. The
            // submitter publishes its request, pins (`Driver::ensure_watched`), then reads the word; this fence pairs
            // with its pin, so that one of the two threads sees what the other one wrote.
            let fenced = driver.registry.fence_pins();
            driver.background.set_seldom(!fenced || sources.pending_of(u64::MAX) != 0);
        }
        pending
    }
}

impl Shared {
    fn watch(&self) {
        prefer_current_thread();
        let driver = &*self.driver;
        let (machine, set) = (&driver.machine, &driver.background.set);
        machine.wake_up.probe();
        let mut polling_mode = PollingMode::new(driver);
        let mut seldom = Seldom::default();
        while !self.stopping.load(SeqCst) {
            // Without a runtime there are no ticks but these.
            let pacer = (!machine.is_served()).then(|| driver.try_pace(Point::Tick)).flatten();
            // Tasks that no other thread runs are run here; as long as there are any, at the tick's pace.
            let paced = driver.tasks.visit_by_watcher() || pacer.is_some();
            let soon = paced.then(|| Instant::now() + machine.tick_period);
            let soon = [soon, polling_mode.next(), seldom.next(driver)].into_iter().flatten().min();
            let mut reported = 0;
            self.sleeper.sleep_in(|| self.stopping.load(SeqCst), || reported = set.sleep(soon));
            machine.wake_up.found();
            let sources = driver.registry.pin();
            sources.acknowledge(reported);
            let due = polling_mode.polls() | seldom.due(driver, &sources);
            let these = (driver.awaited() | due) & !polling_mode.left_to_others() | reported;
            let found = driver.drain(Point::Block, &sources, these) != 0;
            set.woken(found);
            drop(pacer);
            polling_mode.looked(&sources, found);
            // Nothing more comes, or another thread polls, or the one that sleeps is armed. (Armed *again* if that is
            // another thread: what woke this one may have been meant for both, and is gone now.)
            driver.arm(Point::Block, &sources);
        }
    }
}

impl Drop for SpareThreads {
    fn drop(&mut self) {
        self.shared.stopping.store(true, SeqCst);
        self.shared.sleeper.notify();
        if let Some(thread) = self.watcher.lock().take() {
            // The manager's last owner may be a value that the watcher has just dropped: it does not wait for itself.
            if thread.thread().id() == std::thread::current().id() {
                return;
            }
            let _ = thread.join();
            if let Ok(fd) = self.shared.sleeper.fd() {
                self.shared.driver.background.set.remove_sleeper(fd);
            }
        }
        self.shared.sleeper.retire();
    }
}
