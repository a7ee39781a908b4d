//! Making intercommunicators, communicators of groups alone, and one communicator of both sides.

use core::ffi::c_int;
use std::sync::Arc;

use newmad::coll::Group as Members;

use super::agreement::{Agreement, Bridge};
use super::circle::{self, Circle};
use super::{Comm, INTERNAL, Parts, context};
use crate::abi::*;
use crate::errhandler::Errhandler;
use crate::error::Fault;
use crate::group::Group;
use crate::handle::Ref;
use crate::job;

/// The own side of an intercommunicator that is being made.
struct LocalSide<'a> {
    members: &'a Members,
    group: Arc<Group>,
    leader: u32,
}

impl LocalSide<'_> {
    /// The circle of both sides, which is that of the leader's bridge, and this side's group as the circle names it. If
    /// the leader has an error, all of the side fail.
    fn circle(
        &self,
        bridge: &Result<Option<Bridge>, Fault>,
    ) -> Result<(Arc<Circle>, Arc<Group>), Fault> {
        let job = circle::of_job()?;
        let agreement =
            Agreement { leader: self.leader, ..Agreement::of_group(self.members, &job.contexts) };
        let number = match bridge {
            Ok(Some(bridge)) => Ok(vec![bridge.circle.number]),
            Ok(None) => Ok(vec![0]),
            Err(fault) => Err(fault.clone()),
        };
        let number = agreement.share(number)?.first().copied().unwrap_or_default();
        let circle = circle::find(number).ok_or(0u32);
        let named =
            circle.and_then(|circle| Ok((circle.clone(), self.group.called_in(&circle.naming)?)));
        // All of the side have the same answer, since the members of a circle are the same everywhere.
        named.map_err(|rank| {
            let why = format!(
                "process {rank} of local_comm is not connected with the other side by the session of peer_comm: \
                 MPI_Comm_accept and MPI_Comm_connect connect them"
            );
            Fault::new(MPI_ERR_COMM, why)
        })
    }
}

/// Makes an intercommunicator. The bridge is the leader's: if that has an error, all of the side fail; if the leader has none,
/// there is no other side, and no communicator.
fn join(
    side: LocalSide<'_>,
    bridge: Result<Option<Bridge>, Fault>,
    errhandler: Errhandler,
) -> Result<Option<Arc<Comm>>, Fault> {
    let (circle, group) = match (side.circle(&bridge), &bridge) {
        (Ok(placed), _) => placed,
        // The other leader waits for this one's words.
        (Err(fault), Ok(Some(bridge))) => return Err(bridge.decline(fault)),
        (Err(fault), _) => return Err(fault),
    };
    let LocalSide { members, leader, .. } = side;
    let agreement = Agreement::of_group(members, &circle.contexts);
    let mut agreement = Agreement { leader, two: true, ..agreement };
    let own = group.process(leader).unwrap_or_default();
    let met = bridge.and_then(|bridge| {
        let Some(bridge) = bridge else { return Ok(Vec::new()) };
        let words = [own].into_iter().chain(group.members().iter().copied()).map(u64::from);
        let theirs = bridge.exchange(&words.collect::<Vec<u64>>())?;
        agreement.crossed.set(true);
        agreement.bridge = Some(bridge);
        Ok(theirs)
    });
    let met = agreement.followed(agreement.share(met))?;
    let met: Vec<u32> = met.into_iter().filter_map(|member| member.try_into().ok()).collect();
    let Some((&other, remote)) = met.split_first() else { return Ok(None) };
    if remote.is_empty() {
        return Err(Fault::new(MPI_ERR_OTHER, "the other side has no members"));
    }
    if let Some(both) = remote.iter().find(|&&member| group.contains(member)) {
        let why = format!("process {both} of the job is on both sides of the intercommunicator");
        return Err(Fault::new(MPI_ERR_COMM, why));
    }
    agreement.second = other < own;
    let context = agreement.agree()?;
    let remote = Some(group.with(remote.to_vec()));
    Comm::new(Parts { circle: circle.clone(), context, group, remote, errhandler }).map(Some)
}

/// Makes one communicator of both sides; the high side comes last.
pub(crate) fn merge(comm: &Comm, high: bool) -> Result<Arc<Comm>, Fault> {
    let Some(remote) = &comm.remote else {
        return Err(Fault::new(MPI_ERR_COMM, "argument intercomm is not an intercommunicator"));
    };
    let agreement = Agreement::of_comm(comm)?;
    let [here, there] = agreement.followed(agreement.gather([u64::from(high)]))?;
    // Both sides find that either of them does not agree.
    let agree = |side: &[[u64; 1]]| side.windows(2).all(|pair| pair[0] == pair[1]);
    if !agree(&here) || !agree(&there) {
        let why = "all processes of a side must give the same value";
        return Err(Fault::argument(MPI_ERR_ARG, "high", c_int::from(high), why));
    }
    // If both sides say the same, the first side comes first.
    let theirs = there.first().is_some_and(|says| says[0] != 0);
    let last = if high == theirs { agreement.second } else { high };
    let (first, second) = if last { (remote, &comm.group) } else { (&comm.group, remote) };
    let members = first.members().iter().chain(second.members()).copied().collect();
    let context = agreement.agree()?;
    let (circle, errhandler) = (comm.circle.clone(), comm.errhandler());
    let group = comm.group.with(members);
    Comm::new(Parts { circle, context, group, remote: None, errhandler })
}

