//! Communicators.

use core::ffi::c_int;
use std::sync::Arc;

use super::entry::mpi;
use crate::abi::*;
use crate::args::{InOut, Out, Text, TextOut, out, read};
use crate::coll;
use crate::comm::{Comm, Hints, SplitKey, TAG_UB, bad_tag, get, inter, kinds};
use crate::errhandler;
use crate::error::Fault;
use crate::group::{self, alike::alike, set::Likeness};
use crate::info;

/// Gives the program a new communicator, or none.
pub(crate) fn give(newcomm: Out<MPI_Comm>, comm: Option<Arc<Comm>>) -> Result<(), Fault> {
    out(newcomm, "newcomm", comm.map_or(MPI_COMM_NULL, |comm| comm.handle()))
}

fn compare(one: &Comm, other: &Comm) -> c_int {
    if one.handle() == other.handle() {
        return MPI_IDENT;
    }
    let sides = [Some((&one.group, &other.group)), one.remote.as_ref().zip(other.remote.as_ref())];
    if one.remote.is_some() != other.remote.is_some() {
        return MPI_UNEQUAL;
    }
    let likeness = |(one, other): &(&Arc<group::Group>, &Arc<group::Group>)| {
        let (one, other) = alike(one, other);
        one.compare(&other)
    };
    let all: Vec<Likeness> = sides.iter().flatten().map(likeness).collect();
    if all.contains(&Likeness::Different) {
        MPI_UNEQUAL
    } else if all.contains(&Likeness::Similar) {
        MPI_SIMILAR
    } else {
        MPI_CONGRUENT
    }
}

/// Ends the handle of a communicator.
fn end(comm: InOut<MPI_Comm>, end: impl FnOnce(&Comm) -> Result<(), Fault>) -> Result<(), Fault> {
    let handle = read(comm, "comm")?;
    let held = get(handle)?;
    let ended = end(&held).map_err(|fault| fault.on(held.share()));
    // It may be gone with an error.
    if ended.is_ok() || get(handle).is_err() {
        out(comm, "comm", MPI_COMM_NULL)?;
    }
    ended
}

fn string_tag<'a>(name: Text<'a>) -> Result<&'a [u8], Fault> {
    name.bytes_below(MPI_MAX_STRINGTAG_LEN, MPI_ERR_ARG, "stringtag")
}

