//! The mixed wait: poll for a while, then sleep.
//!
//! For how long, and whether at all, the source's policy says ([`crate::policy`]), which is asked again while the wait goes
//! on.
//!
//! A green thread that is to sleep parks: its virtual processor, if it has nothing else to do, sleeps in the front watch
//! (`hooks`). A plain kernel thread takes that role itself; if another has it, it becomes a *candidate*, and whoever leaves
//! the role wakes one.

use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use marcel::Latch;

use crate::manager::Core;
use crate::manager::point::Point;
use crate::manager::registry::Pinned;
use crate::observe::trace;
use crate::policy::ask::Question;
pub(crate) use crate::policy::hints::Hint;
use crate::policy::hints::Hints;
use crate::policy::{Asker, Choice, Method};
use crate::sync::completion::Completion;

/// Polls between two looks at the clock, which costs about as much as one poll.
const POLLS_PER_LOOK: u32 = 8;

/// A wait that goes on.
struct Wait<'a> {
    completion: &'a Completion,
    question: Question,
    deadline: Option<Instant>,
    /// When it began; a wait that ends before the first look at the clock has none.
    start: Option<Instant>,
}

/// How a part of a wait has ended.
enum Part {
    Done,
    Expired,
    /// It is to sleep now.
    Sleep(Choice),
}

impl Wait<'_> {
    /// Looks at the clock; true if the time is over.
    fn look(&mut self) -> bool {
        let now = Instant::now();
        self.question.waited = now - *self.start.get_or_insert(now);
        self.deadline.is_some_and(|deadline| now >= deadline)
    }
}

impl Core {
    pub(crate) fn wait(
        &self,
        completion: &Completion,
        hints: Hints,
        deadline: Option<Instant>,
    ) -> bool {
        let done = completion.is_done() || self.wait_for(completion, hints, deadline);
        self.left_pending();
        done
    }

    fn wait_for(&self, completion: &Completion, hints: Hints, deadline: Option<Instant>) -> bool {
        let slot = hints.source.map(|source| usize::from(source.0));
        let question = Question { slot, asker: Asker::Waiter, hints, waited: Duration::ZERO };
        let mut wait = Wait { completion, question, deadline, start: None };
        loop {
            let polling = trace::polls(completion);
            let part = self.poll_for(&mut wait);
            polling.end(matches!(part, Part::Done));
            let choice = match part {
                Part::Done => return true,
                Part::Expired => return false,
                Part::Sleep(choice) => choice,
            };
            // The library has looked before it called, or we have polled: whoever sleeps for us looks once more,
            // armed. What is saved here is a system call per look and source.
            self.spun.store(true, Relaxed);
            if completion.is_done() {
                return true;
            }
            let _ = wait.look();
            let source = wait.question.slot.map_or(0, |slot| self.registry.counts().name(slot));
            let sleeping = trace::sleeps(completion, source, &choice);
            if !self.progresses() {
                self.waiting.fetch_add(1, SeqCst);
            }
            let again = choice.again.map(|time| Instant::now() + time);
            let until = [deadline, again].into_iter().flatten().min();
            let done = completion.latch().alone(|latch| {
                if marcel::is_green() {
                    self.sleep_green(latch, until);
                } else {
                    self.sleep_kernel(latch, until);
                }
            });
            if !self.progresses() {
                self.waiting.fetch_sub(1, SeqCst);
            }
            drop(sleeping);
            let expired = wait.look();
            if done {
                // When it was complete: the wake-up came after.
                let wake_up = self.snapshot().wake_up;
                wait.question.waited = wait.question.waited.saturating_sub(wake_up);
                self.tell(&self.registry.pin(), &wait.question);
                return true;
            }
            if expired {
                return false;
            }
        }
    }

    /// The source of a wait that does not name one: the only one in which anything pends.
    fn attribute(&self, sources: &Pinned<'_>) -> Option<usize> {
        let mut pending = sources.each().filter(|(_, slot)| slot.source.pending());
        let first = pending.next();
        first.filter(|_| pending.next().is_none()).map(|(slot, _)| slot)
    }

