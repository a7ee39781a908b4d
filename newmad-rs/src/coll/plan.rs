//! A plan: what one rank does in a collective, as steps that wait for each other.
//!
//! A plan knows nothing of sessions: it names ranks of the group, and places in three buffers. It does not change while
//! it is carried out; what has been done is in a [`Progress`]. So the same code runs over real requests (`run.rs`) and,
//! with all ranks in one thread, under proptest (`coll/simulator.rs`).

use std::collections::VecDeque;

/// One of the buffers of a collective, at one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Buf {
    /// What the rank contributes. Only read.
    In,
    /// Where its result goes.
    Out,
    /// Memory that the plan asks for.
    Tmp,
}

/// A part of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) buf: Buf,
    pub(crate) at: usize,
    pub(crate) len: usize,
}

impl Place {
    pub(crate) const fn new(buf: Buf, at: usize, len: usize) -> Place {
        Place { buf, at, len }
    }

    /// `len` bytes of it from `at` on, which are inside.
    pub(crate) fn part(self, at: usize, len: usize) -> Place {
        debug_assert!(at + len <= self.len, "{len} bytes at {at} of {self:?}");
        Place { at: self.at + at, len, ..self }
    }
}

/// One thing to do. Ranks are those of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Send {
        to: u32,
        from: Place,
    },
    Recv {
        from: u32,
        into: Place,
    },
    /// `left` and `right`, in this order of ranks, become one, which is kept in one of the two places.
    Combine {
        left: Place,
        right: Place,
        keep: Side,
    },
    Copy {
        from: Place,
        into: Place,
    },
    /// Nothing; others wait for it.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// A step, and the steps that wait for it.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) action: Action,
    /// How many steps it waits for.
    pub(super) waits: u32,
    /// Steps that wait for its end.
    pub(super) at_end: Vec<u32>,
    /// The step that may start when this one has: the next message of the same direction to or from the same rank.
    pub(super) at_start: Option<u32>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(super) steps: Box<[Step]>,
    /// Bytes of [`Buf::Tmp`].
    pub(super) scratch: usize,
    /// The last byte, and one, that a step touches of each buffer.
    pub(super) extents: [usize; 3],
}

impl Plan {
    /// What step `index` does.
    pub(crate) fn action(&self, index: u32) -> Action {
        self.steps[index as usize].action
    }

    /// How many messages it sends and receives.
    pub(crate) fn messages(&self) -> usize {
        let is_message =
            |step: &&Step| matches!(step.action, Action::Send { .. } | Action::Recv { .. });
        self.steps.iter().filter(is_message).count()
    }
}

/// How far a plan has been carried out. The thread that does that takes a step, starts it, and tells its end.
#[derive(Debug)]
pub(crate) struct Progress {
    waits: Box<[u32]>,
    ready: VecDeque<u32>,
    left: usize,
}

impl Progress {
    /// The first `done` steps are over. Allocates all that it will ever need.
    pub(crate) fn after(plan: &Plan, done: usize) -> Progress {
        let mut waits: Box<[u32]> = plan.steps.iter().map(|step| step.waits).collect();
        for step in &plan.steps[..done] {
            for &next in step.at_end.iter().chain(&step.at_start) {
                waits[next as usize] -= 1;
            }
        }
        let mut ready = VecDeque::with_capacity(waits.len());
        ready.extend((done as u32..waits.len() as u32).filter(|&step| waits[step as usize] == 0));
        Progress { left: waits.len() - done, waits, ready }
    }

    /// A step that can be started.
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.ready.pop_front()
    }

    /// Whether there is a step that can be started.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Steps that were taken and cannot be started yet.
    pub(crate) fn put_back(&mut self, steps: Vec<u32>) {
        self.ready.extend(steps);
    }

    /// As [`Progress::take`], in any order: for tests.
    #[cfg(test)]
    pub(crate) fn take_any(&mut self, choice: usize) -> Option<u32> {
        let len = self.ready.len();
        if len == 0 { None } else { self.ready.swap_remove_back(choice % len) }
    }

    /// A step was started: its message is in its place among those of its pair of ranks.
    pub(crate) fn started(&mut self, plan: &Plan, step: u32) {
        if let Some(next) = plan.steps[step as usize].at_start {
            self.release(next);
        }
    }

    /// A step is over.
    pub(crate) fn ended(&mut self, plan: &Plan, step: u32) {
        self.left -= 1;
        for &next in &plan.steps[step as usize].at_end {
            self.release(next);
        }
    }

    fn release(&mut self, step: u32) {
        let waits = &mut self.waits[step as usize];
        *waits -= 1;
        if *waits == 0 {
            self.ready.push_back(step);
        }
    }

    /// Whether all steps are over.
    pub(crate) fn is_over(&self) -> bool {
        self.left == 0
    }
}
