//! A binomial tree. Ranks are counted from the root here (`me`), so that the root is 0.

use crate::coll::recorder::Recorder;

/// The own rank counted from the root.
pub(super) fn from_root(rec: &Recorder, root: u32) -> u32 {
    (rec.rank + rec.size - root) % rec.size
}

/// The rank in the group of the member that is `relative` ranks after the root.
pub(super) fn to_rank(rec: &Recorder, root: u32, relative: u32) -> u32 {
    (root + relative) % rec.size
}

/// How many ranks the own subtree of a binomial tree may have: the lowest bit that is set; the root has all.
pub(super) fn subtree(rec: &Recorder, me: u32) -> u32 {
    if me == 0 { rec.size.next_power_of_two() } else { me & me.wrapping_neg() }
}

/// The children of `me` in a binomial tree, and the size of their subtrees; the largest first.
pub(super) fn children(rec: &Recorder, me: u32) -> impl Iterator<Item = (u32, u32)> + use<> {
    let (size, mut span) = (rec.size, subtree(rec, me));
    std::iter::from_fn(move || {
        span /= 2;
        (span > 0).then_some((me + span, span))
    })
    .filter(move |(child, _)| *child < size)
}
