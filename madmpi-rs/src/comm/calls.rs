//! The functions of communicators as such.

use core::ffi::{c_char, c_int};
use std::ffi::CStr;
use std::sync::Arc;

use super::create::Place;
use super::meeting::Meeting;
use super::{Comm, TAG_UB, bad_tag, get};
use crate::abi::*;
use crate::call::mpi;
use crate::env::text_out;
use crate::error::{Fault, out, read};
use crate::group::{self, set::Likeness};
use crate::info;

/// Gives the program a new communicator, or none.
pub(crate) fn give(newcomm: *mut MPI_Comm, comm: Option<Arc<Comm>>) -> Result<(), Fault> {
    out(newcomm, "newcomm", comm.map_or(MPI_COMM_NULL, |comm| comm.handle()))
}

/// # Errors
/// It has two sides.
pub(crate) fn intra(comm: &Comm) -> Result<(), Fault> {
    match comm.remote {
        None => Ok(()),
        Some(_) => Err(Fault::new(MPI_ERR_COMM, "argument comm is an intercommunicator")),
    }
}

fn compare(one: &Comm, other: &Comm) -> c_int {
    if one.handle() == other.handle() {
        return MPI_IDENT;
    }
    let sides = [Some((&one.group, &other.group)), one.remote.as_ref().zip(other.remote.as_ref())];
    if one.remote.is_some() != other.remote.is_some() {
        return MPI_UNEQUAL;
    }
    let likeness = |(one, other): &(&Arc<group::Group>, &Arc<group::Group>)| one.compare(other);
    let all: Vec<Likeness> = sides.iter().flatten().map(likeness).collect();
    if all.contains(&Likeness::Different) {
        MPI_UNEQUAL
    } else if all.contains(&Likeness::Similar) {
        MPI_SIMILAR
    } else {
        MPI_CONGRUENT
    }
}

/// Frees what a handle of the program's stands for, after `before`.
fn free(comm: *mut MPI_Comm, before: impl FnOnce(&Comm) -> Result<(), Fault>) -> Result<(), Fault> {
    let held = get(read(comm, "comm")?)?;
    before(&held).and_then(|()| held.free()).map_err(|fault| fault.on_comm(&held))?;
    out(comm, "comm", MPI_COMM_NULL)
}

mpi! {
    fn MPI_Comm_rank(comm: MPI_Comm, rank: *mut c_int) on comm {
        out(rank, "rank", comm.rank() as c_int)
    }

    fn MPI_Comm_size(comm: MPI_Comm, size: *mut c_int) on comm {
        out(size, "size", comm.group.size() as c_int)
    }

    fn MPI_Comm_remote_size(comm: MPI_Comm, size: *mut c_int) on comm {
        match &comm.remote {
            Some(remote) => out(size, "size", remote.size() as c_int),
            None => Err(Fault::new(MPI_ERR_COMM, "argument comm is not an intercommunicator")),
        }
    }

    fn MPI_Comm_test_inter(comm: MPI_Comm, flag: *mut c_int) on comm {
        out(flag, "flag", c_int::from(comm.remote.is_some()))
    }

    fn MPI_Comm_group(comm: MPI_Comm, group: *mut MPI_Group) on comm {
        out(group, "group", MPI_GROUP_NULL)?;
        out(group, "group", group::handle(comm.group.clone())?)
    }

    fn MPI_Comm_remote_group(comm: MPI_Comm, group: *mut MPI_Group) on comm {
        match &comm.remote {
            Some(remote) => {
                out(group, "group", MPI_GROUP_NULL)?;
                out(group, "group", group::handle(remote.clone())?)
            }
            None => Err(Fault::new(MPI_ERR_COMM, "argument comm is not an intercommunicator")),
        }
    }

    fn MPI_Comm_compare(comm1: MPI_Comm, comm2: MPI_Comm, result: *mut c_int) on comm1 {
        let comm2 = get(comm2)?;
        out(result, "result", compare(&comm1, &comm2))
    }

    fn MPI_Comm_dup(comm: MPI_Comm, newcomm: *mut MPI_Comm) on comm {
        give(newcomm, None)?;
        give(newcomm, Some(comm.duplicate()?))
    }

    fn MPI_Comm_dup_with_info(comm: MPI_Comm, info: MPI_Info, newcomm: *mut MPI_Comm) on comm {
        give(newcomm, None)?;
        info::check(info)?;
        give(newcomm, Some(comm.duplicate()?))
    }

    fn MPI_Comm_split(comm: MPI_Comm, color: c_int, key: c_int, newcomm: *mut MPI_Comm) on comm {
        give(newcomm, None)?;
        let colour = match color {
            MPI_UNDEFINED => 0,
            0.. => color as u64 + 1,
            _ => {
                let why = "a colour is not negative, or MPI_UNDEFINED";
                return Err(Fault::argument(MPI_ERR_ARG, "color", color, why));
            }
        };
        give(newcomm, comm.split(Place { colour, key })?)
    }

    fn MPI_Comm_create(comm: MPI_Comm, group: MPI_Group, newcomm: *mut MPI_Comm) on comm {
        give(newcomm, None)?;
        let group = group::get(group)?;
        comm.check_part(&group)?;
        give(newcomm, comm.create(&group)?)
    }

    fn MPI_Comm_create_group(comm: MPI_Comm, group: MPI_Group, tag: c_int, newcomm: *mut MPI_Comm) on comm {
        give(newcomm, None)?;
        intra(&comm)?;
        if !(0..=TAG_UB).contains(&tag) {
            return Err(bad_tag(tag, ""));
        }
        let group = group::get(group)?;
        comm.check_part(&group)?;
        if !group.contains(comm.session.rank()) {
            return Ok(());
        }
        give(newcomm, Some(comm.create_alone(&group.share(), tag)?))
    }

    fn MPI_Comm_free(comm: *mut MPI_Comm) { free(comm, |_| Ok(())) }

    /// The others are waited for, so that nobody is still to come.
    fn MPI_Comm_disconnect(comm: *mut MPI_Comm) { free(comm, |comm| Meeting::of_comm(comm)?.any(false).map(drop)) }

    fn MPI_Comm_set_name(comm: MPI_Comm, comm_name: *const c_char) on comm {
        if comm_name.is_null() {
            return Err(Fault::argument(MPI_ERR_ARG, "comm_name", "null", "a name is needed"));
        }
        // SAFETY: the program's promise that it is a string.
        let name = unsafe { CStr::from_ptr(comm_name) }.to_bytes();
        comm.told().name = name[..name.len().min(MPI_MAX_OBJECT_NAME as usize - 1)].to_vec();
        Ok(())
    }

    fn MPI_Comm_get_name(comm: MPI_Comm, comm_name: *mut c_char, resultlen: *mut c_int) {
        let name = match comm {
            MPI_COMM_NULL => b"MPI_COMM_NULL".to_vec(),
            _ => get(comm)?.told().name.clone(),
        };
        text_out(&name, comm_name, MPI_MAX_OBJECT_NAME, resultlen)
    }

    /// No hint makes a difference here, and those may be ignored.
    fn MPI_Comm_set_info(comm: MPI_Comm, info: MPI_Info) on comm {
        let _ = &comm;
        info::get(info).map(drop)
    }

    fn MPI_Comm_get_info(comm: MPI_Comm, info_used: *mut MPI_Info) on comm {
        let _ = &comm;
        out(info_used, "info_used", MPI_INFO_NULL)?;
        out(info_used, "info_used", info::handle(info::memory_kinds())?)
    }
}
