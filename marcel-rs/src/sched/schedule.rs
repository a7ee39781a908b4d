//! The scheduler's loop: which thread runs next, running it, and what becomes of it then.

use std::sync::atomic::Ordering::*;
use std::time::Instant;

use crate::recorder::event;
use crate::recorder::{self, Kind as Trace};
use crate::sched::here;
use crate::sched::policy::Why;
use crate::sched::steal::Reachable;
use crate::sched::tick_handler;
use crate::sched::worker::{self, Own, Worker};
use crate::stack::Switch;
use crate::tcb::block::Tcb;
use crate::tcb::debug_info;
use crate::tcb::join_word::End;
use crate::tcb::traits::Panics;

/// In how many turns timers are looked at once, while there is something to run.
const TIMERS_EVERY: u32 = 8;

impl Worker {
    /// Runs threads until the runtime stops.
    pub(crate) fn run(&'static self) {
        // SAFETY: gettid has no arguments.
        self.tid.store(unsafe { libc::gettid() }, Relaxed);
        worker::set_current(Some(self));
        here::set_in_scheduler(true);
        recorder::owner(self.number() + 1);
        // Refused (`mad doctor` tries it): a computing thread is not interrupted, requests wait for a call.
        let _ = self.tick.create(self.shared.period, tick_handler::handler);
        while !self.shared.is_stopping() {
            match self.next() {
                Some(tcb) => {
                    // SAFETY: on our kernel thread, in the scheduler.
                    if unsafe { self.own() }.looked_around.take() {
                        self.pass_on();
                    }
                    self.execute(tcb);
                }
                None => self.rest(),
            }
        }
        self.end_all();
        self.become_idle();
        // SAFETY: on our kernel thread; no thread is left. We are immortal, our stacks need not be.
        let own = unsafe { self.own() };
        own.contexts.empty(&self.shared.contexts);
        own.tcbs.spill(0);
        self.tick.delete();
        if let Some(hooks) = self.shared.hooks() {
            hooks.ended(&self.vp);
        }
        self.sleeper.retire();
        recorder::owner(0);
        worker::set_current(None);
        here::set_in_scheduler(false);
    }

