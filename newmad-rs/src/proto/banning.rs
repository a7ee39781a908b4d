//! Bans in force: what they do to requests that wait, and to those that would.

use crate::error::Error;
use crate::net::Driver;
use crate::proto::bans::{Ban, Reason, serves_all};
use crate::proto::core::Core;
use crate::proto::life::Why;
use crate::request::tag::is_control;
use crate::request::{Op, Outcome, Owes, Place, Ref};

impl<D: Driver> Core<D> {
    /// Puts a ban in force. Callers' context: allocates.
    pub(crate) fn ban(&mut self, ban: Ban) {
        self.forget_ban(ban);
        self.bans.push(ban);
        self.has_bans = true;
        let is_new = |request: Ref| ban.is_on(request) && !(request.stays && request.is_alarmed());
        while let Some(request) = self.matching.find_posted(is_new) {
            if request.stays && ban.reason != Reason::Revoked {
                request.ring();
            } else {
                self.matching.unpost(request);
                self.finish(request, ban.reason.outcome());
            }
        }
        if ban.reason == Reason::Revoked {
            // Alarmed before, and over now.
            while let Some(request) = self.matching.find_posted(|request| ban.is_on(request)) {
                self.matching.unpost(request);
                self.finish(request, Outcome::Revoked);
            }
            self.revoke_sends(ban);
        }
    }

    fn revoke_sends(&mut self, ban: Ban) {
        let threshold = self.gates.threshold;
        for peer in 0..self.gates.len() as u32 {
            let waits = |request: Ref| ban.is_on(request) && request.is_announced(threshold);
            while let Some(request) = self.gates[peer as usize].sends.find(waits) {
                self.gates.dequeue(peer, request);
                self.fail(request, Why::Revoked);
            }
        }
        let waits = |request: Ref| {
            request.op == Op::Send
                && ban.is_on(request)
                && request.place.get() == Place::Nowhere
                && request.total.get() == 0
                && request.owes.get() != Owes::Back
        };
        while let Some(request) = self.table.find(waits) {
            self.owe(request, Owes::Back);
        }
    }

    /// Ends a ban: one of the same messages for the same kind of reason.
    pub(crate) fn lift_ban(&mut self, ban: Ban) {
        self.forget_ban(ban);
        self.has_bans = !self.bans.is_empty();
    }

    fn forget_ban(&mut self, ban: Ban) {
        self.bans.retain(|other| {
            (other.mine, other.tag, other.mask) != (ban.mine, ban.tag, ban.mask)
                || !other.reason.is_like(ban.reason)
        });
    }

    /// Whether a request that finds no message is not to wait: how it ends. One that stays is alarmed.
    #[inline(always)]
    pub(crate) fn refuses(&self, request: Ref) -> Option<Outcome> {
        if self.has_bans
            && let Some(outcome) = self.is_banned(request)
        {
            return Some(outcome);
        }
        // The listener's probe waits on when nobody is left: it has been told of each end.
        if matches!(request.op, Op::Probe { .. }) && is_control(request.tag) {
            return None;
        }
        let (rank, cause) = self.hopeless(request.peer)?;
        (!serves_all(request, self.has_neighbours())).then_some(Outcome::Died(rank, cause))
    }

    /// Whether several ranks share this process.
    pub(super) fn has_neighbours(&self) -> bool {
        self.gates[self.process as usize].ranks().len() > 1
    }

    #[cold]
    fn is_banned(&self, request: Ref) -> Option<Outcome> {
        let mut on = self.bans.iter().filter(|ban| ban.is_on(request));
        let revoked = on.clone().any(|ban| ban.reason == Reason::Revoked);
        if revoked || !request.stays {
            let ban =
                if revoked { on.find(|ban| ban.reason == Reason::Revoked) } else { on.next() };
            return ban.map(|ban| ban.reason.outcome());
        }
        if on.next().is_some() {
            request.ring();
        }
        None
    }

    /// Whether messages of this tag are revoked.
    #[cold]
    pub(crate) fn is_revoked(&self, request: Ref) -> bool {
        self.bans.iter().any(|ban| ban.reason == Reason::Revoked && ban.is_on(request))
    }

    /// As [`Core::refuses`], for a look.
    pub(crate) fn refuses_look(&self, mine: u16, from: u32, tag: (u64, u64)) -> Option<Error> {
        let ban = self.bans.iter().find(|ban| ban.covers(mine, from, tag));
        ban.map(|ban| ban.reason.error())
    }
}
