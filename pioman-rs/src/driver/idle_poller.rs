//! The one idle virtual processor that polls; the others sleep.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};

use marcel::Vp;

/// See the module's description.
#[derive(Default)]
pub(super) struct IdlePoller {
    /// Its address; 0: none polls.
    vp: AtomicUsize,
    /// The sources that it polls.
    mask: AtomicU64,
    /// A wait has just polled in vain: its virtual processor need not poll again before it sleeps.
    spun: AtomicBool,
    /// A virtual processor that had nothing to run has left it to its sleep to arm.
    left: AtomicBool,
}

impl IdlePoller {
    /// Whether it is this one.
    #[inline]
    pub(super) fn is(&self, vp: &Vp) -> bool {
        self.vp.load(Relaxed) == address(vp)
    }

    /// Takes the role; true if `vp` has it now, and another one had it not.
    pub(super) fn start(&self, vp: &Vp) -> bool {
        self.vp.load(Relaxed) == 0
            && self.vp.compare_exchange(0, address(vp), Acquire, Relaxed).is_ok()
    }

    /// Gives the role up, if `vp` has it: the sources that it has polled.
    #[inline]
    pub(super) fn stop(&self, vp: &Vp) -> Option<u64> {
        if !self.is(vp) {
            return None;
        }
        let mask = self.mask.swap(0, Relaxed);
        self.vp.store(0, Release);
        Some(mask)
    }

    /// The sources that it polls.
    #[inline]
    pub(super) fn mask(&self) -> u64 {
        self.mask.load(Relaxed)
    }

    /// It polls these from now on.
    pub(super) fn set_mask(&self, mask: u64) {
        self.mask.store(mask, Relaxed);
    }

    /// A wait has polled in vain.
    #[inline]
    pub(super) fn note_vain_wait(&self) {
        self.spun.store(true, Relaxed);
    }

    /// Whether a wait has polled in vain since the last call.
    #[inline]
    pub(super) fn take_vain_wait(&self) -> bool {
        self.spun.swap(false, Relaxed)
    }

    /// A virtual processor leaves it to its sleep to arm; to whoever is busy or sleeps first.
    #[inline]
    pub(super) fn leave_to_others(&self) {
        self.left.store(true, SeqCst);
    }

    /// Whether something was left so; now it is the caller's.
    #[inline]
    pub(super) fn take_left(&self) -> bool {
        self.left.load(SeqCst) && self.left.swap(false, SeqCst)
    }

    /// The virtual processor that polls.
    pub(super) fn get(&self) -> Option<&'static Vp> {
        // SAFETY: virtual processors are immortal.
        unsafe { (self.vp.load(Relaxed) as *const Vp).as_ref() }
    }
}

/// What tells one virtual processor from another.
fn address(vp: &Vp) -> usize {
    std::ptr::from_ref(vp).addr()
}
