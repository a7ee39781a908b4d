//! The key-value space and the barrier of one job: what is the same in both versions.

use std::collections::HashMap;
use std::fmt;

use super::answer::{barrier_out, fence_response};

/// Longest key and value that are accepted.
pub(super) const KEY_MAX: usize = 64;
pub(super) const VALUE_MAX: usize = 4096;
/// Bytes of keys and values that one job may store.
pub(super) const KVS_MAX: usize = 64 << 20;

/// Why a rank's connection is given up.
#[derive(Debug, PartialEq, Eq)]
pub struct Violation(pub String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a message asks of the launcher beyond the replies.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// Nothing.
    Nothing,
    /// The whole job is to end with this exit code.
    Abort {
        /// The exit code that the rank gave, 1 when it gave none or an unusable one.
        code: u8,
        /// What the rank said about it.
        message: String,
    },
    /// More processes are to be started.
    Spawn(super::spawn::Spawn),
    /// The rank asks whether all processes of a job that was spawned run.
    Spawned {
        /// The job's name.
        name: String,
        /// They are to be killed.
        end: bool,
    },
}

impl Request {
    /// A rank ends the job, with what it gives as an exit code.
    pub(super) fn abort(code: Option<&str>, message: &str) -> Request {
        let code = code.and_then(|code| code.parse().ok()).filter(|&code| code != 0);
        Request::Abort { code: code.unwrap_or(1), message: message.into() }
    }
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
pub(super) struct Rank {
    place: Place,
    pub(super) version: Version,
    /// A command of several lines (`mcmd=spawn … endcmd`, version 1), as far as it has come.
    pub(super) spawn: Option<super::spawn::Assembly>,
    /// Whether its lines come now.
    pub(super) in_mcmd: bool,
    /// Which program it runs, of those that were started together.
    pub(super) program: u32,
    /// What version 2 wants to see again in the answer to its fence: the thread that asked.
    pub(super) thread: Option<String>,
}

/// The key-value space and the barrier of one job.
pub(super) struct Space {
    pub(super) kvsname: String,
    store: HashMap<String, String>,
    stored: usize,
    pub(super) ranks: Vec<Rank>,
    /// How many processes the user expects to run at once.
    pub(super) universe: u32,
    /// Why no barrier can be complete any more.
    left: Option<String>,
}

/// Where replies go: rank and text.
pub(super) type Reply<'a> = &'a mut dyn FnMut(u32, String);

impl Space {
    /// The server of a job of `size` ranks; `kvsname` is the job's name.
    pub(super) fn new(kvsname: String, size: u32) -> Space {
        Space::of(kvsname, vec![0; size as usize], size)
    }

    /// As [`Space::new`], of ranks that run these programs. At least `least` processes run at once.
    pub(super) fn of(kvsname: String, programs: Vec<u32>, least: u32) -> Space {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let rank = |program| Rank { program, ..Rank::default() };
        let universe = least.max(programs.len() as u32).max(cores);
        Space {
            kvsname,
            store: HashMap::new(),
            stored: 0,
            ranks: programs.into_iter().map(rank).collect(),
            universe,
            left: None,
        }
    }

    /// `rank` will not come to a barrier any more; `why` is the reason that its waiting peers are told.
    pub(super) fn left(&mut self, rank: u32, why: String, reply: Reply<'_>) {
        let place = &mut self.ranks[rank as usize].place;
        if *place != Place::Left {
            *place = Place::Left;
            self.left.get_or_insert(why);
            self.settle_barrier(reply);
        }
    }

    pub(super) fn put(
        &mut self,
        key: Option<&str>,
        value: Option<&str>,
    ) -> Result<(), &'static str> {
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

    pub(super) fn get(&self, key: Option<&str>) -> Option<&String> {
        self.store.get(key?)
    }

    pub(super) fn enter_barrier(&mut self, rank: u32, reply: Reply<'_>) {
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
                    Version::One => barrier_out(why),
                    Version::Two => fence_response(rank.thread.take().as_deref(), why),
                };
                reply(number as u32, text);
            }
        }
    }
}
