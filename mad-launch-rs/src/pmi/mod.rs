//! The server's side of PMI: what ranks ask while they start, and what they are answered.
//!
//! A pure state machine, no descriptors: [`Server::message`] takes one message of one rank and pushes the replies
//! (possibly to other ranks: a barrier's end), so that tests and hostile input need no process. What is the same in
//! both versions of the protocol is in `space`: the key-value space and the barrier; their words are in `v1` and
//! `v2`, and how a stream of bytes is cut into messages in `frame`. A rank speaks version 1 until its `init` asks for
//! 2.
//!
//! A barrier is complete when every rank is in. When one has left (died, closed its connection, finalized)
//! it can never be: the waiting ranks are refused, with the reason, at once instead of waiting for ever.
//!
//! Tolerant in what it reads (unknown keys, any order, spaces, `\r`), strict in what a rank may cost: a message has
//! at most `frame::MESSAGE_MAX` bytes, all values together `space::KVS_MAX`. A rank that breaks that gets a
//! `Violation`: it is ended, the launcher and the other ranks go on.

mod answer;
mod frame;
mod space;
pub mod spawn;
#[cfg(test)]
mod tests;
mod v1;
mod v2;

pub use frame::Frames;
use space::{Reply, Space};
pub use space::{Request, Version, Violation};

/// The server of one job.
pub struct Server(Space);

impl Server {
    /// The server of a job of `size` ranks; `kvsname` is the job's name.
    pub fn new(kvsname: String, size: u32) -> Server {
        Server(Space::new(kvsname, size))
    }

    /// The server of a job that a process of another one has asked for. `started`: how many processes the launcher was
    /// told to start at first.
    pub fn spawned(kvsname: String, spawn: &spawn::Spawn, started: u32) -> Server {
        let counts = spawn.commands.iter().map(|command| command.processes);
        let numbers = (0..).zip(counts).flat_map(|(number, count)| (0..count).map(move |_| number));
        let mut space = Space::of(kvsname, numbers.collect(), started);
        for (key, value) in &spawn.preput {
            // One that is too long is missing, which the process that asks for it is told.
            let _ = space.put(Some(key), Some(value));
        }
        Server(space)
    }

    /// How the next message of `rank` is cut from its stream.
    pub fn version(&self, rank: u32) -> Version {
        self.0.ranks[rank as usize].version
    }

    /// Treats one message of `rank`; replies go to `reply(rank, text)`.
    ///
    /// # Errors
    /// When the rank breaks the protocol in a way that no reply can mend.
    pub fn message(
        &mut self,
        rank: u32,
        bytes: &[u8],
        reply: Reply<'_>,
    ) -> Result<Request, Violation> {
        let text = std::str::from_utf8(bytes).map_err(|_| {
            Violation("a message that is not text came on its PMI connection".into())
        })?;
        match self.version(rank) {
            Version::One => v1::line(&mut self.0, rank, text, reply),
            Version::Two => v2::command(&mut self.0, rank, text, reply),
        }
    }

    /// `rank` will not come to a barrier any more; `why` is what waiting ranks are told.
    pub fn left(&mut self, rank: u32, why: String, reply: Reply<'_>) {
        self.0.left(rank, why, reply);
    }
}
