//! Splitting a communicator by the resources that its processes share.

use core::ffi::c_int;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use super::Comm;
use super::create::SplitKey;
use crate::abi::*;
use crate::error::Fault;
use crate::{info, job};

const RESOURCE: &[u8] = b"mpi_hw_resource_type";
const SHARED: &[u8] = b"mpi_shared_memory";
const SET: &[u8] = b"mpi_pset_name";

/// A number that is the same in processes that can share memory: those of one running system and one name space of
/// shared memory.
pub(crate) fn memory() -> u64 {
    let mut hasher = DefaultHasher::new();
    job::host().hash(&mut hasher);
    std::fs::read("/proc/sys/kernel/random/boot_id").ok().hash(&mut hasher);
    std::fs::metadata("/proc/self/ns/ipc").map(|space| space.ino()).ok().hash(&mut hasher);
    hasher.finish() | 1 // 0 is no colour
}

/// The colour that an info object asks for; 0: none.
pub(crate) fn guided(comm: &Comm, info: MPI_Info, sets: bool) -> Result<u64, Fault> {
    if info == MPI_INFO_NULL {
        return Ok(0);
    }
    let info = info::get(info)?;
    let entries = info.entries();
    if entries.get(RESOURCE) == Some(SHARED) {
        return Ok(memory());
    }
    let set = entries.get(SET).filter(|_| sets && entries.get(RESOURCE).is_none());
    Ok(match set {
        Some(b"mpi://WORLD") => 1,
        Some(b"mpi://SELF") => u64::from(comm.session.rank()) + 1,
        _ => 0,
    })
}

/// The part in which processes share memory, unless that is the whole communicator.
pub(crate) fn unguided(
    comm: &Comm,
    key: c_int,
    info: MPI_Info,
) -> Result<Option<Arc<Comm>>, Fault> {
    info::check(info)?;
    let Some(part) = comm.split(SplitKey { colour: memory(), key })? else { return Ok(None) };
    if part.group.size() == comm.group.size() {
        part.free()?;
        return Ok(None);
    }
    if info != MPI_INFO_NULL {
        info::get(info)?.entries().set(RESOURCE, SHARED);
    }
    Ok(Some(part))
}
