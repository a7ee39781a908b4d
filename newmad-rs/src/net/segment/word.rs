//! The word of a doorbell, in the receiver's segment: which packets ring it, and whether a control packet has come.
//!
//! ```text
//! bits       MESSAGE CONTROL ROOM   the receiver wants to be rung for these; a sender that rings clears them
//!            CONTROL_LATER          control packets, from a peer that is about to sleep or has polled in vain; with CONTROL
//!            ROOM_LATER             the same of room
//!            INTERRUPT              the receiver computes: a sender that rings sends a signal instead of writing the counter
//!            UNSEEN                 a sender has published a control packet since the receiver's last complete look
//!
//! receiver   arm:     swap(wanted); fence; look at every ring, or only if UNSEEN; sleep if the rings are empty
//!            look:    clear UNSEEN; fence; look at every ring to its end, or set UNSEEN again
//!            leave:   clear the wanted bits
//! sender     publish; fence; set UNSEEN if the packet needs an answer; if its bit is wanted: exchange, write the counter
//!            or, if the exchange has cleared INTERRUPT, signal the thread that the receiver named before it armed
//! ```
//! So the word says of the receiver that it polls (nothing is wanted), sleeps (something is), or computes and may be
//! interrupted (INTERRUPT): a receiver that polls or sleeps is never interrupted.
//!
//! A sender that is to ring looks at the word a few times more before its exchange: a receiver that has only just armed, and
//! comes to wait, takes its wish back, which saves a system call here and a wake-up there.
//!
//! Invariant: either the receiver's look finds the packet, or the sender finds its bit and rings, or owes a ring. A burst rings once.
//!
//! A receiver that wants control packets alone looks only if UNSEEN is set. Short messages then stay in the rings until their
//! receiver calls, and to arm costs one exchange. (A look for each window of receives cost a program that exchanges
//! halos 2 to 5 of 14 µs a step.) A sender that finds UNSEEN set does not write: a stream of pieces costs one write.
//!
//! A message that is announced by a sender which computes on, to a receiver which computes as well, concerns neither of
//! them before one comes to wait. A ring costs the sender a system call and the receiver's core two switches, so for one that
//! is copied faster than that ([`LATER`]) the sender only leaves the mark. It rings if it looks for an answer for long,
//! or often, or is about to sleep, and the mark is still there. In the same way a receiver that has posted, and is expected
//! to wait at once, is rung (CONTROL_LATER): in the middle of an exchange of 1 MiB a ring cost both sides 10 to 30 µs.
//!
//! A track that fills up under short messages whose senders and receivers will call again concerns no thread that
//! computes. So a process with such messages asks for ROOM_LATER, and its peer does not ring at each slot that it gives
//! back: it pays before it sleeps, and now and then while it polls in vain. (A ring at each full track woke watchers on
//! both sides in the middle of windows of short messages: 2.2 instead of 6 million a second.)
//!
//! The exchange fails when the receiver has changed the wanted bits meanwhile, and the sender looks again. A swap could
//! clear bits that the receiver has just set, without a ring for them.

use crate::sync::{AtomicU32, Ordering, fence};

/// A short message, or another packet that needs no answer.
pub(crate) const MESSAGE: u32 = 1;
/// A packet that needs an answer.
pub(crate) const CONTROL: u32 = 2;
/// Room on a track that was full.
pub(crate) const ROOM: u32 = 4;
/// The same, not at once.
pub(crate) const ROOM_LATER: u32 = 8;
/// A packet that needs an answer, not at once.
pub(crate) const CONTROL_LATER: u32 = 128;
/// What a receiver wants that is to be rung at once: so what it wants later is part of that.
pub(crate) const CONTROL_NOW: u32 = CONTROL | CONTROL_LATER;
/// With [`MESSAGE`]: a packet that needs an answer, not at once. Rings only a receiver that wants to be rung for messages:
/// one that merely computes finds it by UNSEEN. Never in the word.
pub(crate) const LATER: u32 = 64;
const WANTED: u32 = MESSAGE | CONTROL | ROOM | ROOM_LATER | CONTROL_LATER;
const UNSEEN: u32 = 16;
/// The receiver is to be signalled instead of rung.
pub(crate) const INTERRUPT: u32 = 32;

/// So often a sender that is to ring looks whether its receiver has come, and needs no ring any more: most programs wait at
/// once for what they have posted, and are armed only in between.
const GRACE: u32 = if cfg!(loom) { 0 } else { 8 };

/// Most tries of a sender's exchange: a receiver changes the word seldom, and a hostile one must not hold the sender.
const TRIES: u32 = 16;

/// What a sender that has published owes to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Call {
    /// Nothing: it looks by itself.
    Nothing,
    /// A ring, unless it looks in time: before the sender sleeps, or when it has polled in vain.
    Later,
    /// It sleeps: a write of the counter.
    Ring,
    /// It computes: a signal to the thread that it has named.
    Interrupt,
}

