//! Threads that never ran, as a policy sees them: the virtual processor's own, those in queues that several serve,
//! and its neighbours'.
//!
//! A started thread is stolen only in a runtime whose builder was told, unsafely, that its threads may migrate.
//! Then a virtual processor that has several to run puts all but one where it keeps what it has spawned
//! (`share_surplus`), and one that finds nothing there looks into its neighbours' inboxes: an inbox is taken as a
//! whole, so it does not matter who takes it.

use crossbeam_deque::{Injector, Steal};

use crate::diagnosis::trace::event;
use crate::thread::tcb::Tcb;
use crate::vp::ending::Panics;
use crate::vp::policy::{Fresh, Priority, Ready, Why};
use crate::vp::processor::{Own, Vp};
use crate::vp::spawned::Spawned;

/// What virtual processor `vp` may take.
pub(super) struct Reachable<'a> {
    pub(super) vp: &'a Vp,
    pub(super) spawned: &'a mut Spawned,
}

impl Fresh for Reachable<'_> {
    #[inline]
    fn take(&mut self, priority: Priority, others_first: bool) -> Option<Ready> {
        let found = match priority {
            _ if !self.vp.may_take() => match priority {
                Priority::Normal => self.spawned.pop(),
                _ => None,
            },
            Priority::Normal if others_first => self.shared().or_else(|| self.spawned.pop()),
            Priority::Normal => {
                self.spawned.pop().or_else(|| self.shared()).or_else(|| self.neighbours())
            }
            _ if self.vp.shared.is_special() => {
                steal(self.vp.shared.injector(self.vp.kind(), priority))
            }
            _ => None,
        };
        found.map(Ready::new)
    }

    #[inline]
    fn take_own(&mut self) -> Option<Ready> {
        self.spawned.pop().map(Ready::new)
    }
}

impl Reachable<'_> {
    /// From the queues that several virtual processors serve.
    fn shared(&mut self) -> Option<&'static Tcb> {
        let shared = &self.vp.shared;
        if shared.is_special()
            && let Some(tcb) = shared.bound_to(&self.vp.place.path).find_map(steal)
        {
            return Some(tcb);
        }
        let injector = shared.injector(self.vp.kind(), Priority::Normal);
        if injector.is_empty() {
            return None;
        }
        let tcb = self.spawned.take_from(injector)?;
        if !self.spawned.is_empty() || !injector.is_empty() {
            shared.wake_for_work(self.vp.kind());
        }
        Some(tcb)
    }

    /// The oldest of the nearest neighbour that has some.
    fn neighbours(&mut self) -> Option<&'static Tcb> {
        let shared = &self.vp.shared;
        let vps = shared.vps(self.vp.kind());
        for &index in &self.vp.place.steal_order {
            let victim = vps[index];
            loop {
                match victim.stealer.steal() {
                    Steal::Success(tcb) => {
                        event!(
                            "steal",
                            thread = tcb.look.number(),
                            vp = self.vp.number(),
                            from = victim.number()
                        );
                        if !victim.stealer.is_empty() {
                            shared.wake_for_work(self.vp.kind());
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

impl Vp {
    /// Where threads migrate: others may have all that we do not run next, if some have nothing to do.
    pub(super) fn share_surplus(&self, own: &mut Own) {
        while own.order.len() > 1 && self.shared.idle(self.kind()).any() {
            // Through the policy, so that it knows; what is bound stays.
            let Some(tcb) = own.order.next(&mut Nothing) else { return };
            if !may_migrate(tcb) {
                own.order.put(tcb, Why::Woken);
                return;
            }
            own.spawned.push(tcb);
            self.shared.wake_for_work(self.kind());
        }
    }

    /// Where threads migrate: what was woken for a neighbour that is busy.
    pub(super) fn rob_inboxes(&self, own: &mut Own) -> bool {
        if !self.may_take() {
            return false;
        }
        let vps = self.shared.vps(self.kind());
        for &index in &self.place.steal_order {
            let victim = vps[index];
            if victim.is_busy() && !victim.inbox.is_empty() {
                victim.inbox.drain(|tcb| match may_migrate(tcb) {
                    true => own.order.put(tcb, Why::Woken),
                    false => victim.wake(tcb),
                });
            }
            if own.order.len() > 0 {
                return true;
            }
        }
        false
    }
}

/// Not those that are bound; nor those in a panic, which Rust counts for the kernel thread, nor being unwound.
fn may_migrate(tcb: &Tcb) -> bool {
    tcb.own.traits.get().bound.is_none()
        && tcb.own.panics.get() == Panics::No
        && !tcb.own.unwinding.get()
}

/// No thread that never ran.
struct Nothing;

impl Fresh for Nothing {
    fn take(&mut self, _: Priority, _: bool) -> Option<Ready> {
        None
    }

    fn take_own(&mut self) -> Option<Ready> {
        None
    }
}
