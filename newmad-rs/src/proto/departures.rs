//! Ranks that leave before their processes do.
//!
//! ```text
//!   closes ──nothing of it is under way in its process──▶ is quiet: it sends nothing any more
//!                                                            │ other ranks of its process: what they would receive from
//!                                                            │ it ends, at once
//!          ──nothing may come that a function waits for──▶ has left: it receives nothing any more
//!                                                              other ranks of its process: what they send to it ends
//!   A peer is told of either (`Leave`), once nothing of the rank is under way there, and ends the same.
//! ```
//! Nearly always the two are one. The last ranks of a process go with it: a process in which all ranks close says `Bye`
//! instead, or `Quiet` if functions wait ([`quiet`](super::quiet)).
//!
//! Invariants:
//! - The first `Leave` follows all messages of the rank to that peer, so the peer has them all when it ends receives from it.
//! - A rank that has left matches no announcement: those that are here are forgotten, its receives end, and later ones are
//!   dropped. So a peer that is told may end what it had announced to that rank: no memory of it is read any more. And it is told,
//!   or hears goodbye: also while its process closes, in which no more ranks go.

use crate::error::Cause;
use crate::gate::NO_RAIL;
use crate::matching::pool::{Content, NONE};
use crate::net::Driver;
use crate::proto::core::Core;
use crate::proto::departed::Stage;
use crate::proto::life::Why;
use crate::proto::take_back::is_unasked;
use crate::request::Ref;
use crate::sys::now_ns;
use crate::wire::{Header, Kind, Malformed, TAKES};

/// So long receives from ranks that have left are not looked for again, in nanoseconds; and so many times as long as the last look
/// took.
const PAUSE_NS: u64 = 1_000_000;
const SELDOM: u64 = 20;

impl<D: Driver> Core<D> {
    /// Whether nothing can come from that rank any more: which rank is gone, and why.
    #[inline(always)]
    pub(crate) fn hopeless(&self, from: u32) -> Option<(u32, Cause)> {
        if self.departures.is_quiet(from) {
            return Some((from, Cause::Left));
        }
        self.gates.hopeless(from)
    }

    /// Why nothing can be sent to that rank of a process.
    pub(crate) fn refusal(&self, to: u32, rank: u32) -> Option<Cause> {
        if self.departures.has_left(rank) {
            return Some(Cause::Left);
        }
        self.gates[to as usize].refusal()
    }

    /// Has ranks go that close and can, and tells the peers. Progress path.
    #[cold]
    pub(crate) fn try_leave(&mut self) {
        if self.closed {
            return;
        }
        if !self.is_closing() {
            self.let_ranks_go();
        }
        if self.departures.waits.are_to_end {
            self.end_waits(false);
        }
        for at in 0..self.gates.connected.len() {
            if let Some(&peer) = self.gates.connected.get(at) {
                self.tell_departures(peer);
            }
        }
    }

    fn let_ranks_go(&mut self) {
        let mut at = 0;
        while let Some(&mine) = self.departures.closing.get(at) {
            if self.is_under_way(self.process, mine) {
                at += 1;
                continue;
            }
            let rank = self.gates.own(mine);
            let stage = match self.may_come_to(mine) {
                true => Stage::Quiet,
                false => Stage::Left,
            };
            if stage > self.departures.stage(rank) {
                self.on_departure(self.process, rank, stage);
                self.departures.news.push((mine, stage));
            }
            match stage {
                Stage::Left => {
                    self.departures.closing.swap_remove(at);
                    self.matching.forget(mine, |cell| cell.content != Content::Eager);
                }
                _ => at += 1,
            }
        }
    }

