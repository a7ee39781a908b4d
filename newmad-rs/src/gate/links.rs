//! The links of a gate: how they open, break, are repaired, and which of them carries the small track.
//!
//! ```text
//! Closed --first send, or receive that names the peer--> Wanted --attach--> Open
//! Open --end, gap, bad checksum, silence--> Broken --attach--> Open
//! ```
//! *Numbers.* Small packets of a gate are numbered, over whichever link they go. A receiver takes them in that order,
//! each once: what it has it drops, and a number that is ahead means that the link has lost something, which breaks
//! it. (A link delivers in order or breaks; what is sent over a second one begins with the oldest packet that is not
//! acknowledged, so an honest sender's numbers are never ahead.)
//!
//! *Acknowledgements.* Every packet says which number its sender expects next. Over rails that can break the sender keeps
//! a copy until then ([`kept`](super::kept)); the receiver sends an `Ack` of its own when it owes word for a quarter of
//! what the sender can keep, when it gets something twice, for `Bye`, and for a `Probe`.
//!
//! *A link breaks*: its driver closes it, the porter is asked for a new one, and nothing that was on it counts. If it had
//! the small track, that moves to the best link that is open, or waits for one, and everything that is not acknowledged
//! is sent again before anything new. Of parts of large messages that went over it the receiver is asked what it has, and
//! what is missing goes over any link (`transfer/gaps.rs`); what is still on its way then it has twice, in the same place. When a link is attached although the old one is not
//! known to be broken, the peer has noticed first: the old one is given up.
//!
//! *Time* comes from [`Core::tick`] alone, which looks first what has come: nobody else may be looking. As long as something
//! is not acknowledged or pieces are on their way each tick asks the drivers whether their links are silent, which breaks
//! them. What stays unacknowledged is asked after with a `Probe`, then ever more seldom: it wakes the peer, who may be waiting
//! for something else. A link over which no news has come for [`PATIENCE_MS`] breaks; a gate that had a link and has none,
//! or none over which anything comes before it breaks again, for `NMAD_REPAIR_MS` ends. So a connection on which nothing is
//! sent any more costs one probe and its answer, and then nothing.
//!
//! Rejected: packets kept by their user's buffer (a send would be over only when acknowledged: a round trip for
//! each small message); acknowledgement by rail (two windows to reconcile when one breaks).

use std::sync::atomic::Ordering;

use super::kept::Kept;
use super::{Life, NO_RAIL, rails};
use crate::engine::core::Core;
use crate::error::Cause;
use crate::net::Driver;
use crate::request::Op;

/// How long unacknowledged packets wait for news before their link counts as broken.
pub(crate) const PATIENCE_MS: u64 = 5_000;
/// How long they wait before the peer is asked for the first time; it doubles each time, up to [`SELDOM_MS`].
const SOON_MS: u64 = 50;
const SELDOM_MS: u64 = 400;

/// A word that is owed to the peer: what it sent is here.
pub(crate) const ACK: u8 = 1;
/// A word that is owed to the peer: whether it is there.
pub(crate) const PROBE: u8 = 2;

/// What a gate needs where its links can break.
pub(crate) struct Care {
    /// Links that were open and are not.
    pub(super) broken: u8,
    /// Why the last one broke.
    cause: Cause,
    /// When the gate was first seen without any link, since anything came over one.
    alone_since: Option<u64>,
    /// A link was made again, the small track goes over one that can break, and nothing has come since.
    unheard: bool,
    /// Packets that are not acknowledged; made with the first link that can break.
    pub(crate) kept: Option<Box<Kept>>,
    /// The oldest unacknowledged number at the last news, and when that was.
    news: Option<(u32, u64)>,
    /// When the peer is asked next, and how long after that it would be asked again.
    ask: (u64, u64),
    /// Bytes that were taken and not acknowledged.
    pub(crate) unacknowledged: usize,
    /// Words owed: [`ACK`], [`PROBE`].
    pub(crate) due: u8,
    /// What is kept is being sent again.
    pub(crate) resending: bool,
    /// Pieces may come that nobody waits for any more.
    pub(crate) late: bool,
    /// Messages that stream have lost something, and the peer was not asked what it has.
    pub(crate) asks: bool,
}