/// The number that a name stands for.
fn hash(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The group, whose processes have to be of the job.
fn of_job(group: &Arc<Group>) -> Result<Arc<Group>, Fault> {
    group.called_in(&None).map_err(|rank| {
        let why = format!("its process {rank} is of another job: only communicators lead there");
        Fault::argument(MPI_ERR_GROUP, "group", "of several jobs", &why)
    })
}

/// The members of a group as a group of newmad with that key: no communicator exists yet.
fn members(group: &Group, key: u64) -> Result<Members, Fault> {
    let session = job::session()?;
    if !group.contains(session.rank()) {
        let why = "the calling process is not in the group";
        return Err(Fault::argument(MPI_ERR_GROUP, "group", "of others", why));
    }
    Ok(session.group_with_key(group.members(), key)?)
}

pub(crate) fn member(group: &Group, rank: c_int, name: &str) -> Result<u32, Fault> {
    let process = u32::try_from(rank).ok().and_then(|rank| group.process(rank));
    process.ok_or_else(|| {
        let why = format!("there are ranks 0 to {}", i64::from(group.size()) - 1);
        Fault::argument(MPI_ERR_RANK, name, rank, &why)
    })
}

/// The process of the job that is the leader of a remote group.
pub(crate) fn member_of_job(group: &Arc<Group>, rank: c_int) -> Result<u32, Fault> {
    member(&*of_job(group)?, rank, "remote_leader")
}

/// Makes an intercommunicator of two communicators whose leaders reach each other over `peer`. `peer` is needed at the
/// leader only.
pub(crate) fn create(
    local: &Comm,
    leader: u32,
    peer: impl FnOnce() -> Result<(Ref<Comm>, u32), Fault>,
    tag: c_int,
) -> Result<Option<Arc<Comm>>, Fault> {
    let bridge = || {
        if local.rank() != leader {
            return Ok(None);
        }
        let (peer, remote) = peer()?;
        let (circle, tag) = (peer.circle.clone(), peer.internal_tag_of(tag));
        Ok(Some(Bridge { circle, remote, tag }))
    };
    let side = LocalSide { members: local.coll_group()?, group: local.group.clone(), leader };
    let bridge = bridge();
    // The leader waits for the other one beside its own side.
    let _ends = match &bridge {
        Ok(Some(bridge)) => {
            let ends = local.end_messages_with_this(&bridge.circle.session, bridge.tag);
            Some(ends.map_err(|fault| bridge.decline(fault))?)
        }
        _ => None,
    };
    join(side, bridge, local.errhandler())
}

/// Makes a communicator of a group's processes, which call this with the same name.
pub(crate) fn from_group(
    group: &Arc<Group>,
    name: &[u8],
    errhandler: Errhandler,
) -> Result<Arc<Comm>, Fault> {
    let group = of_job(group)?;
    let members = members(&group, hash(name))?;
    let circle = circle::of_job()?.clone();
    let context = Agreement::of_group(&members, &circle.contexts).agree()?;
    Comm::new(Parts { circle, context, group, remote: None, errhandler })
}

/// Makes an intercommunicator of two groups, whose processes call this with the same name. `remote` gives the process
/// of the other leader, and is needed at the leader only.
pub(crate) fn from_groups(
    group: &Arc<Group>,
    leader: u32,
    remote: impl FnOnce() -> Result<Option<u32>, Fault>,
    name: &[u8],
    errhandler: Errhandler,
) -> Result<Option<Arc<Comm>>, Fault> {
    let name = hash(name);
    // Not the number of a communicator of the same group and name.
    let group = of_job(group)?;
    let members = members(&group, !name)?;
    let bridge = || {
        if members.rank() != leader {
            return Ok(None);
        }
        let Some(remote) = remote()? else { return Ok(None) };
        let circle = circle::of_job()?.clone();
        // No process sends a peer anything in the context of `MPI_COMM_SELF`.
        let tag = u64::from(context::OWN) << 32 | INTERNAL | name >> 33;
        Ok(Some(Bridge { circle, remote, tag }))
    };
    let bridge = bridge();
    join(LocalSide { members: &members, group, leader }, bridge, errhandler)
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
