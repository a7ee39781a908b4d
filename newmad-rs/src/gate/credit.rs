//! Eager credit: how much a peer may send before receives ask for it.
//!
//! Both sides count the eager messages of a gate, each its length and [`EACH`] bytes more: the sender when one is
//! submitted, the receiver when a receive gets it. While the difference is below the session's credit, short messages
//! leave at once; beyond, they are announced, and wait with their sender as large ones do. So a flood costs its
//! receiver cells for the credit, up to eight times as long, and a small cell for each announcement, all of which
//! `NMAD_UNEXPECTED_MAX` bounds; and what comes behind the flood is not held up. The receiver tells its count in every
//! `Ack` and `Probe`, and sends an `Ack` once half the credit is unreported, or too little is left for the largest eager
//! message. The counts only grow, so a word that is lost is made good by the next.
//!
//! *A receiver that has received everything is sent more*, also when one thread plays both sides, and polls for
//! neither: the word leaves with the receive that owes it, and a sender with less than a quarter of its credit left
//! polls for it before each message. (A quarter, and not nothing: the poll also makes room for a word that found the
//! track full.)

use crate::wire::{Header, Malformed};

/// What a message counts beside its bytes.
pub(crate) const EACH: u64 = 64;

/// See the module.
#[derive(Default)]
pub(crate) struct Credit {
    /// Sent to the peer.
    sent: u64,
    /// Of these, received there, as far as is known.
    returned: u64,
    /// Received from the peer.
    received: u64,
    /// As far as the peer was told.
    told: u64,
    /// Up to here `sent` may go without another thought: no more than three quarters of the credit are out then.
    plenty: u64,
    /// From here on `received` is worth another thought: the peer may have to be told.
    tell_at: u64,
}

impl Credit {
    /// Counts an eager message to the peer, if there is credit in plenty. False: it is not counted.
    #[inline]
    pub(crate) fn spend_of_plenty(&mut self, len: usize) -> bool {
        let sent = self.sent + len as u64 + EACH;
        let goes = sent <= self.plenty;
        if goes {
            self.sent = sent;
        }
        goes
    }

    /// Whether there is credit in plenty for such a message, by what is known now.
    pub(crate) fn has_plenty(&mut self, len: usize, credit: u64) -> bool {
        self.plenty = self.returned + (credit - credit / 4);
        self.sent + len as u64 + EACH <= self.plenty
    }

    /// Counts an eager message to the peer. False: it goes beyond the credit, and is not counted.
    pub(crate) fn spend(&mut self, len: usize, credit: u64) -> bool {
        let sent = self.sent + len as u64 + EACH;
        let goes = sent - self.returned <= credit;
        if goes {
            self.sent = sent;
        }
        goes
    }

    /// What was counted has not left after all.
    #[inline]
    pub(crate) fn take_back(&mut self, len: usize) {
        self.sent -= len as u64 + EACH;
    }

    /// Gives a part of the plenty out of hand: it counts as sent until it is taken back. Not of what is beyond: before
    /// each of those messages the sender polls for word.
    pub(crate) fn lend(&mut self) -> u64 {
        // Half: the engine has messages to send, too, while it waits for the rest.
        let part = self.plenty.saturating_sub(self.sent) / 2;
        self.sent += part;
        part
    }

    /// What is left of that.
    pub(crate) fn take_back_lent(&mut self, left: u64) {
        self.sent -= left;
        // A peer that told of more than was sent has not been found out meanwhile.
        self.returned = self.returned.min(self.sent);
    }

    /// Bytes that may wait at the peer unreceived.
    #[cfg(test)]
    pub(crate) fn out(&self) -> u64 {
        self.sent - self.returned
    }

    /// Bytes received from the peer, which it is to be told.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// The peer was told.
    pub(crate) fn told(&mut self, received: u64) {
        self.told = received;
        self.tell_at = received;
    }

    /// What the peer tells.
    pub(crate) fn hear(&mut self, header: &Header) -> Result<(), Malformed> {
        if header.tag > self.sent {
            return Err(Malformed);
        }
        self.returned = self.returned.max(header.tag);
        Ok(())
    }

    /// A receive has got an eager message of that length. True: the peer may have to be told.
    #[inline]
    pub(crate) fn count_received(&mut self, len: usize) -> bool {
        self.received += len as u64 + EACH;
        self.received >= self.tell_at
    }

    /// Whether the peer is to be told now: half of the credit is unreported, or so much of it that a message of the
    /// `longest` eager cost would not go.
    pub(crate) fn owes_word(&mut self, credit: u64, longest: u64) -> bool {
        let owed = (credit / 2).min(credit.saturating_sub(longest));
        if self.received - self.told < owed {
            self.tell_at = self.told + owed;
            return false;
        }
        true
    }

    /// The peer is this rank itself.
    pub(crate) fn return_to_oneself(&mut self) {
        self.returned = self.received;
        self.told(self.received);
    }
}
