//! What arrives on the small track: checked, matched, delivered or kept.

use crate::engine::core::Core;
use crate::gate::Assembly;
use crate::gate::links::ACK;
use crate::matching::pool::Content;
use crate::memory::span::Span;
use crate::net::Driver;
use crate::request::{Op, Outcome, Ref};
use crate::trace;
use crate::wire::entries;
use crate::wire::{Header, Kind, Malformed, SENDER_WAITS};

impl<D: Driver> Core<D> {
    /// Treats a packet. `Ok(false)`: there is no cell for it, it must stay where it is.
    #[inline]
    pub(crate) fn incoming(
        &mut self,
        from: u32,
        header: &Header,
        payload: Span,
    ) -> Result<bool, Malformed> {
        let gate = &mut self.gates[from as usize];
        if header.seq != gate.rx_seq || payload.len() != header.payload as usize {
            return Err(Malformed);
        }
        let taken = match header.kind {
            Kind::Eager => self.eager(from, header, payload, header.seq.into())?,
            Kind::First => self.first(from, header, payload)?,
            Kind::Next => self.next(from, header, payload).map(|()| true)?,
            Kind::Rts => self.announced(from, header)?,
            Kind::Pack => self.unpack(from, header.seq, payload)?,
            Kind::Cts => self.asked(from, header).map(|()| true)?,
            Kind::Fin => self.told(from, header).map(|()| true)?,
            Kind::Ask => self.questioned(from, header).map(|()| true)?,
            Kind::Have => self.answered(from, header, payload).map(|()| true)?,
            Kind::Bye => {
                self.goodbye(from);
                true
            }
            Kind::Ack => {
                gate.credit.hear(header)?;
                return Ok(true);
            }
            Kind::Probe => {
                gate.credit.hear(header)?;
                self.owe_word(from, ACK);
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

    /// A receive gets a whole message.
    #[inline(always)]
    pub(crate) fn get(&mut self, request: Ref, from: u32, payload: Span, number: u64) {
        request.store(0, payload);
        self.count_received(from, payload.len());
        self.delivered(request, from, payload.len(), number);
    }

    /// A whole message, which the trace calls `number`.
    fn eager(
        &mut self,
        from: u32,
        header: &Header,
        payload: Span,
        number: u64,
    ) -> Result<bool, Malformed> {
        if let Some(request) = self.matching.take_posted(from, header.tag) {
            self.get(request, from, payload, number);
            return Ok(true);
        }
        let Some(cell) = self.keep(from, header, Content::Eager, number)? else {
            return Ok(false);
        };
        self.matching.pool.append(cell, payload);
        Ok(true)
    }

    /// Takes several messages out of a packet. When there is no cell for one of them, the packet stays where it is, and
    /// those before are not taken again.
    fn unpack(&mut self, from: u32, seq: u32, pack: Span) -> Result<bool, Malformed> {
        let mut at = core::mem::take(&mut self.gates[from as usize].unpacked);
        while let Some((header, payload, next)) = entries::decode(pack, at)? {
            let taken = match header.kind {
                Kind::Rts => self.announced(from, &header)?,
                _ => self.eager(from, &header, payload, trace::packed(seq, at))?,
            };
            if !taken {
                self.gates[from as usize].unpacked = at;
                return Ok(false);
            }
            at = next;
        }
        Ok(true)
    }

    fn first(&mut self, from: u32, header: &Header, payload: Span) -> Result<bool, Malformed> {
        if !matches!(self.gates[from as usize].assembly, Assembly::Nothing) {
            return Err(Malformed);
        }
        let total = header.len as usize;
        let assembly = match self.matching.take_posted(from, header.tag) {
            Some(request) => {
                request.store(0, payload);
                self.count_received(from, total);
                request.remote_id.set(header.seq.into()); // for the trace
                Assembly::Request { request, got: payload.len(), total }
            }
            None => {
                let number = header.seq.into();
                let Some(cell) = self.keep(from, header, Content::Eager, number)? else {
                    return Ok(false);
                };
                self.matching.pool.append(cell, payload);
                Assembly::Cell(cell)
            }
        };
        self.gates[from as usize].assembly = assembly;
        Ok(true)
    }

    fn next(&mut self, from: u32, header: &Header, payload: Span) -> Result<(), Malformed> {
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
                    self.delivered(request, from, total, request.remote_id.get());
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

    fn announced(&mut self, from: u32, header: &Header) -> Result<bool, Malformed> {
        let sender_waits = header.flags & SENDER_WAITS != 0;
        let number = trace::announced(header.id);
        if let Some(request) = self.matching.take_posted(from, header.tag) {
            trace::arrived((self.rank, from), number, (header.tag, header.len as usize));
            self.begin_rendezvous(
                request,
                from,
                header.len as usize,
                header.id,
                header.addr,
                sender_waits,
            );
            return Ok(true);
        }
        let content = Content::Announced { id: header.id, addr: header.addr, sender_waits };
        Ok(self.keep(from, header, content, number)?.is_some())
    }

    /// Puts a message into a cell and among the unexpected ones.
    fn keep(
        &mut self,
        from: u32,
        header: &Header,
        content: Content,
        number: u64,
    ) -> Result<Option<u32>, Malformed> {
        let bytes = if content == Content::Eager { header.len as usize } else { 0 };
        if !self.matching.pool.can_hold(bytes) {
            return Err(Malformed);
        }
        let Some(index) = self.matching.pool.take(bytes) else { return Ok(None) };
        let cell = self.matching.pool.get_mut(index);
        cell.source = from;
        cell.tag = header.tag;
        cell.len = header.len as usize;
        cell.got = 0;
        cell.content = content;
        cell.claimed = None;
        cell.number = number;
        trace::arrived((self.rank, from), number, (header.tag, header.len as usize));
        self.matching.add_unexpected(index);
        if self.matching.has_probes() {
            self.serve_probes(index);
        }
        Ok(Some(index))
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
        let (from, len) = (cell.source, cell.len);
        if cell.content == Content::Eager {
            self.count_received(from, len);
        }
        let cell = self.matching.pool.get_mut(index);
        match cell.content {
            Content::Announced { id, addr, sender_waits } => {
                self.matching.pool.put(index);
                self.begin_rendezvous(request, from, len, id, addr, sender_waits);
            }
            Content::Eager if cell.got < len => {
                request.source.set(from);
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
        self.delivered(request, from, payload.len(), number);
    }

    /// Ends a receive whose message of `len` bytes is there (its beginning, if the buffer was too short). `number`: what
    /// the trace calls it.
    #[inline]
    pub(crate) fn delivered(&mut self, request: Ref, from: u32, len: usize, number: u64) {
        debug_assert_eq!(request.op, Op::Recv);
        request.source.set(from);
        request.message.set(len);
        trace::received((self.rank, from), number, (request.matched.get(), len));
        let outcome = if len <= request.capacity { Outcome::Done } else { Outcome::Truncated };
        self.finish(request, outcome);
    }
}
