//! A ring that is owed to a peer: it was not rung for a packet that needs its answer, since it is about to look, or since
//! both sides compute and the packet has time. It is rung once this side is taken for one that waits, unless it has looked.
//!
//! Each answer says that the peer is there: the debt counts from then on. (A program that exchanges behind a computation
//! rang at every eighth step, for announcements that were answered in the step before.)
//!
//! A peer that is about to look does so within microseconds. If it has not by the first look after a pause, that of the next
//! tick say, it computes, and is rung: what it was told is to go on meanwhile.

/// A peer is rung after so long a time of polling: two sides that compute for equally long, about, come within it.
const LOOKS_NS: u64 = 100_000;
/// Or at the so manieth look after a pause of as long: a program that computes between its looks. (For one that was to look
/// at once: the first.)
const RETURNS: u32 = 8;
/// Or at the second one, if the debt is so old.
const OLD_NS: u64 = 20_000_000;

/// See the module.
pub(super) struct Owed {
    first_ns: u64,
    /// The last look after a pause.
    since_ns: u64,
    last_ns: u64,
    returns: u32,
    /// The peer is about to look.
    pub(super) comes: bool,
}

impl Owed {
    pub(super) fn new(now_ns: u64, comes: bool) -> Owed {
        Owed { first_ns: now_ns, since_ns: now_ns, last_ns: now_ns, returns: 0, comes }
    }

    /// The peer was told something since, and is about to look, if `comes`.
    pub(super) fn again(&mut self, now_ns: u64, comes: bool) {
        if comes && !self.comes {
            let first_ns = self.first_ns;
            *self = Owed { first_ns, ..Owed::new(now_ns, true) };
        }
    }

    /// At a look: whether this side has looked for long, or often, enough to be taken for one that waits.
    pub(super) fn is_due(&mut self, now_ns: u64) -> bool {
        if now_ns.saturating_sub(self.last_ns) > LOOKS_NS {
            self.since_ns = now_ns;
            self.returns += 1;
        }
        self.last_ns = now_ns;
        let is_old = now_ns.saturating_sub(self.first_ns) > OLD_NS;
        now_ns.saturating_sub(self.since_ns) > LOOKS_NS
            || self.returns >= if self.comes { 1 } else { RETURNS }
            || (self.returns >= 2 && is_old)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::net::{Driver, Rings, local};
    use crate::wire::{Header, Kind};

    #[test]
    fn a_ring_is_due_from_one_that_polls_in_vain_and_from_one_that_comes_again_and_again() {
        let late = |pause: u64| {
            let mut owed = Owed::new(0, false);
            (0..=200).find(|look| owed.is_due(pause + look * 1000)).map(|look| look * 1000)
        };
        // Whether it computed for long or not.
        for pause in [1000, 1_000_000, 10 * OLD_NS] {
            let since = if pause == 1000 { 0 } else { pause };
            assert_eq!(late(pause), Some(LOOKS_NS + 1000 - (pause - since)));
        }
        let returns = |pause: u64| {
            let mut owed = Owed::new(0, false);
            (1..=100).find(|look| owed.is_due(look * pause))
        };
        assert_eq!(returns(1_000_000), Some(u64::from(RETURNS)));
        assert_eq!(returns(1_000_000_000), Some(2));
    }

    /// Two looks that are far apart, as those of a tick: the guess that the peer comes at once was wrong.
    #[test]
    fn a_peer_that_was_to_come_at_once_and_has_not_come_by_the_next_look_is_rung() {
        let mut owed = Owed::new(0, true);
        assert!((0..=LOOKS_NS).step_by(1000).all(|now| !owed.is_due(now)), "it may still come");
        for computes in [false, true] {
            let mut drivers = local::world(2, 8, 1024, true).unwrap();
            let (mut theirs, mut mine) = (drivers.pop().unwrap(), drivers.pop().unwrap());
            theirs.arm(if computes { Rings::CONTROL_NOW } else { Rings::CONTROL_LATER });
            let rung = mine.doorbell().unwrap().clone();
            let header = Header::new(Kind::Cts);
            let posted = match computes {
                true => mine.post_later(1, &header, &[]),
                false => mine.post_small(1, &header, &[]),
            };
            assert!(posted && rung.rung() == 0);
            for look in 1..u64::from(RETURNS) {
                std::thread::sleep(Duration::from_nanos(2 * LOOKS_NS));
                mine.begin();
                let is_rung = !computes || look >= 2 && rung.rung() > 0; // the machine may be slow
                assert_eq!(rung.rung(), u64::from(is_rung), "look {look}");
            }
        }
    }
}
