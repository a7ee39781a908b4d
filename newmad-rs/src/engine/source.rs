//! The engine as the I/O manager sees it.

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use marcel::plumbing::SignalTarget;
use pioman::{Point, Source};

use crate::engine::{ARM, Engine, POLL};
use crate::sys::KeepErrno;

// SAFETY: the engine's rules (`ARCHITECTURE.md`, *the rules of the progress path*): nothing is allocated or freed, only
// try-locks are taken, `errno` is kept; a test with an aborting allocator holds it to that.
unsafe impl Source for Engine {
    fn name(&self) -> &str {
        "newmad"
    }

    #[inline]
    fn poll(&self) -> bool {
        self.poll_at(Point::Library)
    }

    #[inline]
    fn poll_at(&self, point: Point) -> bool {
        // No event comes from elsewhere, and nothing is under way: senders are to find the lock free.
        if self.is_alone && !self.pending() {
            return false;
        }
        let _errno = KeepErrno::new();
        match self.try_lock() {
            Some(mut core) => {
                core.pending.looks_at(point);
                let any = core.progress();
                core.pending.looks_at(Point::Library);
                any
            }
            None => {
                self.lock.delegate(POLL);
                false
            }
        }
    }

    #[inline]
    fn pending(&self) -> bool {
        // In this order: what is in neither place of the first is counted by now.
        self.signals.submissions.is_pending()
            || self.signals.outstanding.load(Ordering::Relaxed) != 0
            || self.doorbells.hold_back()
    }

    #[inline]
    fn unattended(&self) -> bool {
        // In this order, as above.
        self.signals.submissions.is_pending()
            || self.signals.is_unattended()
            || self.doorbells.hold_back()
    }

    fn fd(&self) -> Option<RawFd> {
        self.doorbells.fd()
    }

    fn figures(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("bells rung", self.doorbells.rung());
        each("peers interrupted", self.doorbells.interrupted());
        each("self-wakes", self.signals.self_wakes.load(Ordering::Relaxed));
        if let Some(finders) = &self.finders {
            finders.tell(each);
        }
        if let Some(rails) = &self.virtual_rails {
            rails.tell(each);
        }
    }

    fn acknowledge(&self) {
        let _errno = KeepErrno::new();
        self.doorbells.acknowledge();
    }

    /// When the engine is held, its holder arms and looks before it lets go, so the caller may sleep at once: a caller
    /// that tried again and again could keep a holder that it has preempted from its core.
    fn arm(&self) -> bool {
        self.doorbells.set_target(None);
        self.arm_for_events()
    }

    fn can_interrupt(&self) -> bool {
        self.doorbells.can_interrupt()
    }

    fn arm_interrupt(&self, target: SignalTarget) -> bool {
        self.doorbells.set_target(Some(target));
        self.arm_for_events()
    }

    #[inline]
    fn disarm(&self) {
        self.doorbells.disarm();
    }

    #[inline]
    fn disarms_its_descriptor(&self) -> bool {
        self.doorbells.are_everywhere()
    }
}

impl Engine {
    /// Has peers ring, or interrupt, as was last said.
    fn arm_for_events(&self) -> bool {
        let _errno = KeepErrno::new();
        let Some(mut core) = self.try_lock() else {
            self.lock.delegate(ARM);
            return true;
        };
        core.end_waits(true);
        if core.call_for_held() {
            return true;
        }
        core.settle(1)
    }
}
