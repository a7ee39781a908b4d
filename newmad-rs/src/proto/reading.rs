//! Reading: the receiver's adapter takes a long message from the sender's memory, piece by piece (RDMA reads).
//!
//! ```text
//!   receiver                                            sender
//!   registers a piece of its memory   ── Cts (READ) ──▶ registers the same of its own (`exposing`)
//!   has the adapter read              ◀── Key ─────────
//!   all pieces are read               ── Fin ─────────▶ its memory is its owner's again
//! ```
//! Two pieces are under way over a rail, so one moves while the other is registered on both sides. Nothing here waits: the driver
//! tells what has become of a piece ([`RdmaEvent`]), and a `Fin` says, as for every other copy, that the receiver has all.
//!
//! Where memory cannot be registered, on either side, and where the link ends, the message comes as fragments, from its
//! beginning. A receive whose peer has failed ends when the adapter has given up its reads ([`reads`](super::reads)).
//!
//! Rejected: writes by the sender. The receiver's memory would be written by a peer's requests, whose end only the peer
//! learns; to have the memory back after a failure the receiver would have to wait until the adapter has forgotten the
//! key. Of its own reads it learns the end like that of all its requests.

use crate::net::Driver;
use crate::net::rdma::{Access, RdmaEvent, Ticket};
use crate::proto::choose::Protocol;
use crate::proto::core::Core;
use crate::proto::pieces::{ABREAST, LANES, Wanted, piece};
use crate::proto::reads::{Fate, Piece, Reading};
use crate::request::{Op, Owes, Place, Ref};
use crate::wire::{Header, Kind, Malformed, READ, REFUSED};

impl<D: Driver> Core<D> {
    /// The rail whose adapter is to read a part of a message of that length from the peer's memory: of several the one that
    /// reads least.
    pub(crate) fn reading_rail(&self, peer: u32, len: usize) -> Option<usize> {
        let rails = self.gates.readers(peer, len);
        rails.min_by_key(|&rail| self.reads.over(rail))
    }

    /// A message that was announced, and matched, is to be read.
    pub(crate) fn read_message(&mut self, request: Ref) {
        self.reads.waiting.push(request, Place::Reads);
        self.begin_reads(request.gate.get());
    }

    /// Begins to read what waits for that of a peer's, as far as it may have places.
    fn begin_reads(&mut self, peer: u32) {
        while !self.reads.has_all(peer)
            && let Some(request) = self.reads.waiting.find(|request| request.gate.get() == peer)
        {
            self.reads.waiting.remove(request);
            match (self.reads.free(), self.reading_rail(peer, request.total.get())) {
                (Some(place), Some(_)) => {
                    self.reads.begin(place, request);
                    self.begin_pieces(place);
                    self.flush(peer);
                }
                (None, _) => self.send_fragments_instead(peer, request, NO_PLACE),
                (_, None) => self.send_fragments_instead(peer, request, LINK_ENDED),
            }
        }
    }

    /// Begins the next pieces of a message, as far as the drivers take them. True: one has to be asked again.
    fn begin_pieces(&mut self, place: usize) -> bool {
        let Some(Reading { request, fate, .. }) = self.reads.all[place] else { return false };
        let (peer, total) = (request.gate.get(), request.total.get());
        let lanes = LANES.min(ABREAST * self.gates.readers(peer, total).count());
        for lane in 0..lanes {
            let Some(reading) = &self.reads.all[place] else { return false };
            let (at, len) = (reading.next, piece(reading.next, total));
            if fate != Fate::Goes || reading.pieces[lane].is_some() || len == 0 {
                continue;
            }
            let Some(rail) = self.reading_rail(peer, total) else { return false };
            // SAFETY: inside the receive's buffer, which is the engine's until the request is finished; it stays in the
            // table until the driver has said that no read goes on.
            let asked = unsafe {
                let driver = &mut self.gates.rails[rail].driver;
                driver.register(peer, request.at(at), len, Access::Target)
            };
            let Some(ticket) = asked else {
                self.reads.starved = true;
                return true;
            };
            if let Some(reading) = &mut self.reads.all[place] {
                let piece = Piece { at, len, rail, ticket, asked: false, reads: false };
                reading.pieces[lane] = Some(piece);
                reading.next += len;
            }
            self.reads.unasked += 1;
            self.gates.backlog += 1;
        }
        false
    }

    /// Asks the peer for the keys of pieces. False: nothing could be sent.
    pub(crate) fn ask_for_keys(&mut self, to: u32) -> bool {
        let mut any = false;
        while let Some((place, lane)) = self.reads.next_unasked(to) {
            let Some(reading) = self.reads.all[place] else { break };
            let Some(Piece { at, len, rail, .. }) = reading.pieces[lane] else { break };
            let request = reading.request;
            let mut header = Header {
                flags: READ,
                tag: request.id.get(),
                len: at as u64,
                id: request.remote_id.get(),
                addr: Wanted { at, len, lane, rail }.word(),
                ..Header::new(Kind::Cts)
            };
            if !self.post(to, &mut header, &[]) {
                break;
            }
            if let Some(reading) = &mut self.reads.all[place]
                && let Some(piece) = &mut reading.pieces[lane]
            {
                piece.asked = true;
            }
            self.asked();
            any = true;
        }
        any
    }

    /// A piece is not to be asked for any more.
    fn asked(&mut self) {
        self.reads.unasked -= 1;
        self.gates.backlog -= 1;
    }

