//! Who the processes of a session are that connects several jobs.
//!
//! A group names its members by their ranks in a session of newmad. Those of the job's session need nothing more. The
//! session of a connection ([`crate::comm::circle`]) numbers the same processes otherwise, so it has a list of who they
//! are, and groups of both are compared by that. A group that is made of groups of two sessions has a list of its own,
//! and no session.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::Group;
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
    all: Box<[Identity]>,
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

fn are_same(one: &Naming, other: &Naming) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        _ => false,
    }
}

/// The process that is called `process` there.
fn identity(naming: &Naming, process: u32) -> Option<Identity> {
    match naming {
        // Where the job has no number nothing has been connected, and there are no other names.
        None => job::known_number().map(|job| Identity { job, rank: process }),
        Some(names) => names.all.get(process as usize).copied(),
    }
}

/// What a process is called there.
fn called(naming: &Naming, one: Identity) -> Option<u32> {
    match naming {
        None => (job::known_number() == Some(one.job)).then_some(one.rank),
        Some(names) => names.place(one),
    }
}

impl Group {
    /// Who the members are. Empty if the job has no number.
    pub(crate) fn identities(&self) -> Vec<Identity> {
        self.members().iter().filter_map(|&member| identity(self.naming(), member)).collect()
    }

    /// What the process is called here that the job calls by that rank.
    pub(crate) fn rank_of_own(&self, rank: u32) -> Option<u32> {
        match self.naming() {
            None => self.rank(rank),
            naming => self.rank(called(naming, identity(&None, rank)?)?),
        }
    }

    /// The same processes as another session calls them. The error is the rank here of one that it does not have.
    pub(crate) fn called_in(self: &Arc<Group>, naming: &Naming) -> Result<Arc<Group>, u32> {
        if are_same(self.naming(), naming) {
            return Ok(self.clone());
        }
        let translate = |(rank, &member): (u32, &u32)| {
            let one = identity(self.naming(), member);
            one.and_then(|one| called(naming, one)).ok_or(rank)
        };
        let members = (0..).zip(self.members()).map(translate).collect::<Result<_, _>>()?;
        Ok(Group::among(naming.clone(), members))
    }
}

/// Both groups by the same names, so that their members can be compared.
pub(crate) fn alike(one: &Arc<Group>, other: &Arc<Group>) -> (Arc<Group>, Arc<Group>) {
    // Those of no processes are of any session.
    if are_same(one.naming(), other.naming()) || one.size() == 0 || other.size() == 0 {
        return (one.clone(), other.clone());
    }
    if let Ok(one) = one.called_in(other.naming()) {
        return (one, other.clone());
    }
    if let Ok(other) = other.called_in(one.naming()) {
        return (one.clone(), other);
    }
    let mut all = one.identities();
    let known: std::collections::HashSet<Identity> = all.iter().copied().collect();
    all.extend(other.identities().into_iter().filter(|one| !known.contains(one)));
    let naming = Some(Names::new(all));
    let by_them = |group: &Arc<Group>| group.called_in(&naming).unwrap_or_else(|_| group.clone());
    (by_them(one), by_them(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A session of some of ten processes, in some order.
    fn naming() -> impl Strategy<Value = Naming> {
        let some = proptest::sample::subsequence((0..10u32).collect::<Vec<_>>(), 1..10);
        some.prop_shuffle().prop_map(|ranks| {
            let process = |rank| Identity { job: u64::from(rank % 2), rank };
            Some(Names::new(ranks.into_iter().map(process).collect()))
        })
    }

    fn group() -> impl Strategy<Value = Arc<Group>> {
        naming().prop_flat_map(|naming| {
            let size = naming.as_ref().map_or(0, |names| names.all.len() as u32);
            let some =
                proptest::sample::subsequence((0..size).collect::<Vec<_>>(), 0..=size as usize);
            some.prop_shuffle().prop_map(move |members| Group::among(naming.clone(), members))
        })
    }

    proptest! {
        #[test]
        fn groups_of_two_sessions_are_compared_by_who_their_members_are(one in group(), other in group()) {
            let (who, whom) = (one.identities(), other.identities());
            let (a, b) = alike(&one, &other);
            prop_assert_eq!(a.identities(), who.clone());
            prop_assert_eq!(b.identities(), whom.clone());
            for (rank, one) in who.iter().enumerate() {
                let there = whom.iter().position(|other| other == one).map(|at| at as u32);
                prop_assert_eq!(b.rank(a.members()[rank]), if b.size() == 0 { None } else { there });
            }
        }

        #[test]
        fn a_group_is_found_in_a_session_that_has_all_its_members(group in group(), naming in naming()) {
            let has = |one: &Identity| naming.as_ref().is_some_and(|names| names.all.contains(one));
            let who = group.identities();
            match group.called_in(&naming) {
                Ok(found) => prop_assert_eq!(found.identities(), who),
                Err(rank) => prop_assert!(!has(&who[rank as usize])),
            }
        }
    }
}
