//! What arrives on the small track: the table of packet kinds, and eager messages.

use std::sync::atomic::Ordering;

use crate::error::Cause;
use crate::gate::Assembly;
use crate::gate::gates::Admitted;
use crate::matching::Source;
use crate::matching::pool::Content;
use crate::memory::span::Span;
use crate::net::reliable::ACK;
use crate::net::{Driver, Peek};
use crate::proto::core::Core;
use crate::proto::events::EventKind;
use crate::request::tag::is_control;
use crate::request::{Op, Outcome, Place, Ref};
use crate::trace;
use crate::wire::{Header, Kind, Malformed, SENDER_WAITS, entries};

/// Most packets taken from one gate before the others have their turn.
const BATCH: usize = 64;

/// What became of a packet that came.
pub(crate) enum Taken {
    /// It is treated.
    Yes,
    /// There is no cell for it.
    No,
    /// Its link is broken, and gone with it.
    Lost,
}

impl<D: Driver> Core<D> {
    /// Takes what has come from a peer over one rail.
    #[inline(always)]
    pub(crate) fn take_from(&mut self, rail: usize, from: u32) -> bool {
        let mut any = false;
        let waited = self.pending.count() > 0;
        for _ in 0..BATCH {
            // By reference: the header is not copied once more.
            match &self.gates.rails[rail].driver.peek_small(from) {
                Peek::Empty => break,
                Peek::Packet(header, payload) => {
                    match self.take_packet(rail, from, header, *payload) {
                        Ok(Taken::Lost) => return true,
                        Ok(Taken::Yes) => {
                            self.gates.rails[rail].driver.release(from);
                            any = true;
                            if waited && self.pending.count() == 0 {
                                // That was what the caller waited for; what else has come can stay where it is.
                                break;
                            }
                        }
                        Ok(Taken::No) => {
                            self.starve();
                            break;
                        }
                        Err(_) => {
                            self.fail_peer(from, Cause::Malformed);
                            return true;
                        }
                    }
                }
                &Peek::Gone(cause) => {
                    // What it sent on the large track before may still be there.
                    let expected = self.gates[from as usize].large_expected > 0;
                    if !(expected && self.take_large(rail, from)) {
                        self.ended(rail, from, cause);
                    }
                    return true;
                }
            }
        }
        let gate = &self.gates[from as usize];
        if gate.large_expected > 0 || gate.reliability.late {
            any |= self.take_large(rail, from);
        }
        any
    }

    /// Takes a packet of the small track.
    pub(crate) fn take(
        &mut self,
        rail: usize,
        from: u32,
        header: &Header,
        payload: Span,
    ) -> Result<Taken, Malformed> {
        self.take_packet(rail, from, header, payload)
    }

    #[inline(always)]
    fn take_packet(
        &mut self,
        rail: usize,
        from: u32,
        header: &Header,
        payload: Span,
    ) -> Result<Taken, Malformed> {
        let reliable = self.gates.rails[rail].reliable;
        let gate = &mut self.gates[from as usize];
        // What was sent again may come over a rail that never breaks.
        if reliable || gate.reliable || header.seq != gate.rx_seq {
            return self.take_reliable(rail, from, header, payload);
        }
        if header.kind == Kind::Eager
            && payload.len() == header.payload as usize
            && let Some(rank) = gate.rank(header.ends.from())
            && let Some(request) = self.matching.take_posted(header.ends.to(), rank, header.tag)
        {
            // Most packets, in short.
            gate.rx_seq = gate.rx_seq.wrapping_add(1);
            self.deliver(request, Source { gate: from, rank }, payload, header.seq.into());
            return Ok(Taken::Yes);
        }
        let taken = self.on_packet(from, header, payload)?;
        Ok(if taken { Taken::Yes } else { Taken::No })
    }

    /// As `take`, over a rail that can break, or to a gate where something is unacknowledged.
    fn take_reliable(
        &mut self,
        rail: usize,
        from: u32,
        header: &Header,
        payload: Span,
    ) -> Result<Taken, Malformed> {
        let (header, payload) = match self.gates.admit(rail, from, header, payload)? {
            Admitted::Next(header, payload) => (header, payload),
            Admitted::Done => return Ok(Taken::Yes),
            Admitted::Broken(cause) => {
                self.broke(rail, from, cause);
                return Ok(Taken::Lost);
            }
        };
        if !self.on_packet(from, &header, payload)? {
            return Ok(Taken::No);
        }
        self.gates.acknowledge(rail, from, header.kind, payload.len());
        Ok(Taken::Yes)
    }

