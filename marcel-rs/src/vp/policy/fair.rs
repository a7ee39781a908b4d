//! First come, first served, by priority.
//!
//! Threads that never ran come last, newest first: what is at hand is finished before more is begun, so a
//! fork-join program needs stacks for its depth, not for its breadth. Two exceptions, so that nobody starves:
//! the virtual processor's own also come before a thread that has just yielded, and everyone's at every 61st turn (a
//! prime, so as not to beat with the program's own rhythm). A yield that looked into others' queues would cost
//! twice as much.

use super::{Fresh, Policy, Priority, Ready, ReadyList, Why};
use crate::thread::current::Thread;

/// How often, in turns, threads that never ran go first, the others' before its own.
const FRESH_FIRST: u32 = 61;

/// How far [`Policy::take`] looks.
const LOOK: usize = 64;

/// See the module's description.
#[derive(Debug, Default)]
pub struct Fair {
    ready: [ReadyList; 3],
    turns: u32,
    /// The last thread has yielded.
    yielded: bool,
}

impl Fair {
    /// With no thread.
    pub fn new() -> Fair {
        Fair::default()
    }

    #[inline]
    fn of(&mut self, priority: Priority) -> &mut ReadyList {
        &mut self.ready[priority as usize]
    }

    /// [`Policy::next`], without the indirect calls.
    #[inline]
    pub(super) fn next<F: Fresh + ?Sized>(&mut self, fresh: &mut F) -> Option<Ready> {
        self.turns = self.turns.wrapping_add(1);
        if let Some(urgent) = self.of(Priority::High).pop() {
            return Some(urgent);
        }
        if let Some(urgent) = fresh.take(Priority::High, false) {
            return Some(urgent);
        }
        let their_turn = self.turns.is_multiple_of(FRESH_FIRST);
        let yielded = std::mem::take(&mut self.yielded);
        let first = match their_turn {
            true => fresh.take(Priority::Normal, true),
            false if yielded => fresh.take_own(),
            false => None,
        };
        if first.is_some() {
            return first;
        }
        if let Some(ready) = self.of(Priority::Normal).pop() {
            return Some(ready);
        }
        fresh
            .take(Priority::Normal, false)
            .or_else(|| self.of(Priority::Low).pop())
            .or_else(|| fresh.take(Priority::Low, false))
    }
}

impl Policy for Fair {
    #[inline]
    fn put(&mut self, thread: Ready, why: Why) {
        self.yielded |= why == Why::Yielded;
        self.of(thread.priority()).push(thread);
    }

    fn next(&mut self, fresh: &mut dyn Fresh) -> Option<Ready> {
        Fair::next(self, fresh)
    }

    fn take(&mut self, thread: &Thread) -> Option<Ready> {
        self.ready.iter_mut().find_map(|list| list.take(LOOK, |ready| ready.is(thread.tcb())))
    }

    #[inline]
    fn len(&self) -> usize {
        self.ready.iter().map(ReadyList::len).sum()
    }
}
