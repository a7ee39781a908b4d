//! What is left of a virtual processor when its runtime has ended, and how the next runtime uses it again.
//!
//! Virtual processors are immortal, as control blocks are: a waker notifies the home's sleeper after the push, when the
//! thread, and its runtime, may have ended; and programs keep references. (Where threads migrate, a waker also looks
//! for a neighbour that may take the thread. That takes some instructions, and the runtime's end waits for them:
//! `Vp::wakers`.) So a runtime's end takes away what its workers share, and keeps each worker for a virtual processor
//! of the same kind, number and place, for which everything that other threads may look at stays as it was. A late
//! notification wakes that one for nothing.
//!
//! Rejected: counting references (the last decrement would free memory on the progress path); waiting until there are
//! no references left (they are not counted).

use std::sync::atomic::Ordering::*;

use crate::os::KernelMutex;
use crate::sched::policy::Order;
use crate::sched::spawned::Spawned;
use crate::sched::vp::{Kind, Place};
use crate::sched::worker::{Core, Link, RuntimeParts, Worker};

static SHELLS: KernelMutex<Vec<&'static Worker>> = KernelMutex::new(Vec::new());

impl Worker {
    /// A virtual processor that has no kernel thread yet: a recycled one, or a fresh one. `alone`: no other steals from
    /// it.
    pub(crate) fn make(
        (shared, hooks): RuntimeParts,
        (kind, index): (Kind, usize),
        place: Place,
        order: Order,
        alone: bool,
    ) -> &'static Worker {
        let fifo = shared.migrating();
        let fits = |worker: &&Worker| {
            worker.kind() == kind
                && worker.index() == index
                && worker.place == place
                && worker.fifo == fifo
        };
        let mut shells = SHELLS.lock();
        let Some(at) = shells.iter().position(fits) else {
            drop(shells);
            let spawned = Spawned::new(alone, fifo);
            return {
                let link = Link::new((shared, hooks));
                Box::leak(Box::new(Worker::new(link, (kind, index), place, order, spawned)))
            };
        };
        let worker = shells.swap_remove(at);
        drop(shells);
        // SAFETY: it is in the list no more, and it has neither kernel thread nor runtime.
        unsafe {
            worker.shared.attach((shared, hooks));
            worker.idle_core(|core| {
                core.order = order;
                core.spawned.reset(alone);
            });
        }
        worker
    }

    /// The kernel thread has ended, or was never started, and the runtime goes.
    ///
    /// # Safety
    /// That is so, and no other thread uses its [`Link`] any more.
    pub(crate) unsafe fn abandon(&'static self) {
        // SAFETY: the caller's promise.
        unsafe {
            self.idle_core(|core| {
                debug_assert!(core.live.is_empty() && core.spawned.is_empty());
                core.empty();
            });
        }
        self.stale_timers.store(0, Relaxed);
        self.busy.store(false, Relaxed);
        self.running.store(std::ptr::null_mut(), Relaxed);
        self.tid.store(0, Relaxed);
        while self.wakers.load(Acquire) > 0 {
            std::thread::yield_now(); // some instructions, and the kernel's turn
        }
        // SAFETY: the caller's promise.
        unsafe { self.shared.detach() };
        // A standby, and a virtual processor that has one, are not recycled: `Vp::standby` binds them for good.
        if self.standby.get().is_none() && self.original.is_none() {
            SHELLS.lock().push(self);
        } else {
            RETIRED.lock().push(self);
        }
    }
}

/// Workers that are not used again; kept reachable for leak checkers.
static RETIRED: KernelMutex<Vec<&'static Worker>> = KernelMutex::new(Vec::new());

impl Core {
    /// Gives back what costs memory.
    fn empty(&mut self) {
        self.order = Order::default();
        self.timers = Default::default();
        self.live = Vec::new();
        self.panicking = 0;
        self.run_next = None;
        self.meets = false;
    }
}
