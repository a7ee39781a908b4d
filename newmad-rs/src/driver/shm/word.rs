//! The word of a bell, in the receiver's segment: for what it wants to be rung, and whether it was called.
//!
//! ```text
//! bits       MESSAGE CONTROL ROOM   what the receiver wants to be rung for; a sender that rings takes them
//!            CALLED                 something that needs an answer was published, and the receiver may not have looked since
//!
//! receiver   arm:   swap(wanted); fence; look at every ring, or only if it was CALLED        sleep if nothing is there
//!            look:  clear CALLED; fence; look at every ring to its end, else set it again
//!            leave: clear what is wanted
//! sender     publish; fence; set CALLED, if an answer is needed; wanted has the bit && exchange ─▶ write the counter
//! ```
//! One of the two sees the other, and a burst rings once. A receiver that wants to be rung only for what needs an answer need
//! not look when it was not called: short messages stay in the rings until somebody asks for them, and what asks costs an
//! exchange on a line of its own. (To look for each of a window of receives cost a program that exchanges halos 2 to 5 of 14 µs
//! a step.) Who finds CALLED set leaves it alone: a stream of pieces costs one write.
//!
//! The exchange fails when the receiver has changed its mind, and the sender looks again: a swap could take away what the
//! receiver asks for now, without ringing for it.

use crate::sync::{AtomicU32, Ordering, fence};

/// A short message, or news that needs no answer.
pub(crate) const MESSAGE: u32 = 1;
/// What its sender needs an answer to.
pub(crate) const CONTROL: u32 = 2;
/// Room on a track that was full.
pub(crate) const ROOM: u32 = 4;
const WANTED: u32 = MESSAGE | CONTROL | ROOM;
const CALLED: u32 = 8;

/// How often a sender looks at a word that changes: a receiver changes its mind seldom, and a hostile one cannot keep the
/// sender here.
const TRIES: u32 = 16;

/// What the receiver has found when it armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Armed {
    /// A sender has taken what was wanted before.
    pub(crate) rung: bool,
    /// Something that needs an answer may be in the rings.
    pub(crate) called: bool,
}

/// The receiver wants to be rung for these. The caller looks at the rings then; if it wants to be rung for [`CONTROL`] alone,
/// only if it was called.
#[inline]
pub(crate) fn arm(word: &AtomicU32, wanted: u32) -> Armed {
    if wanted == CONTROL && word.load(Ordering::Relaxed) == CONTROL {
        // It stands: a sender that this load does not see finds it so, and rings.
        return Armed { rung: false, called: false };
    }
    let before = word.swap(wanted & WANTED, Ordering::AcqRel);
    let called = before & CALLED != 0;
    if called {
        // It stands until somebody has looked to the end.
        set_called(word);
    }
    fence(Ordering::SeqCst);
    Armed { rung: before & WANTED == 0, called }
}

/// The receiver wants nothing any more. True: a sender has taken what was wanted before.
#[inline]
pub(crate) fn leave(word: &AtomicU32) -> bool {
    word.fetch_and(CALLED, Ordering::AcqRel) & WANTED == 0
}

/// Whether nothing is wanted: not yet, or because a sender has rung.
#[inline]
pub(crate) fn is_taken(word: &AtomicU32) -> bool {
    word.load(Ordering::Relaxed) & WANTED == 0
}

