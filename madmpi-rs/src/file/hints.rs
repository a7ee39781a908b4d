//! Hints: how a file is accessed. All ranks use those of the first, since collectives need the same ones everywhere.
//!
//! | key | meaning |
//! |---|---|
//! | `cb_buffer_size` | bytes that an aggregator holds at a time |
//! | `cb_nodes` | most aggregators |
//! | `collective_buffering` | `true`, `false`, or `automatic`: where pieces are short and interleaved |
//! | `romio_cb_read`, `romio_cb_write` | the same of ROMIO, for reads and writes: `enable`, `disable`, `automatic` |
//! | `ind_rd_buffer_size` | most bytes that a read of scattered data reads at a time |
//! | `file_perm` | permissions of a new file, octal; looked at when the file is opened |
//!
//! Others are ignored, and not among those in use.

use crate::abi::*;
use crate::error::Fault;
use crate::info::{self, Entries};

/// Whether collectives bring data to aggregators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aggregate {
    Automatic,
    Always,
    Never,
}

const CHOICES: [Aggregate; 3] = [Aggregate::Automatic, Aggregate::Always, Aggregate::Never];

impl Aggregate {
    fn word(self) -> u64 {
        CHOICES.iter().position(|&choice| choice == self).unwrap_or(0) as u64
    }

    fn of(word: u64) -> Aggregate {
        CHOICES.get(word as usize).copied().unwrap_or(Aggregate::Automatic)
    }

    fn named(value: &[u8]) -> Option<Aggregate> {
        match value {
            b"automatic" => Some(Aggregate::Automatic),
            b"true" | b"enable" => Some(Aggregate::Always),
            b"false" | b"disable" => Some(Aggregate::Never),
            _ => None,
        }
    }

    fn name(self, names: [&'static str; 3]) -> &'static str {
        names[self.word() as usize]
    }
}

/// The hints in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hints {
    /// Bytes of an aggregator's buffer.
    pub(super) buffer: u64,
    /// Most aggregators; 0: all ranks.
    pub(super) aggregators: u64,
    pub(super) on_read: Aggregate,
    pub(super) on_write: Aggregate,
    /// Bytes of the buffer for scattered reads.
    pub(super) sieve: u64,
    /// Permissions of a new file.
    pub(super) permissions: u32,
}

/// As many words tell them to others.
pub(super) const WORDS: usize = 7;
/// No buffer is larger.
const LARGEST: u64 = 1 << 30;

impl Default for Hints {
    fn default() -> Hints {
        Hints {
            buffer: 16 << 20,
            aggregators: 0,
            on_read: Aggregate::Automatic,
            on_write: Aggregate::Automatic,
            sieve: 4 << 20,
            permissions: 0o666,
        }
    }
}

fn number(value: &[u8], radix: u32) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?.trim();
    u64::from_str_radix(text, radix).ok()
}

impl Hints {
    /// Takes the values that an info object has. A value without a meaning is ignored, as the standard wants it.
    ///
    /// # Errors
    /// It is no info object.
    pub(super) fn take(&mut self, info: MPI_Info) -> Result<(), Fault> {
        if info == MPI_INFO_NULL {
            return Ok(());
        }
        let info = info::get(info)?;
        let entries = info.entries();
        let size = |key: &[u8], least: u64| {
            let found = entries.get(key).and_then(|value| number(value, 10));
            found.filter(|&value| value > 0).map(|value| value.clamp(least, LARGEST))
        };
        let choice = |key: &[u8]| entries.get(key).and_then(Aggregate::named);
        self.buffer = size(b"cb_buffer_size", 4096).unwrap_or(self.buffer);
        self.aggregators = size(b"cb_nodes", 1).unwrap_or(self.aggregators);
        self.sieve = size(b"ind_rd_buffer_size", 4096).unwrap_or(self.sieve);
        let both = choice(b"collective_buffering");
        self.on_read = choice(b"romio_cb_read").or(both).unwrap_or(self.on_read);
        self.on_write = choice(b"romio_cb_write").or(both).unwrap_or(self.on_write);
        let permissions = entries.get(b"file_perm").and_then(|value| number(value, 8));
        self.permissions = permissions.map_or(self.permissions, |bits| bits as u32 & 0o7777);
        Ok(())
    }

    /// What is to be done about aggregators.
    pub(super) fn on(&self, writes: bool) -> Aggregate {
        if writes { self.on_write } else { self.on_read }
    }

    /// As [`agree`](super::exchange::agree) wants them.
    pub(super) fn words(&self) -> [u64; WORDS] {
        let &Hints { buffer, aggregators, on_read, on_write, sieve, permissions } = self;
        [0, buffer, aggregators, on_read.word(), on_write.word(), sieve, permissions.into()]
    }

    pub(super) fn of(
        [_, buffer, aggregators, read, write, sieve, permissions]: [u64; WORDS],
    ) -> Hints {
        let (on_read, on_write) = (Aggregate::of(read), Aggregate::of(write));
        Hints { buffer, aggregators, on_read, on_write, sieve, permissions: permissions as u32 }
    }

    /// The hints in use, for the program, of a file that so many ranks have opened.
    pub(super) fn entries(&self, ranks: u64) -> Entries {
        let mut entries = Entries::default();
        let mut set = |key: &str, value: &str| entries.set(key.as_bytes(), value.as_bytes());
        let aggregators = if self.aggregators == 0 { ranks } else { self.aggregators.min(ranks) };
        set("cb_buffer_size", &self.buffer.to_string());
        set("cb_nodes", &aggregators.to_string());
        if self.on_read == self.on_write {
            set("collective_buffering", self.on_read.name(["automatic", "true", "false"]));
        }
        set("romio_cb_read", self.on_read.name(["automatic", "enable", "disable"]));
        set("romio_cb_write", self.on_write.name(["automatic", "enable", "disable"]));
        set("ind_rd_buffer_size", &self.sieve.to_string());
        entries
    }
}
