//! Communicators with two sides, those made of groups alone, and both sides as one.

use core::ffi::{c_char, c_int};
use std::sync::Arc;

use newmad::coll::Group as Members;

use super::calls::{give, intra};
use super::meeting::{Bridge, Meeting};
use super::{Comm, Parts, TAG_UB, bad_tag, context, get};
use crate::abi::*;
use crate::call::mpi;
use crate::errhandler::{self, Errhandler};
use crate::error::Fault;
use crate::group::{self, Group};
use crate::{info, process};

/// The own side of an intercommunicator that is being made.
struct Side<'a> {
    members: &'a Members,
    group: Arc<Group>,
    leader: u32,
}

/// Makes it. The bridge is the leader's: an error of its is one for all of the side.
fn join(
    side: Side<'_>,
    bridge: Result<Option<Bridge>, Fault>,
    errhandler: Errhandler,
) -> Result<Arc<Comm>, Fault> {
    let Side { members, group, leader } = side;
    let mut meeting = Meeting { local: members, leader, bridge: None, second: false, two: true };
    let own = group.process(leader).unwrap_or_default();
    let met = bridge.and_then(|bridge| {
        let Some(bridge) = bridge else { return Ok(Vec::new()) };
        let words = [own].into_iter().chain(group.members().iter().copied()).map(u64::from);
        let theirs = bridge.exchange(&words.collect::<Vec<u64>>())?;
        meeting.bridge = Some(bridge);
        Ok(theirs)
    });
    let met = meeting.share(met)?;
    let met: Vec<u32> = met.into_iter().filter_map(|member| member.try_into().ok()).collect();
    let Some((&other, remote)) = met.split_first().filter(|(_, remote)| !remote.is_empty()) else {
        return Err(Fault::new(MPI_ERR_OTHER, "the other side has no members"));
    };
    if let Some(both) = remote.iter().find(|&&member| group.contains(member)) {
        let why = format!("process {both} of the job is on both sides of the intercommunicator");
        return Err(Fault::new(MPI_ERR_COMM, why));
    }
    meeting.second = other < own;
    let context = meeting.agree()?;
    Comm::new(Parts { context, group, remote: Some(Group::new(remote.to_vec())), errhandler })
}

/// Both sides of an intercommunicator as one; the high one comes last.
fn merge(comm: &Comm, high: bool) -> Result<Arc<Comm>, Fault> {
    let Some(remote) = &comm.remote else {
        return Err(Fault::new(MPI_ERR_COMM, "argument intercomm is not an intercommunicator"));
    };
    let meeting = Meeting::of_comm(comm)?;
    let [here, there] = meeting.gather([u64::from(high)])?;
    if here.iter().any(|says| says[0] != u64::from(high)) {
        let why = "all processes of a side say the same";
        return Err(Fault::argument(MPI_ERR_ARG, "high", c_int::from(high), why));
    }
    // Where both sides say the same, the first one stays that.
    let theirs = there.first().is_some_and(|says| says[0] != 0);
    let last = if high == theirs { meeting.second } else { high };
    let (first, second) = if last { (remote, &comm.group) } else { (&comm.group, remote) };
    let members = first.members().iter().chain(second.members()).copied().collect();
    let context = meeting.agree()?;
    let errhandler = comm.errhandler();
    Comm::new(Parts { context, group: Group::new(members), remote: None, errhandler })
}

