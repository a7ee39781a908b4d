//! The shape of the control network: who is joined to whom, and over which hop a message comes nearer.
//!
//! ```text
//!   d = 2, n = 16: short cuts of 4          of rank 5:      1
//!                                                            │
//!    rank r is joined to r ± 1, r ± 4                  4 ── 5 ── 6        all modulo n
//!                                                            │
//!                                                            9
//! ```
//! With n = k^d processes the *strides* are 1, k, … k^(d-1): a torus of d dimensions whose rows are joined end to end
//! (row i ends where row i + 1 begins), so that the ring is its first dimension. For any other n the strides are the
//! powers of n^(1/d), rounded. So every number of processes has the same shape, whether it is prime or not.
//!
//! Invariant: each process has 2d neighbours at the most, and at the most d⌊k/2⌋ hops lead to any other if n = k^d: those of
//! a plain torus.
//!
//! *Distances* depend on the difference of two ranks alone: one search from rank 0 gives them all.
//!
//! Rejected: a plain torus, for which n has to have factors (a prime number of processes would have a ring); leaving nodes
//! of a larger torus empty (routes around them); choosing a hop by digits (not the shortest way where n is no power).

use std::collections::VecDeque;
use std::sync::OnceLock;

/// More dimensions are of no use: with 65,536 processes the fifth saves two hops of twelve.
pub(crate) const MOST_DIMENSIONS: u32 = 4;

/// A distance that is not known (yet).
const UNKNOWN: u32 = u32::MAX;

/// See the module.
#[derive(Debug)]
pub(crate) struct Torus {
    size: u32,
    /// Distinct steps forward, 1 the first of them.
    strides: Box<[u32]>,
    /// Hops by difference of ranks, when first needed.
    hops: OnceLock<Box<[u32]>>,
}

impl Torus {
    /// Of `size` processes (one at least) in so many dimensions (one at least); 1: the ring.
    pub(crate) fn new(size: u32, dimensions: u32) -> Torus {
        let dimensions = dimensions.clamp(1, MOST_DIMENSIONS);
        let side = f64::from(size).powf(1.0 / f64::from(dimensions));
        let mut strides: Vec<u32> =
            (0..dimensions as i32).map(|power| side.powi(power).round() as u32).collect();
        // A stride of more than half of the ring is another one backwards.
        strides.iter_mut().for_each(|stride| *stride = (*stride).min(size - (*stride).min(size)));
        strides.retain(|&stride| stride > 0);
        strides.sort_unstable();
        strides.dedup();
        Torus { size, strides: strides.into(), hops: OnceLock::new() }
    }

    /// How many dimensions serve so many processes, unless the user says: three where that saves hops over two.
    pub(crate) fn usual_dimensions(size: u32) -> u32 {
        match size {
            0..8 => 1,
            8..64 => 2,
            _ => 3,
        }
    }

