//! What a virtual processor does between two threads: it polls at the idle loop and at context switches, and sleeps in
//! the kernel when there is nothing to run.

use std::time::{Duration, Instant};

use marcel::plumbing::Sleeper;
use marcel::{Idle, Kind, Vp};

use crate::driver::core::{Debt, Driver};
use crate::progress::advisor::Question;
use crate::progress::point::Point;
use crate::progress::policy::contract::Asker;
use crate::progress::policy::hints::{Hint, Method};
use crate::progress::pollers::bits;
use crate::progress::registry::Pinned;

/// Bound of one look for events.
const MAX_POLLS: usize = 1000;

/// The idle loop of `vp`, which has had nothing to run since `since`.
pub(crate) fn poll(driver: &Driver, vp: &Vp, since: Instant) -> Idle {
    if !driver.machine.points.idle && !driver.has_waiters() {
        return Idle::Sleep;
    }
    let tasks = driver.tasks.at_idle(vp);
    if tasks == Idle::Found {
        return tasks;
    }
    let sources = driver.registry.pin();
    let pending = sources.unattended_of(u64::MAX);
    let helps = driver.helper.stays_awake(vp);
    if !helps && (pending == 0 || driver.idle.take_vain_wait()) {
        return tasks;
    }
    let mine = driver.idle.is(vp);
    if !helps && !mine && driver.pollers.seems_unpolled(pending) == 0 {
        return tasks;
    }
    let polls = match helps {
        true => sources.of(driver.advisor.passed()),
        false => chosen(driver, &sources, pending, since.elapsed()),
    };
    if polls == 0 {
        return tasks;
    }
    if !mine && !driver.idle.start(vp) {
        // Another helper may have come before.
        let other = driver.idle.get().is_some_and(|other| other.kind() == Kind::Compute);
        return if helps && !other { Idle::Again } else { tasks };
    }
    let before = driver.idle.mask();
    if polls != before {
        driver.idle.set_mask(polls);
        driver.pollers.join(polls & !before);
        if before & !polls != 0 {
            driver.pollers.leave(before & !polls);
            driver.arm(Point::Idle, &sources);
        }
    }
    if helps && driver.pollers.seem_polled_by_others(polls) {
        driver.helper.is_useful();
        return Idle::Again;
    }
    if !sources.poll_these(Point::Idle, polls) {
        drop(sources);
        driver.looked(false);
        return Idle::Again;
    }
    driver.looked(true);
    if helps {
        driver.helper.is_useful();
    }
    Idle::Found
}

/// The sources, a bit each, that the policies have an idle virtual processor poll.
fn chosen(driver: &Driver, sources: &Pinned<'_>, pending: u64, waited: Duration) -> u64 {
    let load = driver.machine.snapshot();
    let polls = |slot: &usize| {
        let question = Question::of(*slot, Asker::Idle, Hint::Short, waited);
        driver.advisor.ask(sources, &question, &load).method == Method::Poll
    };
    bits(pending).filter(polls).fold(0, |mask, slot| mask | 1 << slot)
}

/// `vp` has something to run, or has ended: it does not poll any more.
#[inline]
pub(crate) fn stop(driver: &Driver, vp: &Vp) {
    drop(driver.stop_idle(vp)); // pays
}

/// `vp` has something to run. While it was idle an interrupt would have done nothing, so peers are asked again.
#[inline]
pub(crate) fn busy(driver: &Driver, vp: &Vp) {
    let left = driver.idle.take_left();
    let debt = driver.stop_idle(vp).or_else(|| driver.owe_interrupts());
    drop(debt.or_else(|| left.then(|| driver.owe()))); // pays
}

/// A context switch of `vp`. True: something is left to be armed by `vp` before it runs a thread.
#[inline]
pub(crate) fn switch(driver: &Driver, vp: &Vp) -> bool {
    driver.tasks.at_switch(vp);
    match driver.registry.pin_unattended() {
        Some((sources, pending)) => switch_unattended(driver, sources, pending),
        None => false,
    }
}

