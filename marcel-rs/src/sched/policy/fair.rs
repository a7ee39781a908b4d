//! First come, first served, by priority.
//!
//! Threads that never ran come last, newest first: what is at hand is finished before more is begun, so a
//! fork-join program needs stacks for its depth, not for its breadth. Two exceptions, so that no thread starves:
//! its own also come before a thread that has just yielded, and everyone's at every 61st turn (a prime, so
//! as not to beat with the program's own rhythm).

use super::{Fresh, Policy, Priority, Ready, ReadyList, Source, Why};
use crate::tcb::block::ThreadId;

/// How often, in turns, threads that never ran go first, the others' before its own.
const FRESH_FIRST: u32 = 61;

/// How far [`Policy::take`] and [`Policy::spare`] look.
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
    #[inline(always)]
    pub(super) fn next<F: Fresh + ?Sized>(&mut self, fresh: &mut F) -> Option<Ready> {
        self.turns = self.turns.saturating_add(1);
        if let Some(urgent) = self.of(Priority::High).pop() {
            return Some(urgent);
        }
        if let Some(urgent) = fresh.take(Priority::High, Source::Anywhere) {
            return Some(urgent);
        }
        if self.turns >= FRESH_FIRST {
            self.turns = 0;
            if let Some(first) = fresh.take(Priority::Normal, Source::OthersFirst) {
                return Some(first);
            }
        }
        if std::mem::take(&mut self.yielded)
            && let Some(first) = fresh.take(Priority::Normal, Source::Own)
        {
            return Some(first);
        }
        if let Some(ready) = self.of(Priority::Normal).pop() {
            return Some(ready);
        }
        fresh
            .take(Priority::Normal, Source::Anywhere)
            .or_else(|| self.of(Priority::Low).pop())
            .or_else(|| fresh.take(Priority::Low, Source::Anywhere))
    }
}

// SAFETY: threads are in its own lists only, until they are returned.
unsafe impl Policy for Fair {
    #[inline]
    fn put(&mut self, thread: Ready, why: Why) {
        self.yielded |= why == Why::Yielded;
        self.of(thread.priority()).push(thread);
    }

    fn next(&mut self, fresh: &mut dyn Fresh) -> Option<Ready> {
        Fair::next(self, fresh)
    }

    fn take(&mut self, thread: ThreadId) -> Option<Ready> {
        self.ready.iter_mut().find_map(|list| list.take(LOOK, |ready| ready.id() == thread))
    }

    fn spare(&mut self, movable: &mut dyn FnMut(&Ready) -> bool) -> Option<Ready> {
        // Those of other priorities wait where their priority counts.
        let usual = self.of(Priority::Normal);
        if usual.len() < 2 { None } else { usual.take(LOOK, movable) }
    }

    #[inline]
    fn len(&self) -> usize {
        self.ready.iter().map(ReadyList::len).sum()
    }
}
