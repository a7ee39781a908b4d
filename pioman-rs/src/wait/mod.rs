//! The mixed wait: poll for a while, then sleep.
//!
//! For how long, and whether at all, the source's policy says ([`crate::policy`]), which is asked again while the wait goes
//! on.
//!
//! A green thread that is to sleep parks: its virtual processor, if it has nothing else to do, sleeps in the front watch
//! (`hooks`). A plain kernel thread takes that role itself; if another has it, it becomes a *candidate*, and whoever leaves
//! the role wakes one.

use std::cell::Cell;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use marcel::{Latch, plumbing::Sleeper};

use crate::ltask::inside::deny_waiting;
use crate::manager::Core;
use crate::manager::point::Point;
use crate::manager::registry::{MAX, Pinned};
use crate::observe::trace;
use crate::policy::ask::Question;
use crate::policy::hints::Hints;
use crate::policy::{Asker, Choice, Method};
use crate::sync::completion::Completion;

/// Polls between two looks at the clock, which costs about as much as one poll.
const POLLS_PER_LOOK: u32 = 8;

/// A green thread that polls for longer gives way to threads that never ran.
const PATIENCE: Duration = Duration::from_micros(200);
const TURN: Duration = Duration::from_millis(5);
/// One that has given way looks again after [`PATIENCE`], then after twice that, up to this: a thousand that poll would
/// else do nothing but take turns. Its virtual processor polls for it when nobody wants to run.
const MOST_PATIENCE: Duration = Duration::from_millis(50);

/// A wait that goes on.
struct Wait<'a> {
    completion: &'a Completion,
    question: Question,
    deadline: Option<Instant>,
    /// Called before each sleep.
    before_sleep: &'a dyn Fn(),
    /// When it began; a wait that ends before the first look at the clock has none.
    start: Option<Instant>,
    /// A kernel thread that gave up the front role has chosen this one to take it over.
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
        self.question.waited = now - *self.start.get_or_insert(now);
        self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// Whether other green threads want its virtual processor: those that have run at once, and after a while those that
    /// have not, too, which another virtual processor might have taken. The scheduler itself, which may have to stop,
    /// has its turn now and then.
    fn hinders_others(&mut self) -> bool {
        if marcel::plumbing::others_runnable() {
            return true;
        }
        if self.question.waited < PATIENCE || !marcel::is_green() {
            return false;
        }
        let turn = self.question.waited > self.turn;
        if turn {
            self.turn = self.question.waited + TURN;
        }
        turn || marcel::plumbing::has_work()
    }
}

std::thread_local! {
    static PREFERRED: Cell<bool> = const { Cell::new(false) };
}

/// A kernel thread that is about to sleep for the first time asks for a short time slice: beside threads of the program that
/// compute it would be woken when theirs are over. (A 4-byte message of an MPI program took 42 to 53 ms at a random moment
/// beside 32 computing threads on one core; now 6 to 13.) One whose scheduling somebody has chosen is left alone.
fn prefer_waiter() {
    // SAFETY: no pointers; 0 is the calling thread.
    if !PREFERRED.replace(true) && unsafe { libc::sched_getscheduler(0) } == libc::SCHED_OTHER {
        let _ = marcel::plumbing::lwp::prefer_current_thread();
    }
}

impl Core {
    pub(crate) fn wait(
        &self,
        completion: &Completion,
        hints: Hints,
        deadline: Option<Instant>,
        before_sleep: &dyn Fn(),
    ) -> bool {
        let done = completion.is_done() || self.wait_for(completion, hints, deadline, before_sleep);
        self.left_pending();
        done
    }

    fn wait_for(
        &self,
        completion: &Completion,
        hints: Hints,
        deadline: Option<Instant>,
        before_sleep: &dyn Fn(),
    ) -> bool {
        if self.tasks.pending() {
            deny_waiting();
        }
        self.call_for_help();
        let slot = hints.source.map(|source| usize::from(source.0));
        let question = Question { slot, asker: Asker::Waiter, hints, waited: Duration::ZERO };
        let mut wait = Wait {
            completion,
            question,
            deadline,
            before_sleep,
            start: None,
            appointed: false,
            turn: TURN,
            patience: PATIENCE,
        };
        loop {
            let polling = trace::polls(completion);
            let part = self.poll_for(&mut wait);
            polling.end(matches!(part, Part::Done));
            let choice = match part {
                Part::Done => return true,
                Part::Expired => return completion.is_done(),
                Part::Sleep(choice) => {
                    // The library has looked before it called, or we have polled: whoever sleeps for us looks once
                    // more, armed. What is saved here is a system call per look and source.
                    self.spun.store(true, Relaxed);
                    choice
                }
                // Its virtual processor polls, when the others have nothing to do.
                Part::GiveWay => {
                    let patience = wait.patience;
                    wait.patience = (2 * patience).min(MOST_PATIENCE);
                    Choice::new(Method::Block, "others first").again(patience)
                }
            };
            if completion.is_done() {
                return true;
            }
            if wait.look() {
                return completion.is_done();
            }
            if self.sleep(&mut wait, choice) {
                return true;
            }
        }
    }

