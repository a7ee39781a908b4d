//! Which members of a meeting count together, and wake each other: those whose threads run on one virtual processor.
//!
//! What a member changes that another core has changed before it, a count, a latch, a queue of runnable threads, costs the
//! line from there, as much as a switch. So the *neighbours* count among themselves who has come, and the last of them comes
//! to the meeting for all; the same one is woken for all, and wakes its neighbours. It is also the one that still looks,
//! since nothing else is left to run where it is.
//!
//! Invariant: neighbours are the same from the second round on. The last to come at the first round divides the members, by
//! where their threads run then. A thread that moves later is counted and woken from farther away, and that is all.
//!
//! Rejected: to divide anew in each round (a member that was woken early may be in the next round, at another place, while
//! one of its former neighbours still looks for those that it is to wake).

use crate::sync::{AtomicU32, Ordering};

/// See the module.
pub(crate) struct Neighbours {
    /// By seat: its group.
    group_of: Box<[u32]>,
    groups: Box<[Group]>,
}

/// Members that are neighbours. The alignment keeps groups off each other's cache lines.
#[repr(align(128))]
struct Group {
    seats: Box<[usize]>,
    /// How many have come to this round.
    gathered: AtomicU32,
    /// The seat of the one that came last. Written by it, before it arrives for all; read by the last of the meeting.
    last: AtomicU32,
}

impl Neighbours {
    /// Of members that are at these places, in the order of seats. One that is nowhere (0) has no neighbours.
    pub(crate) fn new(places: impl Iterator<Item = usize>) -> Neighbours {
        let (mut known, mut groups) = (Vec::<usize>::new(), Vec::<Vec<usize>>::new());
        let group_of = places.enumerate().map(|(seat, place)| {
            let group = known.iter().position(|&other| other == place && place != 0);
            let group = group.unwrap_or_else(|| {
                known.push(place);
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[group].push(seat);
            group as u32
        });
        let group_of = group_of.collect();
        let group = |seats: Vec<usize>| Group {
            last: AtomicU32::new(seats[0] as u32),
            seats: seats.into(),
            gathered: AtomicU32::new(0),
        };
        Neighbours { group_of, groups: groups.into_iter().map(group).collect() }
    }

    /// How many groups there are.
    pub(crate) fn groups(&self) -> usize {
        self.groups.len()
    }

    fn group(&self, seat: usize) -> &Group {
        &self.groups[self.group_of[seat] as usize]
    }

    /// A member has come. True: its neighbours have, too, and it goes on for all of them.
    #[inline]
    pub(crate) fn gather(&self, seat: usize) -> bool {
        let group = self.group(seat);
        // Release and acquire: the last knows of the others' deposits.
        let before = group.gathered.fetch_add(1, Ordering::AcqRel);
        let last = before as usize == group.seats.len() - 1;
        if last {
            // The others come to the next round after this member has woken them.
            group.gathered.store(0, Ordering::Relaxed);
            group.last.store(seat as u32, Ordering::Relaxed);
        }
        last
    }

    /// The other neighbours of a member.
    pub(crate) fn of(&self, seat: usize) -> impl Iterator<Item = usize> {
        self.group(seat).seats.iter().copied().filter(move |&other| other != seat)
    }

    /// Whom the last to come wakes: the last of each other group, and then its own neighbours.
    pub(crate) fn of_last(&self, last: usize) -> impl Iterator<Item = usize> {
        let own = self.group_of[last] as usize;
        let others = self.groups.iter().enumerate().filter(move |&(group, _)| group != own);
        // Acquired by the arrival of the last.
        others.map(|(_, group)| group.last.load(Ordering::Relaxed) as usize).chain(self.of(last))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn members_without_a_place_are_alone() {
        let neighbours = Neighbours::new([7, 7, 9, 0, 9, 0].into_iter());
        assert_eq!(neighbours.groups(), 4);
        assert_eq!(neighbours.of(0).collect::<Vec<_>>(), [1]);
        assert_eq!(neighbours.of(3).count(), 0);
    }

    proptest! {
        /// Members come in any order: one of each group goes on, and each but the last of all is woken once.
        #[test]
        fn each_member_but_the_last_is_woken_once(
            places in vec(0usize..4, 1..40), order in any::<u64>(), rounds in 1..3
        ) {
            let count = places.len();
            let neighbours = Neighbours::new(places.into_iter());
            let mut order_of: Vec<_> = (0..count).collect();
            for round in 0..rounds {
                order_of.sort_by_key(|&seat| (order ^ round as u64).wrapping_mul(seat as u64 * 2 + 1));
                let ahead: Vec<_> =
                    order_of.iter().copied().filter(|&seat| neighbours.gather(seat)).collect();
                prop_assert_eq!(ahead.len(), neighbours.groups());
                let last = ahead[ahead.len() - 1];
                let mut woken: Vec<_> = neighbours.of_last(last).collect();
                for &seat in &ahead[..ahead.len() - 1] {
                    prop_assert!(woken.contains(&seat));
                    woken.extend(neighbours.of(seat));
                }
                woken.sort_unstable();
                prop_assert!(woken.into_iter().eq((0..count).filter(|&seat| seat != last)));
            }
        }
    }
}
