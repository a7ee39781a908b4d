//! What a one-shot descriptor is in an `epoll` set, as far as its users can know.
//!
//! ```text
//!   OFF ──arm──▶ BUSY ──epoll_ctl──▶ ON ──event──▶ OFF        (the kernel disarms a one-shot by itself)
//!                                    ON ──disarm──▶ BUSY ──epoll_ctl──▶ OFF
//! ```
//!
//! Whoever finds BUSY does not wait: *arm* says that it has not succeeded, and its caller polls and tries again. An
//! event that comes while the state is BUSY (before the one who arms could write ON) is noted as *fired*; either the
//! sleeper that got it finds ON at its second look, or the one who armed finds the note. So:
//!
//! > **A descriptor that is ON is armed in the kernel.**
//!
//! (The other way round is not promised: a stale note may leave an armed descriptor OFF, which costs a system call.)
//! Without the note the invariant broke, and an event that everybody believed in woke nobody. Model-checked below.

use crate::shim::{AtomicBool, AtomicU8, Ordering::SeqCst, fence};

const OFF: u8 = 0;
const ON: u8 = 1;
const BUSY: u8 = 2;

/// State of one descriptor.
pub(crate) struct Arming {
    state: AtomicU8,
    fired: AtomicBool,
}

/// What [`Arming::begin`] has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Begin {
    /// It is as wanted.
    Already,
    /// The caller makes the system call, then calls [`Arming::end`].
    Yours,
    /// Somebody else is about to change it.
    Busy,
}

impl Arming {
    /// Not armed.
    pub(crate) fn new() -> Arming {
        Arming { state: AtomicU8::new(OFF), fired: AtomicBool::new(false) }
    }

    /// Whether there is anything to disarm.
    pub(crate) fn is_on(&self) -> bool {
        self.state.load(SeqCst) == ON
    }

    /// Starts to arm it (`on`) or to disarm it.
    pub(crate) fn begin(&self, on: bool) -> Begin {
        let (from, to) = if on { (OFF, ON) } else { (ON, OFF) };
        if self.state.load(SeqCst) == to {
            return Begin::Already;
        }
        match self.state.compare_exchange(from, BUSY, SeqCst, SeqCst) {
            Ok(_) => Begin::Yours,
            Err(_) => Begin::Busy,
        }
    }

    /// The kernel says that it is armed now (or not).
    pub(crate) fn end(&self, armed: bool) {
        self.state.store(if armed { ON } else { OFF }, SeqCst);
        fence(SeqCst); // with the one in `note_event`: one of the two sees the other
        if self.fired.swap(false, SeqCst) {
            let _ = self.off();
        }
    }

    /// The kernel has reported the descriptor, and disarmed it.
    pub(crate) fn note_event(&self) {
        if self.off() == Err(BUSY) {
            self.fired.store(true, SeqCst);
            fence(SeqCst);
            let _ = self.off();
        }
    }

    /// It is another descriptor's now.
    pub(crate) fn reset(&self) {
        self.state.store(OFF, SeqCst);
    }

    fn off(&self) -> Result<u8, u8> {
        self.state.compare_exchange(ON, OFF, SeqCst, SeqCst)
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// A descriptor, and what the kernel knows of it.
    struct World {
        arming: Arming,
        armed: AtomicBool,
    }

    impl World {
        fn turn(&self, on: bool) {
            if self.arming.begin(on) == Begin::Yours {
                self.armed.swap(on, SeqCst); // system calls are read-modify-writes of the kernel's state
                self.arming.end(on);
            }
        }

        fn event(&self) {
            if self.armed.swap(false, SeqCst) {
                self.arming.note_event();
            }
        }
    }

    fn model(disarms: bool) {
        loom::model(move || {
            let world = Arc::new(World { arming: Arming::new(), armed: AtomicBool::new(false) });
            let one = |f: fn(&World)| {
                let world = world.clone();
                thread::spawn(move || f(&world))
            };
            let threads = [
                one(|w| w.turn(true)),
                if disarms { one(|w| w.turn(false)) } else { one(|w| w.turn(true)) },
                one(|w| w.event()),
            ];
            threads.into_iter().for_each(|t| t.join().unwrap());
            let armed = world.armed.swap(false, SeqCst);
            assert!(!world.arming.is_on() || armed, "ON, but not armed");
        });
    }

    #[test]
    fn what_is_on_is_armed_whoever_arms() {
        model(false);
    }

    #[test]
    fn what_is_on_is_armed_when_somebody_disarms() {
        model(true);
    }
}
