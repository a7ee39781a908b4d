//! The control network: short messages from any process to any other, hop by hop over the links of the control ring and
//! short cuts beside it.
//!
//! ```text
//!   send ──▶ numbered, kept ──▶ hop ──▶ hop ──▶ in order? taken ──▶ deliver
//!               ▲    ▲                             │
//!               │    └──────── Ack ◀── hop ◀── hop ┘
//!               └ a fact (a death, a link that broke): what is kept is sent again
//! ```
//! *Shape*: [`torus`]. The ring's links are there from the start. A short cut is made when a message first wants to go over
//! it, and stays; until it is there the message waits at its end. So a session whose processes send no such messages has
//! no more connections than the ring.
//!
//! *Once, and in order*: the sender keeps a message until the receiver has acknowledged it; the receiver takes the messages
//! of a sender by their numbers. What comes early waits, what comes twice is acknowledged and dropped.
//!
//! *Deaths*: whatever gets lost on its way is lost with a process that dies, or with a link that breaks, and both are facts
//! of the ring ([`Ring`]) which every process learns. A process that learns one sends again what it keeps. No hop keeps
//! anything, and no timer runs. That suffices, since facts and messages share the links, and a process tells a fact over
//! all its links before it sends anything else:
//!
//! - Invariant: each process on the way of a message knows every fact that its sender knew when it sent (or forwarded) it.
//! - So a message that is sent again because of a death meets no process that would give it to the dead, and one that is sent
//!   again because of a broken link comes to its end after that has been noticed.
//! - All that a dead process took was sent before its death was known, and is sent again afterwards.
//!
//! *No circles*: each hop chooses a shortest way among the living that it knows of. While the knowledge on the way is the
//! same, each hop is nearer; it only grows, and deaths are finite.
//!
//! *Bounds*: a sender has [`WINDOW`] messages on their way to a receiver, so a receiver keeps no more that came early. A hop
//! holds what its next link does not take yet.
//!
//! Rejected: acknowledgements between hops (a hop that acknowledges and dies has lost the message all the same); sending
//! again by time (a process that is starved would be sent everything twice); connections between all (n²).
//!
//! This is the state machine alone: no sockets, no time. Tests and the simulation run it as it is.

mod message;
pub(crate) mod simulation;
pub(crate) mod torus;

use std::borrow::Borrow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub(crate) use self::message::{Frame, Kind, LONGEST, MOST_BYTES, Message};
use self::torus::{Detour, Torus};
use super::ring::{self, Life, Notice, Ring};

/// Messages of one process to another that may be on their way.
const WINDOW: u64 = 32;

/// What is to be done, in this order: a link carries what it is given in the order in which it is given.
#[derive(Debug)]
pub(super) enum Action {
    /// What the ring wants.
    Ring(ring::Action),
    /// Send this over that link.
    Forward(u64, Message),
    /// A message has come for this process. Never an [`Kind::Ack`].
    Deliver(Message),
}

/// To one process.
#[derive(Default)]
struct Outgoing {
    /// The number of the oldest that is kept.
    oldest: u64,
    /// What is not acknowledged. The first [`WINDOW`] are on their way.
    kept: VecDeque<(Kind, Vec<u8>)>,
}

/// From one process.
#[derive(Default)]
struct Incoming {
    /// So many have been delivered.
    taken: u64,
    early: BTreeMap<u64, Message>,
}

/// See the module.
pub(super) struct Network {
    rank: u32,
    pub(super) ring: Ring,
    torus: Arc<Torus>,
    /// While some are dead: found at the first message after a death.
    detour: Option<Detour>,
    outgoing: BTreeMap<u32, Outgoing>,
    incoming: BTreeMap<u32, Incoming>,
    /// Messages that wait for a link with their next hop.
    waiting: BTreeMap<u32, Vec<Message>>,
    leaves: bool,
    /// Messages of the program that are kept.
    unacknowledged: usize,
    actions: VecDeque<Action>,
}

impl Network {
    /// The network of `rank` in that shape; the first action is the call of the next on the ring.
    pub(super) fn new(rank: u32, size: u32, torus: Arc<Torus>) -> Network {
        let mut network = Network {
            rank,
            ring: Ring::new(rank, size),
            torus,
            detour: None,
            outgoing: BTreeMap::new(),
            incoming: BTreeMap::new(),
            waiting: BTreeMap::new(),
            leaves: false,
            unacknowledged: 0,
            actions: VecDeque::new(),
        };
        network.follow();
        network
    }

    /// What is to be done next.
    pub(super) fn action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Sends a message to another process, now or as soon as the window allows. What is for a dead process is dropped.
    pub(super) fn send(&mut self, to: u32, kind: Kind, body: Vec<u8>) {
        if to == self.rank || self.ring.life(to) == Life::Dead || self.ring.is_over() {
            return;
        }
        let outgoing = self.outgoing.entry(to).or_default();
        let place = outgoing.kept.len() as u64;
        let number = outgoing.oldest + place;
        outgoing.kept.push_back((kind, body.clone()));
        self.unacknowledged += usize::from(kind == Kind::User);
        if place < WINDOW {
            self.forward(Message { kind, from: self.rank, to, number, body });
        }
    }

    /// Messages of the program that their receivers have not acknowledged.
    pub(super) fn unacknowledged(&self) -> usize {
        self.unacknowledged
    }

    /// There is a link with `peer`, which called or was called. `link` is new.
    pub(super) fn connected(&mut self, link: u64, peer: u32) {
        self.ring.connected(link, peer);
        self.follow();
        self.resume(peer);
    }

    /// Something came over a link.
    pub(super) fn heard(&mut self, link: u64, frame: Frame) {
        match frame {
            Frame::Notice(notice) => {
                self.notice(link, notice);
            }
            Frame::Message(message) => self.came(message),
        }
    }

