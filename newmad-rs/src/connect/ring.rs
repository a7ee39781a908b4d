//! The control ring: which processes of the session live, have left, or died, as each process learns it.
//!
//! ```text
//!        ┌──▶ 1 ──▶ 2 ──▶ 3 ──┐         each calls the next that lives; a link carries notices both ways
//!        0 ◀──────────────────┘         2 dies:  1 ──▶ 3, and Dead(2) goes round both ways
//!
//!  of a rank:   Alive ──Left──▶ Left ──Dead──▶ Dead          facts only ever move to the right
//! ```
//! A notice is a fact about one rank. A process that learns a fact tells it over all its links but the one it came by;
//! a process that gets a new link tells all facts over it first. So facts reach every process that is connected, in
//! whatever order links end and are made, and nothing travels twice over a link. A socket that ends is a death, unless
//! its process said [`Notice::End`]: over Unix sockets at once; over TCP when its process refuses a call, or cannot be
//! called within the repair time. A process says `End` when it has left and every other rank has left or died.
//!
//! A link that breaks while both its processes live is a fact, too ([`Notice::Cut`]): what was on its way over it may be
//! lost, and the senders of messages ([`super::network`]) have to know.
//!
//! Two links for each process whatever the number of ranks (a few more while the ring closes around a death, and the
//! short cuts that the control network asks for), and no traffic while nothing happens. Over the ring alone a notice takes
//! size/2 hops, each a wake-up of a sleeping kernel thread.
//!
//! Rejected: a lifeline from each process to each other (n² sockets; opening took n² calls); heartbeats (a process that
//! is stopped by a debugger, or starved, would be declared dead; idle machines would wake up); short cuts from the start
//! (deaths are rare: the ring suffices for them).
//!
//! This file is the state machine alone: no sockets, no time. Links are known by number.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What is known of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Life {
    Alive,
    /// It will want nothing more of any peer.
    Left,
    Dead,
}

/// What travels over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    Left(u32),
    Dead(u32),
    /// That rank has lost links with living peers, so many (from 1 on, and no more than [`MOST_CUTS`]).
    Cut(u32, u32),
    /// The sender knows the end of every process and will close this link.
    End,
}

/// Bytes of a notice.
pub(super) const NOTICE: usize = 8;
/// As many lost links of a rank are counted; 24 bits carry the count.
pub(super) const MOST_CUTS: u32 = (1 << 24) - 1;

impl Notice {
    pub(super) fn encode(self) -> [u8; NOTICE] {
        let (kind, count, rank) = match self {
            Notice::Left(rank) => (1, 0, rank),
            Notice::Dead(rank) => (2, 0, rank),
            Notice::End => (3, 0, 0),
            Notice::Cut(rank, count) => (4, count, rank),
        };
        let mut bytes = [0; NOTICE];
        bytes[..4].copy_from_slice(&(kind | count << 8).to_le_bytes());
        bytes[4..].copy_from_slice(&rank.to_le_bytes());
        bytes
    }

