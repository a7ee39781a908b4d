//! The state of a light task: one word, and every way in which it may change.
//!
//! ```text
//!                 ┌────────────── again, rest: scheduled meanwhile ───────────────┐
//!                 ▼                                                               │
//!  RESTING ──▶ QUEUED ──claim──▶ RUNNING ──export──▶ BLOCKING                     │
//!     ▲          ▲ │ masked         │ └───────────────────┼─────────▶ (QUEUED, PARKED, RESTING)
//!     │          │ └────▶ PARKED ◀──┤ masked              │
//!     │          └─unmask───┘       │                     │
//!     └────────────rest─────────────┤                     │
//!                                   ▼                     ▼
//!   cancel: RESTING, QUEUED, PARKED ──▶ ENDING ──tell──▶ ENDED ──▶ free
//! ```
//!
//! Beside the phase, flags:
//! * `LINKED`: its link is in a queue. The pusher sets it before the push, and the popper clears it after the
//!   pop, so a task is never in two queues. A task that is cancelled while it is in a queue ends at once and stays
//!   there, ENDED, until a visitor takes it out: nothing is ever removed from the middle of a lock-free queue.
//! * `MASKED`: it is not run. The popper of a masked task parks it; unmasking queues it again.
//! * `CANCELLED`: asked for while it ran. The call that is under way decides: done is completed, all else cancelled.
//! * `AGAIN`: scheduled while it ran (tasklets), so it runs once more.
//! * `HANDLE`: a handle exists. `TELLING`: the thread that ended the task still wakes its waiters.
//!
//! The block is free, and may be used for another task, when it is ENDED with none of `LINKED`, `HANDLE` and
//! `TELLING`: the transition that makes it so answers *free* to its caller, and there is one such transition.
//!
//! Every transition is one read-modify-write of the word (or a load, when it changes nothing, but for `schedule`, which
//! passes on what was written before it), so for each race one side is first, and the other sees it. What a transition
//! returns says what its caller has to do now. The races of
//! claim, again, cancel, mask, schedule, export and end are model-checked below.

use crate::shim::{AtomicU32, Ordering::*};

const PHASE: u32 = 0b111;
const RESTING: u32 = 0;
const QUEUED: u32 = 1;
const RUNNING: u32 = 2;
const BLOCKING: u32 = 3;
const PARKED: u32 = 4;
const ENDING: u32 = 5;
const ENDED: u32 = 6;

const LINKED: u32 = 1 << 3;
const MASKED: u32 = 1 << 4;
const CANCELLED: u32 = 1 << 5;
const AGAIN: u32 = 1 << 6;
const HANDLE: u32 = 1 << 7;
const TELLING: u32 = 1 << 8;
/// Above it: the [`Outcome`].
const OUTCOME: u32 = 9;

/// How a task has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Completed = 0,
    Cancelled = 1,
    Failed = 2,
}

/// See the module's description.
pub(crate) struct State(AtomicU32);

/// What the popper of a task does.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Run it.
    Run,
    /// Nothing: it is masked, and in no queue now.
    Parked,
    /// Nothing, or recycle the block: it ended while it was in the queue.
    Ended { free: bool },
}

/// What the one whose call has returned does.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Put it into its queue.
    Push,
    /// Nothing: it is masked.
    Parked,
    /// Nothing: it rests until it is scheduled.
    Rests,
    /// End it, cancelled. It was to run once more (`again`), which it does not.
    End { again: bool },
}

/// What the canceller does.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cancel {
    /// End it. `was` says what it did until now.
    End { was: Was },
    /// Nothing: the thread that runs it does.
    Later,
    /// Nothing: it has an outcome already, or is about to.
    TooLate,
}

/// What a task that is cancelled did until then.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Was {
    Resting,
    Queued,
    Parked,
}

/// What the scheduler of a tasklet does.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Schedule {
    /// Put it into its queue.
    Push,
    /// Nothing: it will run, when it is unmasked or when the call under way has returned.
    Later,
    /// Nothing: it was scheduled already.
    Merged,
    /// Nothing: it has ended.
    Refused,
}

/// What a task that was just masked is in the middle of.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mask {
    Nothing,
    Call,
    BlockingCall,
}

/// What the owner does that gives up the handle.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Detach {
    Nothing,
    /// Put it into its queue: it was parked, and without a handle it cannot be unmasked.
    Push,
    /// Recycle the block.
    Free,
}

impl State {
    /// Of a free block.
    pub(crate) fn new() -> State {
        State(AtomicU32::new(ENDED))
    }

    /// A new task, whose block the caller owns: it rests, and has a handle.
    pub(crate) fn renew(&self) {
        self.0.store(RESTING | HANDLE, Release);
    }

    /// One transition: `to` gives the new word and the answer.
    fn step<T>(&self, to: impl Fn(u32) -> (u32, T)) -> T {
        self.step_unless(|old, new| old == new, to)
    }

    /// As [`State::step`]; a load is enough if `load` says so of the old word and the new.
    fn step_unless<T>(&self, load: impl Fn(u32, u32) -> bool, to: impl Fn(u32) -> (u32, T)) -> T {
        let mut old = self.0.load(Acquire);
        loop {
            let (new, answer) = to(old);
            if load(old, new) {
                return answer;
            }
            match self.0.compare_exchange_weak(old, new, AcqRel, Acquire) {
                Ok(_) => return answer,
                Err(seen) => old = seen,
            }
        }
    }

