//! The mixed wait: poll for a while, then sleep.
//!
//! For how long, and whether at all, the source's policy says ([`crate::policy`]), which is asked again while the wait
//! goes on.
//!
//! An event of the same source that was another's begins a new *gap*: the next one may come as soon, so the policy is asked as
//! if a wait of unknown length had just begun, and learns how long gaps are. (Rank 0 puts 8 bytes at a time into the memory of rank 1, which waits for its
//! next collective: by the length of that wait no poll pays, by the gaps each one does.)
//!
//! A green thread that is to sleep parks: its virtual processor, if it has nothing else to do, leads (`idle`). A plain
//! kernel thread leads itself; if another thread does, it becomes a *follower*.

use std::time::{Duration, Instant};

use marcel::plumbing::{Alone, Sleeper};

use crate::completion::one_shot::Completion;
use crate::completion::wakers;
use crate::driver::core::{Debt, Driver, Leader};
use crate::driver::offers::MOST_AWAY;
use crate::ltask::inside::deny_waiting;
use crate::progress::advisor::Question;
use crate::progress::point::Point;
use crate::progress::policy::contract::{Asker, Choice, Snapshot};
use crate::progress::policy::hints::{Hint, Hints, Method};
use crate::progress::pollers::bits;
use crate::progress::registry::Pinned;
use crate::progress::source::MAX;
use crate::trace;

/// Polls between two looks at the clock, which costs about as much as one poll.
const POLLS_PER_LOOK: u32 = 8;

/// A green thread that polls for longer gives way to threads that never ran.
const PATIENCE: Duration = Duration::from_micros(200);
const TURN: Duration = Duration::from_millis(5);
/// One that has given way looks again after [`PATIENCE`], then after twice that, up to this: a thousand that poll would
/// else do nothing but take turns. Its virtual processor polls for it when no green thread wants to run.
const MOST_PATIENCE: Duration = Duration::from_millis(50);

/// A wait that goes on.
struct Wait<'a> {
    driver: &'a Driver,
    completion: &'a Completion,
    question: Question,
    deadline: Option<Instant>,
    /// Called before each sleep.
    before_sleep: &'a dyn Fn(),
    /// So long its core may still be others' without that counting.
    away: Duration,
    /// When it began, and later by the time that its core was others'; a wait that ends before the first look at the clock has none.
    start: Option<Instant>,
    /// At the last look at the clock. What the policy is told is the time of the present gap.
    waited: Duration,
    /// How long it had waited when the present gap began.
    gap: Duration,
    /// A bit for each source of which a poll has found an event since the policy was asked.
    found: u64,
    /// A leader that left has chosen this thread to lead.
    appointed: bool,
    /// A green thread that polls lets the scheduler look after this time.
    turn: Duration,
    /// How long it gives way next.
    patience: Duration,
}

/// How a part of a wait has ended.
enum Part {
    Done,
    Expired,
    /// It is to sleep now.
    Sleep(Choice),
    /// It would poll on, but other threads want its virtual processor: what is waited for may be up to them.
    GiveWay,
}

