//! The source through which a manager looks after all its event servers.
//!
//! One for each manager, made with its first server: servers come and go without a slot of the registry, and a manager
//! without servers pays nothing. Why a [`Source`] and not a light task for each server: a source is told when the last
//! poller leaves (*arm*), which is when requests have to be blocked on, and when one comes again (*disarm*); a light
//! task is called at the pace of the tick then. And the source is found wherever the manager looks: idle virtual
//! processors, switches, waits, the background watcher. In the tick's handler it does nothing, for callbacks are safe
//! code.
//!
//! `arm` hands requests to pool threads. The other requests (no callback for it, no thread to be had, the policy wants
//! it polled) are polled at the *pace* of the tick: the source's descriptor is a timer, so the thread that sleeps on
//! the manager's sources wakes up for it. The same timer, set to a moment, is used where a thread is about to poll: a
//! request was just submitted, or the poller is handing over its role. If no thread does, the timer wakes the
//! background watcher.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use marcel::plumbing::KernelMutex;
use marcel::plumbing::lwp::LwpPool;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::activity::TESTED;
use pioman::Manager;
use pioman::Source;
use pioman::SourceId;
use pioman::plumbing::{Birth, CoreHandle};

/// How long a thread that is about to poll may take to begin.
const MOMENT: Duration = Duration::from_micros(50);

/// A server, whatever its requests are.
pub(super) trait Served: Send + Sync {
    /// A round of polling.
    fn poll(&self) -> bool;
    /// The last poller has left.
    fn arm(&self) -> Armed;
}

/// How a server's requests are found while no thread polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Armed {
    /// Pool threads block on all of them, or there are none.
    Watched,
    /// Some are to be polled at the pace of the tick.
    Pace,
    /// A thread keeps on testing.
    Tested,
    /// A thread is about to poll.
    Soon,
}

type Servers = Arc<[Arc<dyn Served>]>;

pub(super) struct ServerSource {
    servers: KernelMutex<Servers>,
    /// Requests of all servers that have not ended.
    pub(super) pending: Arc<AtomicUsize>,
    /// Pool threads that servers may have, and how many they have.
    pub(super) max_blocked: usize,
    blocked: AtomicUsize,
    /// Those that have begun.
    begun: AtomicUsize,
    timer: OwnedFd,
    /// Whether the timer is set, so that others need not ask.
    is_set: AtomicBool,
    /// How often it was armed.
    armings: AtomicU64,
    /// When it fires.
    fires: KernelMutex<Option<Instant>>,
    pace: Duration,
    birth: Birth,
}

