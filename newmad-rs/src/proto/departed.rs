//! Which ranks have left before their processes, and which are about to; [`departures`](super::departures) has what follows.

use crate::gate::ranks::Ranks;

/// See the module.
pub(crate) struct Departures {
    /// By rank of the job: whether it has left. Empty where each process holds one rank.
    pub(super) left: Box<[bool]>,
    any: bool,
    /// The places of ranks of this process that close, and have not left. As long as their number from the start; so is
    /// the next.
    pub(super) closing: Vec<u16>,
    /// The places of those that have left, in that order.
    pub(super) ours: Vec<u16>,
    pub(super) waits: Waits,
}

/// Receives from ranks that have left.
#[derive(Default)]
pub(super) struct Waits {
    pub(super) are_to_end: bool,
    /// When they are looked for again, in nanoseconds.
    pub(super) not_before: u64,
}

impl Departures {
    /// Of process `process`.
    pub(crate) fn new(ranks: &Ranks, process: u32) -> Departures {
        let (all, own) = match ranks.are_one_each() {
            true => (0, 0),
            false => (ranks.all() as usize, ranks.of(process).len()),
        };
        // A rank that is alone leaves with its process.
        let own = if own == 1 { 0 } else { own };
        Departures {
            left: vec![false; all].into_boxed_slice(),
            any: false,
            closing: Vec::with_capacity(own),
            ours: Vec::with_capacity(own),
            waits: Waits::default(),
        }
    }

    /// Whether that rank has left.
    #[inline(always)]
    pub(crate) fn has_left(&self, rank: u32) -> bool {
        self.any && self.left.get(rank as usize).is_some_and(|&left| left)
    }

    /// Whether some have left.
    pub(crate) fn are_any(&self) -> bool {
        self.any
    }

    /// The rank at this place of the process closes.
    pub(crate) fn closes(&mut self, mine: u16) {
        if self.closing.len() + self.ours.len() < self.closing.capacity() {
            self.closing.push(mine);
        }
    }

    pub(super) fn note(&mut self, rank: u32) {
        self.left[rank as usize] = true;
        self.any = true;
    }
}
