//! A kernel thread of the program that waits asks the kernel for a short time slice, for good.
//!
//! Beside threads of the program that compute, a thread that sleeps would else be woken when their slices are over. (A
//! 4-byte message of an MPI program took 42 to 53 ms at a random moment beside 32 computing threads on one core; now 6 to
//! 13.) So a thread asks before it sleeps for the first time.
//!
//! Where the launcher has started more processes than there are cores, it asks when it first offers its core
//! (`driver::offers`), because ranks of one job need slices of one length: a yield costs the thread that yields a slice of
//! virtual time, its own. With the usual slice, fourteen times as long, it waits until each of its neighbours has yielded
//! fourteen times. (Whether a rank had slept was chance: searches in a graph by eight ranks on two cores took 2.1 ms or,
//! with one or two ranks that had not, 2.6 to 5.8.)

use std::cell::Cell;

/// Whether threads ask.
#[derive(Clone, Copy)]
pub(crate) struct ShortSlices {
    asked_for: bool,
}

std::thread_local! {
    static ASKED: Cell<bool> = const { Cell::new(false) };
}

impl ShortSlices {
    pub(crate) fn asked_for(asked_for: bool) -> ShortSlices {
        ShortSlices { asked_for }
    }

    /// Asks for the calling kernel thread, once. One whose scheduling the program has chosen is left alone.
    pub(crate) fn ask(self) {
        if self.asked_for && !ASKED.replace(true) {
            // SAFETY: no pointers; 0 is the calling thread.
            let policy = unsafe { libc::sched_getscheduler(0) };
            if policy == libc::SCHED_OTHER {
                let _ = marcel::plumbing::lwp::prefer_current_thread();
            }
        }
    }
}
