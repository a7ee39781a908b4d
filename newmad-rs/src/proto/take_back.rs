//! Taking sends back: a message that no receive has matched is the sender's again.
//!
//! One whose announcement has not left is taken out of the gate's queue. One that was announced waits at its receiver; so the sender
//! asks (`Back`), and the receiver, if the announcement is still unmatched, forgets it and says so (`Back` with
//! `TO_SENDER`). If a receive has matched it, the receiver does nothing: the message moves as always.
//!
//! ```text
//!   sender     Rts ──▶ unexpected       Back ──▶ still there: forgotten, Back ──▶ cancelled
//!                                            ──▶ matched: nothing;  Cts or Fin ──▶ goes on, as if not asked
//! ```
//! `Back` follows its `Rts` in the numbered packets, so the receiver knows the announcement, or has matched it. Numbers
//! of sends are given out once, so a late `Back` means no other message.
//!
//! The answer is owed by the announcement's cell, which stays taken until the small track has room for it.

use crate::matching::pool::{Content, NONE};
use crate::net::Driver;
use crate::proto::core::Core;
use crate::proto::life::Why;
use crate::request::{Op, Owes, Place, Ref};
use crate::wire::{Header, Kind, Malformed, TO_SENDER};

impl<D: Driver> Core<D> {
    /// Takes a send back, or asks the receiver to give it back. It ends with [`Outcome::Cancelled`] or as always.
    ///
    /// Only for a request that is not finished.
    pub(crate) fn take_back(&mut self, request: Ref) {
        if request.op != Op::Send {
            return;
        }
        match request.place.get() {
            // One that is not announced has its credit, and leaves when there is room.
            Place::Sends if request.is_announced(self.gates.threshold) => {
                self.gates.dequeue(self.gates.ranks.home(request.peer), request);
                self.fail(request, Why::Cancelled);
            }
            Place::Nowhere if is_unasked(request) && request.owes.get() != Owes::Back => {
                self.owe(request, Owes::Back);
            }
            _ => {}
        }
    }

    /// The receiver acts on a send that is still to be taken back: too late.
    pub(crate) fn keep_going(&mut self, from: u32, request: Ref) {
        if request.place.get() == Place::Control && request.owes.get() == Owes::Back {
            self.gates.dequeue(from, request);
        }
    }

    /// `Back`: a sender wants its announcement back, or has it.
    pub(crate) fn on_back(&mut self, from: u32, header: &Header) -> Result<(), Malformed> {
        if header.flags & TO_SENDER != 0 {
            let Some(request) = self.table.find_id(header.id, Op::Send, from)? else {
                // Where ranks leave, its receiver may have left meanwhile.
                return if self.departures.are_any() { Ok(()) } else { Err(Malformed) };
            };
            let asked = request.owes.get() == Owes::Back && request.place.get() == Place::Nowhere;
            if !asked || !is_unasked(request) {
                return Err(Malformed);
            }
            let revoked = self.has_bans && self.is_revoked(request);
            self.fail(request, if revoked { Why::Revoked } else { Why::Cancelled });
            return Ok(());
        }
        let Some(cell) =
            self.matching.find_announced(|cell, id| cell.gate == from && id == header.id)
        else {
            return Ok(());
        };
        self.matching.remove_unexpected(cell);
        let gate = &mut self.gates[from as usize];
        self.matching.pool.get_mut(cell).next[0] = std::mem::replace(&mut gate.taken_back, cell);
        self.gates.backlog += 1;
        if from != self.process {
            self.flush(from);
        }
        Ok(())
    }

    /// Tells the peer of an announcement that it has taken back. False: there is no room now.
    pub(crate) fn post_back(&mut self, to: u32) -> bool {
        let index = self.gates[to as usize].taken_back;
        let cell = self.matching.pool.get(index);
        let (next, id) = match cell.content {
            Content::Announced { id, .. } => (cell.next[0], id),
            // Only announcements are in the list.
            Content::Eager => unreachable!("a message that has come is not taken back"),
        };
        let mut header = Header { flags: TO_SENDER, id, ..Header::new(Kind::Back) };
        if !self.post(to, &mut header, &[]) {
            return false;
        }
        self.forget_back(to, index, next);
        true
    }

    fn forget_back(&mut self, to: u32, index: u32, next: u32) {
        self.gates[to as usize].taken_back = next;
        self.gates.backlog -= 1;
        self.matching.pool.put(index);
    }

    /// The peer is gone: it is told nothing.
    pub(crate) fn forget_backs(&mut self, peer: u32) {
        loop {
            let index = self.gates[peer as usize].taken_back;
            if index == NONE {
                return;
            }
            let next = self.matching.pool.get(index).next[0];
            self.forget_back(peer, index, next);
        }
    }
}

/// Whether a send was announced, and its receiver has not asked for the data.
pub(super) fn is_unasked(request: Ref) -> bool {
    request.id.get() != 0 && request.total.get() == 0
}