impl Care {
    pub(super) fn new() -> Care {
        Care {
            broken: 0,
            cause: Cause::Vanished,
            alone_since: None,
            unheard: false,
            kept: None,
            news: None,
            ask: (0, SOON_MS),
            unacknowledged: 0,
            due: 0,
            resending: false,
            late: false,
            asks: false,
        }
    }

    /// Something came.
    pub(crate) fn heard(&mut self) {
        self.alone_since = None;
        self.unheard = false;
    }

    /// Whether the peer has acknowledged everything.
    pub(crate) fn is_settled(&self) -> bool {
        self.kept.as_ref().is_none_or(|kept| kept.is_empty())
    }
}

impl<D: Driver> Core<D> {
    /// Asks the porter for links to `peer`. Progress path.
    #[cold]
    pub(crate) fn want(&mut self, peer: u32) {
        let gate = &mut self.gates[peer as usize];
        if peer == self.rank
            || gate.life != Life::Alive
            || core::mem::replace(&mut gate.wanted, true)
        {
            return;
        }
        for rail in 0..self.rails.len() {
            self.signals.want(rail, peer);
        }
    }

    /// A link to `peer` is there: `install` gives its connection to the rail's driver. What waited for it is sent.
    /// Callers' context: allocates. After the gate's or the session's end the connection is closed again.
    pub(crate) fn attach(&mut self, rail: usize, peer: u32, install: impl FnOnce(&mut D)) {
        self.detach(rail, peer);
        let Some(way) = self.rails.get_mut(rail) else { return };
        install(&mut way.driver);
        let gate = &mut self.gates[peer as usize];
        if self.closed || !gate.is_open() {
            return way.driver.bury(peer);
        }
        if way.breaks && gate.care.kept.is_none() {
            gate.care.kept = Some(Box::new(Kept::new(self.config.kept)));
        }
        if gate.open == 0 {
            self.connected.push(peer);
        }
        gate.open |= 1 << rail;
        gate.care.broken &= !(1 << rail);
        if !way.breaks {
            gate.care.heard();
        }
        self.choose_small(peer);
        let gate = &mut self.gates[peer as usize];
        if gate.care.late && self.rails.get(gate.small).is_some_and(|way| way.breaks) {
            gate.care.unheard = true;
            self.signals.unrest();
            self.owe_word(peer, PROBE);
        }
        self.flush(peer);
    }

    /// There is no way to `peer`. Ends what needs it.
    pub(crate) fn unreachable(&mut self, peer: u32, cause: Cause) {
        self.bury(peer, cause);
    }

    /// A link ended, or what came over it shows that it lost something. Progress path.
    #[cold]
    pub(crate) fn broke(&mut self, rail: usize, peer: u32, cause: Cause) {
        let gate = &self.gates[peer as usize];
        if !self.rails[rail].breaks
            || (gate.life == Life::Left && gate.bye_sent && gate.care.is_settled())
        {
            return self.bury(peer, cause);
        }
        self.detach(rail, peer);
        self.gates[peer as usize].care.cause = cause;
        self.signals.want(rail, peer);
        self.signals.restless.store(true, Ordering::Relaxed);
        self.flush(peer);
    }

    /// Closes a link, if it is open. What went over it goes over others, or waits.
    fn detach(&mut self, rail: usize, peer: u32) {
        let gate = &mut self.gates[peer as usize];
        if gate.open & 1 << rail == 0 {
            return;
        }
        self.rails[rail].driver.bury(peer);
        gate.open &= !(1 << rail);
        gate.care.broken |= 1 << rail;
        gate.care.late = true;
        if gate.small == rail {
            gate.small = NO_RAIL;
        }
        self.keep_what_came(rail, peer);
        self.gates[peer as usize].arrivals[rail] = None;
        self.drop_half(rail, peer);
        // The parts that went over it.
        while let Some(request) = self.table.find(|request| {
            request.op == Op::Send
                && request.source.get() == peer
                && request.parts.went_by(rail as u8)
        }) {
            self.lose(request, rail);
        }
        if self.gates[peer as usize].open == 0 {
            self.disconnected(peer);
        }
        self.choose_small(peer);
    }

    /// Takes a gate without links from those that rounds look at.
    pub(super) fn disconnected(&mut self, peer: u32) {
        if let Some(at) = self.connected.iter().position(|&other| other == peer) {
            self.connected.swap_remove(at);
        }
    }

