//! How each source without a poller is looked after: a bit each.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

/// The answers of the policies for the sources without a poller. (Those for dedicated threads are with them.)
pub(super) struct Plan {
    /// A kernel thread is to sleep on them.
    pub(super) block: u64,
    /// Ticks find their events, and a pacer while virtual processors are idle.
    pub(super) tick: u64,
    /// Peers are to interrupt a busy virtual processor; ticks look, too.
    pub(super) interrupt: u64,
}

/// What the last plans were, and the pacer's role.
#[derive(Default)]
pub(super) struct Methods {
    ticked: AtomicU64,
    blocked: AtomicU64,
    interrupted: AtomicU64,
    /// A thread is the pacer.
    paced: AtomicBool,
}

impl Methods {
    /// The sources `open` are looked after by `plan` from now on.
    pub(super) fn note(&self, open: u64, plan: &Plan) {
        let Methods { ticked, blocked, interrupted, .. } = self;
        let all = [(ticked, plan.tick), (blocked, plan.block), (interrupted, plan.interrupt)];
        for (mask, now) in all {
            if mask.load(Relaxed) & open != now {
                mask.fetch_or(now, SeqCst);
                mask.fetch_and(!(open & !now), SeqCst);
            }
        }
    }

    /// The source has gone.
    pub(super) fn forget(&self, slot: usize) {
        self.ticked.fetch_and(!(1 << slot), SeqCst);
        self.blocked.fetch_and(!(1 << slot), SeqCst);
        self.interrupted.fetch_and(!(1 << slot), SeqCst);
    }

    /// Those that were last left to ticks.
    #[inline]
    pub(super) fn ticked(&self) -> u64 {
        self.ticked.load(Relaxed)
    }

    /// Those that were last left to a kernel thread that sleeps on them.
    #[inline]
    pub(super) fn blocked(&self) -> u64 {
        self.blocked.load(Relaxed)
    }

    /// Those whose peers were last asked to interrupt.
    #[inline]
    pub(super) fn interrupted(&self) -> u64 {
        self.interrupted.load(Relaxed)
    }

    /// Whether a thread is the pacer.
    pub(super) fn has_pacer(&self) -> bool {
        self.paced.load(SeqCst)
    }

    /// Takes the pacer's role; false if another thread has it.
    pub(super) fn take_pace(&self) -> bool {
        !self.paced.swap(true, SeqCst)
    }

    pub(super) fn release_pace(&self) {
        self.paced.store(false, SeqCst);
    }
}