/// [`switch`], where these sources are unattended. Apart, so that the usual switch saves no registers for it.
#[inline(never)]
fn switch_unattended(driver: &Driver, sources: Pinned<'_>, pending: u64) -> bool {
    if driver.pollers.unpolled(pending) == 0 {
        return false;
    }
    if !marcel::plumbing::has_work() {
        // With nothing else to run, it is about to look, armed, before it sleeps. (A thread that turned up meanwhile
        // computed, and nobody looked.)
        driver.idle.leave_to_others();
        return true;
    }
    if driver.machine.points.switch {
        sources.poll_these(Point::Switch, pending & driver.advisor.passed());
    }
    drop(sources);
    // The thread that ran last may have stopped polling to wait, and the next one may compute for long.
    driver.ensure_watched();
    false
}

/// Whether `vp` may lead: the kernel lets the kernel thread of a reactive one preempt others. A compute one, bound to a
/// core that another process may be using, would be woken too late. Without a background watcher, late is better than
/// never.
fn may_lead(driver: &Driver, vp: &Vp) -> bool {
    vp.kind() == Kind::Reactive || !driver.machine.has_watcher()
}

/// As [`marcel::Hooks::sleep`].
pub(crate) fn sleep(
    driver: &Driver,
    vp: &Vp,
    sleeper: &Sleeper,
    deadline: Option<Instant>,
    last_look: &dyn Fn() -> bool,
) -> bool {
    let debt = driver.stop_idle(vp);
    driver.call_helper();
    // What follows looks for sources without a poller.
    debt.into_iter().for_each(Debt::paid_by_parking);
    if !driver.may_progress() {
        return false;
    }
    let tasks = driver.tasks.before_sleep(vp);
    let until = [deadline, tasks].into_iter().flatten().min();
    let slept = sleep_for_sources(driver, vp, sleeper, until, last_look);
    if !slept && tasks.is_some() {
        sleeper.sleep(until, last_look);
    }
    slept || tasks.is_some()
}

/// As [`marcel::Hooks::sleep`], on behalf of sources.
fn sleep_for_sources(
    driver: &Driver,
    vp: &Vp,
    sleeper: &Sleeper,
    deadline: Option<Instant>,
    last_look: &dyn Fn() -> bool,
) -> bool {
    driver.idle.take_left(); // before the look that stands for it
    let sources = driver.registry.pin();
    // Threads that poll arm when they stop.
    let open = driver.unpolled(&sources);
    if open == 0 {
        return false;
    }
    let plan = driver.plan(&sources, open);
    let pacer = (plan.tick != 0).then(|| driver.try_pace(Point::Idle)).flatten();
    let soon = pacer.as_ref().map(|_| Instant::now() + driver.machine.tick_period);
    let until = [deadline, soon].into_iter().flatten().min();
    if plan.interrupt != 0 && !driver.arm_interrupts(&sources, plan.interrupt) {
        driver.drain(Point::Idle, &sources, plan.interrupt);
        driver.arm(Point::Idle, &sources);
        return true;
    }
    let leader = (plan.block != 0 && may_lead(driver, vp)).then(|| driver.try_lead()).flatten();
    let slept = if let Some(leader) = leader {
        leader.park(sources, plan.block, sleeper, until, last_look);
        let sources = driver.registry.pin();
        // Up to the first thread that can run: if more is pending, the leader looks again, armed, when it leaves.
        for _ in 0..MAX_POLLS {
            // Progress may be off outside waits, and the wait that this sleep was for over.
            if last_look()
                || !driver.may_progress()
                || !sources.poll_these(Point::Idle, driver.awaited())
            {
                break;
            }
        }
        drop(leader); // while the sources are pinned: wakers run when the role is free
        true
    } else if plan.block != 0 && !driver.arm_sleeper(&sources, plan.block) {
        // It sleeps on the futex, but not before a sleeper is armed.
        driver.drain(Point::Idle, &sources, plan.block);
        driver.arm(Point::Idle, &sources); // others may rely on this attempt
        true
    } else {
        drop(sources);
        if pacer.is_some() {
            sleeper.sleep(until, last_look);
        }
        pacer.is_some()
    };
    drop(pacer); // the virtual processor comes here again, or has ticks
    slept
}
