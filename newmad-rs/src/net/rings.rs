//! For which packets a rank that sleeps, or computes, is to be woken.

use crate::wire::Kind;

/// A set of packets, a bit each. A hint for drivers that can tell them apart; the others wake the rank for everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rings(u32);

impl Rings {
    /// Nothing.
    pub(crate) const NONE: Rings = Rings(0);
    /// A short message, or news that needs no answer.
    pub(crate) const MESSAGE: Rings = Rings(1);
    /// What its sender needs an answer to: an announcement, a piece of a large message, a track that is full.
    pub(crate) const CONTROL: Rings = Rings(2);
    /// Room on a track that was full.
    pub(crate) const ROOM: Rings = Rings(4);
    /// Room for short messages whose owner will ask for their end, once the peer that made it has waited in vain.
    pub(crate) const ROOM_LATER: Rings = Rings(8);
    /// As [`Rings::CONTROL`], to a receiver that is expected to look at once: once the peer has waited in vain.
    pub(crate) const CONTROL_LATER: Rings = Rings(128);
    /// What needs its answer, from a peer that has waited in vain. Or, of what a receiver wants: [`Rings::CONTROL`], at once.
    pub(crate) const CONTROL_NOW: Rings = Rings::CONTROL.and(Rings::CONTROL_LATER);
    /// An announcement whose sender computes on: it rings when it waits for the answer, if not at once.
    pub(crate) const ANNOUNCED: Rings = Rings(1 | 64);
    /// Everything, at once.
    pub(crate) const ALL: Rings = Rings(1 | 2 | 4 | 128);

    /// The set with these bits.
    #[inline]
    pub(crate) const fn from_bits(bits: u32) -> Rings {
        Rings(bits & (Rings::ALL.0 | Rings::ROOM_LATER.0))
    }

    /// Its bits.
    #[inline]
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// For a packet of this kind.
    #[inline]
    pub(crate) fn of(kind: Kind) -> Rings {
        match kind {
            Kind::Eager | Kind::First | Kind::Next | Kind::Ack | Kind::Fin => Rings::MESSAGE,
            _ => Rings::CONTROL,
        }
    }

    /// Both sets.
    #[inline]
    pub(crate) const fn and(self, other: Rings) -> Rings {
        Rings(self.0 | other.0)
    }

    /// Whether it contains all of `other`.
    #[inline]
    pub(crate) const fn has(self, other: Rings) -> bool {
        self.0 & other.0 == other.0
    }
}
