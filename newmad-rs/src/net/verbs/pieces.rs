//! The pieces of memory that are registered for a rail, and the reads into them.
//!
//! ```text
//!   free ─register─▶ at the registrar ──▶ registered ─read─▶ under way ──▶ registered ─unregister─▶ released ──▶ free
//!                          └─▶ refused ─unregister─▶ free
//! ```
//! A read is under way from its post until its completion, which a queue pair that fails brings, too, or until that
//! queue pair is destroyed. Invariant: [`RdmaEvent::Read`] and [`RdmaEvent::Broken`] are told after that only, so that the
//! adapter does not touch the memory any more.

use super::ibv::{Failing, Region};
use super::registrar::{Memory, Registrar, Work};
use crate::net::rdma::{Access, RdmaEvent, Ticket};

/// Pieces of a rail that are registered at once.
pub(super) const PLACES: usize = 384;
/// Reads of a rail that are under way at once.
const READS: usize = 16;
/// Reads of a link that are posted at once: one moves, the other follows without a pause. A queue pair does one read at a
/// time, and what is posted behind a read that has not begun waits for the one before it.
pub(super) const READS_OF_LINK: usize = 2;
/// In the number of a request: it is a read.
const READ: u64 = 1 << 63;

enum Stage {
    Free,
    /// At the registrar.
    Asked,
    Refused,
    Registered(Region),
    /// A read is under way over the queue pair of that number.
    Reading(Region, u32),
    /// At the registrar, to be forgotten.
    Released,
}

/// A read that is to be posted.
#[derive(Clone, Copy)]
struct From {
    remote: u64,
    key: u32,
}

struct Piece {
    turn: u32,
    peer: u32,
    memory: Memory,
    stage: Stage,
    /// It waits for its registration, or for room.
    from: Option<From>,
    event: Option<RdmaEvent>,
    /// Its owner does not need it any more.
    is_left: bool,
    /// The registrar has its queue pair fail.
    fails: bool,
}

/// What to post: the request's number, the target and its key, its length, the source and its key.
#[derive(Clone, Copy)]
pub(super) struct Read {
    pub(super) place: usize,
    pub(super) number: u64,
    pub(super) to: (*mut u8, u32),
    pub(super) len: usize,
    pub(super) remote: u64,
    pub(super) key: u32,
}

/// See the module.
pub(super) struct Pieces {
    pieces: Box<[Piece]>,
    registrar: Registrar,
    /// Reads that are under way.
    reads: usize,
    /// Reads that wait to be posted, and events that wait to be taken.
    waiting: usize,
    events: usize,
    /// Reads that were done.
    #[cfg(test)]
    pub(super) done: usize,
}

// SAFETY: the addresses of memory are handed to the adapter, not followed.
unsafe impl Send for Pieces {}

/// The place and turn of a request that is a read.
#[inline]
pub(super) fn ticket_of(number: u64) -> Option<Ticket> {
    let place = (number >> 32) as u32 & !(1 << 31);
    (number & READ != 0).then_some(Ticket { place, turn: number as u32 })
}

fn number_of(place: usize, turn: u32) -> u64 {
    READ | (place as u64) << 32 | u64::from(turn)
}

impl Pieces {
    pub(super) fn new(registrar: Registrar) -> Pieces {
        let memory = Memory { at: std::ptr::null_mut(), len: 0, access: Access::Source };
        let piece = || Piece {
            turn: 0,
            peer: 0,
            memory,
            stage: Stage::Free,
            from: None,
            event: None,
            is_left: false,
            fails: false,
        };
        let pieces = (0..PLACES).map(|_| piece()).collect();
        Pieces {
            pieces,
            registrar,
            reads: 0,
            waiting: 0,
            events: 0,
            #[cfg(test)]
            done: 0,
        }
    }

    /// Reads that are under way.
    #[inline]
    pub(super) fn reads(&self) -> usize {
        self.reads
    }