    /// The driver says that a link has ended.
    pub(crate) fn ended(&mut self, rail: usize, peer: u32, cause: Cause) {
        match cause {
            Cause::Malformed if self.gates.rails[rail].checked => {
                self.broke(rail, peer, Cause::Broken(libc::EBADMSG));
            }
            Cause::Malformed => self.fail_peer(peer, cause),
            _ => self.broke(rail, peer, cause),
        }
    }

    /// Treats a packet. `Ok(false)`: there is no cell for it, it must stay where it is.
    #[inline]
    pub(crate) fn on_packet(
        &mut self,
        from: u32,
        header: &Header,
        payload: Span,
    ) -> Result<bool, Malformed> {
        let gate = &self.gates[from as usize];
        if header.seq != gate.rx_seq || payload.len() != header.payload as usize {
            return Err(Malformed);
        }
        let taken = match header.kind {
            Kind::Eager => {
                let source = self.source(from, header)?;
                self.on_eager(source, header, payload, header.seq.into())?
            }
            Kind::First => self.on_first(self.source(from, header)?, header, payload)?,
            Kind::Next => self.on_next(from, header, payload).map(|()| true)?,
            Kind::Rts => self.on_rts(self.source(from, header)?, header)?,
            Kind::Pack => self.on_pack(from, header.seq, payload)?,
            Kind::Cts => self.on_cts(from, header).map(|()| true)?,
            Kind::Fin => self.on_fin(from, header).map(|()| true)?,
            Kind::Key => self.on_key(from, header).map(|()| true)?,
            Kind::Ask => self.on_ask(from, header).map(|()| true)?,
            Kind::Have => self.on_have(from, header, payload).map(|()| true)?,
            Kind::Back => self.on_back(from, header).map(|()| true)?,
            Kind::Bye => {
                self.on_bye(from);
                true
            }
            Kind::Quiet => {
                self.on_quiet(from);
                true
            }
            Kind::Leave => self.on_leave(from, header).map(|()| true)?,
            Kind::Ack => {
                self.gates.hear(from, header)?;
                return Ok(true);
            }
            Kind::Probe => {
                self.gates.hear(from, header)?;
                self.gates.owe_word(from, ACK);
                return Ok(true);
            }
            Kind::Data => return Err(Malformed),
        };
        if taken {
            let gate = &mut self.gates[from as usize];
            gate.rx_seq = gate.rx_seq.wrapping_add(1);
        }
        Ok(taken)
    }

    /// The rank that sends the message which this packet begins.
    ///
    /// # Errors
    /// One of its ranks does not exist.
    #[inline]
    fn source(&self, from: u32, header: &Header) -> Result<Source, Malformed> {
        match self.gates[from as usize].rank(header.ends.from()) {
            Some(rank) if self.matching.has(header.ends.to()) => Ok(Source { gate: from, rank }),
            _ => Err(Malformed),
        }
    }

    /// A receive gets a whole message.
    #[inline(always)]
    pub(crate) fn deliver(&mut self, request: Ref, source: Source, payload: Span, number: u64) {
        request.store(0, payload);
        self.gates.count_received(source.gate, payload.len());
        self.received(request, source.rank, payload.len(), number);
    }

    /// A whole message, which the trace calls `number`.
    fn on_eager(
        &mut self,
        source: Source,
        header: &Header,
        payload: Span,
        number: u64,
    ) -> Result<bool, Malformed> {
        if let Some(request) = self.matching.take_posted(header.ends.to(), source.rank, header.tag)
        {
            self.deliver(request, source, payload, number);
            return Ok(true);
        }
        let Some(cell) = self.keep(source, header, Content::Eager, number)? else {
            return Ok(false);
        };
        self.matching.pool.append(cell, payload);
        Ok(true)
    }

    /// Takes several messages out of a packet. When there is no cell for one of them, the packet stays where it is, and
    /// those before are not taken again.
    fn on_pack(&mut self, from: u32, seq: u32, pack: Span) -> Result<bool, Malformed> {
        let mut at = core::mem::take(&mut self.gates[from as usize].unpacked);
        while let Some((header, payload, next)) = entries::decode(pack, at)? {
            let source = self.source(from, &header)?;
            let taken = match header.kind {
                Kind::Rts => self.on_rts(source, &header)?,
                _ => self.on_eager(source, &header, payload, trace::packed(seq, at))?,
            };
            if !taken {
                self.gates[from as usize].unpacked = at;
                return Ok(false);
            }
            at = next;
        }
        Ok(true)
    }

