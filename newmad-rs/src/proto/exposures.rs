//! Pieces of sends that peers read: which are registered, and which keys are to be told.

use crate::net::rdma::Ticket;
use crate::request::Ref;

/// Pieces of all messages that are registered at once. A peer that wants to read more is refused.
const MOST: usize = if cfg!(test) { 12 } else { 128 };

/// How far a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Registering,
    /// Its key is to be told.
    Registered(u32),
    Told,
}

/// A piece of a send that its receiver reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exposure {
    pub(crate) request: Ref,
    pub(crate) rail: usize,
    pub(crate) lane: usize,
    pub(crate) at: usize,
    pub(crate) ticket: Ticket,
    pub(crate) stage: Stage,
}

/// See the module.
pub(crate) struct Exposures {
    all: Box<[Option<Exposure>]>,
    count: usize,
    /// Those whose keys are to be told.
    pub(crate) untold: usize,
}

impl Exposures {
    pub(crate) fn new() -> Exposures {
        Exposures { all: vec![None; MOST].into_boxed_slice(), count: 0, untold: 0 }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn is_full(&self) -> bool {
        self.count == MOST
    }

    /// Adds a piece. There is room.
    pub(crate) fn add(&mut self, exposure: Exposure) {
        if let Some(place) = self.all.iter_mut().find(|place| place.is_none()) {
            *place = Some(exposure);
            self.count += 1;
        }
    }

    /// Takes out a piece of that send, in that lane or in any.
    pub(crate) fn take(&mut self, request: Ref, lane: Option<usize>) -> Option<Exposure> {
        let is_it = |exposure: &mut Exposure| {
            exposure.request == request && lane.is_none_or(|lane| exposure.lane == lane)
        };
        let taken = self.all.iter_mut().find_map(|place| place.take_if(is_it))?;
        self.count -= 1;
        self.untold -= usize::from(matches!(taken.stage, Stage::Registered(_)));
        Some(taken)
    }

    /// The piece with that ticket.
    pub(crate) fn find(&mut self, rail: usize, ticket: Ticket) -> Option<&mut Exposure> {
        let mut all = self.all.iter_mut().flatten();
        all.find(|exposure| exposure.rail == rail && exposure.ticket == ticket)
    }

    /// The first piece whose key is to be told to that peer, and the key.
    pub(crate) fn next_untold(&mut self, peer: u32) -> Option<(&mut Exposure, u32)> {
        let untold = |exposure: &mut Exposure| match exposure.stage {
            Stage::Registered(key) if exposure.request.gate.get() == peer => Some(key),
            _ => None,
        };
        let with_key = |place: &'_ mut Option<Exposure>| untold(place.as_mut()?);
        let (place, key) =
            self.all.iter_mut().find_map(|place| with_key(place).map(|key| (place, key)))?;
        Some((place.as_mut()?, key))
    }
}