/// The receiver looks at every ring, to its end, or calls [`set_called`].
#[inline]
pub(crate) fn clear_called(word: &AtomicU32) {
    if word.load(Ordering::Relaxed) & CALLED != 0 {
        word.fetch_and(!CALLED, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }
}

/// Something may have been left in a ring.
#[inline]
pub(crate) fn set_called(word: &AtomicU32) {
    word.fetch_or(CALLED, Ordering::AcqRel);
}

/// The sender has published something of this kind. True: it is wanted, and the sender writes the counter.
#[inline]
pub(crate) fn call(word: &AtomicU32, kind: u32) -> bool {
    fence(Ordering::SeqCst);
    let mut now = word.load(Ordering::Relaxed);
    if kind & CONTROL != 0 && now & CALLED == 0 {
        now = word.fetch_or(CALLED, Ordering::AcqRel) | CALLED;
    }
    now & kind & WANTED != 0 && take(word, now, kind)
}

#[cold]
#[inline(never)]
fn take(word: &AtomicU32, mut now: u32, kind: u32) -> bool {
    for _ in 0..TRIES {
        if now & kind & WANTED == 0 {
            return false;
        }
        match word.compare_exchange(now, now & CALLED, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(other) => now = other,
        }
    }
    true
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::sync::{Arc, AtomicBool};
    use loom::thread;

    /// One ring of one slot for each kind, and the counter.
    struct World {
        word: AtomicU32,
        message: AtomicBool,
        control: AtomicBool,
        rung: AtomicBool,
    }

    impl World {
        fn new() -> Arc<World> {
            let no = || AtomicBool::new(false);
            Arc::new(World { word: AtomicU32::new(0), message: no(), control: no(), rung: no() })
        }

        fn publish(&self, kind: u32) {
            let ring = if kind == CONTROL { &self.control } else { &self.message };
            ring.store(true, Ordering::Release);
            if call(&self.word, kind) {
                self.rung.swap(true, Ordering::AcqRel); // as the kernel's counter
            }
        }

        fn sees(&self, kind: u32) -> bool {
            let ring = if kind == CONTROL { &self.control } else { &self.message };
            ring.load(Ordering::Acquire)
        }

        /// As `Core::settle`. True: there is something, and nobody sleeps.
        fn settle(&self, wanted: u32) -> bool {
            let armed = arm(&self.word, wanted);
            if wanted == CONTROL && !armed.called {
                return false;
            }
            clear_called(&self.word);
            self.sees(CONTROL) || wanted & MESSAGE != 0 && self.sees(MESSAGE)
        }
    }

    /// The receiver computes twice, and polls in between, without looking. `called`: it was called before, for what is gone.
    /// `stands`: what is wanted is left as it is while it polls.
    fn is_never_slept_through(kind: u32, wanted: u32, senders: usize) {
        for (called, stands) in [(false, false), (false, true), (true, false), (true, true)] {
            loom::model(move || one_way(kind, wanted, senders, called, stands));
        }
    }

    fn one_way(kind: u32, wanted: u32, senders: usize, called: bool, stands: bool) {
        let world = World::new();
        if called {
            set_called(&world.word);
        }
        let send = |_| {
            let world = world.clone();
            thread::spawn(move || world.publish(kind))
        };
        let senders: Vec<_> = (0..senders).map(send).collect();
        let mut seen = world.settle(wanted);
        if !seen {
            // A ring that was under way is taken away; what has come stays where it is.
            if !stands {
                leave(&world.word);
            }
            world.rung.swap(false, Ordering::AcqRel);
            if !stands {
                // As somebody who is to be woken for something else.
                let _ = arm(&world.word, wanted);
            }
            seen = world.settle(wanted);
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        let rung = world.rung.swap(false, Ordering::AcqRel);
        assert!(seen || rung || !world.sees(kind), "it came, and nobody was told");
    }

    #[test]
    fn what_needs_an_answer_is_seen_or_rung_for() {
        is_never_slept_through(CONTROL, CONTROL, 1);
    }

    #[test]
    fn of_several_that_need_an_answer_one_is_seen_or_rung_for() {
        is_never_slept_through(CONTROL, CONTROL, 2);
    }

    #[test]
    fn a_message_is_seen_or_rung_for_where_that_is_wanted() {
        is_never_slept_through(MESSAGE, MESSAGE | CONTROL, 1);
    }

    /// A sender that has seen what was wanted takes nothing away of what is wanted now.
    fn what_is_wanted_changes(from: u32, to: u32) {
        loom::model(move || {
            let world = World::new();
            let _ = arm(&world.word, from);
            let send = |kind| {
                let world = world.clone();
                thread::spawn(move || world.publish(kind))
            };
            let senders = [send(MESSAGE), send(CONTROL)];
            if to & from != from {
                leave(&world.word);
            }
            world.rung.swap(false, Ordering::AcqRel);
            let seen = world.settle(to);
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            assert!(seen || world.rung.swap(false, Ordering::AcqRel), "slept through");
        });
    }

    #[test]
    fn a_receiver_that_asks_for_more_sleeps_through_nothing() {
        what_is_wanted_changes(CONTROL, MESSAGE | CONTROL);
    }

    #[test]
    fn a_receiver_that_asks_for_less_sleeps_through_no_call() {
        what_is_wanted_changes(MESSAGE | CONTROL, CONTROL);
    }

    /// A short message does not make the receiver look, nor take away that it was called.
    #[test]
    fn a_message_that_nobody_wants_changes_nothing() {
        loom::model(|| {
            let world = World::new();
            let sender = {
                let world = world.clone();
                thread::spawn(move || world.publish(MESSAGE))
            };
            let seen = world.settle(CONTROL);
            sender.join().unwrap();
            assert!(!seen && !world.rung.load(Ordering::Acquire));
            assert!(!is_taken(&world.word));
        });
    }
}