    fn on_first(
        &mut self,
        source: Source,
        header: &Header,
        payload: Span,
    ) -> Result<bool, Malformed> {
        let from = source.gate;
        if !matches!(self.gates[from as usize].assembly, Assembly::Nothing) {
            return Err(Malformed);
        }
        let total = header.len as usize;
        let posted = self.matching.take_posted(header.ends.to(), source.rank, header.tag);
        let assembly = match posted {
            Some(request) => {
                request.store(0, payload);
                request.source.set(source.rank);
                self.gates.count_received(from, total);
                request.remote_id.set(header.seq.into()); // for the trace
                Assembly::Request { request, got: payload.len(), total }
            }
            None => {
                let number = header.seq.into();
                let Some(cell) = self.keep(source, header, Content::Eager, number)? else {
                    return Ok(false);
                };
                self.matching.pool.append(cell, payload);
                Assembly::Cell(cell)
            }
        };
        self.gates[from as usize].assembly = assembly;
        Ok(true)
    }

    fn on_next(&mut self, from: u32, header: &Header, payload: Span) -> Result<(), Malformed> {
        let offset = header.len as usize;
        match self.gates[from as usize].assembly {
            Assembly::Nothing => Err(Malformed),
            Assembly::Request { request, got, total } => {
                let now = got + payload.len();
                if offset != got || now > total {
                    return Err(Malformed);
                }
                request.store(offset, payload);
                let gate = &mut self.gates[from as usize];
                if now < total {
                    gate.assembly = Assembly::Request { request, got: now, total };
                } else {
                    gate.assembly = Assembly::Nothing;
                    self.received(request, request.source.get(), total, request.remote_id.get());
                }
                Ok(())
            }
            Assembly::Cell(cell) => {
                let kept = self.matching.pool.get(cell);
                let now = kept.got + payload.len();
                if offset != kept.got || now > kept.len {
                    return Err(Malformed);
                }
                let (claimed, complete) = (kept.claimed, now == kept.len);
                self.matching.pool.append(cell, payload);
                if complete {
                    self.gates[from as usize].assembly = Assembly::Nothing;
                    if let Some(request) = claimed {
                        self.empty(cell, request);
                    }
                }
                Ok(())
            }
        }
    }

    fn on_rts(&mut self, source: Source, header: &Header) -> Result<bool, Malformed> {
        let sender_waits = header.flags & SENDER_WAITS != 0;
        let number = trace::announced(header.id);
        let to = header.ends.to();
        if self.departures.has_left(self.gates.own(to)) {
            // Its sender is told, and ends the send.
            return Ok(true);
        }
        if let Some(request) = self.matching.take_posted(to, source.rank, header.tag) {
            let names = || (self.gates.own(to), source.rank);
            trace::arrived(names, number, (header.tag, header.len as usize));
            self.begin_rendezvous(
                request,
                source,
                header.len as usize,
                header.id,
                header.addr,
                sender_waits,
            );
            return Ok(true);
        }
        let content = Content::Announced { id: header.id, addr: header.addr, sender_waits };
        Ok(self.keep(source, header, content, number)?.is_some())
    }

    /// Puts a message into a cell and among the unexpected ones.
    pub(crate) fn keep(
        &mut self,
        source: Source,
        header: &Header,
        content: Content,
        number: u64,
    ) -> Result<Option<u32>, Malformed> {
        let kept = self.matching.keep(source, header, content, number)?;
        if let Some(index) = kept {
            let to = header.ends.to();
            let names = || (self.gates.own(to), source.rank);
            let message = (header.tag, header.len as usize);
            trace::arrived(names, number, message);
            self.note(EventKind::Unexpected, to, source.rank, message);
            if self.matching.has_probes(to) {
                self.serve_probes(index);
            }
            if is_control(header.tag) {
                self.signals.ring_alarm();
            }
        }
        Ok(kept)
    }

    /// A receive finds its message among the unexpected ones.
    pub(crate) fn take_unexpected(&mut self, index: u32, request: Ref) {
        self.matching.remove_unexpected(index);
        request.matched.set(self.matching.pool.get(index).tag);
        self.take_cell(index, request);
    }