    /// It is to run: submitted, or scheduled.
    pub(crate) fn schedule(&self) -> Schedule {
        // One that merges is a read-modify-write, too: a load might see that it is queued when it has been claimed
        // already, by a visitor that has not seen what the caller wrote before.
        self.step_unless(
            |_, _| false,
            |word| match word & PHASE {
                RESTING if word & MASKED != 0 => (with(word, PARKED), Schedule::Later),
                RESTING => (with(word, QUEUED) | LINKED, Schedule::Push),
                RUNNING | BLOCKING if word & (AGAIN | CANCELLED) == 0 => {
                    (word | AGAIN, Schedule::Later)
                }
                ENDING | ENDED => (word, Schedule::Refused),
                _ => (word, Schedule::Merged),
            },
        )
    }

    /// A new task goes to a spare kernel thread without having been in a queue: it is the caller's to run.
    pub(crate) fn start(&self) {
        self.step(|word| {
            debug_assert_eq!(word & PHASE, RESTING);
            (with(word, RUNNING), ())
        });
    }

    /// It was just taken out of a queue.
    pub(crate) fn claim(&self) -> Claim {
        self.step(|word| {
            debug_assert!(word & LINKED != 0);
            let out = word & !LINKED;
            match word & PHASE {
                QUEUED if word & MASKED != 0 => (with(out, PARKED), Claim::Parked),
                QUEUED => (with(out, RUNNING), Claim::Run),
                _ => (out, Claim::Ended { free: is_free(out) }),
            }
        })
    }

    /// The call has returned, and the task is to be called again.
    pub(crate) fn again(&self) -> After {
        self.step(|word| {
            debug_assert_eq!(word & PHASE, RUNNING);
            requeue(word)
        })
    }

    /// The call has returned, and the task is to be called when it is scheduled next.
    pub(crate) fn rest(&self) -> After {
        self.step(|word| match word & (CANCELLED | AGAIN) {
            0 => (with(word, RESTING), After::Rests),
            _ => requeue(word),
        })
    }

    /// It goes to a spare kernel thread; false if it was cancelled.
    pub(crate) fn export(&self) -> bool {
        self.step(|word| match word & CANCELLED {
            0 => (with(word, BLOCKING), true),
            _ => (word, false),
        })
    }

    /// Whether it is to end as soon as it can.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.load(Acquire) & CANCELLED != 0
    }

    pub(crate) fn cancel(&self) -> Cancel {
        self.step(|word| {
            let end = |was| (with(word, ENDING), Cancel::End { was });
            match word & PHASE {
                RESTING => end(Was::Resting),
                QUEUED => end(Was::Queued),
                PARKED => end(Was::Parked),
                RUNNING | BLOCKING => (word | CANCELLED, Cancel::Later),
                _ => (word, Cancel::TooLate),
            }
        })
    }

    pub(crate) fn mask(&self) -> Mask {
        self.step(|word| {
            let busy = match word & PHASE {
                RUNNING => Mask::Call,
                BLOCKING => Mask::BlockingCall,
                _ => Mask::Nothing,
            };
            (word | MASKED, busy)
        })
    }

    /// True: put it into its queue.
    #[must_use]
    pub(crate) fn unmask(&self) -> bool {
        self.step(|word| match word & PHASE {
            PARKED => (with(word, QUEUED) & !MASKED | LINKED, true),
            _ => (word & !MASKED, false),
        })
    }

    /// The thread that runs it ends it.
    pub(crate) fn end(&self) {
        self.step(|word| {
            debug_assert!(matches!(word & PHASE, RUNNING | BLOCKING));
            (with(word, ENDING), ())
        });
    }

    /// The task is cleaned up; now every thread sees how it has ended. The caller wakes the waiters.
    pub(crate) fn tell(&self, outcome: Outcome) {
        self.step(|word| {
            debug_assert_eq!(word & PHASE, ENDING);
            let flags = word & (LINKED | HANDLE);
            (flags | ENDED | TELLING | (outcome as u32) << OUTCOME, ())
        });
    }

    /// The waiters have been woken. True: recycle the block.
    #[must_use]
    pub(crate) fn told(&self) -> bool {
        self.step(|word| (word & !TELLING, is_free(word & !TELLING)))
    }

    /// The handle is given up.
    pub(crate) fn detach(&self) -> Detach {
        self.step(|word| {
            let without = word & !(HANDLE | MASKED);
            match word & PHASE {
                PARKED => (with(without, QUEUED) | LINKED, Detach::Push),
                _ if is_free(without) => (without, Detach::Free),
                _ => (without, Detach::Nothing),
            }
        })
    }

    /// Its outcome, if it has one; what was done before it ended is visible then.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        let word = self.0.load(Acquire);
        (word & PHASE == ENDED).then_some(match word >> OUTCOME {
            0 => Outcome::Completed,
            1 => Outcome::Cancelled,
            _ => Outcome::Failed,
        })
    }

    /// Whether it is called right now.
    pub(crate) fn is_running(&self) -> bool {
        self.0.load(Acquire) & PHASE == RUNNING
    }
}

fn with(word: u32, phase: u32) -> u32 {
    word & !PHASE | phase
}

fn is_free(word: u32) -> bool {
    word & PHASE == ENDED && word & (LINKED | HANDLE | TELLING) == 0
}

/// After a call: what becomes of a task that is to be called once more.
fn requeue(word: u32) -> (u32, After) {
    let next = word & !AGAIN;
    if word & CANCELLED != 0 {
        (with(next, ENDING), After::End { again: word & AGAIN != 0 })
    } else if word & MASKED != 0 {
        (with(next, PARKED), After::Parked)
    } else {
        (with(next, QUEUED) | LINKED, After::Push)
    }
}

#[cfg(all(test, loom))]
#[path = "state_model.rs"]
mod model;
