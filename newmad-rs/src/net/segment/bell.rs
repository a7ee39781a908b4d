//! The bell: how a process that sleeps, or computes, is told that something came through shared memory.
//!
//! A word in the receiver's segment says for what it wants to be rung ([`Rings`], [`word`]), an event counter is what
//! is rung. The counter is watched edge-triggered and never emptied. As long as the bell is *wanted*, the lock's holder
//! stores the word again before it looks at the rings: the thread that armed it may be asleep, not have noticed, and
//! the ring may have brought nothing for it (room in a full ring, say). Only [`Bell::disarm`] ends the wanting.
//!
//! A sender makes a system call between its exchange on the word and the write of the counter. The receiver may find
//! the message meanwhile and leave the watch to another thread, which the counter then wakes in vain. So the receiver
//! notes a ring that is *under way*, and a thread that leaves the watch waits a moment for it ([`Bell::is_under_way`]).
//! The note is a hint: a ring that it misses costs one wake-up.
//!
//! A program of short messages arms for control packets before it computes, and disarms when it waits; no control
//! packet ever comes. Each write of the word would take its cache line from the senders. So [`Bell::disarm`] leaves the
//! word *standing*, unless a control packet came to a standing word lately ([`PATIENCE`]): its ring, at once or later,
//! disturbs a process that polls.
//!
//! A process that computes may ask for a *signal* to one of its kernel threads instead ([`Bell::set_target`]). The word
//! says so, and is never left standing then. One signal stands for all packets until the process arms again.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use marcel::trace::{self, Kind};

use marcel::plumbing::SignalTarget;

use super::Segment;
use super::peer_bell::PeerBell;
use super::word::{self, Call};
use crate::net::rings::Rings;
use crate::sys::now_ns;

// The bits of the word are those of the set.
const _: () = assert!(
    Rings::MESSAGE.bits() == word::MESSAGE
        && Rings::CONTROL.bits() == word::CONTROL
        && Rings::ROOM.bits() == word::ROOM
        && Rings::ROOM_LATER.bits() == word::ROOM_LATER
        && Rings::CONTROL_LATER.bits() == word::CONTROL_LATER
        && Rings::CONTROL_NOW.bits() == word::CONTROL_NOW
        && Rings::ANNOUNCED.bits() == word::MESSAGE | word::LATER
);

/// So many times [`Bell::disarm`] clears the word after a control packet has come to a standing one.
const PATIENCE: u32 = 256;
/// A ring that takes longer was interrupted.
const MOST: Duration = Duration::from_micros(20);

/// The receiver's side.
pub(crate) struct Bell {
    segment: Arc<Segment>,
    counter: OwnedFd,
    /// For what; nothing: it is not wanted.
    wanted: AtomicU32,
    /// The word still asks for control packets, although the bell is disarmed.
    standing: AtomicBool,
    /// So many times more `disarm` clears the word.
    patience: AtomicU32,
    /// A peer has cleared the word, and no thread of this process has seen its write of the counter.
    under_way: AtomicBool,
    /// Whom peers are to signal from the next [`Bell::arm`] on, as it stands in the segment; 0: they ring.
    target: AtomicU64,
    /// The word asks for signals.
    signals: AtomicBool,
    /// Rings may be owed to peers.
    owes: AtomicBool,
    /// How often this side has rung its peers.
    rung: AtomicU64,
    /// How often it has interrupted them.
    interrupted: AtomicU64,
    /// What a ring has taken, on average, in nanoseconds; 0: not known yet.
    cost_ns: AtomicU64,
}

impl Bell {
    pub(crate) fn new(segment: Arc<Segment>, counter: OwnedFd) -> Bell {
        Bell {
            segment,
            counter,
            wanted: AtomicU32::new(0),
            standing: AtomicBool::new(false),
            patience: AtomicU32::new(0),
            under_way: AtomicBool::new(false),
            target: AtomicU64::new(0),
            signals: AtomicBool::new(false),
            owes: AtomicBool::new(false),
            rung: AtomicU64::new(0),
            interrupted: AtomicU64::new(0),
            cost_ns: AtomicU64::new(0),
        }
    }

    /// The segment that it is in.
    pub(crate) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// The event counter.
    pub(crate) fn fd(&self) -> RawFd {
        self.counter.as_raw_fd()
    }