    /// A receive gets the message of a cell that is in no list.
    pub(crate) fn take_cell(&mut self, index: u32, request: Ref) {
        let cell = self.matching.pool.get_mut(index);
        let (source, len) = (Source { gate: cell.gate, rank: cell.source }, cell.len);
        if cell.content == Content::Eager {
            self.gates.count_received(source.gate, len);
        }
        let cell = self.matching.pool.get_mut(index);
        match cell.content {
            Content::Announced { id, addr, sender_waits } => {
                self.matching.pool.put(index);
                self.begin_rendezvous(request, source, len, id, addr, sender_waits);
            }
            Content::Eager if cell.got < len => {
                request.source.set(source.rank);
                cell.claimed = Some(request);
            }
            Content::Eager => self.empty(index, request),
        }
    }

    /// Moves a complete message from its cell to the receive that has it.
    fn empty(&mut self, index: u32, request: Ref) {
        let kept = self.matching.pool.get(index);
        let (from, number) = (kept.source, kept.number);
        let payload = self.matching.pool.payload(index);
        request.store(0, payload);
        self.matching.pool.put(index);
        self.received(request, from, payload.len(), number);
    }

    /// Ends a receive whose message of `len` bytes is there (its beginning, if the buffer was too short). `number`:
    /// what the trace calls it.
    #[inline(always)]
    pub(crate) fn received(&mut self, request: Ref, source: u32, len: usize, number: u64) {
        debug_assert_eq!(request.op, Op::Recv);
        request.source.set(source);
        request.message.set(len);
        let names = || (self.gates.own(request.mine.get()), source);
        trace::received(names, number, (request.matched.get(), len));
        let outcome = if len <= request.capacity { Outcome::Done } else { Outcome::Truncated };
        self.pending.finish(request, outcome);
    }

    /// A message stays where it is because no cell is left: makes blocked callers come and allocate. All that hear: a thread
    /// that waits for several requests is blocked on any one of them, and of some that no thread is any more.
    #[cold]
    pub(crate) fn starve(&mut self) {
        if self.signals.starved.swap(true, Ordering::SeqCst) {
            return;
        }
        let nudges = |request: Ref| {
            request.nudge();
            false
        };
        self.matching.find_posted(nudges);
        self.table.find(nudges);
        for gate in self.gates.iter() {
            gate.sends.find(nudges);
        }
        self.closing.find(nudges);
        // All owners may compute: the connection manager has the memory.
        self.signals.unrest();
    }

    #[inline(always)]
    pub(crate) fn start_recv(&mut self, request: Ref) {
        if let Some(cell) = request.held.get() {
            request.held.set(None);
            return self.receive_held(request, cell);
        }
        let mine = request.mine.get();
        match self.matching.find_unexpected(mine, request.peer, request.tag, request.mask) {
            None if !self.has_bans
                && !self.departures.are_any()
                && !self.gates.notes_receives(request.peer) =>
            {
                self.matching.post(request);
            }
            None => self.post_or_refuse(request),
            Some(cell) => {
                if self.gates.routes.is_some() && !self.gathering {
                    let from = self.matching.pool.get(cell).gate;
                    self.gates.count_receive(from);
                }
                self.take_unexpected(cell, request);
            }
        }
    }

    /// Posts a receive for which more is to be looked at than most need.
    #[inline(never)]
    fn post_or_refuse(&mut self, request: Ref) {
        if let Some(outcome) = self.refuses(request) {
            return self.finish(request, outcome);
        }
        self.matching.post(request);
        self.gates.note_receive(request.peer, !self.gathering);
    }

    /// Takes a receive or a probe back if no message has matched it; whether that was so.
    ///
    /// Only for a request that is not finished.
    pub(crate) fn cancel(&mut self, request: Ref) -> bool {
        let waits = matches!(request.place.get(), Place::Posted | Place::Probes);
        if waits {
            self.matching.unpost(request);
            self.finish(request, Outcome::Cancelled);
        }
        waits
    }

    /// Makes room for unexpected messages. Callers' context only: allocates. False: the bound is reached.
    pub(crate) fn grow(&mut self) -> bool {
        if self.matching.pool.grow() {
            self.signals.starved.store(false, Ordering::SeqCst);
            return true;
        }
        false
    }
}
