//! Which process holds which ranks.
//!
//! A *process* has the engine: rails, connections, one gate for each other process. A *rank* is an endpoint in it, with
//! matching queues of its own. Process 0 holds the first ranks, process 1 the next ones, and so on. Whatever goes from
//! process to process is named by the process; whatever a program says or is told, by the rank. Packets name the two
//! ranks by their places within their processes.

use core::ops::Range;
use std::sync::Arc;

use crate::error::Error;
use crate::request::ANY_SOURCE;

/// Most ranks of one process: packets have 16 bits for each of the two.
pub(crate) const MOST: u32 = 1 << 16;

/// See the module.
#[derive(Debug)]
pub(crate) struct Ranks {
    /// The first rank of each process, and the number of all ranks.
    first: Box<[u32]>,
    /// The process of each rank; empty where each process holds one.
    home: Box<[u32]>,
}

/// Sources of messages of which all come from ranks of this process: those ranks, where there are several, and any source,
/// where there is no other process. No event from outside brings such a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beside {
    first: u32,
    count: u32,
    /// The first rank of the process, which `first` need not be.
    own: u32,
}

impl Beside {
    /// A process that is one rank has none.
    pub(crate) const NONE: Beside = Beside { first: 0, count: 0, own: 0 };

    #[inline(always)]
    pub(crate) fn has(self, source: u32) -> bool {
        source.wrapping_sub(self.first) < self.count
    }

    /// The place within the process of a rank that is beside.
    #[inline(always)]
    pub(crate) fn place(self, rank: u32) -> u16 {
        debug_assert!(rank != ANY_SOURCE && self.has(rank));
        (rank - self.own) as u16
    }
}

impl Ranks {
    /// The sources beside a rank of that process.
    pub(crate) fn sources_beside(&self, process: u32) -> Beside {
        let own = self.of(process);
        match own.len() as u32 {
            1 => Beside::NONE,
            // `ANY_SOURCE` is the number before 0.
            count if count == self.all() => {
                Beside { first: ANY_SOURCE, count: count + 1, own: own.start }
            }
            count => Beside { first: own.start, count, own: own.start },
        }
    }

    /// One rank in each of so many processes: both have the same numbers.
    pub(crate) fn one_each(processes: u32) -> Arc<Ranks> {
        Arc::new(Ranks { first: (0..=processes).collect(), home: Box::default() })
    }

    /// So many in each process.
    ///
    /// # Errors
    /// A process holds none, or more than [`MOST`]; or there are more than can be numbered.
    pub(crate) fn new(counts: &[u32]) -> Result<Arc<Ranks>, Error> {
        if counts.iter().all(|&count| count == 1) {
            return Ok(Ranks::one_each(counts.len() as u32));
        }
        let mut first = Vec::with_capacity(counts.len() + 1);
        let mut all = 0u32;
        for (process, &count) in counts.iter().enumerate() {
            first.push(all);
            let sum = all.checked_add(count).filter(|&sum| sum < u32::MAX);
            all = sum.filter(|_| (1..=MOST).contains(&count)).ok_or_else(|| {
                Error::Bootstrap(format!(
                    "process {process} holds {count} ranks: a process holds 1 to {MOST}"
                ))
            })?;
        }
        first.push(all);
        let home = (0..).zip(counts).flat_map(|(process, &count)| (0..count).map(move |_| process));
        Ok(Arc::new(Ranks { first: first.into(), home: home.collect() }))
    }

    /// Whether each process holds one: then ranks and processes have the same numbers.
    pub(crate) fn are_one_each(&self) -> bool {
        self.home.is_empty()
    }

    /// All of them.
    pub(crate) fn all(&self) -> u32 {
        self.first[self.first.len() - 1]
    }

    /// The processes that hold them.
    pub(crate) fn processes(&self) -> u32 {
        self.first.len() as u32 - 1
    }

    /// Those of a process.
    pub(crate) fn of(&self, process: u32) -> Range<u32> {
        self.first[process as usize]..self.first[process as usize + 1]
    }

    /// Those of a rank's process.
    pub(crate) fn beside(&self, rank: u32) -> Range<u32> {
        self.of(self.home(rank))
    }

    /// The process of a rank, and the rank's place there.
    #[inline]
    pub(crate) fn place(&self, rank: u32) -> (u32, u16) {
        if self.home.is_empty() {
            return (rank, 0);
        }
        let process = self.home[rank as usize];
        (process, (rank - self.first[process as usize]) as u16)
    }

    /// The process of a rank.
    #[inline]
    pub(crate) fn home(&self, rank: u32) -> u32 {
        if self.home.is_empty() { rank } else { self.home[rank as usize] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_ranks_are_in_one_process() {
        let ranks = Ranks::new(&[2, 1, 3]).unwrap();
        assert_eq!(ranks.all(), 6);
        let places: Vec<_> = (0..6).map(|rank| ranks.place(rank)).collect();
        assert_eq!(places, [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (2, 2)]);
        assert_eq!([0, 1, 2].map(|process| ranks.of(process)), [0..2, 2..3, 3..6]);
        for rank in 0..6 {
            assert!(ranks.of(ranks.home(rank)).contains(&rank));
        }
    }

    #[test]
    fn a_rank_beside_has_its_place() {
        for (counts, process) in [(&[2, 1, 3][..], 2), (&[3], 0), (&[2, 2], 0)] {
            let ranks = Ranks::new(counts).unwrap();
            let beside = ranks.sources_beside(process);
            for rank in ranks.of(process) {
                assert_eq!((process, beside.place(rank)), ranks.place(rank));
            }
        }
    }

    #[test]
    fn one_rank_each_has_the_number_of_its_process() {
        for ranks in [Ranks::one_each(3), Ranks::new(&[1, 1, 1]).unwrap()] {
            assert_eq!(ranks.all(), 3);
            assert_eq!((ranks.place(2), ranks.of(1)), ((2, 0), 1..2));
        }
    }

    #[test]
    fn any_source_is_beside_where_there_is_no_other_process() {
        let beside = |counts: &[u32], process, source| {
            Ranks::new(counts).unwrap().sources_beside(process).has(source)
        };
        let found = |counts: &[u32], process| {
            [0, 1, 2, 3, ANY_SOURCE].map(|source| beside(counts, process, source))
        };
        assert_eq!(found(&[3], 0), [true, true, true, false, true]);
        assert_eq!(found(&[1, 2], 1), [false, true, true, false, false]);
        assert_eq!(found(&[1, 2], 0), [false; 5]);
        assert_eq!(found(&[1], 0), [false; 5]);
    }

    #[test]
    fn impossible_counts_are_refused() {
        for counts in [&[1, 0][..], &[MOST + 1], &[MOST; 1 << 16]] {
            assert!(Ranks::new(counts).is_err());
        }
    }
}
