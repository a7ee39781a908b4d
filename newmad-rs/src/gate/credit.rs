//! Eager credit: how much a peer may send that nobody has asked for.
//!
//! Both sides count the eager messages of a gate, each its length and [`EACH`] bytes more: the sender when one is submitted,
//! the receiver when a receive gets it. While the difference is below the session's credit, short messages leave at once;
//! beyond, they are announced, and wait with their sender as large ones do. So a flood costs its receiver the credit and a
//! small cell for each announcement, which `NMAD_UNEXPECTED_MAX` bounds; and what comes behind the flood is not held up.
//! The receiver tells its count in every `Ack` and `Probe`, and sends an `Ack` when it owes word for half of the credit. The
//! counts only grow, so a word that is lost is made good by the next.

use crate::driver::Driver;
use crate::engine::core::Core;
use crate::gate::links::ACK;
use crate::proto::{Header, Malformed};

/// What a message counts beside its bytes.
const EACH: u64 = 64;

/// See the module.
#[derive(Default)]
pub(crate) struct Credit {
    /// Sent to the peer.
    sent: u64,
    /// Of these, received there by somebody, as far as is known.
    returned: u64,
    /// Received from the peer.
    received: u64,
    /// As far as the peer was told.
    told: u64,
}

impl Credit {
    /// Counts an eager message to the peer. False: it goes beyond the credit, and is not counted.
    #[inline]
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
    }

    /// What the peer tells.
    pub(crate) fn hear(&mut self, header: &Header) -> Result<(), Malformed> {
        if header.tag > self.sent {
            return Err(Malformed);
        }
        self.returned = self.returned.max(header.tag);
        Ok(())
    }
}

impl<D: Driver> Core<D> {
    /// A receive has got an eager message of that length.
    #[inline]
    pub(crate) fn count_received(&mut self, from: u32, len: usize) {
        let credit = &mut self.gates[from as usize].credit;
        credit.received += len as u64 + EACH;
        if credit.received - credit.told >= self.config.credit / 2 {
            self.return_credit(from);
        }
    }

    #[cold]
    fn return_credit(&mut self, from: u32) {
        if from == self.rank {
            let credit = &mut self.gates[from as usize].credit;
            credit.returned = credit.received;
            credit.told = credit.received;
        } else if self.gates[from as usize].is_open() {
            self.owe_word(from, ACK);
        }
    }
}
