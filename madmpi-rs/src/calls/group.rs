//! Groups.

use core::ffi::c_int;
use std::sync::Arc;

use super::entry::mpi;
use crate::abi::*;
use crate::args::{Array, ArrayMut, InOut, Out, array, array_mut, not_negative, out, read};
use crate::error::Fault;
use crate::group::alike::alike;
use crate::group::set::{Likeness, ranks};
use crate::group::{self, Group, get, handle};
use crate::job;

/// Gives the program a group of these members, named as those of `like` are.
fn give(newgroup: Out<MPI_Group>, like: &Group, members: Vec<u32>) -> Result<(), Fault> {
    newgroup.made("newgroup", MPI_GROUP_NULL, || handle(like.with(members)))
}

/// Two groups of the program, by the same names.
fn both(one: MPI_Group, other: MPI_Group) -> Result<(Arc<Group>, Arc<Group>), Fault> {
    Ok(alike(&get(one)?.share(), &get(other)?.share()))
}

fn listed(place: Array<c_int>, n: c_int) -> Result<Vec<i64>, Fault> {
    not_negative(MPI_ERR_ARG, "n", n)?;
    Ok(array!(place[n])?.iter().map(|&rank| rank.into()).collect())
}

fn ranged(group: &Group, n: c_int, place: Array<[c_int; 3]>) -> Result<Vec<i64>, Fault> {
    not_negative(MPI_ERR_ARG, "n", n)?;
    ranks(array!(place[n])?, group.size()).map_err(|range| {
        let why = "the stride must not be 0, and must lead from the first rank to the last";
        Fault::argument(MPI_ERR_ARG, "ranges", format_args!("{range:?}"), why)
    })
}

fn bad_rank(group: &Group, rank: i64) -> Fault {
    let why =
        format!("the group has ranks 0 to {}, and each is named once", i64::from(group.size()) - 1);
    Fault::argument(MPI_ERR_RANK, "ranks", rank, &why)
}

mpi! {
    fn MPI_Group_size(group: MPI_Group, size: Out<c_int>) {
        out(size, "size", get(group)?.size() as c_int)
    }

    fn MPI_Group_rank(group: MPI_Group, rank: Out<c_int>) {
        let own = get(group)?.rank_of_own(job::session()?.rank());
        out(rank, "rank", own.map_or(MPI_UNDEFINED, |rank| rank as c_int))
    }

    fn MPI_Group_translate_ranks(
        group1: MPI_Group, n: c_int, ranks1: Array<c_int>, group2: MPI_Group, ranks2: ArrayMut<c_int>,
    ) {
        let (from, to) = both(group1, group2)?;
        not_negative(MPI_ERR_ARG, "n", n)?;
        let (ranks1, ranks2) = (array!(ranks1[n])?, array_mut!(ranks2[n])?);
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

    fn MPI_Group_compare(group1: MPI_Group, group2: MPI_Group, result: Out<c_int>) {
        let (one, other) = both(group1, group2)?;
        out(result, "result", match one.compare(&other) {
            Likeness::Same => MPI_IDENT,
            Likeness::Similar => MPI_SIMILAR,
            Likeness::Different => MPI_UNEQUAL,
        })
    }

    fn MPI_Group_union(group1: MPI_Group, group2: MPI_Group, newgroup: Out<MPI_Group>) {
        let (one, other) = both(group1, group2)?;
        let like = if one.size() == 0 { &other } else { &one };
        give(newgroup, like, one.union(&other))
    }

    fn MPI_Group_intersection(group1: MPI_Group, group2: MPI_Group, newgroup: Out<MPI_Group>) {
        let (one, other) = both(group1, group2)?;
        give(newgroup, &one, one.intersection(&other))
    }

    fn MPI_Group_difference(group1: MPI_Group, group2: MPI_Group, newgroup: Out<MPI_Group>) {
        let (one, other) = both(group1, group2)?;
        give(newgroup, &one, one.difference(&other))
    }

    fn MPI_Group_incl(group: MPI_Group, n: c_int, ranks: Array<c_int>, newgroup: Out<MPI_Group>) {
        let group = get(group)?;
        let members = group.including(&listed(ranks, n)?);
        give(newgroup, &group, members.map_err(|rank| bad_rank(&group, rank))?)
    }

    fn MPI_Group_excl(group: MPI_Group, n: c_int, ranks: Array<c_int>, newgroup: Out<MPI_Group>) {
        let group = get(group)?;
        let members = group.excluding(&listed(ranks, n)?);
        give(newgroup, &group, members.map_err(|rank| bad_rank(&group, rank))?)
    }

    fn MPI_Group_range_incl(group: MPI_Group, n: c_int, ranges: Array<[c_int; 3]>, newgroup: Out<MPI_Group>) {
        let group = get(group)?;
        let members = group.including(&ranged(&group, n, ranges)?);
        give(newgroup, &group, members.map_err(|rank| bad_rank(&group, rank))?)
    }

    fn MPI_Group_range_excl(group: MPI_Group, n: c_int, ranges: Array<[c_int; 3]>, newgroup: Out<MPI_Group>) {
        let group = get(group)?;
        let members = group.excluding(&ranged(&group, n, ranges)?);
        give(newgroup, &group, members.map_err(|rank| bad_rank(&group, rank))?)
    }

    fn MPI_Group_free(group: InOut<MPI_Group>) {
        let freed = read(group, "group")?;
        group::free(freed)?;
        out(group, "group", MPI_GROUP_NULL)
    }
}
