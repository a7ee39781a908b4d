//! The budget of a thread: how many operations that need not wait it may make before it lets others run. What it is
//! for, and which operations are counted: `task::budget`.

use std::cell::Cell;

/// Operations in a turn. tokio's figure.
pub(crate) const TURN: u32 = 128;

/// What is left of a thread's turn. Only the thread itself touches it, and the scheduler before it resumes the thread.
#[derive(Default)]
pub(crate) struct Budget {
    left: Cell<u32>,
    /// How many [`crate::plumbing::budget::Exempt`] the thread has.
    exempt: Cell<u32>,
}

impl Budget {
    /// A turn begins.
    #[inline(always)]
    pub(crate) fn refill(&self) {
        self.left.set(TURN);
    }

    /// Counts an operation; false if the turn was used up before it.
    #[inline(always)]
    pub(crate) fn spend(&self) -> bool {
        match self.left.get().checked_sub(1) {
            Some(left) => {
                self.left.set(left);
                true
            }
            None => false,
        }
    }

    pub(crate) fn exempt(&self) {
        self.exempt.set(self.exempt.get() + 1);
    }

    pub(crate) fn end_exemption(&self) {
        self.exempt.set(self.exempt.get() - 1);
    }

    /// The thread has ended: exemptions that it has forgotten are not the next one's.
    pub(crate) fn reset(&self) {
        self.exempt.set(0);
    }

    pub(crate) fn is_exempt(&self) -> bool {
        self.exempt.get() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_has_so_many_operations_and_begins_anew() {
        let budget = Budget::default();
        for _ in 0..2 {
            budget.refill();
            assert_eq!((0..2 * TURN).filter(|_| budget.spend()).count(), TURN as usize);
        }
    }

    #[test]
    fn exemptions_are_counted() {
        let budget = Budget::default();
        budget.exempt();
        budget.exempt();
        budget.end_exemption();
        assert!(budget.is_exempt());
        budget.end_exemption();
        assert!(!budget.is_exempt());
    }
}