impl Wait<'_> {
    /// Looks at the clock; true if the time is over.
    fn look(&mut self) -> bool {
        let now = Instant::now();
        self.waited = now - *self.start.get_or_insert(now);
        self.question.waited = self.waited.saturating_sub(self.gap);
        self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// Whether other green threads want its virtual processor: those that have run at once, and after a while those
    /// that have not, too, which another virtual processor might have taken. The scheduler itself, which may have to
    /// stop, has its turn now and then.
    fn hinders_others(&mut self) -> bool {
        if marcel::plumbing::others_runnable() {
            return true;
        }
        if self.waited < PATIENCE || !marcel::is_green() {
            return false;
        }
        let turn = self.waited > self.turn;
        if turn {
            self.turn = self.waited + TURN;
        }
        turn || marcel::plumbing::has_work()
    }

    /// Polls and sleeps by turns; true if the completion is complete.
    fn run(mut self, debt: &Debt<'_>) -> bool {
        loop {
            let polling = trace::polls(self.completion);
            let part = self.poll_for(debt);
            polling.end(matches!(part, Part::Done));
            let choice = match part {
                Part::Done => return true,
                Part::Expired => return self.completion.is_done(),
                Part::Sleep(choice) => {
                    // This wait has polled in vain. The virtual processor need not poll again before it sleeps: the
                    // sleep polls once after arming. That saves a system call per source.
                    self.driver.idle.note_vain_wait();
                    choice
                }
                // Its virtual processor polls, when the others have nothing to do.
                Part::GiveWay => {
                    let patience = self.patience;
                    self.patience = (2 * patience).min(MOST_PATIENCE);
                    Choice::new(Method::Block, "others first").again(patience)
                }
            };
            if self.completion.is_done() {
                return true;
            }
            if self.look() {
                return self.completion.is_done();
            }
            if self.sleep(choice, debt) {
                return true;
            }
        }
    }

    /// Sleeps once, as the policy has chosen; true if the completion is complete.
    fn sleep(&mut self, choice: Choice, debt: &Debt<'_>) -> bool {
        (self.before_sleep)();
        let before = Instant::now();
        let again = choice.again.and_then(|time| before.checked_add(time));
        let until = [self.deadline, again].into_iter().flatten().min();
        let source = self.question.slot.map_or(0, |slot| self.driver.registry.counts().name(slot));
        let sleeping = trace::sleeps(self.completion, source, choice.method as u64, choice.why);
        let completion = self.completion;
        let waiting = self.driver.counts_waiter();
        let done = completion.latch().alone(|latch| match marcel::is_green() {
            true => self.sleep_green(latch, until),
            false => self.sleep_kernel(latch, choice.method, until, debt),
        });
        drop(waiting);
        drop(sleeping);
        if done {
            self.driver.machine.wake_up.woken(before);
            // The wake-up came after the end that it was for.
            let _ = self.look();
            let cost = self.driver.machine.wake_up.cost();
            self.waited = self.waited.saturating_sub(cost);
            self.question.waited = self.question.waited.saturating_sub(cost);
            let sources = self.driver.registry.pin();
            self.tell(&sources, &self.driver.machine.snapshot());
            if let Some(slot) = self.question.slot {
                self.driver.advisor.refresh(&sources, slot);
            }
        }
        if !done && self.has_found() {
            let _ = self.look();
            self.begin_gap(&self.driver.registry.pin(), &self.driver.machine.snapshot());
        }
        done
    }

    /// The wait is over.
    fn tell(&self, sources: &Pinned<'_>, load: &Snapshot) {
        if let Some(slot) = self.question.slot {
            sources.registry().counts().waited(slot, self.waited);
        }
        self.driver.advisor.tell(sources, &self.question, load);
    }

    /// Whether polls have found events of the source that is waited for, or of any where that is not known, since this was
    /// asked last.
    fn has_found(&mut self) -> bool {
        let own = self.question.slot.map_or(u64::MAX, |slot| 1 << (slot % MAX));
        std::mem::take(&mut self.found) & own != 0
    }

    /// An event has come that was another's.
    fn begin_gap(&mut self, sources: &Pinned<'_>, load: &Snapshot) {
        self.driver.advisor.tell(sources, &self.question, load);
        self.gap = self.waited;
        self.question.waited = Duration::ZERO;
        // What the library expects is the whole wait. (One in a collective that others' puts interrupted polled 5 µs for each.)
        self.question.hints.hint = Hint::Short;
    }

    /// The source of a wait that does not name one: the only one in which anything pends.
    fn attribute(&self, sources: &Pinned<'_>) -> Option<usize> {
        let pending = sources.pending_of(u64::MAX);
        pending.is_power_of_two().then(|| pending.trailing_zeros() as usize)
    }

    /// The sources that this wait polls: its own, and those that allow passing polls. Without a watcher: all.
    fn polled_for(&self, slot: Option<usize>) -> u64 {
        if !self.driver.machine.has_watcher() {
            return u64::MAX;
        }
        self.driver.advisor.passed() | slot.map_or(0, |slot| 1 << (slot % MAX))
    }

    /// Polls as long as the policy says.
    fn poll_for(&mut self, debt: &Debt<'_>) -> Part {
        let mut sources = self.driver.registry.pin();
        if self.question.slot.is_none() {
            self.question.slot = self.attribute(&sources);
        }
        // Also for what is told at the end: a fresh one costs as much as the rest of a short wait.
        let mut load = self.driver.machine.snapshot();
        let choice = self.driver.advisor.ask(&sources, &self.question, &load);
        if choice.method != Method::Poll {
            return Part::Sleep(choice);
        }
        let mut polls = sources.of(self.polled_for(self.question.slot));
        let mut polling = self.driver.begin_polling(&sources, polls);
        let mut until = choice.again.and_then(|time| self.question.waited.checked_add(time));
        // With the part: whether its polls have found what they were for, if that can be said of them.
        let (part, lucky) = loop {
            if self.poll_some(&sources, polls) {
                self.driver.looked(true);
                self.tell(&sources, &load);
                break (Part::Done, Some(true));
            }
            if self.look() {
                break (Part::Expired, None);
            }
            let others = self.hinders_others();
            if others || until.is_some_and(|time| self.question.waited >= time) {
                load = self.driver.machine.snapshot();
                if self.has_found() {
                    self.driver.advisor.history(&sources, &self.question).polled(true);
                    self.begin_gap(&sources, &load);
                }
                let choice = self.driver.advisor.ask(&sources, &self.question, &load);
                if choice.method != Method::Poll {
                    break (Part::Sleep(choice), (!others).then_some(false));
                }
                if others {
                    break (Part::GiveWay, None);
                }
                until = choice.again.and_then(|time| self.question.waited.checked_add(time));
            }
            // The remover of a source waits for pins; a source that is new is polled, too.
            drop(sources);
            self.driver.tasks.in_wait(false);
            let away = self.driver.looked(false).min(self.away);
            self.away -= away;
            self.start = self.start.map(|start| start + away);
            sources = self.driver.registry.pin();
            let now = sources.of(self.polled_for(self.question.slot));
            if now != polls {
                polling.change_to(now);
                polls = now;
                self.driver.arm(Point::Wait, &sources);
            }
        };
        let history = self.driver.advisor.history(&sources, &self.question);
        match lucky {
            Some(lucky) => history.polled(lucky),
            None => history.drop_trial(),
        }
        drop(sources);
        polling.stop_owing(debt); // a sleep that follows arms; after the end the debt is paid
        part
    }

    /// True if the completion is complete.
    #[inline]
    fn poll_some(&mut self, sources: &Pinned<'_>, polls: u64) -> bool {
        let polls_per_look = if self.driver.offers.are_taken() { 1 } else { POLLS_PER_LOOK };
        for _ in 0..polls_per_look {
            let found = sources.poll_each(Point::Wait, polls);
            if self.completion.is_done() {
                return true;
            }
            self.found |= found;
            if found != 0 && marcel::plumbing::others_runnable() {
                return false; // it was for a thread that waits for our virtual processor now
            }
            // Both are called with no source pinned. (The answer to a remote access left after up to seven more polls.)
            if self.driver.tasks.pending() || found != 0 && wakers::are_due() {
                break;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Sleeps once: until `latch`, with which the caller is registered, is set, until the deadline, or for no reason.
    fn sleep_green(&self, latch: Alone<'_>, until: Option<Instant>) {
        if marcel::is_stopping() {
            // The runtime stops: no virtual processor polls for us any more.
            self.driver.poll(Point::Wait);
            self.driver.tasks.in_wait(true);
            marcel::plumbing::wait_until("I/O", until); // gives way to those that are unwound
        } else if !latch.is_set() {
            marcel::plumbing::wait_until("I/O", until);
        }
    }

    /// As [`Wait::sleep_green`].
    fn sleep_kernel(
        &mut self,
        latch: Alone<'_>,
        method: Method,
        until: Option<Instant>,
        debt: &Debt<'_>,
    ) {
        let Some(sleeper) = marcel::plumbing::current_sleeper() else { return };
        self.driver.machine.short_slices.ask();
        let _shown = marcel::diagnosis::waiting("I/O");
        let period = || Instant::now() + self.driver.machine.tick_period;
        // Tasks that no virtual processor runs: at the pace of the tick.
        self.driver.tasks.in_wait(true);
        let tasks = self.driver.tasks.pending().then(period);
        let sleeps = matches!(method, Method::Block | Method::Interrupt);
        let wants_to_lead = sleeps || std::mem::take(&mut self.appointed);
        // Without an eventfd no thread could call this one out of the set; a child of fork does not sleep in its parent's.
        let set = &self.driver.leadership.set;
        let can_lead = wants_to_lead && !set.is_inherited() && sleeper.fd().is_ok();
        let leader = can_lead.then(|| self.driver.try_lead()).flatten();
        // A thread that cannot enter the set gives the role up, and looks at the pace of the tick instead.
        let enters = leader.as_ref().is_none_or(|_| self.enters_set(sleeper));
        let (leader, can_lead) = (leader.filter(|_| enters), can_lead && enters);
        let ticks = method == Method::Tick || wants_to_lead && !can_lead || self.relies_on_looks();
        let ticks = ticks.then(period);
        let until = [until, tasks, ticks].into_iter().flatten().min();
        if let Some(leader) = leader {
            self.found |= self.lead(&leader, latch, sleeper, until);
            leader.leave_owing(debt, self.polled_for(self.question.slot));
        } else {
            self.appointed = self.follow(latch, sleeper, until, can_lead, ticks.is_some());
            let (machine, polls) = (&self.driver.machine, self.polled_for(self.question.slot));
            let leaves =
                method == Method::Dedicated || machine.progresses() && !machine.points.block;
            if ticks.is_some() || !leaves {
                self.found |= self.driver.registry.pin().poll_each(Point::Wait, polls);
            }
        }
    }

    /// Whether something pends that no sleep in the kernel and no tick finds. (A wait for a source without a
    /// descriptor, where there are no virtual processors, slept for ever.)
    fn relies_on_looks(&self) -> bool {
        if self.driver.machine.can_tick() {
            return false;
        }
        let sources = self.driver.registry.pin();
        bits(sources.pending_of(u64::MAX)).any(|slot| sources.fd(slot).is_none())
    }

    /// Puts the sleeper of a kernel thread into the leader's set; false if the kernel has no room for it.
    fn enters_set(&self, sleeper: &Sleeper) -> bool {
        let set = &self.driver.leadership.set;
        sleeper.fd().and_then(|fd| set.add_sleeper(fd)).is_ok()
    }

    /// A kernel thread, whose sleeper is in the set, sleeps on behalf of all, then looks for events; a bit for each source that
    /// had some.
    fn lead(
        &self,
        leader: &Leader<'_>,
        latch: Alone<'_>,
        sleeper: &Sleeper,
        until: Option<Instant>,
    ) -> u64 {
        let driver = self.driver;
        let set = &driver.leadership.set;
        let sources = driver.registry.pin();
        let own = self.question.slot.map_or(0, |slot| 1 << (slot % MAX));
        let plan = driver.plan(&sources, driver.unpolled(&sources) | sources.of(own));
        if plan.tick != 0 {
            driver.call_pacer();
        }
        let these = plan.block | plan.interrupt | own;
        let awake = leader.park(sources, these, sleeper, until, || latch.is_set());
        let sources = driver.registry.pin();
        // Out of the set again: a kernel thread may wait with another manager next, and a thread that sleeps
        // here would empty its counter (a lost wake-up).
        if let Ok(fd) = sleeper.fd() {
            set.remove_sleeper(fd);
        }
        // A source that had an event when it was armed may have looked then: polls need not find that again.
        awake | driver.drain(Point::Wait, &sources, driver.awaited() | plan.tick | own)
    }

    /// A kernel thread sleeps while another thread leads; `leads`: it returns at once if none does; `ticks`: it looks
    /// for events by itself, at the pace of the tick. True if it has been chosen to lead.
    fn follow(
        &self,
        latch: Alone<'_>,
        sleeper: &Sleeper,
        until: Option<Instant>,
        leads: bool,
        ticks: bool,
    ) -> bool {
        let leadership = &self.driver.leadership;
        let me = marcel::current();
        // This thread's polls have disarmed the sources, and another thread sleeps on them. If there is none, a
        // follower is chosen to lead: this one, perhaps, which therefore has its place before. (A wait that relied on a
        // dedicated thread that did not poll slept for ever.)
        if ticks {
            self.driver.ensure_watched();
        }
        let place = leadership.followers.enter(me);
        if !ticks {
            self.driver.ensure_watched();
        }
        // Without a place no leader wakes this thread: it looks again soon.
        let soon = place.is_none().then(|| Instant::now() + Duration::from_millis(1));
        let until = [until, soon].into_iter().flatten().min();
        sleeper.sleep(until, || latch.is_set() || leads && !leadership.has_leader());
        let chosen = place.is_some_and(|place| !leadership.followers.leave(place, me));
        if chosen && latch.is_set() {
            // Chosen, but done: the next one, then.
            leadership.followers.wake_one();
        }
        chosen
    }
}

/// Waits for `completion`, until `deadline` at the latest; true if it is complete. `before_sleep` is called before each
/// sleep.
pub(crate) fn wait(
    driver: &Driver,
    completion: &Completion,
    hints: Hints,
    deadline: Option<Instant>,
    before_sleep: &dyn Fn(),
) -> bool {
    wait_owing(driver.owe(), completion, hints, deadline, before_sleep)
}

/// As [`wait`], by a thread that owes already; the debt is paid at the end.
pub(crate) fn wait_owing(
    debt: Debt<'_>,
    completion: &Completion,
    hints: Hints,
    deadline: Option<Instant>,
    before_sleep: &dyn Fn(),
) -> bool {
    let driver = debt.driver();
    if completion.is_done() {
        return true;
    }
    if driver.tasks.pending() {
        deny_waiting();
    }
    driver.call_helper();
    let slot = hints.source.map(|source| usize::from(source.0));
    let question = Question { slot, asker: Asker::Waiter, hints, waited: Duration::ZERO };
    Wait {
        driver,
        completion,
        question,
        deadline,
        before_sleep,
        away: MOST_AWAY,
        start: None,
        waited: Duration::ZERO,
        gap: Duration::ZERO,
        found: 0,
        appointed: false,
        turn: TURN,
        patience: PATIENCE,
    }
    .run(&debt)
}