impl ServerSource {
    fn new(max_blocked: usize, pace: Duration) -> io::Result<ServerSource> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(ServerSource {
            servers: KernelMutex::new(Arc::new([])),
            pending: Arc::new(AtomicUsize::new(0)),
            max_blocked,
            blocked: AtomicUsize::new(0),
            begun: AtomicUsize::new(0),
            timer,
            is_set: AtomicBool::new(false),
            armings: AtomicU64::new(0),
            fires: KernelMutex::new(None),
            pace,
            birth: Birth::here(),
        })
    }

    /// That of `manager`, and by what name waits know it; the first call makes it.
    pub(super) fn of(manager: &Manager) -> io::Result<(Arc<ServerSource>, SourceId)> {
        let (_, most) = manager.blocking_pool();
        let period = CoreHandle::of(manager).tick_period();
        let made = manager.own_source(|| ServerSource::new(most, period))?;
        Ok((made.source.clone(), made.id))
    }

    /// In the tick's handler, which may have interrupted the holder of a lock; or in a child of fork, where that holder
    /// does not exist.
    fn is_out_of_bounds(&self) -> bool {
        marcel::in_tick() || !self.birth.is_here()
    }

    fn servers(&self) -> Servers {
        self.servers.lock().clone()
    }

    pub(super) fn add(&self, server: Arc<dyn Served>) {
        let mut servers = self.servers.lock();
        *servers = servers.iter().cloned().chain([server]).collect();
    }

    /// Takes a server out of the list. A poller that has copied the list may still use it.
    pub(super) fn remove(&self, server: &Arc<dyn Served>) {
        let mut servers = self.servers.lock();
        let left = servers.iter().filter(|other| !Arc::ptr_eq(other, server)).cloned().collect();
        let before = std::mem::replace(&mut *servers, left);
        drop(servers);
        drop(before); // outside the lock: closures of the library's may go with it
    }

    /// Takes one of the pool threads that servers may have.
    pub(super) fn take_thread(self: &Arc<Self>) -> Option<PoolThread> {
        let more = |n| (n < self.max_blocked).then_some(n + 1);
        self.blocked.fetch_update(SeqCst, SeqCst, more).ok()?;
        Some(PoolThread { servers: self.clone(), begun: false })
    }

    /// How many threads the pool needs so that no job of a server waits behind one that blocks.
    pub(super) fn threads_wanted(&self, pool: &LwpPool) -> usize {
        let others = pool.running().saturating_sub(self.begun.load(SeqCst));
        self.blocked.load(SeqCst) + others
    }

    fn fires(&self) -> MutexGuard<'_, Option<Instant>> {
        self.fires.lock()
    }

    /// Has the timer fire after this time, or not at all, which also makes it unreadable.
    fn set_timer(&self, fires: &mut Option<Instant>, after: Option<Duration>) {
        let at = after.map(|after| Instant::now() + after);
        let value = after.and_then(|after| after.try_into().ok()).unwrap_or_default();
        let once = Itimerspec { it_interval: Timespec::default(), it_value: value };
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once);
        *fires = at;
        self.is_set.store(at.is_some(), SeqCst);
    }

    /// Sees to it that the timer fires within this time.
    fn wake_within(&self, after: Duration) {
        let mut fires = self.fires();
        let now = Instant::now();
        if fires.is_none_or(|at| at <= now || at > now + after) {
            self.set_timer(&mut fires, Some(after));
        }
    }

    /// Cancels the timer, unless `armings` has advanced since `arming`.
    fn let_sleep(&self, arming: u64) {
        let mut fires = self.fires();
        if fires.is_some() && self.armings.load(SeqCst) == arming {
            self.set_timer(&mut fires, None);
        }
    }

    /// If the timer has fired, makes it unreadable: a thread that sleeps on it would wake up again at once.
    fn clear_fired(&self) {
        let mut fires = self.fires();
        if fires.is_some_and(|at| at <= Instant::now()) {
            self.set_timer(&mut fires, None);
        }
    }
}

/// One of the pool threads that servers may have. Dropping this gives it back.
pub(super) struct PoolThread {
    servers: Arc<ServerSource>,
    begun: bool,
}

impl PoolThread {
    /// It has begun with its job.
    pub(super) fn begins(&mut self) {
        self.begun = true;
        self.servers.begun.fetch_add(1, SeqCst);
    }
}

impl Drop for PoolThread {
    fn drop(&mut self) {
        if self.begun {
            self.servers.begun.fetch_sub(1, SeqCst);
        }
        self.servers.blocked.fetch_sub(1, SeqCst);
    }
}

// SAFETY: `pending` is one load. `poll` returns at once in the tick's signal handler; `arm` and `disarm` are not called
// there (the manager arms from threads, the scheduler and its pool threads), and return at once as well.
unsafe impl Source for ServerSource {
    fn name(&self) -> &str {
        "servers"
    }

    fn poll(&self) -> bool {
        let idle = self.pending.load(Relaxed) == 0 && !self.is_set.load(Relaxed);
        if idle || self.is_out_of_bounds() {
            return false;
        }
        if self.is_set.load(Relaxed) {
            self.clear_fired();
        }
        self.servers().iter().fold(false, |found, server| server.poll() | found)
    }

    fn pending(&self) -> bool {
        self.pending.load(SeqCst) != 0
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.timer.as_raw_fd())
    }

    /// True always: what has come already is seen by the blocking callbacks, which return at once then, or by the next
    /// round.
    fn arm(&self) -> bool {
        if self.is_out_of_bounds() {
            return true;
        }
        let arming = self.armings.fetch_add(1, SeqCst) + 1;
        match self.servers().iter().map(|server| server.arm()).max() {
            Some(Armed::Soon) => self.wake_within(MOMENT),
            Some(Armed::Tested) => self.wake_within(TESTED),
            Some(Armed::Pace) => self.wake_within(self.pace),
            _ if self.is_set.load(SeqCst) => self.let_sleep(arming),
            _ => {}
        }
        true
    }

    fn disarm(&self) {
        if self.is_set.load(Relaxed) && !self.is_out_of_bounds() {
            self.let_sleep(self.armings.load(SeqCst));
        }
    }
}