/// The state of the word before [`arm`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Armed {
    /// No bit was wanted: a sender has cleared them, or the receiver had left.
    pub(crate) rung: bool,
    /// A control packet may be in the rings.
    pub(crate) unseen: bool,
}

/// Whether only control packets are wanted.
#[inline]
pub(crate) fn is_control_alone(wanted: u32) -> bool {
    matches!(wanted, CONTROL_NOW | CONTROL_LATER)
}

/// Sets the wanted bits. The receiver looks at the rings after this; for control packets alone, only if `unseen`.
#[inline]
pub(crate) fn arm(word: &AtomicU32, wanted: u32) -> Armed {
    if is_control_alone(wanted) && is_untouched(word, wanted) {
        // The word is right already. A sender whose write this load misses finds it so, and rings, or owes a ring.
        return Armed { rung: false, unseen: false };
    }
    // Release: the thread that it has named.
    let before = word.swap(wanted & (WANTED | INTERRUPT), Ordering::AcqRel);
    let unseen = before & UNSEEN != 0;
    if unseen {
        // The mark stays until a complete look.
        set_unseen(word);
    }
    fence(Ordering::SeqCst);
    Armed { rung: before & WANTED == 0, unseen }
}

/// Clears the wanted bits. True: a sender had cleared them before.
#[inline]
pub(crate) fn leave(word: &AtomicU32) -> bool {
    // INTERRUPT as well: a receiver that polls is not interrupted.
    word.fetch_and(UNSEEN, Ordering::AcqRel) & WANTED == 0
}

/// Whether the word is as [`arm`] has left it: no sender has rung, or published a control packet. A hint.
#[inline]
pub(crate) fn is_untouched(word: &AtomicU32, wanted: u32) -> bool {
    word.load(Ordering::Relaxed) == wanted
}

/// Whether no bit is wanted: the receiver has not armed, or a sender has rung.
#[inline]
pub(crate) fn none_wanted(word: &AtomicU32) -> bool {
    word.load(Ordering::Relaxed) & WANTED == 0
}

/// Whether the receiver may not have looked since a control packet was published. A hint.
#[inline]
pub(crate) fn is_unseen(word: &AtomicU32) -> bool {
    word.load(Ordering::Relaxed) & UNSEEN != 0
}

