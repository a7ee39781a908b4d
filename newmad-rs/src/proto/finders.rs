//! Who finds whose messages, where several ranks share a process.
//!
//! A receive that waits ends where an event is found: in a wait or a call of its rank, or of another rank; at a switch, in the
//! idle loop or a tick of a virtual processor; on a kernel thread that blocks. Each is counted by the point and by how far from
//! the receive's rank it was: its own thread, the same NUMA node, another one, or no place of the topology.
//!
//! Counted under the engine's lock, read at any time. A process of one rank counts nothing.

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use pioman::Point;

use crate::nodes::Nodes;

marcel::thread_local! {
    /// One more than the place of the rank whose thread it is; 0: of none.
    static RANK: Cell<u32> = const { Cell::new(0) };
}

/// How far the finder is from the receive's rank: the places of [`NAMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Own,
    Near,
    Far,
    Elsewhere,
}

/// What the figures are called: by point, in the order of [`Point::ALL`], and by [`Whose`].
const NAMES: [[&str; 4]; Point::ALL.len()] = [
    ["idle own", "idle near", "idle far", "idle elsewhere"],
    ["switch own", "switch near", "switch far", "switch elsewhere"],
    ["tick own", "tick near", "tick far", "tick elsewhere"],
    ["block own", "block near", "block far", "block elsewhere"],
    ["wait own", "wait near", "wait far", "wait elsewhere"],
    ["call own", "call near", "call far", "call elsewhere"],
    ["dedicated own", "dedicated near", "dedicated far", "dedicated elsewhere"],
    ["interrupt own", "interrupt near", "interrupt far", "interrupt elsewhere"],
];

/// The figures of one giver, by [`Whose`], on lines of their own: they stay with the core on which it runs.
#[derive(Default)]
#[repr(align(128))]
struct Given([AtomicU64; 4]);

/// No place of the topology.
const NOWHERE: u8 = u8::MAX;

/// See the module.
pub(crate) struct Finders {
    found: [[AtomicU64; 4]; Point::ALL.len()],
    /// What ranks have given in their calls, by the giver's place.
    given: Box<[Given]>,
    /// By place: the NUMA node of the rank's thread.
    homes: Box<[AtomicU8]>,
    nodes: Nodes,
}

impl Finders {
    /// Of a process with so many ranks.
    pub(crate) fn new(ranks: usize) -> Finders {
        Finders {
            found: [const { [const { AtomicU64::new(0) }; 4] }; Point::ALL.len()],
            given: (0..ranks).map(|_| Given::default()).collect(),
            homes: (0..ranks).map(|_| AtomicU8::new(NOWHERE)).collect(),
            nodes: Nodes::current(),
        }
    }

    /// The calling thread is that of the rank at this place.
    pub(crate) fn adopt(&self, place: u16) {
        RANK.set(u32::from(place) + 1);
        self.homes[usize::from(place)].store(self.here(), Relaxed);
    }

    /// A receive of the rank at this place has got its message, found at this point. Progress path.
    #[cold]
    pub(crate) fn count(&self, point: Point, mine: u16) {
        // A virtual processor looks on its own behalf where it idles and switches.
        let by_rank =
            matches!(point, Point::Wait | Point::Library | Point::Tick | Point::Interrupt);
        let rank = if by_rank { RANK.if_made(Cell::get).unwrap_or(0) } else { 0 };
        let home = self.homes[usize::from(mine)].load(Relaxed);
        let whose = whose(rank == u32::from(mine) + 1, home, self.here());
        add(&self.found[point as usize][whose as usize]);
    }

    /// A rank of this process has given its message to a receive of the rank at place `mine`, in a call of its own.
    pub(crate) fn count_given(&self, from: u16, mine: u16) {
        let [giver, home] = [from, mine].map(|place| self.homes[usize::from(place)].load(Relaxed));
        let given = &self.given[usize::from(from)].0;
        add(&given[whose(from == mine, home, giver) as usize]);
    }

    /// The NUMA node of the calling thread.
    fn here(&self) -> u8 {
        self.nodes.of_vp().unwrap_or(NOWHERE)
    }

    /// Gives the figures that are not 0, with their names, to `each`.
    pub(crate) fn tell(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let given = |whose: usize| -> u64 {
            self.given.iter().map(|given| given.0[whose].load(Relaxed)).sum()
        };
        for ((point, names), found) in Point::ALL.iter().zip(NAMES).zip(&self.found) {
            for (whose, name) in names.into_iter().enumerate() {
                let in_calls = if *point == Point::Library { given(whose) } else { 0 };
                let found = found[whose].load(Relaxed) + in_calls;
                if found > 0 {
                    each(name, found);
                }
            }
        }
    }
}

/// Counts one more. The lock holder alone writes.
fn add(figure: &AtomicU64) {
    figure.store(figure.load(Relaxed) + 1, Relaxed);
}

fn whose(own: bool, home: u8, here: u8) -> Whose {
    match (own, home, here) {
        (true, ..) => Whose::Own,
        (_, NOWHERE, _) | (_, _, NOWHERE) => Whose::Elsewhere,
        (_, home, here) if home == here => Whose::Near,
        _ => Whose::Far,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_called_by_their_point_and_the_distance() {
        for (point, names) in Point::ALL.iter().zip(NAMES) {
            let point = match point {
                Point::Library => "call".to_owned(),
                point => point.to_string(),
            };
            let distances = ["own", "near", "far", "elsewhere"];
            assert_eq!(names.map(str::to_owned), distances.map(|far| format!("{point} {far}")));
        }
    }

    #[test]
    fn distance_is_by_thread_and_then_by_node() {
        assert_eq!(whose(true, 0, 1), Whose::Own);
        assert_eq!(whose(false, 1, 1), Whose::Near);
        assert_eq!(whose(false, 0, 1), Whose::Far);
        assert_eq!([whose(false, NOWHERE, 1), whose(false, 1, NOWHERE)], [Whose::Elsewhere; 2]);
    }

    #[test]
    fn what_was_counted_is_told_and_nothing_else() {
        let finders = Finders::new(2);
        finders.count(Point::Block, 1);
        finders.count(Point::Block, 0);
        let mut told = Vec::new();
        finders.tell(&mut |name, count| told.push((name, count)));
        assert_eq!(told, [("block elsewhere", 2)]);
    }

    #[test]
    fn what_a_rank_gives_to_another_it_has_found_in_its_own_call() {
        let finders = Finders::new(3);
        for (home, node) in finders.homes.iter().zip([0, 0, 1]) {
            home.store(node, Relaxed);
        }
        for (from, mine) in [(0, 0), (0, 1), (1, 0), (2, 1)] {
            finders.count_given(from, mine);
        }
        let mut told = Vec::new();
        finders.tell(&mut |name, count| told.push((name, count)));
        assert_eq!(told, [("call own", 1), ("call near", 2), ("call far", 1)]);
    }
}
