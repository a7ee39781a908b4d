//! Info objects: lists of keys and values.

mod entries;
pub(crate) mod env;

use std::sync::{Arc, MutexGuard};

use crate::abi::*;
use crate::error::Fault;
use crate::handle::{Ref, Table};
use marcel::plumbing::KernelMutex;

pub(crate) use entries::Entries;

static INFOS: Table<Info> = Table::new();

/// An info object.
#[derive(Default)]
pub(crate) struct Info(KernelMutex<Entries>);

impl Info {
    pub(crate) fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock()
    }
}

/// The object that a handle stands for.
///
/// # Errors
/// The handle stands for none.
pub(crate) fn get(info: MPI_Info) -> Result<Ref<Info>, Fault> {
    if info == MPI_INFO_ENV {
        let entries = env::entries(&env::arguments());
        return Ok(Ref::Shared(Arc::new(Info(KernelMutex::new(entries)))));
    }
    INFOS.get(info.0).map(Ref::Shared).ok_or_else(|| bad(info))
}

#[cold]
fn bad(info: MPI_Info) -> Fault {
    let why = match info {
        MPI_INFO_NULL => "MPI_INFO_NULL is not an info object",
        MPI_INFO_ENV => "MPI_INFO_ENV cannot be changed",
        _ => "it is not an info object, or was freed",
    };
    Fault::handle(MPI_ERR_INFO, "info", info.0, why)
}

/// An object that may be changed.
pub(crate) fn own(info: MPI_Info) -> Result<Ref<Info>, Fault> {
    if info == MPI_INFO_ENV { Err(bad(info)) } else { get(info) }
}

/// Checks an argument that may be `MPI_INFO_NULL`, of a call that ignores all hints.
///
/// # Errors
/// It is no info object.
pub(crate) fn check(info: MPI_Info) -> Result<(), Fault> {
    if info == MPI_INFO_NULL { Ok(()) } else { get(info).map(drop) }
}

/// The kinds of memory that calls take.
pub(crate) fn memory_kinds() -> Entries {
    let mut entries = Entries::default();
    entries.set(b"mpi_memory_alloc_kinds", b"system,mpi");
    entries
}

/// A handle for the program.
///
/// # Errors
/// No handle is left.
pub(crate) fn handle(entries: Entries) -> Result<MPI_Info, Fault> {
    let handle = INFOS.insert(Arc::new(Info(KernelMutex::new(entries))));
    handle.map(MPI_Info).ok_or_else(|| Fault::new(MPI_ERR_NO_MEM, "too many info objects exist"))
}

/// Ends a handle.
///
/// # Errors
/// It stands for no object, or for one that cannot be freed.
pub(crate) fn free(info: MPI_Info) -> Result<(), Fault> {
    own(info)?;
    INFOS.remove(info.0);
    Ok(())
}
