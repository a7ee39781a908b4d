//! The source: see the module above.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

use marcel::plumbing::Spin;
use marcel::plumbing::clock::monotonic;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::alarm::{Alarm, NEVER};
use super::heap::{Heap, Node};
use crate::completion::one_shot::Completion;
use crate::completion::wakers;
use crate::fork::Birth;
use crate::kernel_limits::explain;
use crate::manager::Manager;
use crate::manager::own_sources::OwnSource;
use crate::progress::source::Source;

/// Deadlines that one look takes at most.
const BATCH: usize = 64;

/// See the module above.
pub(crate) struct Timers {
    heap: Spin<Heap>,
    /// Of the heap; changed under its lock.
    earliest: AtomicU64,
    /// The earliest deadline that the last look found over.
    found: AtomicU64,
    fd: OwnedFd,
    alarm: Alarm,
    /// The same moment on both clocks.
    epoch: (Instant, u64),
    birth: Birth,
}

impl Timers {
    fn new() -> io::Result<Timers> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // `Instant` is the same clock, but does not say so: the closest pair of several looks.
        let look = || {
            let (before, between, after) = (Instant::now(), monotonic(), Instant::now());
            (after - before, before, between)
        };
        let (_, instant, ns) = (0..8).map(|_| look()).min().unwrap_or_else(look);
        Ok(Timers {
            heap: Spin::new(Heap::default()),
            earliest: AtomicU64::new(NEVER),
            found: AtomicU64::new(NEVER),
            fd,
            alarm: Alarm::new(),
            epoch: (instant, ns),
            birth: Birth::here(),
        })
    }

    fn ns(&self, deadline: Instant) -> u64 {
        let (instant, ns) = self.epoch;
        let after = deadline.saturating_duration_since(instant).as_nanos();
        u64::try_from(after).map_or(NEVER - 1, |after| ns.saturating_add(after).min(NEVER - 1))
    }

    /// Works on the heap. Not the progress path.
    fn with<T>(&self, f: impl FnOnce(&mut Heap) -> T) -> T {
        self.heap.with(|heap| self.noting(heap, f))
    }

    /// Works on the heap, whose lock is held.
    fn noting<T>(&self, heap: &mut Heap, f: impl FnOnce(&mut Heap) -> T) -> T {
        let result = f(heap);
        self.earliest.store(heap.earliest().unwrap_or(NEVER), SeqCst);
        result
    }

    /// Has `target` completed at `deadline`. The caller makes sure that it is watched ([`Manager::ensure_watched`]).
    ///
    /// # Safety
    /// `node` and `target` stay in place until `target` is complete by that, or [`Timers::remove`] has returned. The
    /// node is in no heap.
    pub(crate) unsafe fn insert(&self, node: &Node, deadline: Instant, target: &Completion) {
        let deadline = self.ns(deadline);
        // SAFETY: the caller's promise.
        self.with(|heap| unsafe { heap.insert(node, deadline, target) });
    }

    /// Takes a deadline back; false if it is over. No thread touches node and target by it any more.
    pub(crate) fn remove(&self, node: &Node) -> bool {
        self.with(|heap| heap.remove(node))
    }

    /// Sets the descriptor, or turns it off.
    fn set(&self, at: u64) {
        let at = if at == NEVER { 0 } else { at.max(1) };
        let (tv_sec, tv_nsec) = ((at / 1_000_000_000) as i64, (at % 1_000_000_000) as _);
        let value = Timespec { tv_sec, tv_nsec };
        let once = Itimerspec { it_interval: Timespec::default(), it_value: value };
        let _ = timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &once);
    }
}

// SAFETY: atomics, a clock without a system call, a heap from which is only taken; the lock is only tried.
unsafe impl Source for Timers {
    fn name(&self) -> &str {
        "timer"
    }

    fn poll(&self) -> bool {
        let earliest = self.earliest.load(Relaxed);
        if earliest == NEVER {
            return false;
        }
        let now = monotonic();
        if now < earliest {
            return false;
        }
        // Callbacks may make and drop timers: they are called when the lock is free again.
        let held = wakers::hold();
        let complete = |heap: &mut Heap| {
            self.found.store(heap.earliest().unwrap_or(NEVER), Relaxed);
            for taken in 0..BATCH {
                let Some(target) = heap.due(now) else { return taken > 0 };
                // SAFETY: in place until it is complete, or `remove` has had the lock: this is the last touch.
                unsafe { &*target }.complete();
            }
            true
        };
        let found = self.heap.try_with(|heap| self.noting(heap, complete));
        drop(held);
        found.unwrap_or(false)
    }

    fn pending(&self) -> bool {
        self.earliest.load(Relaxed) != NEVER
    }

    /// Of several that one look has found, the one that was over first. (Another kernel thread's look may have come
    /// between: then it is that one's.)
    fn happened(&self) -> Option<Instant> {
        let (instant, ns) = self.epoch;
        let after = self.found.load(Relaxed).checked_sub(ns)?;
        instant.checked_add(Duration::from_nanos(after))
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.fd.as_raw_fd())
    }

    fn arm(&self) -> bool {
        if !self.birth.is_here() {
            return !self.pending(); // the descriptor is the parent's: a waiter in a child of fork polls
        }
        self.alarm.arm(&self.earliest, monotonic, |at| self.set(at))
    }

    fn disarm(&self) {}
}

impl Manager {
    /// The manager's timers.
    ///
    /// # Errors
    /// The kernel gives no descriptor for them.
    pub(crate) fn timers(&self) -> io::Result<&OwnSource<Timers>> {
        self.own_source(|| Timers::new().map_err(explain))
    }
}

/// The moment `time` from now; in effect never, if that is beyond the clock.
pub(crate) fn from_now(time: Duration) -> Instant {
    let now = Instant::now();
    let century = Duration::from_secs(100 * 365 * 24 * 3600);
    now.checked_add(time).unwrap_or(now + century)
}