mpi! {
    fn MPI_Comm_rank(comm: MPI_Comm, rank: Out<c_int>) on comm {
        out(rank, "rank", comm.rank() as c_int)
    }

    fn MPI_Comm_size(comm: MPI_Comm, size: Out<c_int>) on comm {
        out(size, "size", comm.group.size() as c_int)
    }

    fn MPI_Comm_remote_size(comm: MPI_Comm, size: Out<c_int>) on comm {
        match &comm.remote {
            Some(remote) => out(size, "size", remote.size() as c_int),
            None => Err(Fault::new(MPI_ERR_COMM, "argument comm is not an intercommunicator")),
        }
    }

    fn MPI_Comm_test_inter(comm: MPI_Comm, flag: Out<c_int>) on comm {
        out(flag, "flag", c_int::from(comm.remote.is_some()))
    }

    fn MPI_Comm_group(comm: MPI_Comm, group: Out<MPI_Group>) on comm {
        group.made("group", MPI_GROUP_NULL, || group::handle(comm.group.clone()))
    }

    fn MPI_Comm_remote_group(comm: MPI_Comm, group: Out<MPI_Group>) on comm {
        match &comm.remote {
            Some(remote) => {
                group.made("group", MPI_GROUP_NULL, || group::handle(remote.clone()))
            }
            None => Err(Fault::new(MPI_ERR_COMM, "argument comm is not an intercommunicator")),
        }
    }

    fn MPI_Comm_compare(comm1: MPI_Comm, comm2: MPI_Comm, result: Out<c_int>) on comm1 {
        let comm2 = get(comm2)?;
        out(result, "result", compare(&comm1, &comm2))
    }

    fn MPI_Comm_dup(comm: MPI_Comm, newcomm: Out<MPI_Comm>) on comm {
        give(newcomm, None)?;
        give(newcomm, Some(comm.duplicate()?))
    }

    fn MPI_Comm_dup_with_info(comm: MPI_Comm, info: MPI_Info, newcomm: Out<MPI_Comm>) on comm {
        give(newcomm, None)?;
        info::check(info)?;
        let new = comm.duplicate()?;
        new.hints.set(info)?;
        give(newcomm, Some(new))
    }

    fn MPI_Comm_split(comm: MPI_Comm, color: c_int, key: c_int, newcomm: Out<MPI_Comm>) on comm {
        give(newcomm, None)?;
        let colour = match color {
            MPI_UNDEFINED => 0,
            0.. => color as u64 + 1,
            _ => {
                let why = "a colour must not be negative, or is MPI_UNDEFINED";
                return Err(Fault::argument(MPI_ERR_ARG, "color", color, why));
            }
        };
        give(newcomm, comm.split(SplitKey { colour, key })?)
    }

    fn MPI_Comm_create(comm: MPI_Comm, group: MPI_Group, newcomm: Out<MPI_Comm>) on comm {
        give(newcomm, None)?;
        let group = comm.part_of(&group::get(group)?.share())?;
        give(newcomm, comm.create(&group)?)
    }

    fn MPI_Comm_create_group(comm: MPI_Comm, group: MPI_Group, tag: c_int, newcomm: Out<MPI_Comm>) on comm {
        give(newcomm, None)?;
        comm.check_intra()?;
        if !(0..=TAG_UB).contains(&tag) {
            return Err(bad_tag(tag, ""));
        }
        let group = comm.part_of(&group::get(group)?.share())?;
        if !group.contains(comm.session.rank()) {
            return Ok(());
        }
        give(newcomm, Some(comm.create_alone(&group, tag)?))
    }

    fn MPI_Comm_free(comm: InOut<MPI_Comm>) { end(comm, Comm::free) }

    /// Waits for the other members, so that none of them still sends to this process.
    fn MPI_Comm_disconnect(comm: InOut<MPI_Comm>) { end(comm, Comm::disconnect) }

    fn MPI_Comm_set_name(comm: MPI_Comm, comm_name: Text) on comm {
        comm.settings().name = comm_name.object_name("comm_name")?.to_vec();
        Ok(())
    }

    fn MPI_Comm_get_name(comm: MPI_Comm, comm_name: TextOut<{ MPI_MAX_OBJECT_NAME }>, resultlen: Out<c_int>) {
        let name = match comm {
            MPI_COMM_NULL => b"MPI_COMM_NULL".to_vec(),
            _ => get(comm)?.settings().name.clone(),
        };
        out(resultlen, "resultlen", comm_name.put(&name, "comm_name")?)
    }

    fn MPI_Comm_set_info(comm: MPI_Comm, info: MPI_Info) on comm {
        info::get(info)?;
        comm.hints.set(info)
    }

    fn MPI_Comm_get_info(comm: MPI_Comm, info_used: Out<MPI_Info>) on comm {
        info_used.made("info_used", MPI_INFO_NULL, || info::handle(comm.hints.entries()))
    }
}