    /// `Key`: the sender has registered a piece, or cannot.
    pub(crate) fn on_key(&mut self, from: u32, header: &Header) -> Result<(), Malformed> {
        let Some(request) = self.table.find_id(header.id, Op::Recv, from)? else { return Ok(()) };
        let Some(place) = self.reads.find(request) else {
            // It comes as fragments meanwhile.
            return Ok(());
        };
        let Some(reading) = &mut self.reads.all[place] else { return Ok(()) };
        if reading.fate != Fate::Goes {
            return Ok(());
        }
        if header.flags & REFUSED != 0 {
            reading.fate = Fate::Fragments;
            self.settle_read(place);
            return Ok(());
        }
        let (key, lane) = (header.tag as u32, (header.tag >> 32) as usize);
        let wanted =
            |piece: &&mut Piece| piece.at as u64 == header.len && piece.asked && !piece.reads;
        let piece = reading.pieces.get_mut(lane).and_then(Option::as_mut).filter(wanted);
        let piece = piece.ok_or(Malformed)?;
        piece.reads = true;
        let remote = request.remote.get().wrapping_add(piece.at as u64);
        if let Some(rail) = self.gates.rails.get_mut(piece.rail) {
            // SAFETY: the memory was registered for reads, and stays as `begin_pieces` says.
            unsafe { rail.driver.read(piece.ticket, remote, key) };
        }
        Ok(())
    }

    /// Takes what drivers tell of pieces. True: there was something.
    pub(crate) fn take_rdma_events(&mut self) -> bool {
        let mut any = false;
        for rail in 0..self.gates.rails.len() {
            while let Some((ticket, event)) = self.gates.rails[rail].driver.rdma_event() {
                any = true;
                match self.reads.find_ticket(rail, ticket) {
                    Some(piece) => self.on_read(piece, event),
                    None => self.on_exposed(rail, ticket, event),
                }
            }
        }
        if std::mem::take(&mut self.reads.starved) {
            // A driver may have a place now.
            (0..self.reads.all.len()).for_each(|place| self.settle_read(place));
        }
        if self.reads.unasked > 0 {
            any |= self.flush_all();
        }
        any
    }

    /// A driver tells of a piece of a receive's memory.
    fn on_read(&mut self, (place, lane): (usize, usize), event: RdmaEvent) {
        let Some(reading) = &mut self.reads.all[place] else { return };
        let Some(piece) = reading.pieces[lane].take() else { return };
        let request = reading.request;
        match event {
            RdmaEvent::Read => request.moved.set(request.moved.get() + piece.len),
            _ if reading.fate == Fate::Goes => reading.fate = Fate::Fragments,
            _ => {}
        }
        self.forget_piece(piece);
        self.settle_read(place);
    }

    fn forget_piece(&mut self, piece: Piece) {
        if !piece.asked {
            self.asked();
        }
        self.unregister(piece.rail, piece.ticket);
    }

    pub(crate) fn unregister(&mut self, rail: usize, ticket: Ticket) {
        if let Some(rail) = self.gates.rails.get_mut(rail) {
            rail.driver.unregister(ticket);
        }
    }

    /// Goes on with a receive, or ends its reading if that is over.
    fn settle_read(&mut self, place: usize) {
        let Some(mut reading) = self.reads.all[place] else { return };
        let (request, peer) = (reading.request, reading.request.gate.get());
        let is_whole = request.moved.get() == request.total.get();
        if reading.fate == Fate::Goes && !is_whole {
            if self.begin_pieces(place) || self.reads.is_under_way(place) {
                return;
            }
            // No link is left that reads.
            reading.fate = Fate::Fragments;
        }
        // What the driver was not told to read yet.
        for lane in 0..LANES {
            let idle = |piece: &mut Piece| !piece.reads;
            let taken = self.reads.all[place].as_mut();
            if let Some(piece) = taken.and_then(|reading| reading.pieces[lane].take_if(idle)) {
                self.forget_piece(piece);
            }
        }
        if self.reads.is_under_way(place) {
            return;
        }
        self.reads.end(place);
        match reading.fate {
            Fate::Ends(outcome) => {
                self.table.remove(request);
                self.finish(request, outcome);
            }
            _ if is_whole => self.owe(request, Owes::FinToSender),
            _ => self.send_fragments_instead(peer, request, GIVEN_UP),
        }
        self.begin_reads(peer);
    }

    /// Nothing is read from that peer any more, over that rail or over any: what was goes on as `fate` says.
    pub(crate) fn stop_reads(
        &mut self,
        peer: u32,
        rail: Option<usize>,
        fate: impl Fn(Ref) -> Fate,
    ) {
        self.reads.stop(peer, rail, fate);
        for place in 0..self.reads.all.len() {
            let stops = |fate: Fate| fate != Fate::Goes;
            if self.reads.all[place].is_some_and(|reading| stops(reading.fate)) {
                self.settle_read(place);
            }
        }
    }
}

const NO_PLACE: (Protocol, &str) =
    (Protocol::Fragments, "fragments: enough is read from other peers");
const LINK_ENDED: (Protocol, &str) =
    (Protocol::Fragments, "fragments: the link that would have read has ended");
const GIVEN_UP: (Protocol, &str) =
    (Protocol::Fragments, "fragments: memory was not registered, or the link has ended");
