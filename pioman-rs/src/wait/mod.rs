//! The mixed wait: poll for a while, then sleep.
//!
//! How long to poll: the cost of a wake-up by the kernel over the accepted overhead (5 µs / 5 % = 100 µs at
//! the most; the default is half of that). Not at all when every compute virtual processor is busy (the core
//! is better given to them, and a kernel wake-up preempts them in a few µs), nor when other green threads
//! want the caller's virtual processor. Only briefly when the library says that the wait will be long.
//!
//! Then a green thread parks: its virtual processor, if it has nothing else to do, sleeps in the front watch
//! (`hooks`). A plain kernel thread takes that role itself; if another has it, it becomes a *candidate*, and
//! whoever leaves the role wakes one.

use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use crate::manager::Core;
use crate::manager::point::Point;
use crate::sync::completion::Completion;

/// What the library knows of a request's duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// May end at any moment: worth polling for.
    Short,
    /// Will outlast a spin, for instance a rendezvous that a computing peer has to answer.
    Long,
}

/// Spin time under [`Hint::Long`].
const LONG_SPIN: Duration = Duration::from_micros(5);
/// Polls between two looks at the clock, which costs about as much as one poll.
const POLLS_PER_LOOK: u32 = 8;

impl Core {
    pub(crate) fn wait(
        &self,
        completion: &Completion,
        hint: Hint,
        deadline: Option<Instant>,
    ) -> bool {
        let done = completion.is_done() || self.spin(completion, hint, deadline) || {
            if !self.progresses() {
                self.waiting.fetch_add(1, SeqCst);
            }
            let done = if marcel::is_green() {
                self.sleep_green(completion, deadline)
            } else {
                self.sleep_kernel(completion, deadline)
            };
            if !self.progresses() {
                self.waiting.fetch_sub(1, SeqCst);
            }
            done
        };
        self.left_pending();
        done
    }

    /// How long to poll; `None`: for ever.
    fn spin_time(&self, hint: Hint) -> Option<Duration> {
        if marcel::others_runnable() || self.is_loaded() {
            return Some(Duration::ZERO);
        }
        match (self.spin, hint) {
            (None, _) => None,
            (Some(spin), Hint::Short) => Some(spin),
            (Some(spin), Hint::Long) => Some(spin.min(LONG_SPIN)),
        }
    }

    fn spin(&self, completion: &Completion, hint: Hint, deadline: Option<Instant>) -> bool {
        let budget = self.spin_time(hint);
        if budget == Some(Duration::ZERO) {
            // The library has looked before it called; whoever sleeps for us looks once more, armed. What is
            // saved here is a system call per look and source.
            self.spun.store(true, Relaxed);
            return completion.is_done();
        }
        self.spinners.fetch_add(1, SeqCst);
        let done = self.spin_for(completion, budget, deadline);
        self.spinners.fetch_sub(1, SeqCst);
        done
    }

    fn spin_for(
        &self,
        completion: &Completion,
        budget: Option<Duration>,
        deadline: Option<Instant>,
    ) -> bool {
        let sources = self.registry.pin();
        sources.each().for_each(|(_, source, _)| source.disarm());
        let mut start = None;
        loop {
            for _ in 0..POLLS_PER_LOOK {
                let found = sources.poll() | self.run_tasks();
                if completion.is_done() {
                    self.hits.note(Point::Wait, found);
                    return true;
                }
                std::hint::spin_loop();
            }
            let now = Instant::now();
            let start = *start.get_or_insert(now);
            if budget.is_some_and(|b| now - start >= b)
                || deadline.is_some_and(|d| now >= d)
                || marcel::others_runnable()
            {
                self.spun.store(true, Relaxed);
                return false;
            }
        }
    }

    /// A thread that waits runs light tasks as an idle virtual processor would.
    #[inline]
    fn run_tasks(&self) -> bool {
        self.tasks.pending() && self.tasks.run_all(self)
    }

    fn sleep_green(&self, completion: &Completion, deadline: Option<Instant>) -> bool {
        while !completion.is_done() {
            if marcel::is_stopping() {
                // The runtime stops: no virtual processor polls for us any more.
                self.poll(Point::Wait);
                self.run_tasks();
                std::thread::yield_now();
                continue;
            }
            if !completion.latch().register() {
                break;
            }
            if deadline.is_some_and(|d| Instant::now() >= d) {
                return !completion.latch().unregister();
            }
            marcel::park_until("I/O", deadline);
        }
        true
    }

    fn sleep_kernel(&self, completion: &Completion, deadline: Option<Instant>) -> bool {
        let Some(sleeper) = marcel::current_sleeper() else { return completion.is_done() };
        let me = marcel::current();
        let _shown = marcel::diagnosis::waiting("I/O");
        while completion.latch().register() {
            if deadline.is_some_and(|d| Instant::now() >= d) {
                return !completion.latch().unregister();
            }
            // Tasks that no virtual processor runs: at the pace of the tick.
            let deadline = if self.tasks.pending() && !self.run_tasks() {
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
                    sleeper.sleep_in(|| completion.is_done(), || self.front.sleep(deadline));
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
                sleeper
                    .sleep(until, || completion.is_done() || watched && !self.front.has_sleeper());
                if let Some(place) = place
                    && !self.candidates.leave(place, me)
                    && completion.is_done()
                {
                    // Chosen to take over, but done: the next one, then.
                    self.candidates.wake_one();
                }
                if self.points.block || !self.progresses() {
                    self.poll(Point::Wait);
                }
            }
        }
        true
    }
}
