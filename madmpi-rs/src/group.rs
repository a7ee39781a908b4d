//! Groups: ordered sets of processes.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// An ordered set of processes, named by their ranks in the newmad session.
pub(crate) struct Group {
    members: Box<[u32]>,
    /// Whether a rank here is the rank there.
    same: bool,
    ranks: OnceLock<HashMap<u32, u32>>,
}

impl Group {
    pub(crate) fn new(members: Vec<u32>) -> Arc<Group> {
        let same = members.iter().enumerate().all(|(rank, &process)| rank as u32 == process);
        Arc::new(Group { members: members.into(), same, ranks: OnceLock::new() })
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
