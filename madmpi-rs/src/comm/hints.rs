//! Hints of communicators: what the program promises. Those that madmpi looks at are in force, and `MPI_Comm_get_info` gives
//! them; it ignores the others, which the standard allows.
//!
//! | hint | what it does |
//! |---|---|
//! | `mpi_assert_no_any_source` | a receive or probe from `MPI_ANY_SOURCE` is an error |
//! | `mpi_assert_no_any_tag` | one with `MPI_ANY_TAG` is an error |
//!
//! Nothing is gained in speed: newmad looks receives with an exact source and tag up at once, whatever others there are.
//! So `mpi_assert_exact_length` and `mpi_assert_allow_overtaking` are ignored: a message says its length before its data go
//! anywhere, and messages of a pair of ranks are in their order without a queue that could be left out.

use core::ffi::c_int;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::abi::*;
use crate::error::Fault;
use crate::info::{self, Entries};

/// The hints, each with its bit.
const ALL: [(&str, u8); 2] =
    [("mpi_assert_no_any_source", NO_ANY_SOURCE), ("mpi_assert_no_any_tag", NO_ANY_TAG)];
pub(super) const NO_ANY_SOURCE: u8 = 1;
pub(super) const NO_ANY_TAG: u8 = 2;

/// The hints of a communicator.
#[derive(Default)]
pub(crate) struct Hints(AtomicU8);

impl Hints {
    /// The hints of a new communicator that an info object names. The program may free the object afterwards.
    ///
    /// # Errors
    /// As [`Hints::set`].
    pub(crate) fn of(info: MPI_Info) -> Result<Hints, Fault> {
        let hints = Hints::default();
        hints.set(info)?;
        Ok(hints)
    }

    /// Takes over the hints that were read before this communicator existed.
    pub(crate) fn adopt(&self, read: Hints) {
        self.0.store(read.0.into_inner(), Relaxed);
    }

    /// Sets the hints that an info object names. A value that is no truth value is ignored, as a hint may be.
    ///
    /// # Errors
    /// It is no info object.
    pub(crate) fn set(&self, info: MPI_Info) -> Result<(), Fault> {
        if info == MPI_INFO_NULL {
            return Ok(());
        }
        let info = info::get(info)?;
        let entries = info.entries();
        for (name, bit) in ALL {
            match entries.get(name.as_bytes()) {
                Some(b"true") => self.0.fetch_or(bit, Relaxed),
                Some(b"false") => self.0.fetch_and(!bit, Relaxed),
                _ => continue,
            };
        }
        Ok(())
    }

    /// What is in force.
    pub(crate) fn entries(&self) -> Entries {
        let (mut entries, set) = (info::memory_kinds(), self.0.load(Relaxed));
        for (name, bit) in ALL {
            let value: &[u8] = if set & bit != 0 { b"true" } else { b"false" };
            entries.set(name.as_bytes(), value);
        }
        entries
    }

    /// # Errors
    /// The program has promised that it does not do this.
    pub(super) fn check(&self, bit: u8, name: &str, value: c_int) -> Result<(), Fault> {
        if self.0.load(Relaxed) & bit == 0 {
            return Ok(());
        }
        let hint = ALL.iter().find(|hint| hint.1 == bit).map_or("", |hint| hint.0);
        let class = if bit == NO_ANY_TAG { MPI_ERR_TAG } else { MPI_ERR_RANK };
        let why = format!("the communicator has the hint {hint}: no receive takes any");
        Err(Fault::argument(class, name, value, &why))
    }
}