    /// Sleeps once, as the policy has chosen; true if the completion is complete.
    fn sleep(&self, wait: &mut Wait<'_>, choice: Choice) -> bool {
        (wait.before_sleep)();
        let before = Instant::now();
        let again = choice.again.and_then(|time| before.checked_add(time));
        let until = [wait.deadline, again].into_iter().flatten().min();
        let source = wait.question.slot.map_or(0, |slot| self.registry.counts().name(slot));
        let sleeping = trace::sleeps(wait.completion, source, &choice);
        if !self.progresses() {
            self.waiting.fetch_add(1, SeqCst);
        }
        let done = wait.completion.latch().alone(|latch| match marcel::is_green() {
            true => self.sleep_green(latch, until),
            false => self.sleep_kernel(latch, wait, choice.method, until),
        });
        if !self.progresses() {
            self.waiting.fetch_sub(1, SeqCst);
        }
        drop(sleeping);
        if done {
            self.wake_up.woken(before);
            // The wake-up came after the end that it was for.
            let _ = wait.look();
            let waited = wait.question.waited.saturating_sub(self.wake_up.cost());
            wait.question.waited = waited;
            let sources = self.registry.pin();
            self.tell(&sources, &wait.question, &self.snapshot());
            if let Some(slot) = wait.question.slot {
                self.refresh(&sources, slot);
            }
        }
        done
    }

    /// The source of a wait that does not name one: the only one in which anything pends.
    fn attribute(&self, sources: &Pinned<'_>) -> Option<usize> {
        let pending = sources.pending_of(u64::MAX);
        pending.is_power_of_two().then(|| pending.trailing_zeros() as usize)
    }

    /// What somebody who polls looks at: its own source, and those of others who like that. Where nobody can sleep in
    /// the kernel on behalf of the rest, everything.
    fn polled_for(&self, slot: Option<usize>) -> u64 {
        if !self.has_watcher() {
            return u64::MAX;
        }
        self.passed.load(Relaxed) | slot.map_or(0, |slot| 1 << (slot % MAX))
    }

    /// Polls as long as the policy says.
    fn poll_for(&self, wait: &mut Wait<'_>) -> Part {
        let mut sources = self.registry.pin();
        if wait.question.slot.is_none() {
            wait.question.slot = self.attribute(&sources);
        }
        // Also for what is told at the end: a fresh one costs as much as the rest of a short wait.
        let mut load = self.snapshot();
        let choice = self.ask(&sources, &wait.question, &load);
        if choice.method != Method::Poll {
            return Part::Sleep(choice);
        }
        let mut polls = sources.of(self.polled_for(wait.question.slot));
        self.pollers.join(polls);
        sources.these(polls).for_each(|(_, slot)| slot.source.disarm());
        let mut until = choice.again.and_then(|time| wait.question.waited.checked_add(time));
        let part = loop {
            if self.poll_some(wait.completion, &sources, polls) {
                self.tell(&sources, &wait.question, &load);
                self.history(&wait.question).polled(true);
                break Part::Done;
            }
            if wait.look() {
                break Part::Expired;
            }
            let others = wait.hinders_others();
            if others || until.is_some_and(|time| wait.question.waited >= time) {
                load = self.snapshot();
                let choice = self.ask(&sources, &wait.question, &load);
                if choice.method != Method::Poll {
                    if !others {
                        self.history(&wait.question).polled(false);
                    }
                    break Part::Sleep(choice);
                }
                if others {
                    break Part::GiveWay;
                }
                until = choice.again.and_then(|time| wait.question.waited.checked_add(time));
            }
            // Whoever removes a source waits for pins; one that is new is polled, too.
            drop(sources);
            self.tasks_in_wait(false);
            sources = self.registry.pin();
            let now = sources.of(self.polled_for(wait.question.slot));
            if now != polls {
                self.pollers.join(now & !polls);
                self.pollers.leave(polls & !now);
                polls = now;
                self.cover(Point::Wait, &sources);
            }
        };
        drop(sources);
        self.pollers.leave(polls);
        part
    }