/// Before a complete look. A receiver that stops before the end of a ring calls [`set_unseen`].
#[inline]
pub(crate) fn clear_unseen(word: &AtomicU32) {
    if word.load(Ordering::Relaxed) & UNSEEN != 0 {
        word.fetch_and(!UNSEEN, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }
}

/// A look has left packets in a ring.
#[inline]
pub(crate) fn set_unseen(word: &AtomicU32) {
    word.fetch_or(UNSEEN, Ordering::AcqRel);
}

/// The sender has published a packet of this kind.
#[inline]
pub(crate) fn call(word: &AtomicU32, kind: u32) -> Call {
    fence(Ordering::SeqCst);
    let mut now = word.load(Ordering::Relaxed);
    if kind & (CONTROL | LATER) != 0 && now & UNSEEN == 0 {
        now = word.fetch_or(UNSEEN, Ordering::AcqRel) | UNSEEN;
    }
    match now & kind & WANTED {
        0 if now & CONTROL_LATER != 0 && kind & CONTROL != 0 => Call::Later,
        0 => Call::Nothing,
        _ => take(word, now, kind),
    }
}

#[cold]
#[inline(never)]
fn take(word: &AtomicU32, mut now: u32, kind: u32) -> Call {
    // Less than a third of a microsecond, where the ring takes several.
    for _ in 0..GRACE {
        std::hint::spin_loop();
        now = word.load(Ordering::Relaxed);
        if now & kind & WANTED == 0 {
            return Call::Nothing;
        }
    }
    for _ in 0..TRIES {
        if now & kind & WANTED == 0 {
            return Call::Nothing;
        }
        match word.compare_exchange(now, now & UNSEEN, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) if now & INTERRUPT != 0 => return Call::Interrupt,
            Ok(_) => return Call::Ring,
            Err(other) => now = other,
        }
    }
    Call::Ring
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::sync::{Arc, AtomicBool};
    use loom::thread;

    const ANNOUNCED: u32 = MESSAGE | LATER;

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
            let ring = if kind == MESSAGE { &self.message } else { &self.control };
            ring.store(true, Ordering::Release);
            if matches!(call(&self.word, kind), Call::Ring | Call::Interrupt) {
                self.rung.swap(true, Ordering::AcqRel); // as the kernel's counter
            }
        }

        fn sees(&self, kind: u32) -> bool {
            let ring = if kind == MESSAGE { &self.message } else { &self.control };
            ring.load(Ordering::Acquire)
        }

        /// As `Core::settle`. True: the look has found a packet of this kind, and the receiver does not sleep.
        fn settle(&self, wanted: u32, kind: u32) -> bool {
            let armed = arm(&self.word, wanted);
            if is_control_alone(wanted) && !armed.unseen {
                return false;
            }
            clear_unseen(&self.word);
            self.sees(kind)
        }
    }

    /// The receiver arms, leaves without a look, and arms again. `called`: UNSEEN is set from the beginning. `stands`:
    /// the receiver leaves the word as it is in between.
    fn is_never_slept_through(kind: u32, wanted: u32, senders: usize) {
        for (called, stands) in [(false, false), (false, true), (true, false), (true, true)] {
            loom::model(move || one_way(kind, wanted, senders, called, stands));
        }
    }

    fn one_way(kind: u32, wanted: u32, senders: usize, unseen: bool, stands: bool) {
        let world = World::new();
        if unseen {
            set_unseen(&world.word);
        }
        let send = |_| {
            let world = world.clone();
            thread::spawn(move || world.publish(kind))
        };
        let senders: Vec<_> = (0..senders).map(send).collect();
        let mut seen = world.settle(wanted, kind);
        if !seen {
            // The receiver consumes a ring that is under way, and leaves the packets where they are.
            if !stands {
                leave(&world.word);
            }
            world.rung.swap(false, Ordering::AcqRel);
            if !stands {
                // Another thread of the receiver arms and does not look.
                let _ = arm(&world.word, wanted);
            }
            seen = world.settle(wanted, kind);
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        let rung = world.rung.swap(false, Ordering::AcqRel);
        assert!(seen || rung || !world.sees(kind), "a packet was neither found nor rung for");
    }

    #[test]
    fn what_needs_an_answer_is_seen_or_rung_for() {
        is_never_slept_through(CONTROL, CONTROL_NOW, 1);
    }

    #[test]
    fn of_several_that_need_an_answer_one_is_seen_or_rung_for() {
        is_never_slept_through(CONTROL, CONTROL_NOW, 2);
    }

    #[test]
    fn a_message_is_seen_or_rung_for_where_that_is_wanted() {
        is_never_slept_through(MESSAGE, MESSAGE | CONTROL_NOW, 1);
    }

    #[test]
    fn an_announcement_that_has_time_is_seen_or_rung_for_where_a_thread_waits() {
        is_never_slept_through(ANNOUNCED, MESSAGE | CONTROL_NOW, 1);
        is_never_slept_through(ANNOUNCED, MESSAGE | CONTROL_NOW, 2);
    }

    /// A packet of that kind neither rings a receiver that wants only these nor clears its bits; its sender, which waits
    /// later, rings for it unless it is seen.
    fn is_seen_or_rung_for_in_the_end(kind: u32, wanted: u32) {
        loom::model(move || {
            let world = World::new();
            let sender = {
                let world = world.clone();
                thread::spawn(move || {
                    world.publish(kind);
                    assert!(!world.rung.load(Ordering::Acquire), "rung at once");
                    if is_unseen(&world.word) {
                        world.publish(CONTROL_NOW);
                    }
                })
            };
            // Twice: the word may stand.
            let seen = (0..2).any(|_| world.settle(wanted, CONTROL));
            sender.join().unwrap();
            assert!(seen || world.rung.load(Ordering::Acquire), "a sender that waits is not heard");
        });
    }

    #[test]
    fn an_announcement_that_has_time_is_seen_or_rung_for_when_its_sender_waits() {
        is_seen_or_rung_for_in_the_end(ANNOUNCED, CONTROL_NOW);
        is_seen_or_rung_for_in_the_end(ANNOUNCED, CONTROL_LATER);
    }

    #[test]
    fn what_needs_an_answer_of_one_that_comes_at_once_is_seen_or_rung_for_when_its_sender_waits() {
        is_seen_or_rung_for_in_the_end(CONTROL, CONTROL_LATER);
    }

    /// It is expected to wait at once, and goes to sleep: what came before is found, what comes then rings.
    #[test]
    fn a_receiver_that_was_to_come_at_once_and_sleeps_instead_sleeps_through_nothing() {
        for wanted in [CONTROL_NOW, MESSAGE | CONTROL_NOW] {
            what_is_wanted_changes(CONTROL_LATER, wanted, CONTROL);
        }
    }

    /// Two senders send either kind while the wanted bits change. A packet of `kind` is found, or rung for: a sender
    /// that has read the old word clears no bit of the new one without a ring.
    fn what_is_wanted_changes(from: u32, to: u32, kind: u32) {
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
            let seen = world.settle(to, kind);
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            assert!(seen || world.rung.swap(false, Ordering::AcqRel), "slept through");
        });
    }

    #[test]
    fn a_receiver_that_asks_for_more_sleeps_through_nothing() {
        what_is_wanted_changes(CONTROL_NOW, MESSAGE | CONTROL_NOW, MESSAGE);
    }

    #[test]
    fn a_receiver_that_asks_for_less_sleeps_through_no_call() {
        what_is_wanted_changes(MESSAGE | CONTROL_NOW, CONTROL_NOW, CONTROL);
    }

    /// A short message neither rings a receiver that wants control packets alone, nor makes it look, nor clears its bits.
    #[test]
    fn a_message_that_nobody_wants_changes_nothing() {
        loom::model(|| {
            let world = World::new();
            let sender = {
                let world = world.clone();
                thread::spawn(move || world.publish(MESSAGE))
            };
            let seen = world.settle(CONTROL_NOW, MESSAGE);
            sender.join().unwrap();
            assert!(!seen && !world.rung.load(Ordering::Acquire));
            assert!(!none_wanted(&world.word));
        });
    }

    /// A computing receiver that peers signal: a packet is found, or signalled for, to the thread that was named.
    #[test]
    fn a_receiver_that_computes_is_interrupted_for_what_it_has_not_seen() {
        loom::model(|| {
            let world = World::new();
            let target = Arc::new(AtomicU32::new(0));
            let sender = {
                let (world, target) = (world.clone(), target.clone());
                thread::spawn(move || {
                    world.message.store(true, Ordering::Release);
                    match call(&world.word, MESSAGE) {
                        Call::Interrupt => Some(target.load(Ordering::Relaxed)),
                        Call::Nothing => None,
                        other => panic!("{other:?}: no thread of the receiver sleeps"),
                    }
                })
            };
            target.store(7, Ordering::Relaxed);
            let _ = arm(&world.word, MESSAGE | CONTROL_NOW | INTERRUPT);
            let seen = world.sees(MESSAGE);
            let signalled = sender.join().unwrap();
            assert!(seen || signalled.is_some(), "neither found nor signalled for");
            assert!(signalled.is_none_or(|thread| thread == 7), "a thread that was not named");
        });
    }

    /// The receiver computes, then polls, then sleeps. A packet that comes once it polls interrupts nobody; one that comes
    /// once it sleeps rings.
    #[test]
    fn a_receiver_that_polls_or_sleeps_is_not_interrupted() {
        for sleeps in [false, true] {
            loom::model(move || {
                let world = World::new();
                let _ = arm(&world.word, MESSAGE | CONTROL_NOW | INTERRUPT);
                let polls = Arc::new(AtomicBool::new(false));
                let sender = {
                    let (world, polls) = (world.clone(), polls.clone());
                    thread::spawn(move || {
                        let late = polls.load(Ordering::Acquire);
                        world.message.store(true, Ordering::Release);
                        (late, call(&world.word, MESSAGE))
                    })
                };
                match sleeps {
                    true => drop(arm(&world.word, MESSAGE | CONTROL_NOW)),
                    false => drop(leave(&world.word)),
                }
                polls.store(true, Ordering::Release);
                let seen = world.sees(MESSAGE);
                let (late, call) = sender.join().unwrap();
                assert!(!late || call != Call::Interrupt, "interrupted in vain");
                assert!(seen || call != Call::Nothing || !sleeps, "slept through");
            });
        }
    }

    /// Many packets, one signal, until the receiver asks again.
    #[test]
    fn a_burst_interrupts_once() {
        loom::model(|| {
            let world = World::new();
            let _ = arm(&world.word, MESSAGE | CONTROL_NOW | INTERRUPT);
            let send = |kind| {
                let world = world.clone();
                thread::spawn(move || call(&world.word, kind) == Call::Interrupt)
            };
            let senders = [send(MESSAGE), send(CONTROL)];
            let signals = senders.map(|sender| u32::from(sender.join().unwrap()));
            assert_eq!(signals[0] + signals[1], 1);
        });
    }

    /// The track is full under short messages of a process that computes; its peer reads them, and pays before it
    /// sleeps. Reading is what a look finds, so the peer arms once more after it (`Core::settle`).
    #[test]
    fn a_peer_that_sleeps_has_rung_for_the_room_that_it_has_made() {
        loom::model(|| {
            let world = World::new(); // `message` stands for the room here
            let peer = {
                let world = world.clone();
                thread::spawn(move || {
                    for reads in [true, false] {
                        if call(&world.word, ROOM_LATER) != Call::Nothing {
                            world.rung.swap(true, Ordering::AcqRel);
                        }
                        if reads {
                            world.message.store(true, Ordering::Release);
                        }
                    }
                })
            };
            let found = world.settle(CONTROL_NOW | ROOM_LATER, MESSAGE);
            peer.join().unwrap();
            assert!(found || world.rung.swap(false, Ordering::AcqRel), "no thread sends the rest");
        });
    }
}
