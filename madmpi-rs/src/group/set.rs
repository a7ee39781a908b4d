//! Groups made of other groups, and their comparison.

use super::Group;

/// How two groups are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Likeness {
    /// The same members in the same order.
    Same,
    /// The same members.
    Similar,
    Different,
}

impl Group {
    pub(crate) fn contains(&self, process: u32) -> bool {
        self.rank(process).is_some()
    }

    pub(crate) fn compare(&self, other: &Group) -> Likeness {
        if self.members() == other.members() {
            Likeness::Same
        } else if self.size() == other.size() && self.members().iter().all(|&m| other.contains(m)) {
            Likeness::Similar
        } else {
            Likeness::Different
        }
    }

    /// The members of this group, then those of the other that are not here.
    pub(crate) fn union(&self, other: &Group) -> Vec<u32> {
        let more = other.members().iter().copied().filter(|&member| !self.contains(member));
        self.members().iter().copied().chain(more).collect()
    }

    pub(crate) fn intersection(&self, other: &Group) -> Vec<u32> {
        self.members().iter().copied().filter(|&member| other.contains(member)).collect()
    }

    pub(crate) fn difference(&self, other: &Group) -> Vec<u32> {
        self.members().iter().copied().filter(|&member| !other.contains(member)).collect()
    }

    /// The members with these ranks, in this order. The error is the first rank that does not exist or is named twice.
    pub(crate) fn including(&self, ranks: &[i64]) -> Result<Vec<u32>, i64> {
        let mut taken = vec![false; self.members().len()];
        let one = |&rank: &i64| {
            let index = usize::try_from(rank).ok().filter(|&index| index < taken.len());
            let index = index.filter(|&index| !std::mem::replace(&mut taken[index], true));
            index.map(|index| self.members()[index]).ok_or(rank)
        };
        ranks.iter().map(one).collect()
    }

    /// The members without these ranks. The error is that of [`Group::including`].
    pub(crate) fn excluding(&self, ranks: &[i64]) -> Result<Vec<u32>, i64> {
        self.including(ranks)?;
        let mut left: Vec<Option<u32>> = self.members().iter().copied().map(Some).collect();
        ranks.iter().for_each(|&rank| left[rank as usize] = None);
        Ok(left.into_iter().flatten().collect())
    }
}

/// The ranks of ranges `first, last, stride`. The error is a range that leads nowhere.
pub(crate) fn ranks(ranges: &[[i32; 3]], size: u32) -> Result<Vec<i64>, [i32; 3]> {
    let mut all = Vec::new();
    for &range in ranges {
        let [first, last, stride] = range.map(i64::from);
        if stride == 0 || (last - first) * stride < 0 {
            return Err(range);
        }
        let count = (last - first) / stride + 1;
        // A longer range has ranks that do not exist, and need not be listed whole.
        all.extend((0..count.min(i64::from(size) + 1)).map(|i| first + i * stride));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    fn group() -> impl Strategy<Value = Arc<Group>> {
        let all = proptest::sample::subsequence((0..24).collect::<Vec<u32>>(), 0..24);
        all.prop_shuffle().prop_map(Group::new)
    }

    fn set(members: &[u32]) -> BTreeSet<u32> {
        members.iter().copied().collect()
    }

    /// Whether `part` names things in the order that `whole` does.
    fn in_order(part: &[u32], whole: &[u32]) -> bool {
        let mut rest = whole.iter();
        part.iter().all(|member| rest.any(|other| other == member))
    }

    proptest! {
        #[test]
        fn operations_are_those_of_sets_and_keep_the_order(a in group(), b in group()) {
            let (in_a, in_b) = (set(a.members()), set(b.members()));
            let union = a.union(&b);
            prop_assert_eq!(set(&union), &in_a | &in_b);
            prop_assert_eq!(union.len(), (&in_a | &in_b).len());
            prop_assert!(union.starts_with(a.members()));
            prop_assert!(in_order(&union[a.members().len()..], b.members()));
            let intersection = a.intersection(&b);
            prop_assert_eq!(set(&intersection), &in_a & &in_b);
            prop_assert!(in_order(&intersection, a.members()));
            let difference = a.difference(&b);
            prop_assert_eq!(set(&difference), &in_a - &in_b);
            prop_assert!(in_order(&difference, a.members()));
            let likeness = match (a.members() == b.members(), in_a == in_b) {
                (true, _) => Likeness::Same,
                (false, true) => Likeness::Similar,
                (false, false) => Likeness::Different,
            };
            prop_assert_eq!(a.compare(&b), likeness);
        }

        #[test]
        fn ranks_name_members(a in group(), ranks in proptest::collection::vec(-1..12i64, 0..6)) {
            let distinct: BTreeSet<i64> = ranks.iter().copied().collect();
            let fine = distinct.len() == ranks.len()
                && ranks.iter().all(|&rank| (0..i64::from(a.size())).contains(&rank));
            let (included, excluded) = (a.including(&ranks), a.excluding(&ranks));
            prop_assert_eq!(included.is_ok(), fine);
            prop_assert_eq!(excluded.is_ok(), fine);
            if let (Ok(included), Ok(excluded)) = (included, excluded) {
                let named: Vec<u32> = ranks.iter().map(|&rank| a.members()[rank as usize]).collect();
                prop_assert_eq!(&included, &named);
                prop_assert_eq!(set(&excluded), &set(a.members()) - &set(&named));
                prop_assert!(in_order(&excluded, a.members()));
            }
        }

        #[test]
        fn a_range_is_its_ranks(first in -3..9i32, last in -3..9i32, stride in -4..4i32) {
            let listed = ranks(&[[first, last, stride]], 100);
            let mut expected = Vec::new();
            let mut at = first;
            while stride != 0 && (if stride > 0 { at <= last } else { at >= last }) {
                expected.push(i64::from(at));
                at += stride;
            }
            match listed {
                Ok(listed) => prop_assert_eq!(listed, expected),
                Err(_) => prop_assert!(expected.is_empty()),
            }
        }
    }

    #[test]
    fn a_range_of_all_numbers_is_not_listed_whole() {
        assert_eq!(ranks(&[[0, i32::MAX, 1]], 3), Ok(vec![0, 1, 2, 3]));
    }
}
