//! Links with peers of which this process does not know how they are reached.
//!
//! It asks the peer over the control network ([`Kind::Ask`](crate::connect::network::Kind), with its own card), and calls when
//! the answer has come. The connections of the control network itself need the process manager's word.

use std::io;
use std::time::Instant;

use super::{Later, Thread};
use crate::connect::card::Card;
use crate::connect::greeting::Purpose;
use crate::connect::links::State;
use crate::connect::order::ATTEMPT;
use crate::error::{Error, during};

impl Thread {
    /// Asks a peer how it is reached, for a link over that rail.
    pub(super) fn ask(&mut self, rail: usize, peer: u32) {
        self.messages.ask(rail, peer, Instant::now() + ATTEMPT, &self.card);
        self.later(ATTEMPT, Later::Answer(rail, peer));
    }

    /// A peer has said how it is reached: the links that have waited for that are called.
    pub(super) fn informed(&mut self, peer: u32, card: Result<Card, Error>) {
        let mut failed = None;
        match card {
            Ok(card) => {
                self.cards.insert(peer, card);
            }
            Err(error) => failed = Some(error),
        }
        for rail in self.messages.asked(peer) {
            // It may have called in the meantime.
            if self.links.get(rail, peer).state != State::Calling {
                continue;
            }
            let purpose = Purpose::Link { rail: rail as u8, track: 0 };
            let result = failed.take().map_or_else(|| self.dial(peer, purpose), Err);
            if let Err(error) = result {
                self.call_failed(peer, purpose, error);
            }
        }
    }

    /// The time is over in which a peer should have said how it is reached.
    pub(super) fn unanswered(&mut self, rail: usize, peer: u32) {
        if self.messages.is_late(rail, peer, Instant::now()) {
            let doing = "asking another process how it is reached";
            let error = during(doing)(io::Error::from(io::ErrorKind::TimedOut));
            self.call_failed(peer, Purpose::Link { rail: rail as u8, track: 0 }, error);
        }
    }
}