    /// The thread to run next.
    #[inline(always)]
    pub(super) fn next(&self) -> Option<&'static Tcb> {
        // SAFETY: on our kernel thread, in the scheduler.
        let own = unsafe { self.own() };
        self.inbox.drain(|tcb| own.order.put(tcb, Why::Woken));
        if self.shared.migrating() {
            self.movable.drain(|tcb| own.order.put(tcb, Why::Woken));
        }
        let pick = own.picks.get().wrapping_add(1);
        own.picks.set(pick);
        if !own.timers.is_empty() && (pick.is_multiple_of(TIMERS_EVERY) || own.order.len() == 0) {
            self.fire_timers(own);
        }
        if let Some(favourite) = own.favourite.take()
            && let Some(tcb) = own.order.take(favourite)
        {
            return Some(tcb);
        }
        if self.shared.migrating() && self.original.is_none() {
            self.share_surplus(own);
        }
        let Own { order, spawned, .. } = own;
        let found = order.next(&mut Reachable { worker: self, spawned });
        if found.is_none() && self.shared.migrating() && self.rob_inboxes(own) {
            return own.order.next(&mut Reachable { worker: self, spawned: &mut own.spawned });
        }
        found
    }

    #[cold]
    fn fire_timers(&self, own: &mut Own) {
        let now = Instant::now();
        while let Some(tcb) = own.timers.due(now) {
            if !self.is_home_of(tcb) {
                worker::unpark(tcb); // it has migrated
            } else if tcb.notify() {
                own.order.put(tcb, Why::Woken);
            }
        }
    }

    /// Runs a thread until it switches out.
    ///
    /// Inlined into the loop, which matters: between the jump that leaves a thread and the one that enters the
    /// next there must be no return. The processor pairs returns with calls; one that belongs to the loop would be
    /// paired with the thread's call, and then the thread's return with the loop's (two misses a switch, 8 ns).
    #[inline(always)]
    pub(super) fn execute(&'static self, tcb: &'static Tcb) {
        if !self.busy.load(Relaxed) {
            self.become_busy();
        }
        // SAFETY: the thread was taken from a queue, so its context is ours.
        if unsafe { (*tcb.own.context.get()).is_none() } && !self.start(tcb) {
            return;
        }
        if self.shared.migrating() {
            self.take_home(tcb);
            tcb.info.at_home(self.number(), self.tid.load(Relaxed) as u32);
        }
        here::set_tcb(Some(tcb));
        here::set_in_scheduler(false);
        self.running.store(tcb as *const Tcb as *mut Tcb, Relaxed);
        tcb.info.resumed();
        // SAFETY: as above; it is there by now, and the thread does not replace it.
        let resume =
            || unsafe { (*tcb.own.context.get()).as_ref().map(|context| context.resume()) };
        // The same twice, so that whoever is not recorded carries nothing across the switch: 1.5 ns of 10.
        let how = if recorder::is_on() && self.record_resume(tcb) {
            let how = resume();
            record_left(tcb, how);
            how
        } else {
            resume()
        };
        if how != Some(Switch::Ended) {
            tcb.info.suspended();
            if std::thread::panicking() || tcb.own.panics.get() != Panics::No {
                self.note_panics(tcb);
            }
        }
        here::set_in_scheduler(true);
        here::set_tcb(None);
        match how {
            // SAFETY: on our kernel thread, in the scheduler.
            Some(Switch::Yield) => unsafe { self.own() }.order.put(tcb, Why::Yielded),
            Some(Switch::Park) => {
                if !tcb.settle() {
                    // SAFETY: as above.
                    unsafe { self.own() }.order.put(tcb, Why::Woken);
                }
            }
            Some(Switch::Ended) | None => self.retire(tcb),
        }
        if let Some(hooks) = self.shared.hooks() {
            hooks.switch(&self.vp);
        }
    }

    /// For the trace; true if it shall be told as well when the thread leaves.
    #[inline(always)]
    fn record_resume(&self, tcb: &'static Tcb) -> bool {
        // SAFETY: on our kernel thread, in the scheduler.
        let switches = unsafe { &self.own().switches };
        let (number, name) = (tcb.info.number(), tcb.own.traced.get());
        !switches.holds() && recorder::let_through(switches, Trace::Resume, number, name)
    }

    /// Gives a thread that never ran a stack and a home; false if there is no memory for it (its handle
    /// reports it).
    #[inline]
    fn start(&'static self, tcb: &'static Tcb) -> bool {
        // SAFETY: on our kernel thread, in the scheduler.
        let own = unsafe { self.own() };
        match own.contexts.take(&self.shared.contexts, tcb.own.stack_size.get()) {
            Ok(context) => {
                self.take_home(tcb);
                let usable = context.stack().usable();
                tcb.info.started(usable, self.number(), self.tid.load(Relaxed) as u32);
                // SAFETY: the thread was taken from a queue, so its block is ours.
                unsafe { *tcb.own.context.get() = Some(context) };
                self.shared.with_living(&mut own.live, |live| {
                    tcb.own.place.set(live.len());
                    live.push(tcb);
                });
                event!("start", thread = tcb.info.number(), vp = self.number());
                true
            }
            Err(error) => {
                tcb.own.no_stack.set(Some(error));
                // The closure is somebody's, and its destructors run here: they see a thread that must not wait.
                tcb.own.unwinding.set(true);
                here::set_tcb(Some(tcb));
                // Else what they start would ask the one before, whose block may be another's by now.
                self.running.store(tcb as *const Tcb as *mut Tcb, Relaxed);
                tcb.discard_payload();
                tcb.own.locals.finish();
                here::set_tcb(None);
                tcb.own.unwinding.set(false);
                self.end(tcb);
                false
            }
        }
    }

    fn retire(&'static self, tcb: &'static Tcb) {
        // SAFETY: on our kernel thread, in the scheduler; the thread has ended.
        let (own, context) = unsafe { (self.own(), (*tcb.own.context.get()).take()) };
        tcb.wait.store(tcb.wait.load(Relaxed) + 1, Relaxed);
        tcb.own.unwinding.set(false);
        if tcb.own.panics.get() != Panics::No {
            self.forget_panics(tcb);
        }
        if let Some(context) = context {
            own.contexts.put(&self.shared.contexts, context);
        }
        self.shared.with_living(&mut own.live, |live| {
            let place = tcb.own.place.get();
            live.swap_remove(place);
            if let Some(moved) = live.get(place) {
                moved.own.place.set(place);
            }
        });
        self.end(tcb);
    }

    /// Whoever owns the handle may have the block now.
    fn end(&'static self, tcb: &'static Tcb) {
        event!("end", thread = tcb.info.number());
        tcb.info.leave();
        match tcb.join.end() {
            End::Owned => {}
            End::Awaited(waiter) => self.unpark(waiter),
            End::Detached if tcb.own.payload.is_empty() => tcb.recycle(Some(self.tcbs())),
            // Detached between the thread's last look and its end: a thread drops the result, not the scheduler.
            End::Detached => {
                tcb.join.reset();
                tcb.join.detach();
                tcb.info.enter();
                tcb.home.store(std::ptr::null_mut(), Relaxed);
                self.spawn(tcb);
            }
        }
    }

    pub(super) fn become_busy(&self) {
        self.busy.store(true, Relaxed);
        self.busy_since.store(debug_info::now(), Relaxed);
        self.count_busy(1);
        if let Some(hooks) = self.shared.hooks() {
            hooks.busy(&self.vp);
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
