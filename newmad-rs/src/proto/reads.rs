//! Receives whose messages adapters read: which pieces are under way, and how a receive ends whose link has.
//!
//! Invariant: a receive leaves the table when no read for it is under way any more. Until then it is not over, whatever
//! has become of its peer: the adapter may write to its memory.

use crate::net::rdma::Ticket;
use crate::proto::pieces::LANES;
use crate::request::queue::Queue;
use crate::request::{Outcome, Place, Ref};

/// Receives that are read at once, of one peer's messages and of all. The others of that peer wait for their turn: a
/// peer that is slow holds up its own messages, and no others.
const EACH: usize = if cfg!(test) { 3 } else { 8 };
const MOST: usize = if cfg!(test) { 5 } else { 64 };

/// A piece that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) at: usize,
    pub(crate) len: usize,
    /// Whose adapter reads.
    pub(crate) rail: usize,
    /// The receive's memory.
    pub(crate) ticket: Ticket,
    /// The sender was asked for its key.
    pub(crate) asked: bool,
    /// The driver reads it, or will: it tells the end.
    pub(crate) reads: bool,
}

/// What becomes of a receive when no read for it is under way any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is read on.
    Goes,
    /// Its message comes as fragments.
    Fragments,
    Ends(Outcome),
}

/// A receive whose message is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) request: Ref,
    /// Where the next piece begins.
    pub(crate) next: usize,
    pub(crate) fate: Fate,
    pub(crate) pieces: [Option<Piece>; LANES],
}

impl Reading {
    fn is_with(&self, peer: u32) -> bool {
        self.request.gate.get() == peer
    }
}

/// See the module.
pub(crate) struct Reads {
    pub(crate) all: Box<[Option<Reading>]>,
    count: usize,
    /// Receives that wait until another is over: their peers have as many places as each may have.
    pub(crate) waiting: Queue,
    /// Pieces whose senders were not asked yet.
    pub(crate) unasked: usize,
    /// A driver had no place for a piece.
    pub(crate) starved: bool,
}

impl Reads {
    pub(crate) fn new() -> Reads {
        let all = vec![None; MOST].into_boxed_slice();
        Reads { all, count: 0, waiting: Queue::default(), unasked: 0, starved: false }
    }

    /// Whether nothing is read, or waits for it.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.waiting.is_empty()
    }

    /// Whether a message of that peer's is read, or waits for it, that `which` points at.
    pub(crate) fn are_any(&self, peer: u32, which: impl Fn(Ref) -> bool) -> bool {
        let waiting = |request: Ref| request.gate.get() == peer && which(request);
        let reads = |reading: &Reading| reading.is_with(peer) && which(reading.request);
        self.all.iter().flatten().any(reads) || self.waiting.find(waiting).is_some()
    }

    /// How many pieces are under way over that rail.
    pub(crate) fn over(&self, rail: usize) -> usize {
        let pieces = self.all.iter().flatten().flat_map(|reading| &reading.pieces);
        pieces.flatten().filter(|piece| piece.rail == rail).count()
    }

    /// A free place, if there is one.
    pub(crate) fn free(&self) -> Option<usize> {
        self.all.iter().position(Option::is_none)
    }

    /// Whether that peer has as many places as it may have.
    pub(crate) fn has_all(&self, peer: u32) -> bool {
        self.all.iter().flatten().filter(|reading| reading.is_with(peer)).count() == EACH
    }

    /// Where that receive is.
    pub(crate) fn find(&self, request: Ref) -> Option<usize> {
        self.all.iter().position(|reading| reading.is_some_and(|it| it.request == request))
    }

    /// Where the piece with that ticket is: its receive, and the lane.
    pub(crate) fn find_ticket(&self, rail: usize, ticket: Ticket) -> Option<(usize, usize)> {
        let lane = |reading: &Reading| {
            let is_it = |piece: Piece| piece.ticket == ticket && piece.rail == rail;
            reading.pieces.iter().position(|piece| piece.is_some_and(is_it))
        };
        let found = |(at, reading): (usize, &Option<Reading>)| Some((at, lane(reading.as_ref()?)?));
        self.all.iter().enumerate().find_map(found)
    }

    /// Begins a receive at a free place.
    pub(crate) fn begin(&mut self, place: usize, request: Ref) {
        debug_assert!(request.place.get() == Place::Nowhere && self.all[place].is_none());
        request.place.set(Place::Reads);
        let pieces = [None; LANES];
        self.count += 1;
        self.all[place] = Some(Reading { request, next: 0, fate: Fate::Goes, pieces });
    }

    /// Whether a piece of the receive there is under way.
    pub(crate) fn is_under_way(&self, place: usize) -> bool {
        self.all[place].is_some_and(|reading| reading.pieces.iter().any(Option::is_some))
    }

    /// Takes out a receive of which nothing is under way.
    pub(crate) fn end(&mut self, place: usize) -> Option<Reading> {
        let reading = self.all[place].take()?;
        debug_assert!(reading.pieces.iter().all(Option::is_none));
        self.count -= 1;
        reading.request.place.set(Place::Nowhere);
        Some(reading)
    }

    /// The receives of that peer's messages that go on, with a piece over that rail or over any, do not any more.
    pub(crate) fn stop(&mut self, peer: u32, rail: Option<usize>, fate: impl Fn(Ref) -> Fate) {
        let readings = self.all.iter_mut().flatten().filter(|reading| reading.is_with(peer));
        for reading in readings {
            let over = |rail| reading.pieces.iter().flatten().any(|piece| piece.rail == rail);
            if !rail.is_none_or(over) {
                continue;
            }
            if !matches!(reading.fate, Fate::Ends(_)) {
                reading.fate = fate(reading.request);
            }
        }
    }

    /// The first piece from that peer for whose key it was not asked: its receive, and the lane.
    pub(crate) fn next_unasked(&self, peer: u32) -> Option<(usize, usize)> {
        let lane = |reading: &Reading| {
            let unasked = |piece: &Option<Piece>| piece.is_some_and(|piece| !piece.asked);
            reading.pieces.iter().position(unasked).filter(|_| reading.is_with(peer))
        };
        let found = |(at, reading): (usize, &Option<Reading>)| Some((at, lane(reading.as_ref()?)?));
        self.all.iter().enumerate().find_map(found)
    }
}