    /// As [`Ring::heard`].
    fn notice(&mut self, link: u64, notice: Notice) -> bool {
        let known = self.ring.heard(link, notice);
        self.follow();
        known
    }

    /// As [`Ring::lost`].
    pub(super) fn lost(&mut self, link: u64, sure: bool) {
        self.ring.lost(link, sure);
        self.follow();
    }

    /// As [`Ring::unreachable`].
    pub(super) fn unreachable(&mut self, peer: u32) {
        self.ring.unreachable(peer);
        self.follow();
        self.resume(peer);
    }

    /// As [`Ring::expelled`].
    pub(super) fn expelled(&mut self) {
        self.ring.expelled();
        self.follow();
    }

    /// This process wants nothing more of any peer. The others learn it when they have all messages of this one.
    pub(super) fn leave(&mut self) {
        self.leaves = true;
        self.try_leave();
    }

    fn try_leave(&mut self) {
        if self.leaves && self.outgoing.values().all(|outgoing| outgoing.kept.is_empty()) {
            self.ring.leave();
            self.follow();
        }
    }

    /// Takes over what the ring wants, and does what follows from it. The ring's notices stay before what is sent because of
    /// them.
    fn follow(&mut self) {
        while let Some(action) = self.ring.action() {
            let (died, again) = match action {
                ring::Action::Died(rank) => (Some(rank), true),
                ring::Action::Cut => (None, true),
                _ => (None, false),
            };
            self.actions.push_back(Action::Ring(action));
            if let Some(rank) = died {
                self.detour = None;
                let dropped = self.outgoing.remove(&rank).unwrap_or_default().kept;
                self.unacknowledged -= users(dropped.iter());
                self.incoming.remove(&rank);
                self.waiting.remove(&rank);
            }
            if again {
                self.send_again();
                self.try_leave();
            }
        }
    }

    /// Sends again what may have been lost.
    fn send_again(&mut self) {
        let mut again = Vec::new();
        for (&to, outgoing) in &self.outgoing {
            for (number, (kind, body)) in
                (outgoing.oldest..).zip(&outgoing.kept).take(WINDOW as usize)
            {
                let (kind, body) = (*kind, body.clone());
                again.push(Message { kind, from: self.rank, to, number, body });
            }
        }
        again.into_iter().for_each(|message| self.forward(message));
    }

    /// Gives a message to its next hop.
    fn forward(&mut self, message: Message) {
        let Some(hop) = self.next(message.to) else { return };
        if let Some(link) = self.ring.link_with(hop) {
            return self.actions.push_back(Action::Forward(link, message));
        }
        if self.ring.is_over() {
            return;
        }
        self.waiting.entry(hop).or_default().push(message);
        // The previous one calls, since this one is its next.
        if self.ring.previous() != Some(hop) {
            self.ring.call(hop);
            self.follow();
        }
    }

    /// The next hop to that rank. `None`: this one, or dead.
    fn next(&mut self, to: u32) -> Option<u32> {
        if self.ring.dead().next().is_none() {
            return self.torus.next(self.rank, to);
        }
        let (torus, ring) = (&self.torus, &self.ring);
        self.detour.get_or_insert_with(|| torus.detour(self.rank, ring.dead())).next(to)
    }

    /// Sends what has waited for a link with that peer, if there is one now.
    fn resume(&mut self, peer: u32) {
        if self.ring.link_with(peer).is_some() {
            let waited = self.waiting.remove(&peer).unwrap_or_default();
            waited.into_iter().for_each(|message| self.forward(message));
        }
    }

    /// A message is here.
    fn came(&mut self, message: Message) {
        let from = message.from;
        if from == self.rank || self.ring.life(from) == Life::Dead {
            return;
        }
        if message.to != self.rank {
            return self.forward(message);
        }
        if message.kind == Kind::Ack {
            return self.acknowledged(from, message.number);
        }
        let incoming = self.incoming.entry(from).or_default();
        if message.number >= incoming.taken + WINDOW {
            // No sender of this protocol does that.
            return;
        }
        if message.number >= incoming.taken {
            incoming.early.insert(message.number, message);
        }
        while let Some(next) = incoming.early.remove(&incoming.taken) {
            incoming.taken += 1;
            self.actions.push_back(Action::Deliver(next));
        }
        let number = incoming.taken;
        self.forward(Message {
            kind: Kind::Ack,
            from: self.rank,
            to: from,
            number,
            body: Vec::new(),
        });
    }

    /// That process has all messages below this number.
    fn acknowledged(&mut self, by: u32, number: u64) {
        let Some(outgoing) = self.outgoing.get_mut(&by) else { return };
        let sent = outgoing.oldest + WINDOW.min(outgoing.kept.len() as u64);
        let number = number.clamp(outgoing.oldest, sent);
        let done = (number - outgoing.oldest) as usize;
        self.unacknowledged -= users(outgoing.kept.drain(..done));
        outgoing.oldest = number;
        // The window has moved: so many more may go.
        let (from, skipped) = (sent - number, sent);
        let fresh: Vec<Message> = (skipped..)
            .zip(outgoing.kept.iter().skip(from as usize))
            .take(done)
            .map(|(number, (kind, body))| Message {
                kind: *kind,
                from: self.rank,
                to: by,
                number,
                body: body.clone(),
            })
            .collect();
        fresh.into_iter().for_each(|message| self.forward(message));
        self.try_leave();
    }
}

/// How many of these are the program's.
fn users<M: Borrow<(Kind, Vec<u8>)>>(messages: impl Iterator<Item = M>) -> usize {
    messages.filter(|message| message.borrow().0 == Kind::User).count()
}

#[cfg(test)]
mod tests;
