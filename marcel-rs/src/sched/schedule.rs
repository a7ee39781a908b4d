//! The scheduler's loop: which thread runs next, running it, and what becomes of it then.

use std::sync::atomic::{Ordering::*, fence};
use std::time::Instant;

use crate::recorder::event;
use crate::recorder::{self, Kind as Trace};
use crate::sched::here;
use crate::sched::hooks::Hooks;
use crate::sched::policy::Why;
use crate::sched::shared::Shared;
use crate::sched::steal::Reachable;
use crate::sched::tick_handler;
#[cfg(target_arch = "x86_64")]
use crate::sched::user_interrupts;
use crate::sched::worker::{self, Core, Here, Worker};
use crate::stack::Switch;
use crate::tcb::block::Tcb;
use crate::tcb::debug_info;
use crate::tcb::join_word::End;
use crate::tcb::traits::Panics;

/// In how many turns timers are looked at once, while there is something to run.
const TIMERS_EVERY: u32 = 8;

impl Worker {
    /// Runs threads until the runtime stops.
    ///
    /// # Safety
    /// The worker has had no kernel thread since it was made.
    pub(crate) unsafe fn run(&'static self) {
        // SAFETY: gettid has no arguments.
        self.tid.store(unsafe { libc::gettid() }, Relaxed);
        // SAFETY: the caller's promise.
        let here = unsafe { worker::become_worker(self) };
        self.shared.modes.adopt();
        recorder::owner(self.number() + 1);
        // Refused (`mad doctor` tries it): a computing thread is not interrupted, requests wait for a call.
        let _ = self.tick.create(self.shared.period, tick_handler::handler);
        #[cfg(target_arch = "x86_64")]
        let interrupts = user_interrupts::receive().inspect(|interrupts| {
            self.vector.store(interrupts.vector() as u32 + 1, Relaxed);
        });
        // Looked up once: they stay as long as the worker has a kernel thread.
        let (shared, hooks): (&Shared, _) = (&self.shared, self.shared.hooks());
        while !shared.is_stopping() {
            let mut core = here.own_core();
            let Some(tcb) = here.next(shared, &mut core) else {
                drop(core);
                here.rest();
                continue;
            };
            if core.wakes_next {
                core.wakes_next = false;
                drop(core);
                here.wake_another();
            } else {
                drop(core);
            }
            here.execute(shared, hooks, tcb);
        }
        here.end_all();
        self.become_idle();
        // No thread is left. The worker is immortal, its stacks need not be.
        let mut core = here.own_core();
        core.contexts.empty(&self.shared.contexts);
        core.tcbs.spill(0);
        drop(core);
        #[cfg(target_arch = "x86_64")]
        {
            self.vector.store(0, Relaxed);
            drop(interrupts);
        }
        self.tick.delete();
        if let Some(hooks) = self.shared.hooks() {
            hooks.ended(&self.vp);
        }
        self.sleeper.retire();
        recorder::owner(0);
        worker::cease();
    }
}

