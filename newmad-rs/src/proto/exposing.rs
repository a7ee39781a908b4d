//! Exposing: the sender of a message that its receiver reads ([`reading`](super::reading)) registers it, piece by piece.
//!
//! A piece stays registered until its receiver wants the next one in the same lane, or has all of the message, or wants
//! it as fragments. The driver may take its time to forget it after the send is over: peers only read, and the one that
//! was told the key has said that it does not any more, or has failed.

use crate::net::Driver;
use crate::net::rdma::{Access, RdmaEvent, Ticket};
use crate::proto::core::Core;
use crate::proto::exposures::{Exposure, Stage};
use crate::proto::pieces::Wanted;
use crate::request::{Owes, Place, Ref};
use crate::wire::{Header, Kind, Malformed};

impl<D: Driver> Core<D> {
    /// `Cts` with `READ`: the receiver wants to read a piece.
    pub(crate) fn expose(
        &mut self,
        from: u32,
        request: Ref,
        header: &Header,
    ) -> Result<(), Malformed> {
        let wanted = Wanted::of(header.len, header.addr, request.capacity)?;
        let Wanted { at, len, lane, rail } = wanted;
        if request.owes.get() == Owes::Refusal {
            return Ok(());
        }
        if request.place.get() != Place::Nowhere
            || request.is_scattered()
            || request.parts.are_there()
            || rail >= self.gates.rails.len()
        {
            return Err(Malformed);
        }
        request.total.set(request.capacity);
        request.remote_id.set(header.tag);
        if let Some(read) = self.exposures.take(request, Some(lane)) {
            self.forget_exposure(read);
        }
        let data = request.span().part(at, len);
        let driver = &mut self.gates.rails[rail].driver;
        let asked = match self.exposures.is_full() {
            // SAFETY: the send's buffer, which is readable until the request is finished; peers only read it.
            false => unsafe {
                driver.register(from, data.as_ptr().cast_mut(), len, Access::Source)
            },
            true => None,
        };
        match asked {
            Some(ticket) => {
                let stage = Stage::Registering;
                self.exposures.add(Exposure { request, rail, lane, at, ticket, stage });
            }
            None => self.refuse(request, lane),
        }
        Ok(())
    }

    /// The receiver is to have the message as fragments. What it was told the keys of it may read until it asks for them.
    fn refuse(&mut self, request: Ref, lane: usize) {
        if let Some(exposure) = self.exposures.take(request, Some(lane)) {
            self.forget_exposure(exposure);
        }
        if request.owes.get() != Owes::Refusal {
            self.owe(request, Owes::Refusal);
        }
    }

    /// A driver tells of a piece of a send.
    pub(crate) fn on_exposed(&mut self, rail: usize, ticket: Ticket, event: RdmaEvent) {
        let Some(exposure) = self.exposures.find(rail, ticket) else { return };
        let (request, lane) = (exposure.request, exposure.lane);
        match event {
            RdmaEvent::Registered { key } if exposure.stage == Stage::Registering => {
                exposure.stage = Stage::Registered(key);
                self.exposures.untold += 1;
                self.gates.backlog += 1;
                self.flush(request.gate.get());
            }
            RdmaEvent::Registered { .. } => {}
            _ => self.refuse(request, lane),
        }
    }

    /// Tells the peer the keys of pieces. False: nothing could be sent.
    pub(crate) fn tell_keys(&mut self, to: u32) -> bool {
        let mut any = false;
        while let Some((exposure, key)) = self.exposures.next_untold(to) {
            let Exposure { request, lane, at, rail, ticket, .. } = *exposure;
            let mut header = Header {
                tag: u64::from(key) | (lane as u64) << 32,
                len: at as u64,
                id: request.remote_id.get(),
                ..Header::new(Kind::Key)
            };
            if !self.post(to, &mut header, &[]) {
                break;
            }
            if let Some(exposure) = self.exposures.find(rail, ticket) {
                exposure.stage = Stage::Told;
            }
            self.exposures.untold -= 1;
            self.gates.backlog -= 1;
            any = true;
        }
        any
    }

    /// Nothing of that send is read any more.
    pub(crate) fn conceal(&mut self, request: Ref) {
        if request.place.get() == Place::Control && request.owes.get() == Owes::Refusal {
            self.gates.dequeue(request.gate.get(), request);
        }
        while !self.exposures.is_empty()
            && let Some(exposure) = self.exposures.take(request, None)
        {
            self.forget_exposure(exposure);
        }
    }

    fn forget_exposure(&mut self, exposure: Exposure) {
        self.gates.backlog -= usize::from(matches!(exposure.stage, Stage::Registered(_)));
        self.unregister(exposure.rail, exposure.ticket);
    }
}
