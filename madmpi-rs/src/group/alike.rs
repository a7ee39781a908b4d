//! Groups of different sessions, compared by who their members are.

use std::sync::Arc;

use super::Group;
use super::names::{Identity, Names, Naming, are_same, called, identity};

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
        Ok(self.with_named(naming.clone(), members))
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
            some.prop_shuffle()
                .prop_map(move |members| Group::new(Vec::new()).with_named(naming.clone(), members))
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
