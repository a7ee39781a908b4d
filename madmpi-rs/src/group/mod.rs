//! Groups: ordered sets of processes.

pub(crate) mod alike;
pub(crate) mod names;
pub(crate) mod set;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use crate::abi::*;
use crate::error::Fault;
use crate::handle::{Ref, Table};
use crate::session::Session;
use names::Naming;

static GROUPS: Table<Group> = Table::new();

/// An ordered set of processes, named by their ranks in a session of newmad, mostly that of the job ([`names`]).
#[derive(Debug)]
pub(crate) struct Group {
    members: Box<[u32]>,
    /// Whether every rank is the rank in the session.
    same: bool,
    ranks: OnceLock<HashMap<u32, u32>>,
    naming: Naming,
    /// The program's session that the group comes from; none: the world. What is made of the group comes from there, too.
    session: Weak<Session>,
}

impl Group {
    /// Processes of the job, of the world.
    pub(crate) fn new(members: Vec<u32>) -> Arc<Group> {
        Group::made(None, Weak::new(), members)
    }

    fn made(naming: Naming, session: Weak<Session>, members: Vec<u32>) -> Arc<Group> {
        let same = members.iter().enumerate().all(|(rank, &process)| rank as u32 == process);
        Arc::new(Group { members: members.into(), same, ranks: OnceLock::new(), naming, session })
    }

    /// A group made of this one: of these members, named as those here are.
    pub(crate) fn with(&self, members: Vec<u32>) -> Arc<Group> {
        self.with_named(self.naming.clone(), members)
    }

    /// A group made of this one: of processes of those that the list names.
    pub(crate) fn with_named(&self, naming: Naming, members: Vec<u32>) -> Arc<Group> {
        Group::made(naming, self.session.clone(), members)
    }

    /// The same processes, of a session.
    pub(crate) fn of(&self, session: &Arc<Session>) -> Arc<Group> {
        Group::made(self.naming.clone(), Arc::downgrade(session), self.members.to_vec())
    }

    /// The program's session that the group comes from, unless that is finalized. `None`: the world.
    pub(crate) fn session(&self) -> Option<Arc<Session>> {
        self.session.upgrade()
    }

    /// What the members are named by.
    pub(crate) fn naming(&self) -> &Naming {
        &self.naming
    }

    pub(crate) fn members(&self) -> &[u32] {
        &self.members
    }

    #[inline]
    pub(crate) fn size(&self) -> u32 {
        self.members.len() as u32
    }

    /// The process with that rank here.
    #[inline]
    pub(crate) fn process(&self, rank: u32) -> Option<u32> {
        self.members.get(rank as usize).copied()
    }

    /// The rank here of a process.
    #[inline]
    pub(crate) fn rank(&self, process: u32) -> Option<u32> {
        if self.same {
            return (process < self.size()).then_some(process);
        }
        let all = || self.members.iter().enumerate().map(|(rank, &at)| (at, rank as u32)).collect();
        self.ranks.get_or_init(all).get(&process).copied()
    }
}

fn empty() -> &'static Arc<Group> {
    static EMPTY: OnceLock<Arc<Group>> = OnceLock::new();
    EMPTY.get_or_init(|| Group::new(Vec::new()))
}

/// The group that a handle stands for.
///
/// # Errors
/// The handle stands for none.
pub(crate) fn get(group: MPI_Group) -> Result<Ref<Group>, Fault> {
    if group == MPI_GROUP_EMPTY {
        return Ok(Ref::Fixed(empty()));
    }
    GROUPS.get(group.0).map(Ref::Shared).ok_or_else(|| {
        let why = match group {
            MPI_GROUP_NULL => "MPI_GROUP_NULL is not a group",
            _ => "it is not a group, or was freed",
        };
        Fault::handle(MPI_ERR_GROUP, "group", group.0, why)
    })
}

/// A handle for the program.
///
/// # Errors
/// No handle is left.
pub(crate) fn handle(group: Arc<Group>) -> Result<MPI_Group, Fault> {
    if group.size() == 0 {
        return Ok(MPI_GROUP_EMPTY);
    }
    let handle = GROUPS.insert(group);
    handle.map(MPI_Group).ok_or_else(|| Fault::new(MPI_ERR_NO_MEM, "too many groups exist"))
}

/// Ends a handle.
///
/// # Errors
/// It stands for no group.
pub(crate) fn free(group: MPI_Group) -> Result<(), Fault> {
    get(group)?;
    GROUPS.remove(group.0);
    Ok(())
}
