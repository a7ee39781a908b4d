//! Bubbles: threads that work together run together (the affinity of Marcel's BubbleSched, on one virtual
//! processor).
//!
//! A virtual processor stays with one bubble for a number of turns while any of its threads can run, then goes to
//! the bubble of the thread that has waited longest. The working set in the caches is that of one bubble, instead
//! of that of all. Threads that never ran start when the bubble at hand has nothing to do, and at every 61st
//! turn. Priorities are not looked at.
//!
//! ```
//! use marcel::policy::{Bubble, Bubbles};
//! let runtime = marcel::Runtime::builder().policy(|_| Box::new(Bubbles::new(32))).build()?;
//! runtime.run(|| {
//!     let bubble = Bubble::new();
//!     let team: Vec<_> = (0..4)
//!         .map(|_| marcel::Builder::new().bubble(bubble).spawn(marcel::yield_now).unwrap())
//!         .collect();
//!     team.into_iter().for_each(|thread| thread.join().unwrap());
//! });
//! # Ok::<(), marcel::Error>(())
//! ```

use super::{Fresh, Policy, Priority, Ready, ReadyList, Source, Why};
use crate::tcb::block::ThreadId;
use crate::tcb::traits::Bubble;

/// As in [`super::Fair`].
const FRESH_FIRST: u32 = 61;

/// How many waiting threads are looked at for more of the bubble that begins its turns.
const LOOK: usize = 64;

/// See the module's description.
#[derive(Debug)]
pub struct Bubbles {
    /// Turns that a bubble gets.
    turns: u32,
    left: u32,
    picks: u32,
    bubble: Bubble,
    /// Of the bubble at hand.
    together: ReadyList,
    /// Of all others, and some of the bubble at hand that were not found when it began.
    others: ReadyList,
}

impl Bubbles {
    /// Each bubble gets `turns` turns at a time, at least one.
    pub fn new(turns: u32) -> Bubbles {
        Bubbles {
            turns: turns.max(1),
            left: 0,
            picks: 0,
            bubble: Bubble::default(),
            together: ReadyList::default(),
            others: ReadyList::default(),
        }
    }

    /// The bubble that has waited longest begins its turns.
    fn change(&mut self) -> Option<Ready> {
        while let Some(ready) = self.together.pop() {
            self.others.push(ready);
        }
        let first = self.others.pop()?;
        self.bubble = first.bubble();
        self.left = self.turns - 1;
        let bubble = self.bubble;
        while let Some(ready) = self.others.take(LOOK, |ready| ready.bubble() == bubble) {
            self.together.push(ready);
        }
        Some(first)
    }
}

// SAFETY: threads are in its own lists only, until they are returned.
unsafe impl Policy for Bubbles {
    fn put(&mut self, thread: Ready, _: Why) {
        match thread.bubble() == self.bubble {
            true => self.together.push(thread),
            false => self.others.push(thread),
        }
    }

    fn next(&mut self, fresh: &mut dyn Fresh) -> Option<Ready> {
        self.picks = self.picks.wrapping_add(1);
        if let Some(urgent) = fresh.take(Priority::High, Source::Anywhere) {
            return Some(urgent);
        }
        if self.picks.is_multiple_of(FRESH_FIRST)
            && let Some(first) = fresh.take(Priority::Normal, Source::OthersFirst)
        {
            return Some(first);
        }
        if self.left > 0
            && let Some(ready) = self.together.pop()
        {
            self.left -= 1;
            return Some(ready);
        }
        // Its turns are over, or it has nothing to do: what was never begun may belong to it.
        if self.left > 0
            && let Some(first) = fresh.take(Priority::Normal, Source::Anywhere)
        {
            self.left -= 1;
            return Some(first);
        }
        self.change()
            .or_else(|| fresh.take(Priority::Normal, Source::Anywhere))
            .or_else(|| fresh.take(Priority::Low, Source::Anywhere))
    }

    fn take(&mut self, thread: ThreadId) -> Option<Ready> {
        let wanted = |ready: &Ready| ready.id() == thread;
        self.together.take(LOOK, wanted).or_else(|| self.others.take(LOOK, wanted))
    }

    fn spare(&mut self, movable: &mut dyn FnMut(&Ready) -> bool) -> Option<Ready> {
        // The bubble at hand stays together.
        if self.len() < 2 { None } else { self.others.take(LOOK, movable) }
    }

    fn len(&self) -> usize {
        self.together.len() + self.others.len()
    }
}