    /// The ranks that `rank` is joined to.
    pub(crate) fn neighbours(&self, rank: u32) -> impl Iterator<Item = u32> + '_ {
        let size = self.size;
        let step = move |stride: u32| [(rank + stride) % size, (rank + size - stride) % size];
        self.strides.iter().enumerate().flat_map(move |(index, &stride)| {
            // Half-way round both directions lead to the same rank.
            let both = if stride * 2 == size { 1 } else { 2 };
            debug_assert!(index == 0 || stride > 1);
            step(stride).into_iter().take(both)
        })
    }

    /// Hops from one rank to another, while all live.
    pub(crate) fn hops(&self, from: u32, to: u32) -> u32 {
        self.table()[self.difference(from, to)]
    }

    /// The next hop on a shortest way, while all live. `None`: `to` is where the message is.
    pub(crate) fn next(&self, at: u32, to: u32) -> Option<u32> {
        let left = self.hops(at, to).checked_sub(1)?;
        self.neighbours(at).find(|&hop| self.hops(hop, to) == left)
    }

    fn difference(&self, from: u32, to: u32) -> usize {
        ((to + self.size - from) % self.size) as usize
    }

    fn table(&self) -> &[u32] {
        self.hops.get_or_init(|| self.distances(0, |_| true))
    }

    /// Hops from `from` to every rank over those that are `there`.
    fn distances(&self, from: u32, there: impl Fn(u32) -> bool) -> Box<[u32]> {
        let mut hops = vec![UNKNOWN; self.size as usize].into_boxed_slice();
        let mut reached = VecDeque::from([from]);
        hops[from as usize] = 0;
        let (after, before) = (self.after(&there), self.before(&there));
        while let Some(rank) = reached.pop_front() {
            let beside = [after[rank as usize], before[rank as usize]];
            for next in self.neighbours(rank).filter(|&next| there(next)).chain(beside) {
                if hops[next as usize] == UNKNOWN {
                    hops[next as usize] = hops[rank as usize] + 1;
                    reached.push_back(next);
                }
            }
        }
        hops
    }

    /// For each rank the next that is there: the ring closes around those that are not.
    fn after(&self, there: &impl Fn(u32) -> bool) -> Box<[u32]> {
        let mut after = vec![0; self.size as usize].into_boxed_slice();
        let mut next = (0..self.size).find(|&rank| there(rank)).unwrap_or(0);
        for rank in (0..self.size).rev() {
            after[rank as usize] = next;
            if there(rank) {
                next = rank;
            }
        }
        after
    }

    fn before(&self, there: &impl Fn(u32) -> bool) -> Box<[u32]> {
        let mut before = vec![0; self.size as usize].into_boxed_slice();
        let mut last = (0..self.size).rev().find(|&rank| there(rank)).unwrap_or(0);
        for rank in 0..self.size {
            before[rank as usize] = last;
            if there(rank) {
                last = rank;
            }
        }
        before
    }

    /// The first hops of `rank` while these are dead.
    pub(crate) fn detour(&self, rank: u32, dead: impl Iterator<Item = u32>) -> Detour {
        let mut there = vec![true; self.size as usize];
        dead.for_each(|dead| there[dead as usize] = false);
        let there = |rank: u32| there[rank as usize];
        let hops = self.distances(rank, there);
        let (after, before) = (self.after(&there), self.before(&there));
        // A shortest way from here has its first hop at distance one, and every other one step behind its predecessor.
        let mut first = vec![UNKNOWN; self.size as usize].into_boxed_slice();
        let mut order: Vec<u32> =
            (0..self.size).filter(|&to| !matches!(hops[to as usize], 0 | UNKNOWN)).collect();
        order.sort_by_key(|&to| hops[to as usize]);
        for to in order {
            let beside = [after[to as usize], before[to as usize]];
            let behind = self.neighbours(to).chain(beside).find(|&behind| {
                there(behind) && hops[behind as usize].wrapping_add(1) == hops[to as usize]
            });
            first[to as usize] = match behind {
                Some(behind) if behind != rank => first[behind as usize],
                _ => to,
            };
        }
        Detour { first, hops }
    }
}

/// Ways around the dead.
#[derive(Debug)]
pub(crate) struct Detour {
    first: Box<[u32]>,
    hops: Box<[u32]>,
}

impl Detour {
    /// The next hop to that rank. `None`: it is this one, or dead.
    pub(crate) fn next(&self, to: u32) -> Option<u32> {
        self.first.get(to as usize).copied().filter(|&hop| hop != UNKNOWN)
    }

