//! Missing ranges: what a broken link has lost of messages whose fragments went over it. The receiver says what it has,
//! and only what is missing is sent again.
//!
//! ```text
//! sender    link breaks: what it carried is *lost* ── Ask ──▶   reads what is still there   receiver
//!           lost parts shrink to what is not there  ◀── Have ── the ranges that it has
//! ```
//! Lost parts wait for the answer; the others, and what was not given to the link yet of other messages, go on. Both
//! words are numbered packets of the small track, so they arrive or the gate ends. The receiver has a byte for good
//! once it has it: an answer that is older than a second break says less than is true, never more. So any answer does
//! for all that is lost, and needs no number of its own. A receiver that has the whole message answers by its `Fin`.
//!
//! A piece that came in part counts as far as it came, unless it has a checksum, which is known to be right at its end
//! only.
//!
//! Rejected: a receiver that speaks first when it sees the end of a link (the sender may not have seen it yet, and
//! would have to know which link of several in a row is meant); missing ranges for each lost part of their own (what
//! the receiver has of a part is its beginning: the part's hull says the same).

use crate::memory::span::Span;
use crate::net::Driver;
use crate::proto::core::Core;
use crate::request::parts::SPLIT_MAX;
use crate::request::{Op, Owes, Place, Ref};
use crate::wire::{Header, Kind, Malformed, RANGE, word};

impl<D: Driver> Core<D> {
    /// Asks what the peer has of the messages that have lost something.
    #[cold]
    pub(crate) fn ask_for_missing(&mut self, to: u32) {
        let asks = |request: Ref| request.parts.to_ask();
        while let Some(request) = self.gates[to as usize].fragments.find(asks) {
            let id = request.remote_id.get();
            if !self.post(to, &mut Header { id, ..Header::new(Kind::Ask) }, &[]) {
                return;
            }
            request.parts.mark_asked();
        }
        self.gates[to as usize].reliability.asks = false;
    }

    /// `Ask`: what is here of this message? Answered when what has come on all links is read.
    pub(crate) fn on_ask(&mut self, from: u32, header: &Header) -> Result<(), Malformed> {
        let Some(request) = self.table.find_id(header.id, Op::Recv, from)? else {
            // It is over: its sender knows already, or will.
            return Ok(());
        };
        if !self.gates.fragile {
            return Err(Malformed);
        }
        match (request.owes.get(), request.place.get()) {
            // It says everything.
            (Owes::FinToSender | Owes::Have, _) => Ok(()),
            (Owes::CtsFragments | Owes::CtsPut, Place::Nowhere) => {
                request.owes.set(Owes::Have);
                self.gates.enqueue(from, request, Place::Control);
                Ok(())
            }
            _ => Err(Malformed),
        }
    }

    /// Sends the answer, or what there is to say instead. False: there is no room now.
    pub(crate) fn send_have(&mut self, to: u32, request: Ref) -> bool {
        for rail in 0..self.gates.rails.len() {
            self.gates[to as usize].note_arrival(rail);
        }
        let total = request.total.get();
        if request.parts.ranges().eq([(0, total)]) {
            self.whole(request);
            return self.post_control(to, request);
        }
        let mut raw = [0; SPLIT_MAX * RANGE];
        let places = raw.chunks_exact_mut(RANGE).take(self.gates[to as usize].mtu / RANGE);
        let mut bytes = 0;
        for (place, (from, to)) in places.zip(request.parts.ranges()) {
            place[..8].copy_from_slice(&(from as u64).to_le_bytes());
            place[8..].copy_from_slice(&(to as u64).to_le_bytes());
            bytes += RANGE;
        }
        let header = Header::new(Kind::Have);
        let mut header = Header { id: request.remote_id.get(), payload: bytes as u32, ..header };
        // SAFETY: a local, which outlives the call.
        let ranges = unsafe { Span::new(raw.as_ptr(), bytes) };
        let posted = self.post(to, &mut header, &[ranges]);
        if posted {
            self.gates.dequeue(to, request);
            request.owes.set(Owes::CtsFragments);
        }
        posted
    }

    /// `Have`: what the peer has of a message that has lost something.
    pub(crate) fn on_have(
        &mut self,
        from: u32,
        header: &Header,
        payload: Span,
    ) -> Result<(), Malformed> {
        let Some(request) = self.table.find_id(header.id, Op::Send, from)? else { return Ok(()) };
        let mut raw = [0; SPLIT_MAX * RANGE];
        if !self.gates.fragile || payload.len() > raw.len() || !payload.len().is_multiple_of(RANGE)
        {
            return Err(Malformed);
        }
        // SAFETY: at most as long as the local.
        unsafe { payload.copy_to(raw.as_mut_ptr()) };
        if request.place.get() != Place::Fragments {
            return Ok(());
        }
        for range in raw[..payload.len()].chunks_exact(RANGE) {
            let place = |at| word(range, at).and_then(|place| usize::try_from(place).ok());
            let (Some(start), Some(end)) = (place(0), place(8)) else { return Err(Malformed) };
            if start >= end || end > request.total.get() {
                return Err(Malformed);
            }
            request.parts.peer_has(start, end);
        }
        if request.parts.resend_missing() {
            self.gates.dequeue(from, request);
        }
        Ok(())
    }
}