    /// Moves the small track to the best link. What is not acknowledged is sent again over it.
    fn choose_small(&mut self, peer: u32) {
        let gate = &mut self.gates[peer as usize];
        let mtu = |rail: usize| {
            self.rails.get(rail).map_or(0, |way| way.driver.mtu(peer) - way.trailer())
        };
        gate.mtu = rails(gate.open).map(mtu).min().unwrap_or(usize::MAX);
        let longest =
            gate.care.kept.as_ref().filter(|kept| !kept.is_empty()).map(|kept| kept.longest());
        let stays = self.rails.get(gate.small).is_some_and(|way| !way.breaks);
        let best =
            rails(gate.open).find(|&rail| mtu(rail) >= longest.unwrap_or(0)).unwrap_or(NO_RAIL);
        if !stays && best != gate.small {
            gate.small = best;
            if let Some(kept) = gate.care.kept.as_mut().filter(|kept| !kept.is_empty()) {
                kept.rewind();
                if !core::mem::replace(&mut gate.care.resending, true) {
                    self.backlog += 1;
                }
            }
        }
        self.consider(peer);
    }

    /// Decides whether the gate's packets, and its messages, need more than to be posted.
    pub(crate) fn consider(&mut self, peer: u32) {
        let here = self.fetch(peer);
        let gate = &mut self.gates[peer as usize];
        let plain = self.rails.get(gate.small).is_some_and(|way| !way.careful);
        gate.careful = !(plain && gate.care.is_settled());
        let straight = here && !gate.careful && gate.life == Life::Alive && gate.chosen.is_simple();
        gate.straight = if straight { gate.mtu.saturating_add(1) } else { 0 };
    }

    /// Time goes on: asks after what is not acknowledged, and ends what has waited too long. `now` counts milliseconds.
    /// To be called every 50 ms or so while [`Signals::restless`](crate::engine::core::Signals) is set. Callers' context.
    pub(crate) fn tick(&mut self, now: u64) {
        self.progress();
        self.signals.restless.store(false, Ordering::Relaxed);
        // Pieces may be on their way.
        let mut restless = self.table.find(|request| request.parts.are_there()).is_some();
        for peer in 0..self.gates.len() as u32 {
            let gate = &mut self.gates[peer as usize];
            if !gate.is_open() || peer == self.rank {
                continue;
            }
            restless |= gate.care.broken != 0;
            for rail in rails(gate.open) {
                let way = &self.rails[rail];
                if way.breaks && way.driver.is_silent(peer) {
                    self.broke(rail, peer, Cause::Broken(libc::ETIMEDOUT));
                }
            }
            let gate = &mut self.gates[peer as usize];
            if !gate.is_open() {
                continue;
            }
            if gate.open == 0 && gate.care.broken != 0 {
                let since = *gate.care.alone_since.get_or_insert(now);
                if now.saturating_sub(since) >= self.config.repair_ms {
                    let cause = gate.care.cause;
                    self.bury(peer, cause);
                }
                continue;
            }
            let kept = gate.care.kept.as_ref().filter(|kept| !kept.is_empty());
            // After a repair, too, something has to come back: so both sides ask, and look for the other's word.
            let asked = gate.care.unheard.then_some(gate.tx_seq);
            let Some(oldest) = kept.map(|kept| kept.first()).or(asked) else {
                gate.care.news = None;
                continue;
            };
            restless = true;
            match gate.care.news {
                Some((before, since)) if before == oldest => {
                    if now.saturating_sub(since) >= PATIENCE_MS && gate.small != NO_RAIL {
                        let small = gate.small;
                        gate.care.news = None;
                        self.broke(small, peer, Cause::Broken(libc::ETIMEDOUT));
                        continue;
                    }
                }
                _ => {
                    gate.care.news = Some((oldest, now));
                    gate.care.ask = (now + SOON_MS, SOON_MS);
                }
            }
            let (at, pause) = gate.care.ask;
            if now >= at {
                let pause = SELDOM_MS.min(pause * 2);
                gate.care.ask = (now + pause, pause);
                self.owe_word(peer, PROBE);
                self.flush(peer);
            }
        }
        if restless {
            self.signals.restless.store(true, Ordering::Relaxed);
        }
    }

    /// A word is owed to the peer; it goes with the next flush.
    pub(crate) fn owe_word(&mut self, peer: u32, word: u8) {
        let care = &mut self.gates[peer as usize].care;
        self.backlog += usize::from(care.due == 0);
        care.due |= word;
    }
}