mpi! {
    fn MPI_Comm_idup(comm: MPI_Comm, newcomm: Out<MPI_Comm>, request: Out<MPI_Request>) on comm {
        request.make(|| coll::dup::start(&comm, Hints::default(), newcomm))
    }

    fn MPI_Comm_idup_with_info(
        comm: MPI_Comm, info: MPI_Info, newcomm: Out<MPI_Comm>, request: Out<MPI_Request>,
    ) on comm {
        let hints = Hints::of(info)?;
        request.make(|| coll::dup::start(&comm, hints, newcomm))
    }

    fn MPI_Intercomm_create(
        local_comm: MPI_Comm, local_leader: c_int, peer_comm: MPI_Comm, remote_leader: c_int, tag: c_int,
        newintercomm: Out<MPI_Comm>,
    ) on local_comm {
        give(newintercomm, None)?;
        local_comm.check_intra()?;
        inter::member(&local_comm.group, local_leader, "local_leader")?;
        if !(0..=TAG_UB).contains(&tag) {
            return Err(bad_tag(tag, ""));
        }
        let peer = || {
            let peer = get(peer_comm)?;
            let remote = inter::member(peer.peers(), remote_leader, "remote_leader")?;
            Ok((peer, remote))
        };
        give(newintercomm, inter::create(&local_comm, local_leader as u32, peer, tag)?)
    }

    fn MPI_Intercomm_merge(intercomm: MPI_Comm, high: c_int, newintracomm: Out<MPI_Comm>) on intercomm {
        give(newintracomm, None)?;
        give(newintracomm, Some(inter::merge(&intercomm, high != 0)?))
    }

    fn MPI_Comm_create_from_group(
        group: MPI_Group, stringtag: Text, info: MPI_Info, errhandler: MPI_Errhandler,
        newcomm: Out<MPI_Comm>,
    ) {
        let errhandler = errhandler::get(errhandler, errhandler::Kind::Comm)?;
        errhandler::under(&errhandler, MPI_COMM_NULL.0, || {
            give(newcomm, None)?;
            info::check(info)?;
            let group = group::get(group)?;
            if group.size() == 0 {
                return Ok(());
            }
            let name = string_tag(stringtag)?;
            let new = inter::from_group(&group.share(), name, errhandler.clone())?;
            new.hints.set(info)?;
            give(newcomm, Some(new))
        })
    }

    fn MPI_Intercomm_create_from_groups(
        local_group: MPI_Group, local_leader: c_int, remote_group: MPI_Group, remote_leader: c_int,
        stringtag: Text, info: MPI_Info, errhandler: MPI_Errhandler, newintercomm: Out<MPI_Comm>,
    ) {
        let errhandler = errhandler::get(errhandler, errhandler::Kind::Comm)?;
        errhandler::under(&errhandler, MPI_COMM_NULL.0, || {
            give(newintercomm, None)?;
            info::check(info)?;
            let (group, name) = (group::get(local_group)?, string_tag(stringtag)?);
            if group.size() == 0 {
                return Ok(());
            }
            inter::member(&group, local_leader, "local_leader")?;
            // Significant at the leader, which tells the others if there is no remote side.
            let remote = || {
                let remote = group::get(remote_group)?;
                let member = || inter::member_of_job(&remote.share(), remote_leader);
                (remote.size() > 0).then(member).transpose()
            };
            let leader = local_leader as u32;
            let new = inter::from_groups(&group.share(), leader, remote, name, errhandler.clone())?;
            if let Some(new) = &new {
                new.hints.set(info)?;
            }
            give(newintercomm, new)
        })
    }

    fn MPI_Comm_split_type(
        comm: MPI_Comm, split_type: c_int, key: c_int, info: MPI_Info, newcomm: Out<MPI_Comm>,
    ) on comm {
        give(newcomm, None)?;
        info::check(info)?;
        let colour = match split_type {
            MPI_UNDEFINED => 0,
            MPI_COMM_TYPE_SHARED => kinds::memory(),
            MPI_COMM_TYPE_HW_GUIDED => kinds::guided(&comm, info, false)?,
            MPI_COMM_TYPE_RESOURCE_GUIDED => kinds::guided(&comm, info, true)?,
            MPI_COMM_TYPE_HW_UNGUIDED => return give(newcomm, kinds::unguided(&comm, key, info)?),
            _ => {
                let why = "it must be one of MPI_COMM_TYPE_..., or MPI_UNDEFINED";
                return Err(Fault::argument(MPI_ERR_ARG, "split_type", split_type, why));
            }
        };
        let new = comm.split(SplitKey { colour, key })?;
        if let Some(new) = &new {
            new.hints.set(info)?;
        }
        give(newcomm, new)
    }
}
