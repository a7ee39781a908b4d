//! What a collective is to do: its [`Task`], and how its memory is divided ([`Blocks`]).

use crate::coll::plan::Place;

/// Which part of a buffer belongs to which rank, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// Blocks of this length, one after the other.
    Even(usize),
    /// Offset and length of each.
    Each(Box<[(usize, usize)]>),
}

impl Blocks {
    /// Blocks of these lengths, one after the other.
    pub fn of_lengths(lengths: impl IntoIterator<Item = usize>) -> Blocks {
        let place = |at: &mut usize, len: usize| {
            let block = (*at, len);
            *at = at.saturating_add(len);
            Some(block)
        };
        Blocks::Each(lengths.into_iter().scan(0, place).collect())
    }

    /// `len` bytes in `count` blocks of about the same length, no element cut.
    pub(crate) fn split(len: usize, element: usize, count: u32) -> Blocks {
        let (elements, count) = (len / element, count as usize);
        let (each, more) = (elements / count, elements % count);
        Blocks::of_lengths((0..count).map(|i| (each + usize::from(i < more)) * element))
    }

    /// Offset and length.
    pub(crate) fn get(&self, rank: u32) -> (usize, usize) {
        match self {
            Blocks::Even(len) => (len.saturating_mul(rank as usize), *len),
            Blocks::Each(blocks) => blocks[rank as usize],
        }
    }

    /// The length of a rank's block.
    pub fn own(&self, rank: u32) -> usize {
        self.len(rank)
    }

    pub(crate) fn len(&self, rank: u32) -> usize {
        self.get(rank).1
    }

    /// How many there are, unless that is any number.
    pub(crate) fn count(&self) -> Option<usize> {
        match self {
            Blocks::Even(_) => None,
            Blocks::Each(blocks) => Some(blocks.len()),
        }
    }

    pub(crate) fn is_even(&self) -> bool {
        matches!(self, Blocks::Even(_))
    }

    /// That block of a buffer.
    pub(crate) fn of(&self, buffer: Place, rank: u32) -> Place {
        let (at, len) = self.get(rank);
        buffer.part(at, len)
    }

    /// Bytes of all of them.
    pub(crate) fn total(&self, size: u32) -> usize {
        match self {
            Blocks::Even(len) => len.saturating_mul(size as usize),
            Blocks::Each(blocks) => blocks.iter().fold(0, |sum, block| block.1.saturating_add(sum)),
        }
    }

    /// The first byte after all of them.
    pub(crate) fn end(&self, size: u32) -> usize {
        match self {
            Blocks::Even(_) => self.total(size),
            Blocks::Each(blocks) => {
                blocks.iter().map(|(at, len)| at.saturating_add(*len)).max().unwrap_or(0)
            }
        }
    }

    /// Whether each lies behind the one before.
    pub(crate) fn is_in_order(&self) -> bool {
        match self {
            Blocks::Even(_) => true,
            Blocks::Each(blocks) => {
                blocks.windows(2).all(|pair| pair[0].0.saturating_add(pair[0].1) <= pair[1].0)
            }
        }
    }
}

/// What a collective does, as one rank sees it. Lengths in bytes; ranks are those of the group. A *contribution* is
/// read, a *result* is written; in place, the contribution is where the result goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// No member goes on before all have come.
    Barrier,
    /// The root's result goes to all. There is no contribution.
    Bcast {
        /// The rank that has it.
        root: u32,
        /// Of the result.
        len: usize,
    },
    /// Contributions are combined; the root gets the result.
    Reduce {
        /// The rank that gets the result.
        root: u32,
        /// Of a contribution.
        len: usize,
    },
    /// Contributions are combined; all get the result.
    Allreduce {
        /// Of a contribution.
        len: usize,
    },
    /// The root gets all contributions. In place: its own is at its place in the result.
    Gather {
        /// The rank that gets them.
        root: u32,
        /// Of the own contribution.
        own: usize,
        /// Of the root's result. The others know their own only, unless all are even.
        blocks: Option<Blocks>,
    },
    /// Each gets a block of the root's contribution. In place: the root's own block stays where it is.
    Scatter {
        /// The rank that has them.
        root: u32,
        /// Of the own result.
        own: usize,
        /// Of the root's contribution. The others know their own only, unless all are even.
        blocks: Option<Blocks>,
    },
    /// All get all contributions. In place: the own one is at its place in the result.
    Allgather {
        /// Of the result.
        blocks: Blocks,
    },
    /// Each gets a block from each. In place: the same blocks both ways.
    Alltoall {
        /// Of the contribution.
        send: Blocks,
        /// Of the result.
        recv: Blocks,
    },
    /// Contributions are combined; each gets a block of the result, at the beginning of its own.
    ReduceScatter {
        /// Of a contribution.
        blocks: Blocks,
    },
    /// Each gets what those before it have, combined. Exclusive: the first rank's result is left as it is.
    Scan {
        /// Of a contribution.
        len: usize,
        /// With what it has itself.
        inclusive: bool,
    },
}