    /// Hops to that rank. `None`: it is dead.
    #[cfg_attr(not(test), allow(dead_code, reason = "the tests' oracle"))]
    pub(crate) fn hops(&self, to: u32) -> Option<u32> {
        self.hops.get(to as usize).copied().filter(|&hops| hops != UNKNOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Walks from `from` to `to`, and counts.
    fn walk(torus: &Torus, from: u32, to: u32) -> u32 {
        let (mut at, mut hops) = (from, 0);
        while let Some(next) = torus.next(at, to) {
            assert!(torus.neighbours(at).any(|hop| hop == next));
            (at, hops) = (next, hops + 1);
            assert!(hops <= torus.size, "it goes round");
        }
        assert_eq!(at, to);
        hops
    }

    /// Hops by a search that knows nothing but the strides.
    fn searched(torus: &Torus, from: u32, there: &[bool]) -> Vec<Option<u32>> {
        let size = torus.size;
        let joined = |a: u32, b: u32| {
            let apart = (b + size - a) % size;
            let near = torus.strides.iter().any(|&by| apart == by || apart == size - by);
            let ring = (1..apart).all(|step| !there[((a + step) % size) as usize])
                || (apart + 1..size).all(|step| !there[((a + step) % size) as usize]);
            a != b && there[a as usize] && there[b as usize] && (near || ring)
        };
        let mut hops = vec![None; size as usize];
        hops[from as usize] = Some(0);
        for round in 0..size {
            for a in (0..size).filter(|&a| hops[a as usize] == Some(round)).collect::<Vec<_>>() {
                for b in 0..size {
                    if hops[b as usize].is_none() && joined(a, b) {
                        hops[b as usize] = Some(round + 1);
                    }
                }
            }
        }
        hops
    }

    #[test]
    fn a_power_has_the_sides_and_the_diameter_of_a_torus() {
        for (size, dimensions, side) in
            [(16, 2, 4), (27, 3, 3), (256, 2, 16), (4096, 3, 16), (625, 4, 5)]
        {
            let torus = Torus::new(size, dimensions);
            let strides: Vec<u32> = (0..dimensions).map(|power| u32::pow(side, power)).collect();
            assert_eq!(*torus.strides, *strides);
            assert_eq!(torus.neighbours(0).count() as u32, 2 * dimensions);
            let farthest = (0..size).map(|to| torus.hops(0, to)).max();
            assert!(farthest <= Some(dimensions * (side / 2)), "{size}: {farthest:?}");
        }
        assert_eq!(*Torus::new(65_536, 4).strides, [1, 16, 256, 4096]);
    }

    #[test]
    fn one_dimension_is_the_ring() {
        for size in 1..20 {
            let torus = Torus::new(size, 1);
            for to in 0..size {
                assert_eq!(torus.hops(0, to), to.min(size - to));
            }
        }
    }

    proptest! {
        #[test]
        fn every_way_arrives_and_is_a_shortest_one(
            size in 1u32..80, dimensions in 1u32..=MOST_DIMENSIONS, from: u32,
        ) {
            let torus = Torus::new(size, dimensions);
            let from = from % size;
            let neighbours: Vec<u32> = torus.neighbours(from).collect();
            let mut distinct = neighbours.clone();
            distinct.sort_unstable();
            distinct.dedup();
            prop_assert_eq!(distinct.len(), neighbours.len());
            prop_assert!(!neighbours.contains(&from) && neighbours.len() as u32 <= 2 * dimensions);
            let oracle = searched(&torus, from, &vec![true; size as usize]);
            for to in 0..size {
                let hops = walk(&torus, from, to);
                prop_assert_eq!(Some(hops), oracle[to as usize]);
                prop_assert_eq!(hops, torus.hops(from, to));
            }
        }

        #[test]
        fn ways_around_the_dead_arrive_and_are_shortest_ones(
            size in 2u32..60, dimensions in 1u32..=MOST_DIMENSIONS, from: u32,
            dead in proptest::collection::btree_set(0u32..60, 0..55),
        ) {
            let torus = Torus::new(size, dimensions);
            let from = from % size;
            let dead: Vec<u32> = dead.into_iter().filter(|&it| it < size && it != from).collect();
            let there: Vec<bool> = (0..size).map(|rank| !dead.contains(&rank)).collect();
            let oracle = searched(&torus, from, &there);
            let of = |rank| torus.detour(rank, dead.iter().copied());
            for to in (0..size).filter(|&to| to != from) {
                let (mut at, mut hops) = (from, 0);
                while let Some(next) = of(at).next(to) {
                    prop_assert!(there[next as usize]);
                    (at, hops) = (next, hops + 1);
                    prop_assert!(hops <= size, "it goes round");
                }
                prop_assert_eq!(at == to, there[to as usize]);
                let expected = if there[to as usize] { Some(hops) } else { None };
                prop_assert_eq!(oracle[to as usize], expected);
                prop_assert_eq!(of(from).hops(to), expected);
            }
        }
    }
}
