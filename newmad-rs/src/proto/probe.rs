//! Probes, and messages that a probe has taken hold of.
//!
//! ```text
//!   unexpected ──mprobe──▶ held (in no list) ──recv──▶ received
//!        ▲                   │
//!        └──────dropped──────┘  at its old place; a receive posted meanwhile gets it
//! ```
//! A probe waits in a list of its own and is served when a message becomes unexpected, so after all posted receives.

use crate::Status;
use crate::error::{Cause, Error};
use crate::matching::pool::Content;
use crate::matching::takes;
use crate::net::Driver;
use crate::proto::core::Core;
use crate::request::{Op, Outcome, Ref};

impl<D: Driver> Core<D> {
    /// Begins to wait for a message.
    pub(crate) fn start_probe(&mut self, probe: Ref) {
        let mine = probe.mine.get();
        match self.matching.find_unexpected(mine, probe.peer, probe.tag, probe.mask) {
            Some(cell) => drop(self.found(probe, cell)),
            None => match self.refuses(probe) {
                Some(outcome) => self.finish(probe, outcome),
                None => {
                    self.matching.post(probe);
                    self.gates.want_source(probe.peer);
                }
            },
        }
    }

    /// Looks for a message to the rank at this place, and takes hold of it if `take`.
    pub(crate) fn look_for(
        &mut self,
        mine: u16,
        from: u32,
        (tag, mask): (u64, u64),
        take: bool,
    ) -> Result<Option<(u32, Status)>, Error> {
        if self.deaf {
            return Err(match self.fallen {
                Some((rank, cause)) => Error::PeerDied { rank, cause },
                None => Error::Closed,
            });
        }
        let Some(index) = self.matching.find_unexpected(mine, from, tag, mask) else {
            if let Some(error) = self.refuses_look(mine, from, (tag, mask)) {
                return Err(error);
            }
            return match self.hopeless(from) {
                Some((rank, cause)) => Err(Error::PeerDied { rank, cause }),
                None => {
                    self.gates.want_source(from);
                    Ok(None)
                }
            };
        };
        if take {
            self.matching.remove_unexpected(index);
        }
        let cell = self.matching.pool.get(index);
        Ok(Some((index, Status { source: cell.source, tag: cell.tag, len: cell.len })))
    }

    /// A message has become unexpected: serves the probes that wait for it.
    #[cold]
    pub(crate) fn serve_probes(&mut self, index: u32) {
        let cell = self.matching.pool.get(index);
        let (to, source, tag) = (cell.to, cell.source, cell.tag);
        for probe in self.matching.probes(to) {
            if takes(probe, source, tag) {
                self.matching.unpost(probe);
                if self.found(probe, index) {
                    return;
                }
            }
        }
    }

    /// Ends a probe; whether it has taken hold of the message.
    fn found(&mut self, probe: Ref, index: u32) -> bool {
        let take = matches!(probe.op, Op::Probe { take: true });
        if take {
            self.matching.remove_unexpected(index);
            probe.held.set(Some(index));
        }
        let cell = self.matching.pool.get(index);
        probe.source.set(cell.source);
        probe.matched.set(cell.tag);
        probe.message.set(cell.len);
        self.finish(probe, Outcome::Done);
        take
    }

    /// The message is on its way here no more.
    fn lost(&self, index: u32) -> Option<Outcome> {
        let cell = self.matching.pool.get(index);
        let whole = cell.content == Content::Eager && cell.got == cell.len;
        let announced = cell.content != Content::Eager;
        if announced && self.departures.has_left(self.gates.own(cell.to)) {
            // Its sender has been told that it is not taken any more. (What comes in parts comes, and needs its cell.)
            return Some(Outcome::Died(cell.source, Cause::Left));
        }
        let gate = &self.gates[cell.gate as usize];
        let cause = gate.refusal().filter(|_| !whole && !gate.is_open())?;
        Some(Outcome::Died(cell.source, cause))
    }

    /// Receives a message that is held.
    pub(crate) fn receive_held(&mut self, request: Ref, index: u32) {
        request.matched.set(self.matching.pool.get(index).tag);
        match self.lost(index) {
            Some(outcome) => {
                self.matching.pool.put(index);
                self.finish(request, outcome);
            }
            None => self.take_cell(index, request),
        }
    }

    /// A message that is held goes back where it was.
    pub(crate) fn put_back(&mut self, index: u32) {
        let cell = self.matching.pool.get(index);
        // More of it may come, into its cell.
        let in_part = cell.content == Content::Eager && cell.got < cell.len;
        if (self.deaf && !in_part) || self.lost(index).is_some() {
            return self.matching.pool.put(index);
        }
        let (to, source, tag) = (cell.to, cell.source, cell.tag);
        if let Some(request) = self.matching.take_posted(to, source, tag) {
            return self.take_cell(index, request);
        }
        self.matching.readd_unexpected(index);
        if self.matching.has_probes(to) {
            self.serve_probes(index);
        }
    }
}