    /// Whether this process wants to be rung.
    #[inline]
    pub(crate) fn is_armed(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) != 0
    }

    /// Whom peers signal instead of ringing, from the next [`Bell::arm`] on; `None`: nobody.
    pub(crate) fn set_target(&self, target: Option<SignalTarget>) {
        let word = target.map_or(0, SignalTarget::to_word);
        if self.target.load(Ordering::Relaxed) != word {
            self.target.store(word, Ordering::Relaxed);
        }
    }

    /// Asks peers to ring for these packets, and for those of earlier calls: a thread that asked for more may be
    /// asleep. True: the caller must look at the rings. False: it asked for control packets alone, and none has come.
    pub(crate) fn arm(&self, rings: Rings) -> bool {
        let before = self.wanted.load(Ordering::Relaxed);
        let rings = rings.and(Rings::from_bits(before));
        self.wanted.store(rings.bits(), Ordering::Relaxed);
        let target = self.target.load(Ordering::Relaxed);
        let how = if target == 0 { 0 } else { word::INTERRUPT };
        if target != 0 {
            // Published by the word. A sender that took an older word may read it too: it then signals this thread, which
            // finds nothing, instead of one that is told by nobody any more.
            self.segment.target().store(target, Ordering::Relaxed);
        }
        let armed = word::arm(self.segment.bell(), rings.bits() | how);
        let signalled = self.signals.load(Ordering::Relaxed);
        if signalled != (target != 0) {
            self.signals.store(target != 0, Ordering::Relaxed);
        }
        if armed.rung && before != 0 && !signalled {
            self.under_way.store(true, Ordering::Relaxed);
        }
        if self.standing.load(Ordering::Relaxed) {
            self.standing.store(false, Ordering::Relaxed);
            if armed.rung || armed.unseen {
                self.patience.store(PATIENCE, Ordering::Relaxed);
            }
        }
        armed.unseen || !word::is_control_alone(rings.bits())
    }

    /// Before a complete look at the rings. A caller that stops before the end calls [`Bell::set_unseen`].
    pub(crate) fn clear_unseen(&self) {
        word::clear_unseen(self.segment.bell());
    }

    /// A look may have left control packets in a ring.
    pub(crate) fn set_unseen(&self) {
        word::set_unseen(self.segment.bell());
    }

    /// A thread of this process polls: it needs no ring.
    #[inline]
    pub(crate) fn disarm(&self) {
        let wanted = self.wanted.load(Ordering::Relaxed);
        if wanted != 0 {
            self.wanted.store(0, Ordering::Relaxed);
            let signals = self.signals.load(Ordering::Relaxed);
            if word::is_control_alone(wanted) && !signals && self.leaves_standing(wanted) {
                return;
            }
            if word::leave(self.segment.bell()) && !signals {
                self.under_way.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Whether `disarm` leaves the word, which asks for control packets alone, as it is.
    fn leaves_standing(&self, wanted: u32) -> bool {
        let patience = self.patience.load(Ordering::Relaxed);
        let stands = patience == 0 && word::is_untouched(self.segment.bell(), wanted);
        if patience > 0 {
            self.patience.store(patience - 1, Ordering::Relaxed);
        }
        self.standing.store(stands, Ordering::Relaxed);
        stands
    }

    /// Whether a peer seems to be about to write the counter. Clears the note: the caller waits for that write, or has
    /// seen it.
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) && self.under_way.swap(false, Ordering::Relaxed)
    }

    /// A thread of this process waits for a large message from now on, or does no more.
    pub(crate) fn waiter(&self, comes: bool) {
        let waiters = self.segment.waiters();
        if comes {
            waiters.fetch_add(1, Ordering::Relaxed);
        } else {
            waiters.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether the bell has been rung and is still wanted.
    #[inline]
    pub(crate) fn was_rung(&self) -> bool {
        self.is_armed() && word::none_wanted(self.segment.bell())
    }

    /// Asks again, if the bell has been rung and is still wanted. The caller then looks at the rings.
    pub(crate) fn keep_armed(&self) {
        if self.was_rung() {
            self.arm(Rings::from_bits(self.wanted.load(Ordering::Relaxed)));
        }
    }

    /// After something was published: rings the peer `to`, which owns `segment`, if it wants that for one of these; or
    /// interrupts it. True: it is to be rung later, unless it looks in time.
    #[inline]
    pub(crate) fn ring(&self, to: u32, segment: &Segment, bell: &PeerBell, rings: Rings) -> bool {
        let call = word::call(segment.bell(), rings.bits());
        if matches!(call, Call::Ring | Call::Interrupt) {
            self.tell(to, segment, bell, call);
        }
        call == Call::Later
    }

    #[cold]
    #[inline(never)]
    fn tell(&self, to: u32, segment: &Segment, bell: &PeerBell, call: Call) {
        if call == Call::Interrupt {
            let target = segment.target().load(Ordering::Relaxed);
            if bell.interrupt(SignalTarget::from_word(target)) {
                self.interrupted.fetch_add(1, Ordering::Relaxed);
                trace::record(Kind::Ring, 0, to.into());
                return;
            }
            // The peer's tick finds what was published. The counter is for a thread that has begun to sleep since.
        }
        let begun = now_ns();
        bell.ring();
        self.took(Duration::from_nanos(now_ns() - begun));
        self.rung.fetch_add(1, Ordering::Relaxed);
        trace::record(Kind::Ring, 0, to.into());
    }

    /// A ring has taken so long.
    pub(crate) fn took(&self, time: Duration) {
        let ns = time.clamp(Duration::from_nanos(1), MOST).as_nanos() as u64;
        let average = self.cost_ns.load(Ordering::Relaxed);
        let next = if average == 0 { ns } else { (average * 7 + ns).div_ceil(8) };
        self.cost_ns.store(next, Ordering::Relaxed);
    }

    /// What a ring costs this side, as far as is known, in nanoseconds.
    pub(crate) fn cost_ns(&self) -> u64 {
        self.cost_ns.load(Ordering::Relaxed)
    }

    /// Whether this side may owe rings to its peers.
    #[inline]
    pub(crate) fn owes(&self) -> bool {
        self.owes.load(Ordering::Relaxed)
    }

    /// It does, or does not any more.
    pub(crate) fn set_owes(&self, owes: bool) {
        self.owes.store(owes, Ordering::Relaxed);
    }

    /// As a peer that is to write the counter next; what it was wanted for.
    #[cfg(test)]
    pub(crate) fn taken_by_a_peer(&self) -> u32 {
        self.segment.bell().swap(0, Ordering::AcqRel)
    }

    /// How often this side has interrupted its peers.
    pub(crate) fn interrupted(&self) -> u64 {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// How often this side has rung its peers.
    pub(crate) fn rung(&self) -> u64 {
        self.rung.load(Ordering::Relaxed)
    }
}

/// Whether the owner of `segment` may not have looked at its rings since a control packet was published there. A hint.
pub(crate) fn is_unseen(segment: &Segment) -> bool {
    word::is_unseen(segment.bell())
}

/// Whether a thread of the owner of `segment` waits for a large message. A hint.
pub(crate) fn waits(segment: &Segment) -> bool {
    segment.waiters().load(Ordering::Relaxed) != 0
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::net::segment::Geometry;

    fn bell() -> Bell {
        let geometry = Geometry { ranks: 2, slots: 4, slot_size: 256 };
        let (segment, _) = Segment::create(&geometry).unwrap();
        Bell::new(Arc::new(segment), crate::sys::eventfd().unwrap())
    }

    /// A peer has published a control packet, and rings at once if that is wanted.
    fn control(bell: &Bell) -> Call {
        word::call(bell.segment.bell(), word::CONTROL)
    }

    #[test]
    fn a_word_stands_in_a_program_to_which_no_control_packet_comes() {
        for rings in [Rings::CONTROL_LATER, Rings::CONTROL_NOW] {
            let bell = bell();
            for _ in 0..3 {
                assert!(!bell.arm(rings), "no packet has come");
                bell.disarm();
                assert!(!word::none_wanted(bell.segment.bell()), "{rings:?}");
            }
            let (ring, later) = (Call::Ring, Call::Later);
            assert_eq!(control(&bell), if rings == Rings::CONTROL_NOW { ring } else { later });
            for round in 0..3 {
                assert_eq!(bell.arm(rings), round == 0, "a packet has come once");
                bell.clear_unseen();
                bell.disarm();
                assert!(
                    word::none_wanted(bell.segment.bell()),
                    "the next one would ring: {rings:?}"
                );
            }
        }
    }

    #[test]
    fn a_bell_that_is_to_ring_later_and_then_at_once_is_not_looked_for_in_vain() {
        let bell = bell();
        for rings in [Rings::CONTROL_LATER, Rings::CONTROL_NOW, Rings::CONTROL_LATER] {
            assert!(!bell.arm(rings));
        }
        assert_eq!(control(&bell), Call::Ring);
        assert!(Rings::ALL.has(Rings::CONTROL_NOW), "it is watched for what is wanted less");
    }
}
