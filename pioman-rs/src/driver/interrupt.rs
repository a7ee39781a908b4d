//! Peers are asked to interrupt a virtual processor that computes; it may become idle meanwhile.
//!
//! A signal to a virtual processor that is idle does nothing ([`marcel::Hooks::signalled`]): it would be lost. So:
//!
//! ```text
//!   asker                                      virtual processor that becomes idle
//!   1. the peers are to signal it              1. busy = false
//!   2. fence                                   2. fence (`IdleSet::announce`)
//!   3. not busy? choose another method         3. something pends? arm: the peers are to ring
//! ```
//! Either the asker sees that the virtual processor is not busy, or its own request comes before the virtual processor's,
//! which replaces it. Both look for events after they have asked ([`Source::arm`](crate::Source::arm)). Invariant: an
//! event that comes while a source is armed is found by such a look, rings for a sleeper, or signals a virtual processor
//! that is busy; one that becomes busy again asks anew (`Driver::owe_interrupts`).

use crate::shim::{Ordering::SeqCst, fence};

/// Has the peers signal a virtual processor: `ask` does so, and is false if an event is there already. True: the next
/// event interrupts it. False: poll, then choose again.
pub(crate) fn ask_for_signal(ask: impl FnOnce() -> bool, is_busy: impl FnOnce() -> bool) -> bool {
    let quiet = ask();
    fence(SeqCst);
    quiet && is_busy()
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::shim::AtomicBool;
    use loom::sync::atomic::Ordering::*;
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    #[derive(Clone, Copy, PartialEq)]
    enum Tell {
        Nobody,
        Sleeper,
        Busy,
    }

    /// One source with one event, and one virtual processor.
    struct World {
        /// Whom the peer is to tell, and whether the event is there. A lock, so that the fences of this file are alone.
        source: Mutex<(Tell, bool)>,
        pending: AtomicBool,
        busy: AtomicBool,
        /// A sleeper was rung.
        rung: AtomicBool,
    }

    impl World {
        fn new() -> Arc<World> {
            Arc::new(World {
                source: Mutex::new((Tell::Nobody, false)),
                pending: AtomicBool::new(false),
                busy: AtomicBool::new(true),
                rung: AtomicBool::new(false),
            })
        }

        /// As a source's `arm` and `arm_interrupt`. False: the look has found the event.
        fn arm(&self, whom: Tell) -> bool {
            let mut source = self.source.lock().unwrap();
            source.0 = whom;
            !source.1
        }

        /// As `Driver::arm`, by a thread that leaves a request pending. True: it has found the event.
        fn leave_pending(&self) -> bool {
            self.pending.store(true, Relaxed);
            loop {
                let asked = match self.busy.load(Relaxed) {
                    true => ask_for_signal(|| self.arm(Tell::Busy), || self.busy.load(Relaxed)),
                    false => self.arm(Tell::Sleeper),
                };
                if asked {
                    return false;
                }
                if self.source.lock().unwrap().1 {
                    return true;
                }
            }
        }

        /// As the virtual processor, which has nothing to run any more. True: it has found the event.
        fn become_idle(&self) -> bool {
            self.busy.store(false, Relaxed);
            fence(SeqCst);
            self.pending.load(Relaxed) && !self.arm(Tell::Sleeper)
        }

        /// The peer. A signal is taken by a virtual processor that is not busy: at the end this one is not.
        fn send(&self) {
            let mut source = self.source.lock().unwrap();
            let whom = std::mem::replace(&mut source.0, Tell::Nobody);
            source.1 = true;
            if whom == Tell::Sleeper {
                self.rung.store(true, Relaxed);
            }
        }
    }

    #[test]
    fn a_signal_to_a_virtual_processor_that_becomes_idle_loses_nothing() {
        loom::model(|| {
            let world = World::new();
            let peer = {
                let world = world.clone();
                thread::spawn(move || world.send())
            };
            let idle = {
                let world = world.clone();
                thread::spawn(move || world.become_idle())
            };
            let found = world.leave_pending();
            let found = idle.join().unwrap() | found;
            peer.join().unwrap();
            assert!(found || world.rung.load(Relaxed), "no thread looks");
        });
    }
}
