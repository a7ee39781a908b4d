//! Packets out and in: numbered, kept until they are acknowledged where they may be lost, within the peer's credit, and in
//! one row with those of a leased sending end.

use crate::error::Cause;
use crate::gate::credit::EACH;
use crate::gate::gates::{Admitted, Gates};
use crate::gate::lease::InlineLease;
use crate::memory::span::Span;
use crate::net::Driver;
use crate::net::reliable::{ACK, PROBE};
use crate::wire::{Envelope, Header, Kind, LONG, Malformed};
use crate::{sys, trace};

impl<D: Driver> Gates<D> {
    /// Gives a short message to the driver, if nothing is before it and nothing else is to be done. False: it is still
    /// to be sent. This is the path of most messages: everything that can be decided beforehand is in `Gate::inline`.
    #[inline(always)]
    pub(crate) fn post_inline(&mut self, to: u32, envelope: Envelope, data: Span) -> bool {
        let gate = &mut self.all[to as usize];
        let len = data.len();
        if len >= gate.inline
            || len > self.threshold
            || !gate.sends.is_empty()
            || !gate.credit.spend_of_plenty(len)
        {
            return false;
        }
        let numbers = (gate.tx_seq, gate.rx_seq);
        let moment = trace::moment();
        let posted = match self.rails.get_mut(gate.small) {
            Some(rail) => rail.driver.post_eager(to, numbers, envelope, data),
            None => false,
        };
        if posted {
            gate.tx_seq = gate.tx_seq.wrapping_add(1);
            let Envelope { tag, ends } = envelope;
            trace::left(
                moment,
                || self.names(ends.from(), to, ends.to()),
                numbers.0.into(),
                (tag, len),
            );
        } else {
            gate.credit.take_back(len);
        }
        posted
    }

    /// Whether packets to that process are no system calls.
    #[inline]
    pub(crate) fn is_light(&self, to: u32) -> bool {
        let rail = self.all.get(to as usize).and_then(|gate| self.rails.get(gate.small));
        rail.is_some_and(|rail| !rail.driver.calls_the_kernel())
    }

    /// Sends one packet to another process on the small track. False: there is no room now. `later`: no thread is to be
    /// woken by the end of what it begins.
    #[inline]
    pub(crate) fn post(
        &mut self,
        to: u32,
        header: &mut Header,
        parts: &[Span],
        later: bool,
    ) -> bool {
        if !self.recall(to) {
            return false;
        }
        let gate = &self.all[to as usize];
        header.seq = gate.tx_seq;
        header.ack = gate.rx_seq;
        let clocked = gate.strategy.holds;
        let before = if clocked { sys::now_ns() } else { 0 };
        let posted = if gate.reliable {
            self.post_reliable(to, header, parts, later)
        } else {
            match self.rails.get_mut(gate.small) {
                Some(rail) => rail.give(to, header, parts, later),
                None => false,
            }
        };
        if posted {
            let gate = &mut self.all[to as usize];
            gate.tx_seq = gate.tx_seq.wrapping_add(1);
            if clocked {
                gate.strategy.posted(before, sys::now_ns());
            }
        }
        posted
    }

    /// As `post`, where more is to be done than to post.
    #[cold]
    fn post_reliable(&mut self, to: u32, header: &Header, parts: &[Span], later: bool) -> bool {
        if !self.resend(to) {
            return false;
        }
        let gate = &mut self.all[to as usize];
        let Some(rail) = self.rails.get_mut(gate.small) else { return false };
        let buffer = gate.reliability.retransmit.as_ref();
        let fits = buffer.is_some_and(|buffer| buffer.fits(header.payload as usize));
        if (rail.breaks && !fits) || !rail.give(to, header, parts, later) {
            return false;
        }
        gate.reliability.unacknowledged = 0;
        if rail.breaks
            && let Some(buffer) = &mut gate.reliability.retransmit
        {
            buffer.push(header, parts);
            self.signals.unrest();
        }
        if let Some(rails) = &self.routes {
            rails.sent(self.all[to as usize].small);
        }
        true
    }

    /// Sends again what is not acknowledged and not yet given to the link in use. True: nothing of that is left.
    fn resend(&mut self, to: u32) -> bool {
        let gate = &mut self.all[to as usize];
        if !gate.reliability.resending {
            return true;
        }
        let Some(rail) = self.rails.get_mut(gate.small) else { return false };
        if let Some(buffer) = &mut gate.reliability.retransmit {
            while let Some((header, parts)) = buffer.unsent() {
                if !rail.give(to, &Header { ack: gate.rx_seq, ..header }, &parts, false) {
                    return false;
                }
                buffer.taken(!rail.breaks);
                if let Some(rails) = &self.routes {
                    rails.sent_again();
                }
            }
        }
        gate.reliability.resending = false;
        self.backlog -= 1;
        self.consider(to);
        true
    }

    /// A word is owed to the peer; it goes with the next flush.
    pub(crate) fn owe_word(&mut self, peer: u32, word: u8) {
        let reliability = &mut self.all[peer as usize].reliability;
        self.backlog += usize::from(reliability.due == 0);
        reliability.due |= word;
    }

