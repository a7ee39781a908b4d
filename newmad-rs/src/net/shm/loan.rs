//! The memory that a rank lends to the other ranks of its process while they copy from or to it.

use std::sync::atomic::{AtomicU32, Ordering};

/// The memory that the requests of a rank lend to the other ranks of its process.
#[derive(Default)]
pub(crate) struct Loan(AtomicU32);

/// Bit: the memory is withdrawn. Below: how many copies are going on.
const WITHDRAWN: u32 = 1 << 31;

impl Loan {
    /// Before a copy from or to it. False: it is withdrawn, and may have another owner.
    #[must_use]
    pub(crate) fn enter(&self) -> bool {
        let enters = self.0.fetch_add(1, Ordering::AcqRel) & WITHDRAWN == 0;
        if !enters {
            self.leave();
        }
        enters
    }

    /// After the copy. True: the owner waits for this, and is to be woken.
    pub(crate) fn leave(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) & WITHDRAWN != 0
    }

    /// From now on no copy begins. Says whether this is the first call, and whether no copy is going on.
    pub(crate) fn withdraw(&self) -> (bool, bool) {
        let before = self.0.fetch_or(WITHDRAWN, Ordering::AcqRel);
        (before & WITHDRAWN == 0, before & !WITHDRAWN == 0)
    }

    /// Whether its rank has ended, or is about to end: nothing more comes from there.
    pub(crate) fn is_withdrawn(&self) -> bool {
        self.0.load(Ordering::Acquire) & WITHDRAWN != 0
    }
}
