//! How the virtual processors of a runtime leave together.
//!
//! A destructor may start a thread for any virtual processor. So each says when nothing is left to do, goes back if
//! there is work again, and all leave when all have said so. Only a virtual processor that has something left can make
//! work for the others, so nothing can come after.

use crate::os::KernelMutex;
use std::sync::atomic::{AtomicBool, Ordering::*};

/// Counts the virtual processors that have nothing left to do.
#[derive(Default)]
pub(crate) struct Ending {
    count: KernelMutex<Count>,
    over: AtomicBool,
}

#[derive(Default)]
struct Count {
    quiet: usize,
    all: usize,
}

/// What a virtual processor that has nothing left to do finds when it looks again.
pub(crate) enum Outlook {
    /// It has work again, and counts as busy.
    Work,
    /// All have nothing left to do. The caller is the first to know, and wakes the others.
    Over,
    /// Others have something left.
    Wait,
}

impl Ending {
    /// How many virtual processors will come to their end. To be called before they are told to.
    pub(crate) fn expect(&self, all: usize) {
        self.with(|count| count.all = all);
    }

    /// The caller has nothing left to do.
    pub(crate) fn be_quiet(&self) {
        self.with(|count| count.quiet += 1);
    }

    /// Looks again, after [`Ending::be_quiet`].
    ///
    /// A virtual processor takes work only after it has said here that it is not quiet, under the lock under which the
    /// last one looks.
    pub(crate) fn look(
        &self,
        has_work: impl Fn() -> bool,
        have_others: impl Fn() -> bool,
    ) -> Outlook {
        self.with(|count| {
            if has_work() {
                count.quiet -= 1;
                Outlook::Work
            } else if count.quiet == count.all && !have_others() && !self.over.swap(true, SeqCst) {
                Outlook::Over
            } else {
                Outlook::Wait
            }
        })
    }

    /// Whether all have nothing left to do.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(SeqCst)
    }

    fn with<R>(&self, f: impl FnOnce(&mut Count) -> R) -> R {
        f(&mut self.count.lock())
    }
}
