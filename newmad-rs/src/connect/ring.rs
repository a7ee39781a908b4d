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
//! Two links for each process whatever the number of ranks (a few more while the ring closes around a death), and no
//! traffic while nothing happens. A notice takes size/2 hops, each a wake-up of a sleeping kernel thread (some 10 µs).
//!
//! Rejected: a lifeline from each process to each other (n² sockets; opening took n² calls); heartbeats (a process that
//! is stopped by a debugger, or starved, would be declared dead; idle machines would wake up); a torus (MPC 2014: fewer
//! hops for four or more links, which would matter if notices were frequent); routing of messages to a rank over the
//! ring (nothing here needs it: the process that wants a link calls).
//!
//! This file is the state machine alone: no sockets, no time. Links are known by number.

use std::collections::{BTreeMap, VecDeque};

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
pub(super) enum Notice {
    Left(u32),
    Dead(u32),
    /// The sender knows the end of every process and will close this link.
    End,
}

/// Bytes of a notice.
pub(super) const NOTICE: usize = 8;

impl Notice {
    pub(super) fn encode(self) -> [u8; NOTICE] {
        let (kind, rank) = match self {
            Notice::Left(rank) => (1, rank),
            Notice::Dead(rank) => (2, rank),
            Notice::End => (3, 0),
        };
        let mut bytes = [0; NOTICE];
        bytes[0] = kind;
        bytes[4..].copy_from_slice(&rank.to_le_bytes());
        bytes
    }

    /// `None`: not of this protocol, or about a rank that does not exist.
    pub(super) fn decode(bytes: [u8; NOTICE], size: u32) -> Option<Notice> {
        let rank = u32::from_le_bytes(bytes[4..].try_into().ok()?);
        match bytes[..4] {
            [1, 0, 0, 0] if rank < size => Some(Notice::Left(rank)),
            [2, 0, 0, 0] if rank < size => Some(Notice::Dead(rank)),
            [3, 0, 0, 0] if rank == 0 => Some(Notice::End),
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
    lives: Box<[Life]>,
    links: BTreeMap<u64, Link>,
    /// The rank that is being called to be the next.
    calling: Option<u32>,
    /// Peers whose link ended, and that are called to find out whether they live.
    doubted: Vec<u32>,
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
            lives: vec![Life::Alive; size as usize].into_boxed_slice(),
            links: BTreeMap::new(),
            calling: None,
            doubted: Vec::new(),
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
        self.lives[rank as usize]
    }

    /// Whether this process has said its last word: it has left, and every other one has left or is dead.
    pub(super) fn is_over(&self) -> bool {
        self.ended || self.expelled
    }

    /// The next rank that lives, if any other does.
    fn next(&self) -> Option<u32> {
        let size = self.lives.len() as u32;
        (1..size)
            .map(|step| (self.rank + step) % size)
            .find(|&rank| self.lives[rank as usize] != Life::Dead)
    }

    /// Calls the next living rank, unless there is a link with it.
    fn close_the_ring(&mut self) {
        let next = if self.is_over() { None } else { self.next() };
        if self.calling == next {
            return;
        }
        self.calling = next;
        if let Some(next) = next
            && !self.doubted.contains(&next)
        {
            self.actions.push_back(Action::Call(next));
        }
    }

    /// Something is known of a rank that was not known before. `from`: the link over which it came.
    fn learn(&mut self, rank: u32, life: Life, from: Option<u64>) {
        if self.lives[rank as usize] >= life || self.expelled {
            return;
        }
        if rank == self.rank {
            if life == Life::Dead {
                self.expelled = true;
                self.actions.push_back(Action::Expelled);
            }
            return;
        }
        self.lives[rank as usize] = life;
        self.tell(fact(rank, life), from);
        match life {
            Life::Dead => {
                self.doubted.retain(|&doubted| doubted != rank);
                self.actions.push_back(Action::Died(rank));
                self.close_the_ring();
            }
            _ => self.actions.push_back(Action::Left(rank)),
        }
        self.try_end();
    }

    fn tell(&mut self, notice: Notice, but: Option<u64>) {
        for &link in self.links.keys().filter(|&&link| Some(link) != but) {
            self.actions.push_back(Action::Send(link, notice));
        }
    }

    /// There is a link with `peer`, which called or was called. `link` is new.
    pub(super) fn connected(&mut self, link: u64, peer: u32) {
        self.doubted.retain(|&doubted| doubted != peer);
        self.links.insert(link, Link { peer, ended: false });
        for rank in 0..self.lives.len() as u32 {
            let life = if rank == self.rank && self.left { Life::Left } else { self.life(rank) };
            if life != Life::Alive {
                self.actions.push_back(Action::Send(link, fact(rank, life)));
            }
        }
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
        if !self.is_linked(peer) && !self.doubted.contains(&peer) {
            self.doubted.push(peer);
            self.actions.push_back(Action::Call(peer));
        }
    }

    /// A rank that was called cannot be reached, or refuses.
    pub(super) fn unreachable(&mut self, peer: u32) {
        self.doubted.retain(|&doubted| doubted != peer);
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
        let mut others = (0..self.lives.len()).filter(|&rank| rank != self.rank as usize);
        if self.left && !self.ended && others.all(|rank| self.lives[rank] != Life::Alive) {
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