    /// Sends what is to be sent again, and the word that is owed.
    pub(crate) fn flush_words(&mut self, to: u32) {
        let due = self.all[to as usize].reliability.due;
        // The word needs the small track: a thread that uses its lease leaves it soon, and has the engine look.
        if !self.recall(to) || !self.resend(to) || due == 0 {
            return;
        }
        let gate = &mut self.all[to as usize];
        let Some(rail) = self.rails.get_mut(gate.small) else { return };
        let kind = if due & PROBE != 0 { Kind::Probe } else { Kind::Ack };
        let tag = gate.credit.received();
        let (seq, ack, id) = (gate.tx_seq, gate.rx_seq, gate.route.word());
        let header = Header { seq, ack, tag, id, ..Header::new(kind) };
        if rail.give(to, &header, &[], false) {
            gate.credit.told(tag);
            gate.reliability.due = 0;
            gate.reliability.unacknowledged = 0;
            self.backlog -= 1;
        }
    }

    /// Looks at a packet that came over a rail that can break, or to a gate where something is unacknowledged.
    pub(crate) fn admit(
        &mut self,
        rail: usize,
        from: u32,
        header: &Header,
        payload: Span,
    ) -> Result<Admitted, Malformed> {
        let Some((header, payload)) = self.rails[rail].check(header, payload) else {
            return Ok(Admitted::Broken(Cause::Broken(libc::EBADMSG)));
        };
        if let Some(buffer) = &mut self.all[from as usize].reliability.retransmit
            && buffer.acknowledged(header.ack)?
        {
            self.consider(from);
        }
        let gate = &mut self.all[from as usize];
        gate.reliability.heard_over(rail);
        let ahead = header.seq.wrapping_sub(gate.rx_seq) as i32;
        if ahead > 0 {
            if !self.rails[rail].breaks {
                return Err(Malformed);
            }
            return Ok(Admitted::Broken(Cause::Broken(libc::EPROTO)));
        }
        if matches!(header.kind, Kind::Ack | Kind::Probe) {
            self.hear(from, &header)?;
        }
        if header.kind == Kind::Ack {
            return Ok(Admitted::Done);
        }
        if ahead < 0 || header.kind == Kind::Probe {
            // Its sender may not know what is here.
            self.owe_word(from, ACK);
            return Ok(Admitted::Done);
        }
        Ok(Admitted::Next(header, payload))
    }

    /// The protocol has taken an admitted packet: acknowledges it if it is time to.
    pub(crate) fn acknowledge(&mut self, rail: usize, from: u32, kind: Kind, payload: usize) {
        if !self.rails[rail].breaks {
            return;
        }
        if let Some(rails) = &self.routes {
            rails.received(rail);
        }
        let reliability = &mut self.all[from as usize].reliability;
        reliability.unacknowledged += LONG + payload;
        if kind == Kind::Bye || reliability.unacknowledged >= self.config.retransmit / 4 {
            self.owe_word(from, ACK);
        }
    }

    /// Whether the peer may have returned credit that is needed for a message of that length: there is not plenty.
    pub(crate) fn lacks_credit(&mut self, to: u32, len: usize) -> bool {
        !self.all[to as usize].credit.has_plenty(len, self.config.credit)
    }

    /// Counts an eager message to the peer. False: it goes beyond the credit, and is to be announced.
    pub(crate) fn spend_credit(&mut self, to: u32, len: usize) -> bool {
        self.all[to as usize].credit.spend(len, self.config.credit)
    }

    /// A receive has got an eager message of that length.
    #[inline(always)]
    pub(crate) fn count_received(&mut self, from: u32, len: usize) {
        if self.all[from as usize].credit.count_received(len) {
            self.return_credit(from);
        }
    }

    #[cold]
    fn return_credit(&mut self, from: u32) {
        let gate = &mut self.all[from as usize];
        let longest = self.threshold as u64 + EACH;
        if !gate.credit.owes_word(self.config.credit, longest) {
            return;
        }
        if from == self.process {
            gate.credit.return_to_oneself();
        } else if gate.is_open() {
            self.owe_word(from, ACK);
            self.flush_words(from);
        }
    }

    /// Leases the sending end to this rank, if nothing is before the next short message.
    pub(crate) fn lend(&mut self, to: u32) {
        let firsts = self.names(0, to, 0);
        let gate = &mut self.all[to as usize];
        let free = gate.inline > 0
            && gate.sends.is_empty()
            && gate.control.is_empty()
            && !gate.bye_sent
            && !gate.lease.is_lent();
        if !free || self.rails.iter().any(|rail| rail.reliable) {
            return;
        }
        let rail = gate.small;
        let Some(driver) = self.rails.get_mut(rail).map(|rail| &mut rail.driver) else { return };
        let Some(send) = driver.lend(to) else { return };
        gate.lease.lend(InlineLease {
            send,
            firsts,
            rail,
            numbers: (gate.tx_seq, gate.rx_seq),
            credit: gate.credit.lend(),
            bound: gate.inline.min(self.threshold.saturating_add(1)),
        });
        gate.inline = 0;
    }

    /// The sending end to this rank is here, or is fetched. False: a thread uses its lease, and will have the engine
    /// look.
    #[inline]
    pub(crate) fn recall(&mut self, to: u32) -> bool {
        if self.all[to as usize].lease.is_lent() {
            self.consider(to);
        }
        !self.all[to as usize].lease.is_lent()
    }

    /// As `recall`, for a caller that then says whether messages can go inline.
    pub(super) fn fetch(&mut self, to: u32) -> bool {
        let gate = &mut self.all[to as usize];
        if let Some(lease) = gate.lease.claim() {
            gate.tx_seq = lease.numbers.0;
            gate.credit.take_back_lent(lease.credit);
            if let Some(rail) = self.rails.get_mut(lease.rail) {
                rail.driver.take_back(to, lease.send);
            }
        }
        !gate.lease.is_lent()
    }
}
