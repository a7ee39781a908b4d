//! Deadlines as events: a [`Timer`] is complete when its time has come, an [`Interval`] again and again, and a
//! [`timeout`] completes another owner's [`Completion`] unless that is complete already.
//!
//! ```
//! # let runtime = pioman::Runtime::new()?;
//! # runtime.run(|| -> std::io::Result<()> {
//! use pioman::time::Timer;
//! use std::time::Duration;
//!
//! let timer = Timer::after(Duration::from_millis(2))?;
//! // … what is to be done meanwhile …
//! timer.wait();
//! assert!(timer.is_done());
//! # Ok(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which one
//! * A thread that is to go on later, and waits for nothing else: [`marcel::sleep`]. It needs no manager and no
//!   completion; its virtual processor wakes it.
//! * A wait for something that is not to last for ever: [`crate::Manager::wait_until`], or the time-out that the thing
//!   has.
//! * A deadline that is an event among others: these. It is detected as events of sources are, by threads that poll or
//!   sleep in the kernel, under the policy of the source called `timer`. Since it is known when it was due, the delay
//!   of detection is, too: `timer.deadline().elapsed()` after a wait.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::completion::one_shot::Completion;
use crate::io::timer::Timers;
use crate::io::timer::from_now;
use crate::io::timer::heap::Node;
use crate::manager::Manager;
use crate::manager::own_sources::OwnSource;
use crate::progress::point::Point;
use crate::progress::policy::hints::{Hint, Hints};
use crate::progress::source::SourceId;

/// A node that may be in the heap, and leaves it when this is dropped.
struct Entry {
    node: Box<Node>,
    timers: Arc<Timers>,
    id: SourceId,
    manager: Arc<Manager>,
}

// SAFETY: the node is touched under the heap's lock.
unsafe impl Send for Entry {}
// SAFETY: as above.
unsafe impl Sync for Entry {}

impl Entry {
    fn new(manager: Arc<Manager>) -> io::Result<Entry> {
        let OwnSource { source, id } = manager.timers()?;
        let (timers, id) = (source.clone(), *id);
        Ok(Entry { node: Box::new(Node::new()), timers, id, manager })
    }

    /// # Safety
    /// `target` stays in place until it is complete, or the node is removed. The node is in no heap.
    unsafe fn insert(&self, deadline: Instant, target: &Completion) {
        // SAFETY: the node is in place until we are dropped, which removes it.
        unsafe { self.timers.insert(&self.node, deadline, target) };
        self.manager.ensure_watched();
    }

