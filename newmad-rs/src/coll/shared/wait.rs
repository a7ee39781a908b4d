//! Waiting for another member, and waking those that wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pioman::Point;

use crate::coll::board::Board;
use crate::coll::group::Group;
use crate::coll::memory::Memory;
use crate::coll::recorder::Recorder;
use crate::coll::run::Waits;
use crate::error::Error;
use crate::net::segment::notice::Words;

/// How long a member looks before it sleeps, at least: a few times what a message takes from a peer that is here already.
pub(crate) const BUDGET: Duration = Duration::from_micros(20);
/// And at most: after sleeps that were shorter than this. (Members that all sleep a little wake each other for ever: 40
/// to 70 µs for a barrier that takes 5 to 10 where they look, and give their cores to each other.)
const LONG: Duration = Duration::from_micros(200);
/// Looks at a word between two looks at anything else; where others want the core, so that each is a switch.
const LOOKS: u32 = 32;
const FEW_LOOKS: u32 = 2;

impl Group {
    /// Waits until a member's words say so.
    #[inline]
    pub(super) fn wait_for(
        &self,
        board: &Board,
        rank: usize,
        there: impl Fn(&Words<'_>) -> bool,
    ) -> Result<(), Error> {
        let words = board.members[rank].place.words();
        if there(&words) {
            return Ok(());
        }
        self.wait_longer(board, rank, &words, &there)
    }

    #[cold]
    fn wait_longer(
        &self,
        board: &Board,
        rank: usize,
        words: &Words<'_>,
        there: &dyn Fn(&Words<'_>) -> bool,
    ) -> Result<(), Error> {
        while !self.comes_soon(board.budget.get(), words, there) {
            words.mark(self.rank());
            if there(words) && words.withdraw(self.rank()) {
                break;
            }
            let slept = Instant::now();
            self.woken_by(rank as u32)?;
            let longer = (2 * board.budget.get()).min(LONG);
            let next = if slept.elapsed() < LONG { longer } else { BUDGET };
            board.budget.set(next.min(board.limit));
        }
        Ok(())
    }

    /// Looks until it is there, or that was in vain for long.
    fn comes_soon(
        &self,
        budget: Duration,
        words: &Words<'_>,
        there: &dyn Fn(&Words<'_>) -> bool,
    ) -> bool {
        let manager = &self.context.session.manager;
        let (mut begun, mut most_away) = (None, LONG);
        loop {
            let looks = if manager.is_crowded() { FEW_LOOKS } else { LOOKS };
            for _ in 0..looks {
                if there(words) {
                    manager.looked(true);
                    return true;
                }
                std::hint::spin_loop();
            }
            let now = Instant::now();
            let begun = begun.get_or_insert(now);
            if marcel::plumbing::others_runnable() || now - *begun > budget {
                return false;
            }
            // The member may be waiting for a message that this rank has to send on.
            manager.poll(Point::Library);
            let away = manager.looked(false).min(most_away);
            most_away -= away;
            *begun += away;
        }
    }

    /// Receives the message that a member sends to those who left a mark.
    fn woken_by(&self, rank: u32) -> Result<(), Error> {
        let mut receive = Recorder::new(self.rank(), self.size(), 1, true);
        receive.await_signal(rank);
        let next = (self.context.wake_tag(), false);
        // SAFETY: the plan has no memory.
        unsafe { self.run_out((Arc::new(receive.plan()), 0, &[]), next, None, nothing()) }
    }

    /// Wakes the members that have left these marks.
    #[inline]
    pub(super) fn wake(&self, marks: u64) {
        if marks != 0 {
            self.wake_marked(marks);
        }
    }

    #[cold]
    fn wake_marked(&self, marks: u64) {
        let tag = self.context.wake_tag();
        for rank in (0..self.size()).filter(|rank| marks & 1 << rank != 0) {
            let to = self.members()[rank as usize];
            if self.context.session.send_now(to, tag, &[]) {
                continue;
            }
            let mut send = Recorder::new(self.rank(), self.size(), 1, true);
            send.signal(rank);
            // It goes on by itself.
            // SAFETY: the plan has no memory.
            drop(unsafe {
                self.begin(
                    (Arc::new(send.plan()), 0, &[]),
                    (tag, false),
                    None,
                    nothing(),
                    Waits::Later(None),
                )
            });
        }
    }
}

/// The memory of a plan that needs none.
fn nothing() -> Memory {
    Memory { input: &[], output: &mut [] }
}