    /// `None`: not of this protocol, or about a rank that does not exist.
    pub(super) fn decode(bytes: [u8; NOTICE], size: u32) -> Option<Notice> {
        let rank = u32::from_le_bytes(bytes[4..].try_into().ok()?);
        let count = u32::from_le_bytes(bytes[..4].try_into().ok()?) >> 8;
        match bytes[0] {
            1 if count == 0 && rank < size => Some(Notice::Left(rank)),
            2 if count == 0 && rank < size => Some(Notice::Dead(rank)),
            3 if count == 0 && rank == 0 => Some(Notice::End),
            4 if count > 0 && rank < size => Some(Notice::Cut(rank, count)),
            _ => None,
        }
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Send this over that link.
    Send(u64, Notice),
    /// Call that rank, until it answers or [`Ring::unreachable`] is told.
    Call(u32),
    /// That rank has left.
    Left(u32),
    /// That rank is dead.
    Died(u32),
    /// Of two processes that live a link has been lost.
    Cut,
    /// The others hold this process for dead.
    Expelled,
}

struct Link {
    peer: u32,
    ended: bool,
}

/// See the module.
pub(super) struct Ring {
    rank: u32,
    size: u32,
    /// Of the ranks that are not alive.
    lives: BTreeMap<u32, Life>,
    /// How many links with living peers the ranks have lost, those that have lost some.
    cuts: BTreeMap<u32, u32>,
    links: BTreeMap<u64, Link>,
    /// The rank that is to be the next.
    next: Option<u32>,
    /// Ranks that are being called: to be the next, to find out whether they live after their link has ended, or for a
    /// short cut.
    called: BTreeSet<u32>,
    left: bool,
    expelled: bool,
    ended: bool,
    actions: VecDeque<Action>,
}

impl Ring {
    /// The ring of `rank` among `size`; the first action is the call of the next.
    pub(super) fn new(rank: u32, size: u32) -> Ring {
        let mut ring = Ring {
            rank,
            size,
            lives: BTreeMap::new(),
            cuts: BTreeMap::new(),
            links: BTreeMap::new(),
            next: None,
            called: BTreeSet::new(),
            left: false,
            expelled: false,
            ended: false,
            actions: VecDeque::new(),
        };
        ring.close_the_ring();
        ring
    }

    /// What is to be done next.
    pub(super) fn action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    pub(super) fn life(&self, rank: u32) -> Life {
        self.lives.get(&rank).copied().unwrap_or(Life::Alive)
    }

    /// The ranks that are dead.
    pub(super) fn dead(&self) -> impl Iterator<Item = u32> + '_ {
        self.lives.iter().filter(|&(_, &life)| life == Life::Dead).map(|(&rank, _)| rank)
    }

    /// Whether every other rank has left or is dead.
    pub(super) fn is_alone(&self) -> bool {
        self.lives.len() as u32 + 1 == self.size
    }

    /// Whether this process has said its last word: it has left, and every other one has left or is dead.
    pub(super) fn is_over(&self) -> bool {
        self.ended || self.expelled
    }

    /// The next rank that lives, if any other does.
    fn next(&self) -> Option<u32> {
        (1..self.size).map(|step| (self.rank + step) % self.size).find(|&rank| self.is_there(rank))
    }

    /// The rank that lives and has this one for its next.
    pub(super) fn previous(&self) -> Option<u32> {
        let size = self.size;
        (1..size).map(|step| (self.rank + size - step) % size).find(|&rank| self.is_there(rank))
    }

    fn is_there(&self, rank: u32) -> bool {
        self.life(rank) != Life::Dead
    }

    /// Calls the next living rank, unless there is a link with it.
    fn close_the_ring(&mut self) {
        let next = if self.is_over() { None } else { self.next() };
        if self.next != next {
            self.next = next;
            if let Some(next) = next {
                self.call(next);
            }
        }
    }

    /// Calls that rank, unless there is a link with it or it is being called.
    pub(super) fn call(&mut self, peer: u32) {
        let needless = self.is_over() || !self.is_there(peer) || self.is_linked(peer);
        if !needless && self.called.insert(peer) {
            self.actions.push_back(Action::Call(peer));
        }
    }

    /// Something is known of a rank that was not known before. `from`: the link over which it came.
    fn learn(&mut self, rank: u32, life: Life, from: Option<u64>) {
        if self.life(rank) >= life || self.expelled {
            return;
        }
        if rank == self.rank {
            if life == Life::Dead {
                self.expelled = true;
                self.actions.push_back(Action::Expelled);
            }
            return;
        }
        self.lives.insert(rank, life);
        self.tell(fact(rank, life), from);
        match life {
            Life::Dead => {
                self.called.remove(&rank);
                self.actions.push_back(Action::Died(rank));
                self.close_the_ring();
            }
            _ => self.actions.push_back(Action::Left(rank)),
        }
        self.try_end();
    }