    /// Polls as long as the policy says.
    fn poll_for(&self, wait: &mut Wait<'_>) -> Part {
        let mut sources = self.registry.pin();
        if wait.question.slot.is_none() {
            wait.question.slot = self.attribute(&sources);
        }
        let mut choice = self.ask(&sources, &wait.question, &self.snapshot());
        if choice.method != Method::Poll {
            return Part::Sleep(choice);
        }
        self.spinners.fetch_add(1, SeqCst);
        sources.each().for_each(|(_, slot)| slot.source.disarm());
        let mut until = choice.again;
        let part = loop {
            if self.poll_some(wait.completion, &sources) {
                self.tell(&sources, &wait.question);
                break Part::Done;
            }
            if wait.look() {
                break Part::Expired;
            }
            if until.is_some_and(|time| wait.question.waited >= time) || marcel::others_runnable() {
                choice = self.ask(&sources, &wait.question, &self.snapshot());
                if choice.method != Method::Poll {
                    break Part::Sleep(choice);
                }
                until = choice.again.map(|time| wait.question.waited + time);
            }
            // Whoever removes a source waits for pins; one that is new is polled, too.
            drop(sources);
            sources = self.registry.pin();
        };
        drop(sources);
        self.spinners.fetch_sub(1, SeqCst);
        part
    }

    /// True if the completion is complete.
    #[inline]
    fn poll_some(&self, completion: &Completion, sources: &Pinned<'_>) -> bool {
        for _ in 0..POLLS_PER_LOOK {
            let _ = sources.poll(Point::Wait) | self.run_tasks();
            if completion.is_done() {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }
    /// A thread that waits runs light tasks as an idle virtual processor would.
    #[inline]
    fn run_tasks(&self) -> bool {
        self.tasks.pending() && self.tasks.run_all(self)
    }

    /// Sleeps until `latch`, with which the caller is registered, is set, or until the deadline.
    fn sleep_green(&self, latch: &Latch, deadline: Option<Instant>) {
        while !latch.is_set() {
            if deadline.is_some_and(|d| Instant::now() >= d) {
                return;
            }
            if marcel::is_stopping() {
                // The runtime stops: no virtual processor polls for us any more.
                self.poll(Point::Wait);
                self.run_tasks();
                std::thread::yield_now();
                continue;
            }
            marcel::park_until("I/O", deadline);
        }
    }

    /// As [`Core::sleep_green`].
    fn sleep_kernel(&self, latch: &Latch, deadline: Option<Instant>) {
        let Some(sleeper) = marcel::current_sleeper() else { return };
        let me = marcel::current();
        let _shown = marcel::diagnosis::waiting("I/O");
        while !latch.is_set() {
            if deadline.is_some_and(|d| Instant::now() >= d) {
                return;
            }
            // Tasks that no virtual processor runs: at the pace of the tick.
            self.run_tasks();
            let deadline = if self.tasks.pending() {
                let soon = Instant::now() + self.tick_period;
                Some(deadline.map_or(soon, |d| d.min(soon)))
            } else {
                deadline
            };
            let watched = sleeper.fd().is_ok();
            if watched && self.front.take_role() {
                let added = sleeper.fd().and_then(|fd| self.front.add_sleeper(fd)).is_ok();
                let sources = self.registry.pin();
                let armed = added && self.front.arm(&sources);
                if armed {
                    self.spare.disarm(&sources);
                }
                drop(sources); // whoever removes a source waits for pins
                if armed {
                    sleeper.sleep_in(|| latch.is_set(), || self.front.sleep(deadline));
                }
                let sources = self.registry.pin();
                // Out of the set again: a kernel thread may wait with another manager next, and whoever sleeps
                // here would empty its counter (a lost wake-up).
                if let Ok(fd) = sleeper.fd() {
                    self.front.remove_sleeper(fd);
                }
                self.drain(Point::Wait, &sources);
                self.leave_front(&sources);
            } else {
                // Our own spin has disarmed the sources, and another one sleeps on them.
                self.left_pending();
                let place = self.candidates.enter(me);
                // Without a place nobody wakes us to take over: look again soon.
                let soon = place.is_none().then(|| Instant::now() + Duration::from_millis(1));
                let until = [deadline, soon].into_iter().flatten().min();
                sleeper.sleep(until, || latch.is_set() || watched && !self.front.has_sleeper());
                if let Some(place) = place
                    && !self.candidates.leave(place, me)
                    && latch.is_set()
                {
                    // Chosen to take over, but done: the next one, then.
                    self.candidates.wake_one();
                }
                if self.points.block || !self.progresses() {
                    self.poll(Point::Wait);
                }
            }
        }
    }
}