    /// A rank of that process goes, so far: nothing is received from it any more, or sent to it. What is on its way in part
    /// goes on.
    fn on_departure(&mut self, process: u32, rank: u32, stage: Stage) {
        let was_quiet = self.departures.is_quiet(rank);
        self.departures.note(rank, stage);
        if !was_quiet {
            self.gates.ended.push((rank, Cause::Left));
            self.tell_of_end(Cause::Left);
        }
        if stage == Stage::Left {
            self.fail_sends(
                process,
                |request| request.peer == rank && request.moved.get() == 0,
                |request| request.peer == rank && is_unasked(request),
            );
        }
        // Else all that is outstanding is that ranks close.
        if self.has_requests() && !core::mem::replace(&mut self.departures.waits.are_to_end, true) {
            self.end_waits(false);
            if self.departures.waits.are_to_end {
                // A thread that looks, or is about to sleep, does it.
                self.ends = true;
                self.wake_oneself();
            }
        }
    }

    /// Ends what ranks of this process would receive from ranks that are quiet, and what those of its ranks have left behind that
    /// have left. This looks at all receives, and ranks may leave by the thousand: so it is done for several at once, unless `now`
    /// is said.
    #[cold]
    pub(crate) fn end_waits(&mut self, now: bool) {
        if !self.departures.waits.are_to_end {
            return;
        }
        let begun = now_ns();
        if !now && begun < self.departures.waits.not_before {
            return;
        }
        self.departures.waits.are_to_end = false;
        let own = self.gates.own(0);
        for rank in self.gates[self.process as usize].ranks() {
            let mine = (rank - own) as u16;
            let departures = &self.departures;
            let has_left = departures.has_left(rank);
            let is_over = |request: Ref| has_left || departures.is_quiet(request.peer);
            while let Some(request) = self.matching.find_posted_of(mine, is_over) {
                let why = match self.departures.is_quiet(request.peer) {
                    true => Why::Died(Cause::Left),
                    false => Why::Closed,
                };
                self.matching.unpost(request);
                self.pending.finish(request, why.of(request));
            }
        }
        let over = now_ns();
        self.departures.waits.not_before = over + (SELDOM * (over - begun)).max(PAUSE_NS);
    }

    /// Whether messages of the rank at this place to or from `peer` are on their way, or words about them.
    fn is_under_way(&self, peer: u32, mine: u16) -> bool {
        let gate = &self.gates[peer as usize];
        gate.sends.find(|request| request.mine.get() == mine).is_some()
            || gate.control.find(|request| request.mine.get() == mine).is_some()
            || gate.taken_back != NONE
            || self.reads.are_any(peer, |request| request.mine.get() == mine)
            || self
                .copies
                .find(|request| request.mine.get() == mine && request.gate.get() == peer)
                .is_some()
    }

    /// Tells `peer` which ranks of this process have gone, as far as its track has room.
    pub(crate) fn tell_departures(&mut self, peer: u32) {
        loop {
            let gate = &self.gates[peer as usize];
            let Some(&(mine, stage)) = self.departures.news.get(gate.told) else { break };
            let open = gate.life.is_listening() && gate.small != NO_RAIL && !gate.bye_sent;
            if !open || self.is_closing() && !gate.quiet_sent || self.is_under_way(peer, mine) {
                break;
            }
            let flags = if stage == Stage::Left { 0 } else { TAKES };
            let mut header = Header { tag: mine.into(), flags, ..Header::new(Kind::Leave) };
            if !self.post(peer, &mut header, &[]) {
                return self.gates.wait_for_room(peer, true);
            }
            self.gates[peer as usize].told += 1;
        }
        self.gates.wait_for_room(peer, false);
    }

    /// `Leave`: a rank of `from` has gone.
    pub(crate) fn on_leave(&mut self, from: u32, header: &Header) -> Result<(), Malformed> {
        let place = u16::try_from(header.tag).map_err(|_| Malformed)?;
        let rank = self.gates[from as usize].rank(place).ok_or(Malformed)?;
        let stage = if header.flags & TAKES != 0 { Stage::Quiet } else { Stage::Left };
        if !self.departures.may_be() || self.departures.stage(rank) >= stage {
            return Err(Malformed);
        }
        self.on_departure(from, rank, stage);
        Ok(())
    }
}
