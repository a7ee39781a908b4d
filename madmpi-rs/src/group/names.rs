//! Who the processes of a session are that connects several jobs.
//!
//! A group names its members by their ranks in a session of newmad. Those of the job's session need nothing more. The
//! session of a connection ([`crate::comm::circle`]) numbers the same processes otherwise, so it has a list of who they
//! are, and groups of both are compared by that. A group that is made of groups of two sessions has a list of its own,
//! and no session.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::job;

/// A process, as all processes name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    /// The number of its job.
    pub(crate) job: u64,
    /// Its rank there.
    pub(crate) rank: u32,
}

/// See the module. Invariant: no process is listed twice.
#[derive(Debug)]
pub(crate) struct Names {
    pub(super) all: Box<[Identity]>,
    places: OnceLock<HashMap<Identity, u32>>,
}

impl Names {
    pub(crate) fn new(all: Vec<Identity>) -> Arc<Names> {
        Arc::new(Names { all: all.into(), places: OnceLock::new() })
    }

    fn place(&self, one: Identity) -> Option<u32> {
        let all = || self.all.iter().enumerate().map(|(at, &one)| (one, at as u32)).collect();
        self.places.get_or_init(all).get(&one).copied()
    }
}

/// A list of who the processes are; `None`: they are those of the job, by their ranks.
pub(crate) type Naming = Option<Arc<Names>>;

pub(super) fn are_same(one: &Naming, other: &Naming) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        _ => false,
    }
}

/// The process that is called `process` there.
pub(super) fn identity(naming: &Naming, process: u32) -> Option<Identity> {
    match naming {
        // Where the job has no number nothing has been connected, and there are no other names.
        None => job::known_number().map(|job| Identity { job, rank: process }),
        Some(names) => names.all.get(process as usize).copied(),
    }
}

/// What a process is called there.
pub(super) fn called(naming: &Naming, one: Identity) -> Option<u32> {
    match naming {
        None => (job::known_number() == Some(one.job)).then_some(one.rank),
        Some(names) => names.place(one),
    }
}