impl Here {
    /// The thread to run next. `shared` is the worker's, as for [`Here::execute`].
    #[inline(always)]
    pub(super) fn next(self, shared: &Shared, core: &mut Core) -> Option<&'static Tcb> {
        self.inbox.drain(|tcb| core.order.put(tcb, Why::Woken));
        if shared.migrating() {
            self.movable.drain(|tcb| core.order.put(tcb, Why::Woken));
        }
        let pick = core.picks.wrapping_add(1);
        core.picks = pick;
        if !core.timers.is_empty() && (pick.is_multiple_of(TIMERS_EVERY) || core.order.len() == 0) {
            self.fire_timers(core);
        }
        if let Some(next) = core.run_next.take()
            && let Some(tcb) = core.order.take(next)
        {
            return Some(tcb);
        }
        if shared.migrating() && self.original.is_none() {
            self.share_surplus(core);
        }
        let Core { order, spawned, wakes_next, .. } = core;
        let found = order.next(&mut Reachable { worker: &self, spawned, wakes_next });
        if found.is_none() && shared.migrating() && self.rob_inboxes(core) {
            let Core { order, spawned, wakes_next, .. } = core;
            return order.next(&mut Reachable { worker: &self, spawned, wakes_next });
        }
        found
    }

    #[cold]
    fn fire_timers(self, core: &mut Core) {
        let now = Instant::now();
        while let Some(tcb) = core.timers.due(now) {
            if !self.is_home_of(tcb) {
                worker::unpark(tcb); // it has migrated
            } else if tcb.park.notify() {
                core.order.put(tcb, Why::Woken);
            }
        }
    }

    /// Runs a thread until it switches out. `shared` and `hooks` are the worker's: the loop has looked them up.
    ///
    /// Inlined into the loop, which matters: between the jump that leaves a thread and the one that enters the
    /// next there must be no return. The processor pairs returns with calls; one that belongs to the loop would be
    /// paired with the thread's call, and then the thread's return with the loop's (two misses a switch, 8 ns).
    #[inline(always)]
    pub(super) fn execute(self, shared: &Shared, hooks: Option<&dyn Hooks>, tcb: &'static Tcb) {
        if !self.busy.load(Relaxed) {
            self.become_busy();
        }
        // SAFETY: the thread was taken from a queue, so its context is ours.
        if unsafe { (*tcb.own.context.get()).is_none() } {
            let started = self.start(&mut self.own_core(), tcb);
            if let Err(error) = started {
                return self.give_up(tcb, error);
            }
        }
        if shared.migrating() {
            self.worker().take_home(tcb);
            tcb.info.at_home(self.number(), self.tid.load(Relaxed) as u32);
        }
        let recorded = recorder::is_on() && self.own_core().record_resume(tcb);
        here::set_tcb(Some(tcb));
        self.running.store(tcb as *const Tcb as *mut Tcb, Relaxed);
        tcb.info.resumed();
        tcb.own.budget.refill();
        // SAFETY: as above; it is there by now, and the thread does not replace it.
        let resume = || unsafe {
            (*tcb.own.context.get()).as_ref().map(|context| context.resume(shared.modes))
        };
        // The same twice, so that a switch that is not recorded carries nothing across: 1.5 ns of 10.
        let how = if recorded {
            let how = resume();
            record_left(tcb, how);
            how
        } else {
            resume()
        };
        here::set_tcb(None);
        if how != Some(Switch::Ended) {
            tcb.info.suspended();
            if let Some(check) = shared.check {
                check(tcb);
            }
        }
        let mut core = self.own_core();
        if how != Some(Switch::Ended)
            && (std::thread::panicking() || tcb.own.panics.get() != Panics::No)
        {
            core.note_panics(tcb);
        }
        match how {
            Some(Switch::Yield) => core.order.put(tcb, Why::Yielded),
            Some(Switch::Park) => {
                if !tcb.park.settle() {
                    core.order.put(tcb, Why::Woken);
                }
            }
            Some(Switch::Ended) | None => self.retire(&mut core, tcb),
        }
        drop(core);
        if let Some(hooks) = hooks
            && hooks.switch(&self.vp)
        {
            self.become_idle();
        }
    }

    /// Gives a thread that never ran a stack and a home.
    #[inline]
    fn start(self, core: &mut Core, tcb: &'static Tcb) -> std::io::Result<()> {
        let context = core.contexts.take(&self.shared.contexts, tcb.own.stack_size.get())?;
        self.worker().take_home(tcb);
        let usable = context.stack().usable();
        tcb.info.started(usable, self.number(), self.tid.load(Relaxed) as u32);
        // SAFETY: the thread was taken from a queue, so its block is ours.
        unsafe { *tcb.own.context.get() = Some(context) };
        self.shared.with_living(&mut core.live, |live| {
            tcb.own.place.set(live.len());
            live.push(tcb);
        });
        event!("start", thread = tcb.info.number(), vp = self.number());
        Ok(())
    }

    /// There is no memory for the thread's stack: its handle reports it.
    #[cold]
    fn give_up(self, tcb: &'static Tcb, error: std::io::Error) {
        tcb.own.no_stack.set(Some(error));
        // The closure's destructors are the program's, and run here: they see a thread that must not wait.
        tcb.own.unwinding.set(true);
        here::set_tcb(Some(tcb));
        let unwinding = tcb.discard_payload();
        debug_assert!(unwinding.is_none(), "what has no context waits nowhere");
        tcb.own.locals.finish();
        here::set_tcb(None);
        tcb.own.unwinding.set(false);
        self.end(&mut self.own_core(), tcb);
    }

    fn retire(self, core: &mut Core, tcb: &'static Tcb) {
        // SAFETY: the thread has ended, in the scheduler's hands.
        let context = unsafe { (*tcb.own.context.get()).take() };
        tcb.wait.store(tcb.wait.load(Relaxed) + 1, Relaxed);
        tcb.own.unwinding.set(false);
        if tcb.own.panics.get() != Panics::No {
            core.forget_panics(tcb);
        }
        if let Some(context) = context {
            core.contexts.put(&self.shared.contexts, context);
        }
        self.forget_living(core, tcb);
        self.end(core, tcb);
    }

    /// Takes the thread out of the list of living threads.
    pub(super) fn forget_living(self, core: &mut Core, tcb: &'static Tcb) {
        self.shared.with_living(&mut core.live, |live| {
            let place = tcb.own.place.get();
            live.swap_remove(place);
            if let Some(moved) = live.get(place) {
                moved.own.place.set(place);
            }
        });
    }

    /// The owner of the handle may have the block now.
    pub(super) fn end(self, core: &mut Core, tcb: &'static Tcb) {
        event!("end", thread = tcb.info.number());
        tcb.info.leave();
        match tcb.join.end() {
            End::Owned => {}
            End::Awaited(waiter) => self.worker().unpark(core, waiter),
            End::Detached if tcb.own.payload.is_empty() => tcb.recycle(Some(&mut core.tcbs)),
            // Detached between the thread's last look and its end: a thread drops the result, not the scheduler.
            End::Detached => {
                tcb.join.reset();
                tcb.join.detach();
                tcb.info.enter();
                tcb.home.store(std::ptr::null_mut(), Relaxed);
                self.spawn_from(core, tcb);
            }
        }
    }
}

