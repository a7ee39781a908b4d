//! Processes that have been given each other's cards.

use std::time::Instant;

use super::manager::Bootstrap;
use crate::authentication::{KEY, key_of};
use crate::error::Error;

/// A process, and the cards of all. The cards have no keys: each is made from a secret that all of them have.
pub(crate) struct Introduced {
    rank: u32,
    cards: Vec<String>,
    secret: [u8; KEY],
}

impl Introduced {
    pub(crate) fn new(rank: u32, cards: Vec<String>, secret: [u8; KEY]) -> Introduced {
        Introduced { rank, cards, secret }
    }

    /// The key of a process.
    pub(crate) fn key_of(&self, rank: u32) -> [u8; KEY] {
        // A key is always found; the zeros would open nothing.
        key_of(&self.secret, rank).unwrap_or([0; KEY])
    }
}

impl Bootstrap for Introduced {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.cards.len() as u32
    }

    fn room(&self) -> usize {
        usize::MAX
    }

    fn put(&mut self, _: &str, _: &str, _: Instant) -> Result<(), Error> {
        Ok(())
    }

    fn fence(&mut self, _: Instant) -> Result<(), Error> {
        Ok(())
    }

    fn get(&mut self, owner: u32, key: &str, _: Instant) -> Result<String, Error> {
        Err(Error::Bootstrap(format!("process {owner} has told nothing about {key}")))
    }

    fn key_of(&self, rank: u32) -> Option<[u8; KEY]> {
        Some(Introduced::key_of(self, rank))
    }

    fn job(&mut self, _: Instant) -> Result<String, Error> {
        Err(Error::Bootstrap("processes that were introduced to each other are no job".into()))
    }

    fn finish(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn publish(&mut self, _: &str, _: Instant) -> Result<(), Error> {
        Ok(())
    }

    fn card_of(&mut self, rank: u32, _: Instant) -> Result<String, Error> {
        let card = self.cards.get(rank as usize).cloned();
        card.ok_or_else(|| Error::Bootstrap(format!("there is no process {rank}")))
    }
}
