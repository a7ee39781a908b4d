//! The server's side of PMI: what ranks ask while they start, and what they are answered.
//!
//! A pure state machine, no descriptors: [`Server::message`] takes one message of one rank and pushes the replies
//! (possibly to other ranks: a barrier's end), so that tests and hostile input need no process. What is the same in both
//! versions of the protocol is here: the key-value space and the barrier; their words are in [`v1`] and [`v2`], and
//! how a stream of bytes is cut into messages in [`frame`]. A rank speaks version 1 until its `init` asks for 2.
//!
//! A barrier is complete when every rank is in. When one has left (died, closed its connection, finalized)
//! it can never be: the waiting ranks are refused, with the reason, at once instead of waiting for ever.
//!
//! Tolerant in what it reads (unknown keys, any order, spaces, `\r`), strict in what a rank may cost: a message
//! has at most [`frame::MESSAGE_MAX`] bytes, all values together [`KVS_MAX`]. Who breaks that gets a [`Refused`]: its
//! rank is ended, the launcher and the other ranks go on.

mod frame;
#[cfg(test)]
mod tests;
mod v1;
mod v2;

use std::collections::HashMap;
use std::fmt;

pub use frame::Frames;

/// Longest key and value that are accepted.
const KEY_MAX: usize = 64;
const VALUE_MAX: usize = 4096;
/// Bytes of keys and values that one job may store.
const KVS_MAX: usize = 64 << 20;

/// Why a rank's connection is given up.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a message asks of the launcher beyond the replies.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nothing.
    Nothing,
    /// The whole job is to end with this exit code.
    Abort {
        /// The exit code that the rank gave, 1 when it gave none or an unusable one.
        code: u8,
        /// What the rank said about it.
        message: String,
    },
}

/// Which protocol a rank speaks; also how its stream is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// Lines.
    #[default]
    One,
    /// A length, and as many bytes.
    Two,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    /// Connected, or not yet.
    #[default]
    Running,
    /// Waits in the barrier.
    Waiting,
    /// Will take part in no barrier any more.
    Left,
}

#[derive(Clone, Default)]
struct Rank {
    place: Place,
    version: Version,
    /// Inside a command of several lines (`mcmd=spawn … endcmd`, version 1).
    in_mcmd: bool,
    /// What version 2 wants to see again in the answer to its fence: the thread that asked.
    thread: Option<String>,
}

/// The key-value space and the barrier of one job.
pub struct Server {
    kvsname: String,
    store: HashMap<String, String>,
    stored: usize,
    ranks: Vec<Rank>,
    /// Why no barrier can be complete any more.
    left: Option<String>,
}

/// Where replies go: rank and text.
type Reply<'a> = &'a mut dyn FnMut(u32, String);

impl Server {
    /// The server of a job of `size` ranks; `kvsname` is the job's name.
    pub fn new(kvsname: String, size: u32) -> Server {
        Server {
            kvsname,
            store: HashMap::new(),
            stored: 0,
            ranks: vec![Rank::default(); size as usize],
            left: None,
        }
    }

    /// How the next message of `rank` is cut from its stream.
    pub fn version(&self, rank: u32) -> Version {
        self.ranks[rank as usize].version
    }

    /// Treats one message of `rank`; replies go to `reply(rank, text)`.
    ///
    /// # Errors
    /// When the rank breaks the protocol in a way that no reply can mend.
    pub fn message(&mut self, rank: u32, bytes: &[u8], reply: Reply<'_>) -> Result<Asked, Refused> {
        let text = std::str::from_utf8(bytes)
            .map_err(|_| Refused("a message that is not text came on its PMI connection".into()))?;
        match self.version(rank) {
            Version::One => self.line(rank, text.trim(), reply),
            Version::Two => self.command(rank, text, reply),
        }
    }

    /// `rank` will not come to a barrier any more; `why` is what those who wait for it are told.
    pub fn left(&mut self, rank: u32, why: String, reply: Reply<'_>) {
        let place = &mut self.ranks[rank as usize].place;
        if *place != Place::Left {
            *place = Place::Left;
            self.left.get_or_insert(why);
            self.settle_barrier(reply);
        }
    }

    fn put(&mut self, key: Option<&str>, value: Option<&str>) -> Result<(), &'static str> {
        let key = key.filter(|key| !key.is_empty()).ok_or("no_key")?;
        let value = value.ok_or("no_value")?;
        if key.len() > KEY_MAX {
            return Err("key_too_long");
        }
        if value.len() > VALUE_MAX {
            return Err("value_too_long");
        }
        let more = key.len() + value.len();
        if self.stored + more > KVS_MAX {
            return Err("the_jobs_key_value_space_is_full");
        }
        self.stored += more;
        if let Some(old) = self.store.insert(key.into(), value.into()) {
            self.stored -= key.len() + old.len();
        }
        Ok(())
    }

    fn get(&self, key: Option<&str>) -> Option<&String> {
        self.store.get(key?)
    }

    fn enter_barrier(&mut self, rank: u32, reply: Reply<'_>) {
        self.ranks[rank as usize].place = Place::Waiting;
        self.settle_barrier(reply);
    }

    fn settle_barrier(&mut self, reply: Reply<'_>) {
        if self.left.is_none() && self.ranks.iter().any(|rank| rank.place != Place::Waiting) {
            return;
        }
        let why = self.left.as_deref();
        for (number, rank) in self.ranks.iter_mut().enumerate() {
            if rank.place == Place::Waiting {
                rank.place = Place::Running;
                let text = match rank.version {
                    Version::One => v1::barrier_out(why),
                    Version::Two => v2::fence_response(rank.thread.take().as_deref(), why),
                };
                reply(number as u32, text);
            }
        }
    }
}

/// The beginning of a text that somebody else wrote.
fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
