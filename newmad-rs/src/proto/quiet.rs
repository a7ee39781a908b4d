//! Messages for those that close.
//!
//! A function may wait for a message ([`on_done`](crate::Request::on_done)) whose receiver closes before its sender has sent it.
//! So a process that closes says to a peer, once it has sent everything:
//!
//! ```text
//!   Quiet: no message comes any more   ──nothing may come from the peer that a function waits for──▶   Bye: it is gone
//! ```
//! or `Bye` at once where nothing may come, as nearly always. A peer that hears `Quiet` ends what it would receive, agrees
//! without it, and goes on to send; so two that wait for each other both end.
//!
//! Nobody says goodbye while a message comes that a function waits for. `Quiet` waits for nothing of the peer's, so two that are
//! quiet and have announced what neither takes hear each other's goodbye.
//!
//! Peers inside one process (`Session::local_world`) do not wait for each other's goodbyes, since one thread may close one after
//! the other: they say goodbye at once, and functions are told that the session is closed.
//!
//! A rank goes before its process by the same two steps: [`departures`](super::departures).
//!
//! Not waited for, once a message has been announced that no receive takes: none will, and who sends it hears so from the end.

use crate::error::Cause;
use crate::gate::{Assembly, Life};
use crate::net::Driver;
use crate::proto::core::Core;
use crate::proto::life::Why;
use crate::request::tag::is_control;
use crate::request::{ANY_SOURCE, Op, Ref};
use crate::wire::{Header, Kind};

/// Whether a function waits for the message of this receive.
fn is_awaited(request: Ref) -> bool {
    request.op == Op::Recv && request.is_detached() && !is_control(request.tag)
}

impl<D: Driver> Core<D> {
    /// `peer` sends no messages any more: ends what would receive them.
    pub(super) fn on_quiet(&mut self, peer: u32) {
        if self.gates[peer as usize].life != Life::Alive {
            return;
        }
        self.gates[peer as usize].end(Life::Quiet);
        self.gates.note_end(peer, Cause::Left);
        self.gates.consider(peer);
        self.gates.living -= 1;
        let ranks = self.gates[peer as usize].ranks();
        self.fail_posted(|request| ranks.contains(&request.peer), Why::Died(Cause::Left));
        self.fail_any_if_alone();
        self.tell_of_end(Cause::Left);
    }

    /// The process closes, and has sent `peer` everything.
    pub(super) fn say_quiet(&mut self, peer: u32) {
        if !self.gates[peer as usize].quiet_sent {
            let sent = self.post(peer, &mut Header::new(Kind::Quiet), &[]);
            self.gates[peer as usize].quiet_sent = sent;
        }
    }

    /// Whether anything is outstanding but that ranks close.
    pub(super) fn has_requests(&self) -> bool {
        let ends = self.gates[self.process as usize].ranks().len() - self.open_ranks;
        self.pending.count() > ends
    }

    /// Whether a message that a function of this process waits for may come from `peer`, or is coming: the peer ends what it
    /// sends when it hears goodbye.
    pub(super) fn may_come_from(&self, peer: u32) -> bool {
        let gate = &self.gates[peer as usize];
        let comes = |request: Ref| is_awaited(request) && request.gate.get() == peer;
        let in_parts = match gate.assembly {
            Assembly::Nothing => None,
            Assembly::Request { request, .. } => Some(request),
            Assembly::Cell(cell) => self.matching.pool.get(cell).claimed,
        };
        if in_parts.is_some_and(is_awaited) || self.table.find(comes).is_some() {
            return true;
        }
        let ranks = gate.ranks();
        let from_there = |request: Ref| {
            let from = request.peer;
            from == ANY_SOURCE || ranks.contains(&from) && !self.departures.is_quiet(from)
        };
        gate.life == Life::Alive
            && self
                .matching
                .find_posted(|request| is_awaited(request) && from_there(request))
                .is_some()
            && self
                .matching
                .find_announced(|cell, _| cell.gate == peer && !is_control(cell.tag))
                .is_none()
    }

    /// Whether a function of the rank at this place, which closes, waits for a message that may still be sent.
    pub(super) fn may_come_to(&self, mine: u16) -> bool {
        let may_send = |rank| match rank {
            // Another rank of this process is open, else the process would close.
            ANY_SOURCE => true,
            rank => rank != self.gates.own(mine) && self.hopeless(rank).is_none(),
        };
        let comes = |request: Ref| is_awaited(request) && may_send(request.peer);
        self.matching.find_posted_of(mine, comes).is_some()
            && self.matching.find_announced_to(mine, |cell| !is_control(cell.tag)).is_none()
    }
}