/// A number that a name stands for.
fn hash(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn string_tag(place: *const c_char) -> Result<u64, Fault> {
    let limits = (MPI_ERR_ARG, MPI_MAX_STRINGTAG_LEN);
    Ok(hash(info::string(place, "stringtag", limits)?))
}

/// The members of a group, which meet under a number of theirs: no communicator is there yet.
fn members(group: &Group, key: u64) -> Result<Members, Fault> {
    let session = &process::get()?.session;
    if !group.contains(session.rank()) {
        let why = "the calling process is not in the group";
        return Err(Fault::argument(MPI_ERR_GROUP, "group", "of others", why));
    }
    Ok(session.group_with_key(group.members(), key)?)
}

fn member(group: &Group, rank: c_int, name: &str) -> Result<u32, Fault> {
    let process = u32::try_from(rank).ok().and_then(|rank| group.process(rank));
    process.ok_or_else(|| {
        let why = format!("there are ranks 0 to {}", i64::from(group.size()) - 1);
        Fault::argument(MPI_ERR_RANK, name, rank, &why)
    })
}

/// Runs what makes a communicator of groups: its faults are those of the error handler that it would have.
fn under<T>(handler: &Errhandler, body: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    body().map_err(|fault| fault.on_making(handler))
}

mpi! {
    fn MPI_Intercomm_create(
        local_comm: MPI_Comm, local_leader: c_int, peer_comm: MPI_Comm, remote_leader: c_int, tag: c_int,
        newintercomm: *mut MPI_Comm,
    ) on local_comm {
        give(newintercomm, None)?;
        intra(&local_comm)?;
        member(&local_comm.group, local_leader, "local_leader")?;
        if !(0..=TAG_UB).contains(&tag) {
            return Err(bad_tag(tag, ""));
        }
        let leader = local_leader as u32;
        let bridge = || {
            if local_comm.rank() != leader {
                return Ok(None);
            }
            let peer = get(peer_comm)?;
            let remote = member(peer.peers(), remote_leader, "remote_leader")?;
            Ok(Some(Bridge { session: peer.session.clone(), remote, tag: peer.internal_tag_of(tag) }))
        };
        let side = Side { members: local_comm.coll_group()?, group: local_comm.group.clone(), leader };
        give(newintercomm, Some(join(side, bridge(), local_comm.errhandler())?))
    }

    fn MPI_Intercomm_merge(intercomm: MPI_Comm, high: c_int, newintracomm: *mut MPI_Comm) on intercomm {
        give(newintracomm, None)?;
        give(newintracomm, Some(merge(&intercomm, high != 0)?))
    }

    fn MPI_Comm_create_from_group(
        group: MPI_Group, stringtag: *const c_char, info: MPI_Info, errhandler: MPI_Errhandler,
        newcomm: *mut MPI_Comm,
    ) {
        give(newcomm, None)?;
        let errhandler = errhandler::get(errhandler, errhandler::Kind::Comm)?;
        let new = under(&errhandler, || {
            info::check(info)?;
            let group = group::get(group)?;
            if group.size() == 0 {
                return Ok(None);
            }
            let members = members(&group, string_tag(stringtag)?)?;
            let context = Meeting::of_group(&members).agree()?;
            let (group, errhandler) = (group.share(), errhandler.clone());
            Comm::new(Parts { context, group, remote: None, errhandler }).map(Some)
        });
        give(newcomm, new?)
    }

    fn MPI_Intercomm_create_from_groups(
        local_group: MPI_Group, local_leader: c_int, remote_group: MPI_Group, remote_leader: c_int,
        stringtag: *const c_char, info: MPI_Info, errhandler: MPI_Errhandler, newintercomm: *mut MPI_Comm,
    ) {
        give(newintercomm, None)?;
        let errhandler = errhandler::get(errhandler, errhandler::Kind::Comm)?;
        let new = under(&errhandler, || {
            info::check(info)?;
            let (group, name) = (group::get(local_group)?, string_tag(stringtag)?);
            member(&group, local_leader, "local_leader")?;
            let leader = local_leader as u32;
            // Not the number of a communicator of the same group and name.
            let members = members(&group, !name)?;
            let bridge = || {
                if members.rank() != leader {
                    return Ok(None);
                }
                let remote = member(&*group::get(remote_group)?, remote_leader, "remote_leader")?;
                let session = process::get()?.session.clone();
                // Nobody sends another process anything in the context of `MPI_COMM_SELF`.
                let tag = u64::from(context::OWN) << 32 | super::INTERNAL | name >> 33;
                Ok(Some(Bridge { session, remote, tag }))
            };
            let bridge = bridge();
            join(Side { members: &members, group: group.share(), leader }, bridge, errhandler.clone())
        });
        give(newintercomm, Some(new?))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_that_differ_a_little_are_different_numbers() {
        let names = ["", "a", "b", "ab", "ba", "mpi4py-1", "mpi4py-2"];
        let numbers: std::collections::HashSet<u64> =
            names.iter().map(|name| super::hash(name.as_bytes())).collect();
        assert_eq!(numbers.len(), names.len());
    }
}
