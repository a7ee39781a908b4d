//! Threads that never ran, as a policy sees them: the virtual processor's own, those in queues that several serve,
//! and its neighbours'.
//!
//! A started thread is stolen only in a runtime whose builder was told, unsafely, that its threads may migrate.
//! Then a virtual processor that has several to run puts all but one where it keeps what it has spawned, which then
//! is first in, first out (`share_surplus`), and one that finds nothing there looks into its neighbours' inboxes: an
//! inbox is taken as a whole, so any worker may take it. (Not a standby: no worker steals from it.)

use crossbeam_deque::{Injector, Steal};

use crate::recorder;
use crate::recorder::event;
use crate::sched::policy::{Fresh, Ready, Source, Why};
use crate::sched::spawned::Spawned;
use crate::sched::worker::{Core, Worker};
use crate::tcb::block::Tcb;
use crate::tcb::traits::Priority;

/// What `worker` may take.
pub(super) struct Reachable<'a> {
    pub(super) worker: &'a Worker,
    pub(super) spawned: &'a mut Spawned,
    /// See [`Core::wakes_next`].
    pub(super) wakes_next: &'a mut bool,
}

impl Fresh for Reachable<'_> {
    #[inline(always)]
    fn take(&mut self, priority: Priority, from: Source) -> Option<Ready> {
        let found = match (priority, from) {
            (Priority::Normal, Source::Own) => self.spawned.pop(),
            (Priority::Normal, Source::Anywhere) => {
                self.spawned.pop().or_else(|| self.shared().or_else(|| self.neighbours()))
            }
            (Priority::Normal, Source::OthersFirst) => {
                self.shared().or_else(|| self.spawned.pop_fairly())
            }
            _ if self.worker.shared.is_special() => self.unusual(priority),
            _ => None,
        };
        found.map(Ready::new)
    }
}

impl Reachable<'_> {
    #[cold]
    fn unusual(&mut self, priority: Priority) -> Option<&'static Tcb> {
        let worker = self.worker;
        if !worker.may_take() {
            return None;
        }
        let injector = worker.shared.injector(worker.kind(), priority);
        // To steal from an empty one costs a fence. A worker that is about to sleep looks again, after one of its own.
        if injector.is_empty() {
            return None;
        }
        let tcb = steal(injector)?;
        if !injector.is_empty() {
            self.wake_next();
        }
        Some(tcb)
    }

    /// There is more than it takes: a worker that is woken for it does the same. What is bound may not be seen by that one.
    fn wake_next(&mut self) {
        *self.wakes_next &= self.worker.shared.is_special();
        self.worker.shared.wake_for_work(self.worker.kind());
    }

    /// From the queues that several virtual processors serve.
    #[inline(never)]
    fn shared(&mut self) -> Option<&'static Tcb> {
        if !self.worker.may_take() {
            return None;
        }
        let shared = &self.worker.shared;
        if shared.is_special()
            && let Some(tcb) = shared
                .bound_to(&self.worker.place.path)
                .filter(|(_, queue)| !queue.is_empty())
                .find_map(|(_, queue)| steal(queue))
        {
            return Some(tcb);
        }
        let injector = shared.injector(self.worker.kind(), Priority::Normal);
        if injector.is_empty() {
            return None;
        }
        let tcb = self.spawned.take_from(injector)?;
        if !self.spawned.is_empty() || !injector.is_empty() {
            self.wake_next();
        }
        Some(tcb)
    }

    /// The oldest of the nearest neighbour that has some.
    #[inline(never)]
    fn neighbours(&mut self) -> Option<&'static Tcb> {
        if !self.worker.may_take() {
            return None;
        }
        let shared = &self.worker.shared;
        let vps = shared.vps(self.worker.kind());
        for &index in &self.worker.place.steal_order {
            let victim = vps[index];
            loop {
                match victim.stealer.steal() {
                    Steal::Success(tcb) => {
                        event!(
                            "steal",
                            thread = tcb.info.number(),
                            vp = self.worker.number(),
                            from = victim.number()
                        );
                        let from = victim.number();
                        recorder::often(
                            recorder::Kind::Steal,
                            tcb.info.number().into(),
                            from.into(),
                        );
                        if !victim.stealer.is_empty() {
                            self.wake_next();
                        }
                        return Some(tcb);
                    }
                    Steal::Empty => break,
                    Steal::Retry => {}
                }
            }
        }
        None
    }
}

/// One from a queue that several serve.
fn steal(injector: &Injector<&'static Tcb>) -> Option<&'static Tcb> {
    loop {
        match injector.steal() {
            Steal::Success(tcb) => return Some(tcb),
            Steal::Empty => return None,
            Steal::Retry => {}
        }
    }
}

impl Worker {
    /// Where threads migrate: others may have what we do not run next, now or when they have nothing to do.
    pub(super) fn share_surplus(&self, core: &mut Core) {
        while let Some(tcb) = core.order.spare(Tcb::may_migrate) {
            core.spawned.push(tcb);
            self.shared.wake_for_work(self.kind());
        }
    }

    /// Where threads migrate: what was woken for a neighbour that is busy.
    pub(super) fn rob_inboxes(&self, core: &mut Core) -> bool {
        if !self.may_take() {
            return false;
        }
        let vps = self.shared.vps(self.kind());
        for &index in &self.place.steal_order {
            let victim = vps[index];
            if victim.is_busy() {
                victim.movable.drain(|tcb| core.order.put(tcb, Why::Woken));
            }
            if core.order.len() > 0 {
                return true;
            }
        }
        false
    }
}
