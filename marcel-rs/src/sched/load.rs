//! What an I/O manager may know of a runtime.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{
    Ordering::{Relaxed, SeqCst},
    fence,
};

use crate::sched::here;
use crate::sched::mode::Mode;
use crate::sched::shared::Shared;
use crate::sched::signal_target::SignalTarget;
use crate::sched::tick;
use crate::sched::vp::{Kind, Vp};

/// A view of how loaded a runtime is, for the I/O manager. Cheap to clone.
#[derive(Clone)]
pub struct Load(pub(crate) Arc<Shared>);

impl Load {
    /// Number of compute virtual processors.
    pub fn compute_vps(&self) -> usize {
        self.0.vps(Kind::Compute).len()
    }

    /// Whether the runtime stops, or has stopped: its virtual processors look for nothing any more.
    pub fn is_over(&self) -> bool {
        self.0.is_stopping()
    }

    /// How many of them run a thread now.
    pub fn busy_compute_vps(&self) -> usize {
        self.0.busy(Kind::Compute)
    }

    /// Number of reactive virtual processors.
    pub fn reactive_vps(&self) -> usize {
        self.0.vps(Kind::Reactive).len()
    }

    /// Wakes a virtual processor that sleeps, a compute one if there is one: it will call the I/O manager.
    /// False if none sleeps. Progress path.
    pub fn wake_one(&self) -> bool {
        self.0.wake_sleeper(Kind::Compute) || self.0.wake_sleeper(Kind::Reactive)
    }

    /// As [`Load::wake_one`], one that stands on one of the cores that `wanted` accepts: a compute one. Progress path.
    pub fn wake_on(&self, wanted: &dyn Fn(usize) -> bool) -> bool {
        self.0.wake_sleeper_on(wanted)
    }

    /// Whether every compute virtual processor on one of the cores that `wanted` accepts runs a thread now; true if
    /// there is none.
    pub fn busy_on(&self, wanted: &dyn Fn(usize) -> bool) -> bool {
        let there = |vp: &&&Vp| vp.place.core.is_some_and(wanted);
        self.0.vps(Kind::Compute).iter().filter(there).all(|vp| vp.is_busy())
    }

    /// Starts the tick of every busy virtual processor. The caller has made visible what
    /// [`Hooks::wants_ticks`](crate::Hooks::wants_ticks) looks at. Progress path: system calls that do not block.
    pub fn arm_ticks(&self) {
        // Pairs with the fences in `Worker::become_busy` and in the tick's handler.
        fence(SeqCst);
        for vp in self.0.all_vps() {
            if vp.is_busy() {
                vp.tick.arm();
            }
        }
    }

    /// The kernel thread of a virtual processor that is busy, which a signal makes call
    /// [`Hooks::signalled`](crate::Hooks::signalled): the caller's own, if that is one; else a compute one before a
    /// reactive one. With it a way to see whether the virtual processor is still busy: if it is after a
    /// sequentially consistent fence, what was made visible before is seen before it sleeps.
    ///
    /// # Context
    /// Anywhere, signal handlers included.
    pub fn signal_target(&self) -> Option<(&'static Vp, SignalTarget)> {
        let fits = |vp: &&'static Vp| vp.is_busy() && vp.tick.is_there();
        let own = here::vp().filter(fits).filter(|own| {
            self.0.all_vps().any(|vp| std::ptr::eq(vp, *own)) // and of this runtime
        });
        let vp = own.or_else(|| self.0.all_vps().find(fits))?;
        let thread = vp.tid.load(Relaxed) as u32;
        let vector = vp.vector.load(Relaxed);
        Some((vp, SignalTarget { thread, signal: tick::number() as u32, vector }))
    }

    /// The runtime's mode.
    pub fn mode(&self) -> Mode {
        self.0.mode
    }
}

impl fmt::Debug for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Load({} of {} busy)", self.busy_compute_vps(), self.compute_vps())
    }
}
