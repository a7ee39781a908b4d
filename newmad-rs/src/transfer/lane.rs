//! Fine locks (`NMAD_LOCK=fine`): short messages leave beside the engine.
//!
//! The thesis (6.3.2) has a lock for each list: what the program submits, what each network sends. Here the list of what is
//! submitted needs no lock, and what each gate sends gets one of its own: while nothing is before a short message, its
//! sender takes the gate's [`Lane`](crate::collect::lane::Lane) instead of the engine, and with it everything that such a
//! message needs, the [`Way`]. So threads that send to different ranks do not meet, nor does one that sends meet one that
//! receives, copies or looks for events. Matching, large messages and control packets stay with the engine and its lock.
//!
//! *Order.* A message must not overtake one that its thread, or one that waited for it, has submitted before. That is on the
//! submission list, on its way to the engine, or was begun; and to begin what does not leave at once the engine
//! [recalls](Core::recall) the way first. So who finds nothing pending, and then the way free, overtakes nobody.
//!
//! *When it is lent*: after a message that went through the engine, if another could go straight. *When it is recalled*:
//! for whatever else is to leave for that rank, and when something changes there (its strategy, its life).
//!
//! Only over shared memory, and in sessions none of whose rails can break or has checksums: packets that are kept, sent
//! again and acknowledged take the whole gate. Elsewhere fine is as coarse.

use crate::engine::core::Core;
use crate::gate::credit::EACH;
use crate::memory::span::Span;
use crate::net::{Driver, SendLease};
use crate::trace;

/// What it takes to send short messages to a rank.
pub(crate) struct Way {
    outlet: SendLease,
    /// Of this process, and that one.
    ranks: (u32, u32),
    /// The rail whose it is.
    rail: usize,
    /// Of the next packet, and the one that was expected when this was lent: rails without care do not read that.
    numbers: (u32, u32),
    /// Of the gate's credit.
    credit: u64,
    /// Messages are shorter.
    bound: usize,
}

impl Way {
    /// Sends a message, if it is short enough, and there is room.
    #[inline]
    pub(crate) fn post(&mut self, tag: u64, data: Span) -> bool {
        let cost = data.len() as u64 + EACH;
        let moment = trace::moment();
        let posted = data.len() < self.bound
            && cost <= self.credit
            && self.outlet.post_eager(self.numbers, tag, data);
        if posted {
            trace::left(moment, self.ranks, self.numbers.0.into(), (tag, data.len()));
            self.numbers.0 = self.numbers.0.wrapping_add(1);
            self.credit -= cost;
        }
        posted
    }
}

impl<D: Driver> Core<D> {
    /// Lends the way to this rank, if nothing is before the next short message.
    pub(crate) fn lend(&mut self, to: u32) {
        let gate = &mut self.gates[to as usize];
        let free = gate.straight > 0
            && gate.sends.is_empty()
            && gate.control.is_empty()
            && !gate.bye_sent
            && !gate.lane.is_lent();
        if !free || self.closing.is_some() || self.rails.iter().any(|rail| rail.careful) {
            return;
        }
        let rail = gate.small;
        let Some(driver) = self.rails.get_mut(rail).map(|rail| &mut rail.driver) else { return };
        let Some(outlet) = driver.lend(to) else { return };
        gate.lane.lend(Way {
            outlet,
            ranks: (self.rank, to),
            rail,
            numbers: (gate.tx_seq, gate.rx_seq),
            credit: gate.credit.lend(),
            bound: gate.straight.min(self.threshold.saturating_add(1)),
        });
        gate.straight = 0;
    }

    /// The way to this rank is here, or is fetched. False: somebody is in its lane, and will have the engine look.
    #[inline]
    pub(crate) fn recall(&mut self, to: u32) -> bool {
        if self.gates[to as usize].lane.is_lent() {
            self.consider(to);
        }
        !self.gates[to as usize].lane.is_lent()
    }

    /// As `recall`, for who then says whether messages can go straight.
    pub(crate) fn fetch(&mut self, to: u32) -> bool {
        let gate = &mut self.gates[to as usize];
        if let Some(way) = gate.lane.claim() {
            gate.tx_seq = way.numbers.0;
            gate.credit.take_back_lent(way.credit);
            if let Some(rail) = self.rails.get_mut(way.rail) {
                rail.driver.take_back(to, way.outlet);
            }
        }
        !gate.lane.is_lent()
    }

    /// A way that was wanted is back: what waited for it goes on.
    #[cold]
    pub(crate) fn way_is_back(&mut self) {
        if self.backlog > 0 {
            self.flush_all();
        }
        if self.closing.is_some() {
            self.try_close();
        }
    }
}