    /// Whether nothing is registered, or was and is not free again.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.pieces.iter().all(|piece| matches!(piece.stage, Stage::Free))
            && self.counts() == (0, 0, 0)
    }

    /// Reads under way, those that wait, and events.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        (self.reads, self.waiting, self.events)
    }

    pub(super) fn register(&mut self, peer: u32, memory: Memory) -> Option<Ticket> {
        let is_free = |piece: &Piece| matches!(piece.stage, Stage::Free);
        let place = self.pieces.iter().position(is_free)?;
        let turn = self.pieces[place].turn.wrapping_add(1);
        let (stage, from, event) = (Stage::Asked, None, None);
        self.pieces[place] =
            Piece { turn, peer, memory, stage, from, event, is_left: false, fails: false };
        self.registrar.give(place, Work::Register(memory));
        Some(Ticket { place: place as u32, turn })
    }

    fn piece(&mut self, Ticket { place, turn }: Ticket) -> Option<&mut Piece> {
        self.pieces.get_mut(place as usize).filter(|piece| piece.turn == turn)
    }

    pub(super) fn read(&mut self, target: Ticket, remote: u64, key: u32) {
        let Some(piece) = self.piece(target) else { return };
        if matches!(piece.stage, Stage::Asked | Stage::Registered(_)) && piece.from.is_none() {
            piece.from = Some(From { remote, key });
            self.waiting += 1;
        }
    }

    pub(super) fn unregister(&mut self, memory: Ticket) {
        let Some(piece) = self.piece(memory) else { return };
        piece.is_left = true;
        let (event, from) = (piece.event.take(), piece.from.take());
        self.events -= usize::from(event.is_some());
        self.waiting -= usize::from(from.is_some());
        self.release(memory.place as usize);
    }

    /// Has the registrar forget a piece whose owner has left it, if nothing is under way there.
    fn release(&mut self, place: usize) {
        let piece = &mut self.pieces[place];
        if !piece.is_left || piece.fails {
            return;
        }
        match std::mem::replace(&mut piece.stage, Stage::Free) {
            Stage::Registered(region) => {
                piece.stage = Stage::Released;
                self.registrar.give(place, Work::Release(region));
            }
            Stage::Free | Stage::Refused => {}
            under_way @ (Stage::Asked | Stage::Reading(..) | Stage::Released) => {
                piece.stage = under_way;
            }
        }
    }

    fn tell(&mut self, place: usize, event: RdmaEvent) {
        let piece = &mut self.pieces[place];
        if !piece.is_left && piece.event.replace(event).is_none() {
            self.events += 1;
        }
    }

    /// The next event, if there is one.
    #[inline]
    pub(super) fn event(&mut self) -> Option<(Ticket, RdmaEvent)> {
        if self.events == 0 {
            return None;
        }
        self.events -= 1;
        self.pieces.iter_mut().zip(0..).find_map(|(piece, place)| {
            piece.event.take().map(|event| (Ticket { place, turn: piece.turn }, event))
        })
    }

    /// Looks what the registrar has done, if it has done something.
    #[inline]
    pub(super) fn look(&mut self) {
        if self.registrar.has_answers() {
            (0..self.pieces.len()).for_each(|place| self.take_answer(place));
        }
    }

    #[cold]
    fn take_answer(&mut self, place: usize) {
        let piece = &mut self.pieces[place];
        let asked = matches!(piece.stage, Stage::Asked | Stage::Released) || piece.fails;
        if !asked || self.registrar.is_at_work(place) {
            return;
        }
        let result = self.registrar.take(place);
        if std::mem::take(&mut piece.fails) {
            return self.release(place);
        }
        let mut event = None;
        piece.stage = match result {
            Some(Work::Registered(Some(region))) => {
                if piece.memory.access == Access::Source {
                    event = Some(RdmaEvent::Registered { key: region.remote_key() });
                }
                Stage::Registered(region)
            }
            Some(Work::Registered(None)) => {
                self.waiting -= usize::from(piece.from.take().is_some());
                event = Some(RdmaEvent::Refused);
                Stage::Refused
            }
            _ => Stage::Free,
        };
        if let Some(event) = event {
            self.tell(place, event);
        }
        self.release(place);
    }

    /// A read that can be posted, behind that place; with its peer. `None`: there is none, or too many are under way.
    #[inline]
    pub(super) fn next_read(&self, behind: usize) -> Option<(u32, Read)> {
        if self.waiting == 0 || self.reads >= READS {
            return None;
        }
        self.pieces.iter().enumerate().skip(behind).find_map(|(place, piece)| {
            let (Stage::Registered(region), Some(from)) = (&piece.stage, piece.from) else {
                return None;
            };
            let Memory { at, len, .. } = piece.memory;
            let number = number_of(place, piece.turn);
            let to = (at, region.local_key());
            let From { remote, key } = from;
            Some((piece.peer, Read { place, number, to, len, remote, key }))
        })
    }

    /// That read was posted.
    pub(super) fn posted(&mut self, place: usize, queue_pair: u32) {
        let piece = &mut self.pieces[place];
        if piece.from.take().is_some() {
            self.waiting -= 1;
        }
        piece.stage = match std::mem::replace(&mut piece.stage, Stage::Free) {
            Stage::Registered(region) => {
                self.reads += 1;
                Stage::Reading(region, queue_pair)
            }
            other => other,
        };
    }

    /// That read cannot be posted: its link has ended.
    pub(super) fn broken(&mut self, place: usize) {
        if self.pieces[place].from.take().is_some() {
            self.waiting -= 1;
            self.tell(place, RdmaEvent::Broken);
        }
    }

    /// A read is over. True: it was under way.
    pub(super) fn over(&mut self, Ticket { place, turn }: Ticket, event: RdmaEvent) -> bool {
        let place = place as usize;
        let Some(piece) = self.pieces.get_mut(place).filter(|piece| piece.turn == turn) else {
            return false;
        };
        match std::mem::replace(&mut piece.stage, Stage::Free) {
            Stage::Reading(region, _) => piece.stage = Stage::Registered(region),
            other => {
                piece.stage = other;
                return false;
            }
        }
        self.reads -= 1;
        #[cfg(test)]
        {
            self.done += usize::from(event == RdmaEvent::Read);
        }
        self.tell(place, event);
        self.release(place);
        true
    }

    /// The link with that peer is closed: reads over it end. `failing`: its queue pair, which the registrar has fail if
    /// one is under way.
    pub(super) fn closed(&mut self, peer: u32, number: u32, failing: impl FnOnce() -> Failing) {
        let is_under_way =
            |piece: &Piece| matches!(piece.stage, Stage::Reading(_, over) if over == number);
        let fails = |piece: &Piece| is_under_way(piece) && piece.fails;
        if !self.pieces.iter().any(fails)
            && let Some(place) = self.pieces.iter().position(is_under_way)
        {
            self.pieces[place].fails = true;
            self.registrar.give(place, Work::Fail(failing()));
        }
        for place in 0..self.pieces.len() {
            if self.pieces[place].peer == peer {
                self.broken(place);
            }
        }
    }

    /// The registrar is not at work on any queue pair when this returns. Callers' context.
    pub(super) fn settle(&mut self) {
        for place in 0..self.pieces.len() {
            if self.pieces[place].fails {
                self.registrar.wait_for(place);
                self.take_answer(place);
            }
        }
    }

    /// The queue pair of that number is destroyed: how many reads were under way over it.
    pub(super) fn destroyed(&mut self, number: u32) -> usize {
        let before = self.reads;
        for place in 0..self.pieces.len() {
            let piece = &self.pieces[place];
            if matches!(piece.stage, Stage::Reading(_, over) if over == number) {
                let ticket = Ticket { place: place as u32, turn: piece.turn };
                self.over(ticket, RdmaEvent::Broken);
            }
        }
        before - self.reads
    }
}
