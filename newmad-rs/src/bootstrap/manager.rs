//! What every process manager offers, and what is common to all of them.

use std::time::Instant;

use super::piece;
use super::spawn::Spawner;
use crate::authentication::KEY;
use crate::error::Error;
use crate::sys;

/// Most pieces of a card.
pub(super) const PIECES: usize = 64;

/// A process manager, or the lack of one. Used by one thread at a time, which blocks.
pub(crate) trait Bootstrap: Send {
    /// Rank of this process.
    fn rank(&self) -> u32;

    /// Number of processes.
    fn size(&self) -> u32;

    /// Most bytes of a value.
    fn room(&self) -> usize;

    /// Puts a value that the others can get after the next fence. Each key is put once.
    fn put(&mut self, key: &str, value: &str, deadline: Instant) -> Result<(), Error>;

    /// What others put before their fence can be got after this one. Most process managers hold a process back until
    /// all have come to it, but some (Hydra's PMI-2) what is got afterwards.
    fn fence(&mut self, deadline: Instant) -> Result<(), Error>;

    /// A fence after which this process may finish: what it has put can be got by those that have not done so yet.
    /// Either all have come to it, or the process manager keeps what its processes have put.
    fn last_fence(&mut self, deadline: Instant) -> Result<(), Error> {
        self.fence(deadline)
    }

    /// The value that rank `owner` has put.
    fn get(&mut self, owner: u32, key: &str, deadline: Instant) -> Result<String, Error>;

    /// The key of process `rank`, if it is known otherwise than by its card.
    fn key_of(&self, _rank: u32) -> Option<[u8; KEY]> {
        None
    }

    /// The name of this job, the same in all its processes, which no other job has.
    fn job(&mut self, deadline: Instant) -> Result<String, Error>;

    /// What it can do for a job that runs already; `None`: nothing.
    fn spawner(&mut self) -> Option<&mut dyn Spawner> {
        None
    }

    /// Nothing more will be asked.
    fn finish(&mut self) -> Result<(), Error>;

    /// Publishes this process's card; the others can have it after the next [`fence`](Bootstrap::fence).
    fn publish(&mut self, card: &str, deadline: Instant) -> Result<(), Error> {
        self.put_text(CARD, card, deadline)
    }

    /// The card of process `rank`, which has published it before the last [`fence`](Bootstrap::fence).
    fn card_of(&mut self, rank: u32, deadline: Instant) -> Result<String, Error> {
        self.text_of(CARD, rank, deadline)
    }

    /// Puts a text of any length, and with any characters.
    fn put_text(&mut self, name: &str, text: &str, deadline: Instant) -> Result<(), Error> {
        let pieces = piece::cut(text, self.room());
        if pieces.len() > PIECES {
            return Err(Error::Bootstrap(format!(
                "this process's card has {} bytes, more than the process manager takes ({PIECES} values of {})",
                text.len(),
                self.room()
            )));
        }
        let rank = self.rank();
        for (index, piece) in pieces.iter().enumerate() {
            self.put(&key(name, rank, index), piece, deadline)?;
        }
        Ok(())
    }

    /// A text that process `rank` has put before the last [`fence`](Bootstrap::fence).
    fn text_of(&mut self, name: &str, rank: u32, deadline: Instant) -> Result<String, Error> {
        let mut whole = String::new();
        for index in 0..PIECES {
            let value = self.get(rank, &key(name, rank, index), deadline)?;
            match value.split_at_checked(1) {
                Some(("+", piece)) => whole.push_str(piece),
                Some((".", piece)) => {
                    whole.push_str(piece);
                    return piece::decode(&whole).ok_or_else(|| unsound(rank));
                }
                _ => return Err(unsound(rank)),
            }
        }
        Err(unsound(rank))
    }
}

/// The name of a card.
pub(super) const CARD: &str = "newmad";

/// Under which name a piece of a text is put.
pub(super) fn key(name: &str, rank: u32, piece: usize) -> String {
    match piece {
        0 => format!("{name}-{rank}"),
        piece => format!("{name}-{rank}-{piece}"),
    }
}

fn unsound(rank: u32) -> Error {
    Error::Bootstrap(format!("what rank {rank} has published is not a card of this library"))
}

/// A session of one.
#[derive(Default)]
pub(crate) struct Alone {
    pub(super) values: Vec<(String, String)>,
    job: String,
}

impl Bootstrap for Alone {
    fn rank(&self) -> u32 {
        0
    }
    fn size(&self) -> u32 {
        1
    }
    fn room(&self) -> usize {
        1024
    }
    fn put(&mut self, key: &str, value: &str, _: Instant) -> Result<(), Error> {
        self.values.push((key.to_owned(), value.to_owned()));
        Ok(())
    }
    fn fence(&mut self, _: Instant) -> Result<(), Error> {
        Ok(())
    }
    fn get(&mut self, owner: u32, key: &str, _: Instant) -> Result<String, Error> {
        let found = self.values.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.clone()).ok_or_else(|| unsound(owner))
    }
    fn job(&mut self, _: Instant) -> Result<String, Error> {
        if self.job.is_empty() {
            self.job = format!("alone-{:032x}", u128::from_be_bytes(sys::random()?));
        }
        Ok(self.job.clone())
    }
    fn finish(&mut self) -> Result<(), Error> {
        Ok(())
    }
}