    /// True if the completion is complete.
    #[inline]
    fn poll_some(&self, completion: &Completion, sources: &Pinned<'_>, polls: u64) -> bool {
        for _ in 0..POLLS_PER_LOOK {
            let found = sources.poll_these(Point::Wait, polls);
            if completion.is_done() {
                return true;
            }
            if found && marcel::plumbing::others_runnable() {
                return false; // it was for a thread that waits for our virtual processor now
            }
            if self.tasks.pending() {
                break; // they are called with no source pinned
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Sleeps once: until `latch`, with which the caller is registered, is set, until the deadline, or for no reason.
    fn sleep_green(&self, latch: &Latch, until: Option<Instant>) {
        if marcel::is_stopping() {
            // The runtime stops: no virtual processor polls for us any more.
            self.poll(Point::Wait);
            self.tasks_in_wait(true);
            std::thread::yield_now();
        } else if !latch.is_set() {
            marcel::park_until("I/O", until);
        }
    }

    /// As [`Core::sleep_green`].
    fn sleep_kernel(
        &self,
        latch: &Latch,
        wait: &mut Wait<'_>,
        method: Method,
        until: Option<Instant>,
    ) {
        let Some(sleeper) = marcel::plumbing::current_sleeper() else { return };
        if self.prefers_waiters {
            prefer_waiter();
        }
        let _shown = marcel::diagnosis::waiting("I/O");
        let period = || Instant::now() + self.tick_period;
        // Tasks that no virtual processor runs: at the pace of the tick.
        self.tasks_in_wait(true);
        let tasks = self.tasks.pending().then(period);
        let watches = method == Method::Block || std::mem::take(&mut wait.appointed);
        // Without an eventfd nobody could call us out of the watch.
        let can_watch = watches && sleeper.fd().is_ok();
        let ticks = (method == Method::Tick || watches && !can_watch).then(period);
        let until = [until, tasks, ticks].into_iter().flatten().min();
        if can_watch && self.front.take_role() {
            let added = sleeper.fd().and_then(|fd| self.front.add_sleeper(fd)).is_ok();
            let sources = self.registry.pin();
            let own = wait.question.slot.map_or(0, |slot| 1 << (slot % MAX));
            let plan = self.plan(&sources, self.unpolled(&sources) | sources.of(own));
            if plan.tick != 0 {
                self.call_ticker();
            }
            if added {
                let these = plan.block | own;
                self.sleep_in_front(sources, these, sleeper, until, || latch.is_set());
            }
            let sources = self.registry.pin();
            // Out of the set again: a kernel thread may wait with another manager next, and whoever sleeps
            // here would empty its counter (a lost wake-up).
            if let Ok(fd) = sleeper.fd() {
                self.front.remove_sleeper(fd);
            }
            self.drain(Point::Wait, &sources, self.awaited() | own);
            self.leave_front(&sources);
        } else {
            // Our own spin has disarmed the sources, and another one sleeps on them.
            self.left_pending();
            wait.appointed = self.sleep_beside(latch, sleeper, until, can_watch);
            let polls = self.polled_for(wait.question.slot);
            if method != Method::Dedicated
                && (self.points.block || !self.progresses() || ticks.is_some())
            {
                self.registry.pin().poll_these(Point::Wait, polls);
            }
        }
    }

    /// A kernel thread sleeps while somebody else looks; `takes_over`: but not if nobody has the front role. True if
    /// it has been chosen to take that.
    fn sleep_beside(
        &self,
        latch: &Latch,
        sleeper: &Sleeper,
        until: Option<Instant>,
        takes_over: bool,
    ) -> bool {
        let me = marcel::current();
        let place = self.candidates.enter(me);
        // Without a place nobody wakes us to take over: look again soon.
        let soon = place.is_none().then(|| Instant::now() + Duration::from_millis(1));
        let until = [until, soon].into_iter().flatten().min();
        sleeper.sleep(until, || latch.is_set() || takes_over && !self.front.has_sleeper());
        let chosen = place.is_some_and(|place| !self.candidates.leave(place, me));
        if chosen && latch.is_set() {
            // Chosen, but done: the next one, then.
            self.candidates.wake_one();
        }
        chosen
    }
}
