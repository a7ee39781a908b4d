//! One waiting thread: how it sleeps, what ends its wait, how it is told that it is served.
//!
//! ```text
//!   WAITING ──serve──▶ SERVED                       a wait in one queue: the thread that takes it out serves it
//!   WAITING ──claim──▶ CLAIMED ──serve──▶ SERVED    a wait in several queues: the claim decides which thread serves
//!      └─────claim by the waiter: it has given up
//! ```
//!
//! `serve` is the last touch of what lies on the waiter's stack: as soon as it has happened the waiter may return. It
//! is unparked through its control block, which is immortal.
//!
//! # Waits that end otherwise
//! A wait has [`Limits`]: a deadline, whether an interruption ends it, and whether it ends when the waiter's stack is
//! being unwound by a runtime that stops. The last is the rule; but a wait for a lock goes on to the end, since
//! the call could not say that it has not got it.

use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use crate::list::{Leave, Listed};
use crate::os::AtomicU32;
use crate::task::{budget, park};
use crate::tcb::block::Tcb;

const WAITING: u32 = 0;
const CLAIMED: u32 = 1;
/// And above: served, by the choice that is added.
const SERVED: u32 = 2;

/// How a wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Another thread has served the waiter.
    Woken,
    /// The deadline came first.
    TimedOut,
    /// The thread has been asked to stop.
    Interrupted,
    /// The thread's stack is being unwound: it must not wait.
    Stopping,
}

/// What ends a wait that is not served.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    deadline: Option<Instant>,
    interruptible: bool,
    to_the_end: bool,
}

impl Limits {
    /// The end of the runtime only.
    pub(super) const NONE: Limits =
        Limits { deadline: None, interruptible: false, to_the_end: false };
    /// Nothing at all.
    pub(super) const TO_THE_END: Limits = Limits { to_the_end: true, ..Limits::NONE };
    /// An interruption.
    pub(super) const INTERRUPTIBLE: Limits = Limits { interruptible: true, ..Limits::NONE };

    /// A point in time.
    pub(super) const fn until(deadline: Instant) -> Limits {
        Limits { deadline: Some(deadline), ..Limits::NONE }
    }

    /// A time from now. One that no clock will ever show is no limit.
    pub(super) fn within(time: Duration) -> Limits {
        Limits { deadline: Instant::now().checked_add(time), ..Limits::NONE }
    }

    #[inline]
    fn reached(&self) -> Option<Outcome> {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            Some(Outcome::TimedOut)
        } else if !self.to_the_end && super::is_stopping() {
            Some(Outcome::Stopping)
        } else if self.interruptible && super::is_interrupted() {
            Some(Outcome::Interrupted)
        } else {
            None
        }
    }
}

/// See the module's description.
pub(super) struct Signal {
    tcb: &'static Tcb,
    word: AtomicU32,
}

impl Signal {
    /// For a wait of the calling thread.
    #[inline]
    pub(super) fn new() -> Signal {
        Signal { tcb: park::current(), word: AtomicU32::new(WAITING) }
    }

    /// As [`Signal::new`], for an operation that spends one of its turn: see `task::budget`.
    #[inline]
    pub(super) fn spending() -> Signal {
        let signal = Signal::new();
        budget::spend_of(signal.tcb);
        signal
    }

    /// The choice that has been served, if one has.
    #[inline]
    pub(super) fn served(&self) -> Option<u32> {
        self.word.load(Acquire).checked_sub(SERVED)
    }

    /// Sleeps until served or a limit is reached; in the latter case another thread may be about to serve it
    /// nevertheless. The waiter only.
    #[inline]
    pub(super) fn sleep(&self, reason: &'static str, limits: &Limits) -> Outcome {
        loop {
            if self.served().is_some() {
                return Outcome::Woken;
            }
            if let Some(outcome) = limits.reached() {
                return outcome;
            }
            park::park_until(reason, limits.deadline);
        }
    }

    /// As [`Signal::sleep`], and a waiter that is not served leaves its queue. Not [`Outcome::Woken`]: it has left.
    #[inline]
    pub(super) fn sleep_listed(
        &self,
        listed: Listed<impl Leave>,
        reason: &'static str,
        limits: &Limits,
    ) -> Outcome {
        let outcome = self.sleep(reason, limits);
        if outcome == Outcome::Woken {
            listed.served();
            outcome
        } else if listed.leave() {
            outcome
        } else {
            Outcome::Woken // it was served just then
        }
    }

    /// Decides which thread serves the waiter, or that none will; true for one caller.
    pub(super) fn claim(&self) -> bool {
        self.word.compare_exchange(WAITING, CLAIMED, AcqRel, Acquire).is_ok()
    }

    /// Tells the waiter. The last touch.
    #[inline]
    pub(super) fn serve(&self, choice: u32) -> Wake {
        let wake = Wake(self.tcb);
        self.word.store(SERVED + choice, Release);
        wake
    }
}

#[cfg(loom)]
impl Drop for Signal {
    /// Stands for the end of the memory: loom reports a touch that may come later.
    fn drop(&mut self) {
        self.word.with_mut(|_| ());
    }
}

/// A thread that has been served and is still to be woken, when no lock is held any more.
#[must_use]
pub(super) struct Wake(&'static Tcb);

impl Wake {
    #[inline]
    pub(super) fn up(self) {
        park::unpark(self.0);
    }

    /// Wakes the thread that has been served, if one has.
    #[inline]
    pub(super) fn any(wake: Option<Wake>) {
        if let Some(wake) = wake {
            wake.up();
        }
    }
}

/// Some of them: those that are served under one hold of a lock.
#[derive(Default)]
pub(super) struct Wakes {
    wakes: [Option<Wake>; Wakes::ROOM],
    len: usize,
}

impl Wakes {
    /// A lock is not held for longer than it takes to serve so many.
    const ROOM: usize = 16;

    pub(super) fn is_full(&self) -> bool {
        self.len == Self::ROOM
    }

    /// To be called with room.
    pub(super) fn push(&mut self, wake: Wake) {
        self.wakes[self.len] = Some(wake);
        self.len += 1;
    }

    /// Wakes them all.
    pub(super) fn up(self) {
        self.wakes.into_iter().flatten().for_each(Wake::up);
    }
}
