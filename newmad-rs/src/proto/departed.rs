//! Which ranks have gone before their processes, and how far; [`departures`](super::departures) has what follows.

use crate::gate::ranks::Ranks;

/// How far a rank has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Open,
    /// It sends nothing any more.
    Quiet,
    /// Nor does it receive.
    Left,
}

/// See the module.
pub(crate) struct Departures {
    /// By rank of the job. Empty where each process holds one rank.
    stages: Box<[Stage]>,
    any: bool,
    /// The places of ranks of this process that close, and have not left. Its capacity is their number from the start.
    pub(super) closing: Vec<u16>,
    /// What peers are told, in that order: which rank of this process has gone, and how far.
    pub(super) news: Vec<(u16, Stage)>,
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
            stages: vec![Stage::Open; all].into_boxed_slice(),
            any: false,
            closing: Vec::with_capacity(own),
            news: Vec::with_capacity(2 * own),
            waits: Waits::default(),
        }
    }

    /// How far that rank has gone, without its process.
    #[inline(always)]
    pub(super) fn stage(&self, rank: u32) -> Stage {
        match self.any {
            true => self.stages.get(rank as usize).copied().unwrap_or(Stage::Open),
            false => Stage::Open,
        }
    }

    /// Whether that rank has left.
    #[inline(always)]
    pub(crate) fn has_left(&self, rank: u32) -> bool {
        self.stage(rank) == Stage::Left
    }

    /// Whether that rank sends nothing any more.
    #[inline(always)]
    pub(crate) fn is_quiet(&self, rank: u32) -> bool {
        self.stage(rank) >= Stage::Quiet
    }

    /// Whether ranks may go before their processes.
    pub(super) fn may_be(&self) -> bool {
        !self.stages.is_empty()
    }

    /// Whether some have gone.
    pub(crate) fn are_any(&self) -> bool {
        self.any
    }

    /// The rank at this place of the process closes.
    pub(crate) fn closes(&mut self, mine: u16) {
        if self.closing.len() < self.closing.capacity() {
            self.closing.push(mine);
        }
    }

    pub(super) fn note(&mut self, rank: u32, stage: Stage) {
        self.stages[rank as usize] = stage;
        self.any = true;
    }
}
