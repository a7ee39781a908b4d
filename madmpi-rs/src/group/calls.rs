//! The functions of groups.

use core::ffi::c_int;

use super::set::{Likeness, ranks};
use super::{GROUPS, Group, get, handle};
use crate::abi::*;
use crate::call::mpi;
use crate::error::{Fault, array, array_mut, out, read};
use crate::process;

/// Gives the program a group of these members.
fn give(newgroup: *mut MPI_Group, members: Vec<u32>) -> Result<(), Fault> {
    out(newgroup, "newgroup", MPI_GROUP_NULL)?;
    out(newgroup, "newgroup", handle(Group::new(members))?)
}

fn listed(place: *const c_int, n: c_int) -> Result<Vec<i64>, Fault> {
    count(n)?;
    Ok(array(place, n.into(), "ranks")?.iter().map(|&rank| rank.into()).collect())
}

fn ranged(group: &Group, n: c_int, place: *const [c_int; 3]) -> Result<Vec<i64>, Fault> {
    count(n)?;
    ranks(array(place, n.into(), "ranges")?, group.size()).map_err(|range| {
        let why = "the stride is not 0 and leads from the first rank to the last";
        Fault::argument(MPI_ERR_ARG, "ranges", format_args!("{range:?}"), why)
    })
}

fn count(n: c_int) -> Result<(), Fault> {
    if n < 0 {
        return Err(Fault::argument(MPI_ERR_ARG, "n", n, "it is not negative"));
    }
    Ok(())
}

fn bad_rank(group: &Group, rank: i64) -> Fault {
    let why =
        format!("the group has ranks 0 to {}, and each is named once", i64::from(group.size()) - 1);
    Fault::argument(MPI_ERR_RANK, "ranks", rank, &why)
}

mpi! {
    fn MPI_Group_size(group: MPI_Group, size: *mut c_int) {
        out(size, "size", get(group)?.size() as c_int)
    }

    fn MPI_Group_rank(group: MPI_Group, rank: *mut c_int) {
        let own = get(group)?.rank(process::get()?.session.rank());
        out(rank, "rank", own.map_or(MPI_UNDEFINED, |rank| rank as c_int))
    }

    fn MPI_Group_translate_ranks(
        group1: MPI_Group, n: c_int, ranks1: *const c_int, group2: MPI_Group, ranks2: *mut c_int,
    ) {
        let (from, to) = (get(group1)?, get(group2)?);
        count(n)?;
        let (ranks1, ranks2) = (array(ranks1, n.into(), "ranks1")?, array_mut(ranks2, n.into(), "ranks2")?);
        for (&rank, place) in ranks1.iter().zip(ranks2) {
            *place = match rank {
                MPI_PROC_NULL => MPI_PROC_NULL,
                _ => {
                    let process = u32::try_from(rank).ok().and_then(|rank| from.process(rank));
                    let process = process.ok_or_else(|| bad_rank(&from, rank.into()))?;
                    to.rank(process).map_or(MPI_UNDEFINED, |rank| rank as c_int)
                }
            };
        }
        Ok(())
    }

    fn MPI_Group_compare(group1: MPI_Group, group2: MPI_Group, result: *mut c_int) {
        let (one, other) = (get(group1)?, get(group2)?);
        out(result, "result", match one.compare(&other) {
            Likeness::Same => MPI_IDENT,
            Likeness::Similar => MPI_SIMILAR,
            Likeness::Different => MPI_UNEQUAL,
        })
    }

    fn MPI_Group_union(group1: MPI_Group, group2: MPI_Group, newgroup: *mut MPI_Group) {
        let (one, other) = (get(group1)?, get(group2)?);
        give(newgroup, one.union(&other))
    }

    fn MPI_Group_intersection(group1: MPI_Group, group2: MPI_Group, newgroup: *mut MPI_Group) {
        let (one, other) = (get(group1)?, get(group2)?);
        give(newgroup, one.intersection(&other))
    }

    fn MPI_Group_difference(group1: MPI_Group, group2: MPI_Group, newgroup: *mut MPI_Group) {
        let (one, other) = (get(group1)?, get(group2)?);
        give(newgroup, one.difference(&other))
    }

    fn MPI_Group_incl(group: MPI_Group, n: c_int, ranks: *const c_int, newgroup: *mut MPI_Group) {
        let group = get(group)?;
        let members = group.including(&listed(ranks, n)?);
        give(newgroup, members.map_err(|rank| bad_rank(&group, rank))?)
    }

    fn MPI_Group_excl(group: MPI_Group, n: c_int, ranks: *const c_int, newgroup: *mut MPI_Group) {
        let group = get(group)?;
        let members = group.excluding(&listed(ranks, n)?);
        give(newgroup, members.map_err(|rank| bad_rank(&group, rank))?)
    }

    fn MPI_Group_range_incl(group: MPI_Group, n: c_int, ranges: *const [c_int; 3], newgroup: *mut MPI_Group) {
        let group = get(group)?;
        let members = group.including(&ranged(&group, n, ranges)?);
        give(newgroup, members.map_err(|rank| bad_rank(&group, rank))?)
    }

    fn MPI_Group_range_excl(group: MPI_Group, n: c_int, ranges: *const [c_int; 3], newgroup: *mut MPI_Group) {
        let group = get(group)?;
        let members = group.excluding(&ranged(&group, n, ranges)?);
        give(newgroup, members.map_err(|rank| bad_rank(&group, rank))?)
    }

    fn MPI_Group_free(group: *mut MPI_Group) {
        let freed = read(group, "group")?;
        if freed != MPI_GROUP_EMPTY {
            get(freed)?;
            GROUPS.remove(freed.0);
        }
        out(group, "group", MPI_GROUP_NULL)
    }
}
