//! What is left of a virtual processor when its runtime has ended, and how the next runtime uses it again.
//!
//! Virtual processors are immortal, as control blocks are: a waker notifies the home's sleeper after the push, when the
//! thread, and its runtime, may have ended; and programs keep references. (Where threads migrate, a waker also looks
//! for a neighbour that may take the thread. That takes some instructions, and the runtime's end waits for them:
//! `Vp::wakers`.) So a runtime's end takes away what its workers share, and keeps each worker for a virtual processor
//! of the same kind, number and place, for which everything that other threads may look at stays as it was; a standby
//! for its original. A late notification wakes that one for nothing.
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
            worker.original.is_none()
                && worker.kind() == kind
                && worker.index() == index
                && worker.place == place
                && worker.fifo == fifo
        };
        if let Some(worker) = take(fits) {
            // SAFETY: out of the list.
            unsafe { worker.restore((shared, hooks), order, alone) };
            return worker;
        }
        let spawned = Spawned::new(alone, fifo);
        let link = Link::new((shared, hooks));
        Box::leak(Box::new(Worker::new(link, (kind, index), place, order, spawned)))
    }

    /// A standby for `original` that has no kernel thread yet: the one that it had in another runtime, or a fresh one.
    /// (Its number and its place follow from its original's, so they are the same.)
    pub(crate) fn make_standby(original: &'static Worker) -> &'static Worker {
        let parts = (original.shared.shared().clone(), original.shared.hooks_owned());
        let is_its = |worker: &&Worker| {
            worker.original.is_some_and(|other| std::ptr::eq(other, &original.vp))
        };
        if let Some(worker) = take(is_its) {
            let order = parts.0.new_order(original.kind());
            // SAFETY: out of the list.
            unsafe { worker.restore(parts, order, true) };
            return worker;
        }
        Box::leak(Box::new(Worker::new_standby(original, parts)))
    }

    /// Is a runtime's again.
    ///
    /// # Safety
    /// It was in the list, and is there no more: it has neither kernel thread nor runtime.
    unsafe fn restore(&'static self, parts: RuntimeParts, order: Order, alone: bool) {
        // SAFETY: the caller's promise.
        unsafe {
            self.shared.attach(parts);
            self.idle_core(|core| {
                core.order = order;
                core.spawned.reset(alone);
            });
        }
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
        // Its standby, which has been abandoned before, stands by for no other one.
        self.set_standby(None);
        SHELLS.lock().push(self);
    }
}

/// Takes one out of the list that `fits`.
fn take(fits: impl Fn(&&Worker) -> bool) -> Option<&'static Worker> {
    let mut shells = SHELLS.lock();
    let at = shells.iter().position(fits)?;
    Some(shells.swap_remove(at))
}

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