impl Worker {
    fn become_busy(&self) {
        self.busy.store(true, Relaxed);
        self.busy_since.store(debug_info::now(), Relaxed);
        self.count_busy(1);
        if let Some(hooks) = self.shared.hooks() {
            hooks.busy(&self.vp);
            // Pairs with the fence in `Load::arm_ticks`: see `armed`.
            fence(SeqCst);
            if hooks.wants_ticks() {
                self.tick.arm();
            }
        }
    }

    pub(super) fn become_idle(&self) {
        if self.busy.swap(false, Relaxed) {
            self.count_busy(-1);
        }
    }

    /// A standby is not one of those that make a machine loaded: its original counts, as busy, during a call.
    fn count_busy(&self, change: isize) {
        if self.original.is_none() {
            self.shared.count_busy(self.kind(), change);
        }
    }
}

impl Core {
    /// For the trace; true if it shall be told as well when the thread leaves.
    #[inline(always)]
    fn record_resume(&self, tcb: &'static Tcb) -> bool {
        let switches = &self.switches;
        let (number, name) = (tcb.info.number(), tcb.own.traced.get());
        !switches.holds() && recorder::let_through(switches, Trace::Resume, number, name)
    }
}

#[cold]
#[inline(never)]
fn record_left(tcb: &Tcb, how: Option<Switch>) {
    let why = match how {
        Some(Switch::Yield) => 0,
        Some(Switch::Park) => recorder::intern_static(tcb.info.waits_for()),
        Some(Switch::Ended) | None => 1,
    };
    recorder::record(Trace::Left, tcb.info.number().into(), why.into());
}
