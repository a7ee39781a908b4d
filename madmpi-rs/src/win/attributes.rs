//! A window's answers to the program: the standard's attributes, hints, the memory of other members.

use core::ffi::c_int;

use super::{Reach, Win};
use crate::abi::*;
use crate::error::Fault;
use crate::info::{self, Entries};

/// The hints that a window has, with what it does unless it is told otherwise.
const HINTS: &[(&[u8], &[u8])] = &[
    (b"no_locks", b"false"),
    (b"accumulate_ordering", b"rar,raw,war,waw"),
    (b"accumulate_ops", b"same_op_no_op"),
    (b"mpi_accumulate_granularity", b"0"),
    (b"same_size", b"false"),
    (b"same_disp_unit", b"false"),
];
/// Of windows whose memory is shared.
pub(super) const APART: &[u8] = b"alloc_shared_noncontig";

/// The hints that a new window has.
///
/// # Errors
/// It is no info object.
pub(super) fn hints(info: MPI_Info, flavor: c_int) -> Result<Entries, Fault> {
    let mut entries = info::memory_kinds();
    for (key, value) in HINTS {
        entries.set(key, value);
    }
    if flavor == MPI_WIN_FLAVOR_SHARED || flavor == MPI_WIN_FLAVOR_ALLOCATE {
        entries.set(APART, b"false");
    }
    take(&mut entries, info)?;
    Ok(entries)
}

/// Takes the values of hints that a window has.
///
/// # Errors
/// It is no info object.
pub(crate) fn take(entries: &mut Entries, info: MPI_Info) -> Result<(), Fault> {
    if info == MPI_INFO_NULL {
        return Ok(());
    }
    let info = info::get(info)?;
    let given = info.entries();
    for (key, value) in given.iter() {
        if entries.get(key).is_some() && key != b"mpi_memory_alloc_kinds" {
            entries.set(key, value);
        }
    }
    Ok(())
}

/// Whether a key is one of the standard's for windows.
pub(crate) fn is_standard(key: c_int) -> bool {
    matches!(
        key,
        MPI_WIN_BASE | MPI_WIN_SIZE | MPI_WIN_DISP_UNIT | MPI_WIN_CREATE_FLAVOR | MPI_WIN_MODEL
    )
}

impl Win {
    /// The value of one of the standard's attributes, as C wants it: the base itself, the address of anything else.
    pub(crate) fn standard(&self, key: c_int) -> Option<usize> {
        let own = &self.own;
        Some(match key {
            MPI_WIN_BASE => own.base,
            MPI_WIN_SIZE => (&raw const own.size).addr(),
            MPI_WIN_DISP_UNIT => (&raw const own.unit).addr(),
            MPI_WIN_CREATE_FLAVOR => (&raw const own.flavor).addr(),
            MPI_WIN_MODEL => (&raw const own.model).addr(),
            _ => return None,
        })
    }

    /// Size, unit and address here of a member's memory; of the first member that has some, for `MPI_PROC_NULL`. No bytes, if
    /// this process cannot load from it.
    ///
    /// # Errors
    /// There is no such member; the window has no memory of its own.
    pub(crate) fn shared(&self, rank: c_int) -> Result<(usize, usize, usize), Fault> {
        if self.own.flavor == MPI_WIN_FLAVOR_DYNAMIC {
            let why = "a window of MPI_Win_create_dynamic has no memory that could be shared";
            return Err(Fault::new(MPI_ERR_RMA_FLAVOR, why));
        }
        let here = |rank: usize| match self.members[rank].reach {
            Reach::Here(at) => Some((self.members[rank].size, self.members[rank].unit, at)),
            _ => None,
        };
        // Of all members, not of those that share memory: mpi4py's tests want the first one's memory or none.
        let with_bytes = || self.members.iter().position(|member| member.size > 0).unwrap_or(0);
        let rank = self.member(rank)?.unwrap_or_else(with_bytes);
        Ok(here(rank).unwrap_or((0, self.members[rank].unit, 0)))
    }
}
