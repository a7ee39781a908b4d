//! Small packets over rails that can break, or with checksums: what is kept, sent again, acknowledged and checked. The
//! rules are in `gate/links.rs`.

use crate::engine::core::Core;
use crate::error::Cause;
use crate::gate::links::{ACK, PROBE};
use crate::memory::span::Span;
use crate::net::{Driver, MOST_PARTS, Post};
use crate::wire::{CHECKED, CHECKSUM, Header, Kind, LONG, Malformed};

/// What became of a packet that came.
pub(crate) enum Taken {
    /// It is treated.
    Yes,
    /// There is no cell for it.
    No,
    /// Its link is broken, and gone with it.
    Lost,
}

/// The checksum of a packet: of its header as it is sent, and of its payload.
pub(crate) fn checksum(header: &Header, parts: &[Span]) -> u32 {
    let mut raw = [0; LONG];
    header.encode(&mut raw);
    let mut sum = crc32fast::Hasher::new();
    sum.update(&raw[..header.kind.header_len()]);
    for part in parts {
        // SAFETY: a span is readable, and over the rails that have checksums it is the sender's buffer, which nobody
        // writes to, or memory of this process.
        sum.update(unsafe { core::slice::from_raw_parts(part.as_ptr(), part.len()) });
    }
    sum.finalize()
}

impl<D: Driver> Core<D> {
    /// As `post`, where more is to be done than to post.
    #[cold]
    pub(super) fn post_careful(&mut self, to: u32, header: &Header, parts: &[Span]) -> bool {
        if !self.resend(to) {
            return false;
        }
        let gate = &self.gates[to as usize];
        let rail = gate.small;
        let Some(breaks) = self.rails.get(rail).map(|way| way.breaks) else { return false };
        let fits = gate.care.kept.as_ref().is_some_and(|kept| kept.fits(header.payload as usize));
        if (breaks && !fits) || !self.give(rail, to, header, parts) {
            return false;
        }
        let care = &mut self.gates[to as usize].care;
        care.unacknowledged = 0;
        if breaks && let Some(kept) = &mut care.kept {
            kept.push(header, parts);
            self.signals.unrest();
        }
        true
    }

    /// Gives a packet to a rail, with its checksum where there is one.
    fn give(&mut self, rail: usize, to: u32, header: &Header, parts: &[Span]) -> bool {
        let Some(way) = self.rails.get_mut(rail) else { return false };
        if !way.checked {
            return way.driver.post_small(to, header, parts) == Post::Posted;
        }
        let header = Header {
            flags: header.flags | CHECKED,
            payload: header.payload + CHECKSUM as u32,
            ..*header
        };
        let sum = checksum(&header, parts).to_le_bytes();
        let mut with = [Span::EMPTY; MOST_PARTS];
        let count = parts.len().min(MOST_PARTS - 1);
        with[..count].copy_from_slice(&parts[..count]);
        // SAFETY: a local, which outlives the call.
        with[count] = unsafe { Span::new(sum.as_ptr(), CHECKSUM) };
        way.driver.post_small(to, &header, &with[..=count]) == Post::Posted
    }

    /// Sends again what is kept and not yet given to the link in use. True: nothing of that is left.
    pub(crate) fn resend(&mut self, to: u32) -> bool {
        if !self.gates[to as usize].care.resending {
            return true;
        }
        let gate = &self.gates[to as usize];
        let (rail, expected) = (gate.small, gate.rx_seq);
        let Some(surely) = self.rails.get(rail).map(|way| !way.breaks) else { return false };
        loop {
            let kept = &self.gates[to as usize].care.kept;
            let Some((header, parts)) = kept.as_ref().and_then(|kept| kept.unsent()) else { break };
            if !self.give(rail, to, &Header { ack: expected, ..header }, &parts) {
                return false;
            }
            if let Some(kept) = &mut self.gates[to as usize].care.kept {
                kept.taken(surely);
            }
        }
        self.gates[to as usize].care.resending = false;
        self.backlog -= 1;
        self.consider(to);
        true
    }

    /// Sends what is kept and the word that is owed.
    pub(crate) fn flush_care(&mut self, to: u32) {
        let due = self.gates[to as usize].care.due;
        // The word needs the small track: who has it leaves it soon, and has the engine look.
        if !self.recall(to) || !self.resend(to) || due == 0 {
            return;
        }
        let gate = &self.gates[to as usize];
        let kind = if due & PROBE != 0 { Kind::Probe } else { Kind::Ack };
        let tag = gate.credit.received();
        let header = Header { seq: gate.tx_seq, ack: gate.rx_seq, tag, ..Header::new(kind) };
        if self.give(gate.small, to, &header, &[]) {
            let gate = &mut self.gates[to as usize];
            gate.credit.told(tag);
            let care = &mut gate.care;
            care.due = 0;
            care.unacknowledged = 0;
            self.backlog -= 1;
        }
    }

    /// Treats a packet that came over a rail that can break, or on a gate where something is kept.
    pub(crate) fn take_careful(
        &mut self,
        rail: usize,
        from: u32,
        header: &Header,
        payload: Span,
    ) -> Result<Taken, Malformed> {
        let Some((header, payload)) = self.check(rail, header, payload) else {
            self.broke(rail, from, Cause::Broken(libc::EBADMSG));
            return Ok(Taken::Lost);
        };
        if let Some(kept) = &mut self.gates[from as usize].care.kept
            && kept.acknowledged(header.ack)?
        {
            self.consider(from);
        }
        self.gates[from as usize].care.heard();
        let ahead = header.seq.wrapping_sub(self.gates[from as usize].rx_seq) as i32;
        if ahead > 0 {
            if !self.rails[rail].breaks {
                return Err(Malformed);
            }
            self.broke(rail, from, Cause::Broken(libc::EPROTO));
            return Ok(Taken::Lost);
        }
        if matches!(header.kind, Kind::Ack | Kind::Probe) {
            self.gates[from as usize].credit.hear(&header)?;
        }
        if header.kind == Kind::Ack {
            return Ok(Taken::Yes);
        }
        if ahead < 0 || header.kind == Kind::Probe {
            // Its sender may not know what is here.
            self.owe_word(from, ACK);
            return Ok(Taken::Yes);
        }
        if !self.incoming(from, &header, payload)? {
            return Ok(Taken::No);
        }
        if self.rails[rail].breaks {
            let care = &mut self.gates[from as usize].care;
            care.unacknowledged += LONG + payload.len();
            if header.kind == Kind::Bye || care.unacknowledged >= self.config.kept / 4 {
                self.owe_word(from, ACK);
            }
        }
        Ok(Taken::Yes)
    }

    /// The packet without its checksum, if that is right.
    fn check(&self, rail: usize, header: &Header, payload: Span) -> Option<(Header, Span)> {
        if !self.rails[rail].checked {
            return (header.flags & CHECKED == 0).then_some((*header, payload));
        }
        let len = payload.len().checked_sub(CHECKSUM)?;
        let mut sum = [0; CHECKSUM];
        // SAFETY: the local has the length of the part.
        unsafe { payload.part(len, CHECKSUM).copy_to(sum.as_mut_ptr()) };
        let payload = payload.part(0, len);
        let right =
            header.flags & CHECKED != 0 && checksum(header, &[payload]) == u32::from_le_bytes(sum);
        let plain = Header { flags: header.flags & !CHECKED, payload: len as u32, ..*header };
        right.then_some((plain, payload))
    }
}
