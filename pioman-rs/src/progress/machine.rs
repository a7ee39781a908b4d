//! What detection may use: virtual processors, kernel threads, the points that are on.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::Duration;

use marcel::plumbing::Sleeper;
use marcel::{Load, Mode, topology};

use crate::progress::point::Points;
use crate::progress::policy::contract::{Limit, Snapshot};
use crate::progress::short_slices::ShortSlices;
use crate::progress::wake_up::WakeUp;

/// The settings of a manager, the runtime that it serves, and the kernel threads that it has.
pub(crate) struct Machine {
    pub(crate) mode: Mode,
    pub(crate) points: Points,
    /// The longest time to poll before sleeping.
    pub(crate) limit: Limit,
    /// Period of the tick, and of pollers that keep its pace.
    pub(crate) tick_period: Duration,
    pub(crate) wake_up: WakeUp,
    /// More processes of this job run on this machine than there are cores for them.
    pub(crate) is_oversubscribed: bool,
    pub(crate) short_slices: ShortSlices,
    /// The runtime's virtual processors, once there is a runtime that has any.
    load: OnceLock<Load>,
    /// Where the background watcher sleeps, once it runs.
    watcher: OnceLock<&'static Sleeper>,
    /// Dedicated kernel threads that are switched on.
    dedicated: AtomicUsize,
}

impl Machine {
    pub(crate) fn new(
        mode: Mode,
        points: Points,
        limit: Limit,
        tick_period: Duration,
        short_slices: ShortSlices,
    ) -> Machine {
        Machine {
            mode,
            points,
            limit,
            tick_period,
            wake_up: WakeUp::new(),
            is_oversubscribed: topology::is_oversubscribed(),
            short_slices,
            load: OnceLock::new(),
            watcher: OnceLock::new(),
            dedicated: AtomicUsize::new(0),
        }
    }

    /// Whether progress outside calls is on at all.
    #[inline]
    pub(crate) fn progresses(&self) -> bool {
        self.points != Points::NONE
    }

    /// The runtime's virtual processors; none in mode no-thread.
    #[inline]
    pub(crate) fn load(&self) -> Option<&Load> {
        self.load.get()
    }

    /// Whether there are virtual processors that look for events; they do not any more once their runtime stops.
    pub(crate) fn is_served(&self) -> bool {
        self.load().is_some_and(|load| !load.is_over())
    }

    /// The manager serves this runtime from now on.
    pub(crate) fn serve(&self, load: Load) {
        let _ = self.load.set(load);
    }

    /// Whether ticks find events: of busy virtual processors, or of the background watcher.
    pub(crate) fn can_tick(&self) -> bool {
        self.points.tick && (self.is_served() || self.watcher.get().is_some())
    }

    /// Whether peers can interrupt: a virtual processor computes.
    pub(crate) fn can_interrupt(&self) -> bool {
        let on = self.points.interrupt && self.points.tick;
        on && self.load().is_some_and(|load| load.signal_target().is_some())
    }

    /// The background watcher runs, and sleeps here.
    pub(crate) fn has_started_watcher(&self, sleeper: &'static Sleeper) {
        let _ = self.watcher.set(sleeper);
    }

    /// Where the background watcher sleeps, if it runs.
    #[inline]
    pub(crate) fn watcher(&self) -> Option<&'static Sleeper> {
        self.watcher.get().copied()
    }

    /// Whether the background watcher may sleep on sources: the point is on, and the kernel has given the thread.
    #[inline]
    pub(crate) fn has_watcher(&self) -> bool {
        self.points.block && self.watcher.get().is_some()
    }

    /// Wakes the background watcher; false if there is none.
    pub(crate) fn call_watcher(&self) -> bool {
        self.watcher().inspect(|sleeper| sleeper.notify()).is_some()
    }

    /// Dedicated kernel threads that are switched on.
    #[inline]
    pub(crate) fn dedicated(&self) -> usize {
        self.dedicated.load(SeqCst)
    }

    /// Dedicated threads with a smaller number than this are switched on.
    pub(crate) fn set_dedicated(&self, number: usize) {
        self.dedicated.store(number, SeqCst);
    }

    /// Whether every compute virtual processor is busy, the caller's own not counted.
    pub(crate) fn is_loaded(&self) -> bool {
        let Some(load) = self.load() else { return false };
        let own = marcel::current_vp().is_some_and(|vp| vp.kind() == marcel::Kind::Compute);
        let compute = load.compute_vps();
        self.mode == Mode::Smp && compute > 0 && load.busy_compute_vps() >= compute + own as usize
    }

    /// How many compute virtual processors have nothing to run, the caller's own not counted.
    pub(crate) fn idle_cores(&self) -> usize {
        let Some(load) = self.load().filter(|_| self.mode == Mode::Smp) else { return 0 };
        let compute = |vp: &marcel::Vp| vp.kind() == marcel::Kind::Compute;
        // The caller's own looks idle when its scheduler calls.
        let own = marcel::current_vp().is_some_and(|vp| compute(vp) && !vp.is_busy());
        load.compute_vps().saturating_sub(load.busy_compute_vps() + usize::from(own))
    }

    /// The present state, for a policy. A few loads.
    #[inline]
    pub(crate) fn snapshot(&self) -> Snapshot {
        let load = self.load();
        Snapshot {
            mode: self.mode,
            vps: load.map_or(0, |load| load.compute_vps()),
            busy_vps: load.map_or(0, |load| load.busy_compute_vps()),
            loaded: self.is_loaded(),
            runnable: marcel::plumbing::others_runnable(),
            limit: self.limit,
            wake_up: self.wake_up.cost(),
            has_watcher: self.has_watcher(),
            dedicated: if self.progresses() { self.dedicated.load(Relaxed) } else { 0 },
        }
    }
}