    fn remove(&self) -> bool {
        self.timers.remove(&self.node)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Complete from a deadline on. Dropping it takes the deadline back.
pub struct Timer {
    entry: Entry,
    done: Box<Completion>,
    deadline: Instant,
}

impl Timer {
    /// At `deadline`, with the caller's manager.
    ///
    /// # Errors
    /// There is no manager, or the kernel gives no descriptor.
    pub fn at(deadline: Instant) -> io::Result<Timer> {
        Timer::with(&Manager::here().map_err(io::Error::other)?, deadline)
    }

    /// After `time`.
    ///
    /// # Errors
    /// As [`Timer::at`].
    pub fn after(time: Duration) -> io::Result<Timer> {
        Timer::at(from_now(time))
    }

    /// At `deadline`, with this manager.
    ///
    /// # Errors
    /// The kernel gives no descriptor.
    pub fn with(manager: &Arc<Manager>, deadline: Instant) -> io::Result<Timer> {
        let entry = Entry::new(manager.clone())?;
        let timer = Timer { entry, done: Box::new(Completion::new()), deadline };
        // SAFETY: in its box until the timer is dropped, which removes the node first.
        unsafe { timer.entry.insert(deadline, &timer.done) };
        Ok(timer)
    }

    /// When it is due, or was.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// What is complete from then on.
    pub fn completion(&self) -> &Completion {
        &self.done
    }

    /// The source that finds it: see [`Hints::on`].
    pub fn source(&self) -> SourceId {
        self.entry.id
    }

    /// Whether its time has come. Looks for events.
    ///
    /// # Context
    /// Green and kernel threads.
    ///
    /// # Blocking
    /// Does not block.
    pub fn is_done(&self) -> bool {
        if !self.done.is_done() {
            self.entry.manager.poll(Point::Library);
        }
        self.done.is_done()
    }

    /// Waits until its time has come.
    ///
    /// # Blocking
    /// The green thread, or the kernel thread.
    pub fn wait(&self) {
        if !self.done.is_done() {
            let left = self.deadline.saturating_duration_since(Instant::now());
            let hints = Hints::new(Hint::Expected(left)).on(self.entry.id);
            self.entry.manager.wait(&self.done, hints);
        }
    }

    /// Takes the deadline back; false if it was over. It will never be complete then, unless it is [`Timer::reset`].
    pub fn cancel(&mut self) -> bool {
        self.entry.remove()
    }

    /// Makes it a timer for another deadline.
    pub fn reset(&mut self, deadline: Instant) {
        self.entry.remove();
        self.done.reset();
        self.deadline = deadline;
        // SAFETY: as in `with`; removed above.
        unsafe { self.entry.insert(deadline, &self.done) };
    }
}

impl std::fmt::Debug for Timer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let done = self.done.is_done();
        f.debug_struct("Timer").field("deadline", &self.deadline).field("done", &done).finish()
    }
}

/// A timer that is due at the end of each period, counted from its making: late waits do not shift those that follow.
#[derive(Debug)]
pub struct Interval {
    timer: Timer,
    period: Duration,
}

impl Interval {
    /// With the caller's manager.
    ///
    /// # Errors
    /// As [`Timer::at`]; a period of 0.
    pub fn new(period: Duration) -> io::Result<Interval> {
        if period.is_zero() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "an interval of 0"));
        }
        Ok(Interval { timer: Timer::after(period)?, period })
    }

    /// Waits for the end of the period, unless it is over already. How many have ended since the last call: 1, or more
    /// for a late caller.
    ///
    /// # Blocking
    /// As [`Timer::wait`].
    pub fn tick(&mut self) -> u64 {
        self.timer.wait();
        let late = self.timer.deadline.elapsed().as_nanos() / self.period.as_nanos();
        let ended = u64::try_from(late).unwrap_or(u64::MAX - 1) + 1;
        let next = u32::try_from(ended).ok().and_then(|n| self.period.checked_mul(n));
        let next = next.and_then(|by| self.timer.deadline.checked_add(by));
        self.timer.reset(next.unwrap_or_else(|| from_now(self.period)));
        ended
    }

    /// When the current period ends.
    pub fn deadline(&self) -> Instant {
        self.timer.deadline
    }
}

/// Has `completion` completed when `time` is over, unless the result is dropped before: its waiters wait for
/// its event or the time-out. [`Timeout::is_over`] tells which.
///
/// # Errors
/// As [`Timer::at`].
pub fn timeout(time: Duration, completion: Arc<Completion>) -> io::Result<Timeout> {
    let entry = Entry::new(Manager::here().map_err(io::Error::other)?)?;
    let timeout = Timeout { entry, _target: completion.clone(), over: from_now(time) };
    // SAFETY: kept by the time-out until the node is removed.
    unsafe { timeout.entry.insert(timeout.over, &completion) };
    Ok(timeout)
}

/// See [`timeout`].
pub struct Timeout {
    // Before the target: dropping it takes the node out.
    entry: Entry,
    _target: Arc<Completion>,
    over: Instant,
}

impl Timeout {
    /// Takes the time-out back; true if it was over, and has completed.
    pub fn is_over(self) -> bool {
        !self.entry.remove()
    }
}

impl std::fmt::Debug for Timeout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timeout").field("over", &self.over).finish()
    }
}