    /// That rank has lost so many links with living peers. `from`: the link over which that came.
    fn learn_of_cut(&mut self, rank: u32, count: u32, from: Option<u64>) {
        if self.expelled || self.cuts.get(&rank).is_some_and(|&known| known >= count) {
            return;
        }
        self.cuts.insert(rank, count);
        self.tell(Notice::Cut(rank, count), from);
        self.actions.push_back(Action::Cut);
    }

    fn tell(&mut self, notice: Notice, but: Option<u64>) {
        for &link in self.links.keys().filter(|&&link| Some(link) != but) {
            self.actions.push_back(Action::Send(link, notice));
        }
    }

    /// There is a link with `peer`, which called or was called. `link` is new.
    pub(super) fn connected(&mut self, link: u64, peer: u32) {
        self.called.remove(&peer);
        self.links.insert(link, Link { peer, ended: false });
        let own = self.left.then_some((self.rank, Life::Left));
        let lives = self.lives.iter().map(|(&rank, &life)| (rank, life));
        let facts = lives.chain(own).map(|(rank, life)| fact(rank, life));
        let cuts = self.cuts.iter().map(|(&rank, &count)| Notice::Cut(rank, count));
        self.actions.extend(facts.chain(cuts).map(|notice| Action::Send(link, notice)));
        if self.ended {
            self.actions.push_back(Action::Send(link, Notice::End));
        }
    }

    /// A notice came. False: from a link that is not there any more.
    pub(super) fn heard(&mut self, link: u64, notice: Notice) -> bool {
        let Some(from) = self.links.get_mut(&link) else { return false };
        match notice {
            Notice::Left(rank) => self.learn(rank, Life::Left, Some(link)),
            Notice::Dead(rank) => self.learn(rank, Life::Dead, Some(link)),
            Notice::Cut(rank, count) => self.learn_of_cut(rank, count, Some(link)),
            Notice::End => from.ended = true,
        }
        true
    }

    /// The link's socket has ended. `sure`: only the end of the peer's process does that.
    pub(super) fn lost(&mut self, link: u64, sure: bool) {
        let Some(Link { peer, ended }) = self.links.remove(&link) else { return };
        if ended || self.is_over() || self.life(peer) == Life::Dead {
            return;
        }
        if sure {
            return self.learn(peer, Life::Dead, None);
        }
        let cuts = self.cuts.get(&self.rank).copied().unwrap_or(0);
        self.learn_of_cut(self.rank, (cuts + 1).min(MOST_CUTS), None);
        self.call(peer);
    }

    /// A rank that was called cannot be reached, or refuses.
    pub(super) fn unreachable(&mut self, peer: u32) {
        self.called.remove(&peer);
        // While it has a link its end will be seen there; and a process that has said its last word takes no calls.
        if !self.is_linked(peer) && !self.is_over() {
            self.learn(peer, Life::Dead, None);
        }
    }

    /// The links with that rank.
    pub(super) fn links_with(&self, peer: u32) -> Vec<u64> {
        let all = self.links.iter().filter(|(_, link)| link.peer == peer);
        all.map(|(&number, _)| number).collect()
    }

    /// A link with that rank, if there is one.
    pub(super) fn link_with(&self, peer: u32) -> Option<u64> {
        self.links.iter().find(|(_, link)| link.peer == peer).map(|(&number, _)| number)
    }

    /// Whether there is a link with that rank.
    pub(super) fn is_linked(&self, peer: u32) -> bool {
        self.links.values().any(|link| link.peer == peer)
    }

    /// This process wants nothing more of any peer.
    pub(super) fn leave(&mut self) {
        if !std::mem::replace(&mut self.left, true) {
            self.tell(Notice::Left(self.rank), None);
            self.try_end();
        }
    }

    /// The others go on without this process.
    pub(super) fn expelled(&mut self) {
        self.learn(self.rank, Life::Dead, None);
    }

    fn try_end(&mut self) {
        if self.left && !self.ended && self.is_alone() {
            self.ended = true;
            self.tell(Notice::End, None);
        }
    }
}

fn fact(rank: u32, life: Life) -> Notice {
    if life == Life::Dead { Notice::Dead(rank) } else { Notice::Left(rank) }
}

#[cfg(test)]
mod tests;
