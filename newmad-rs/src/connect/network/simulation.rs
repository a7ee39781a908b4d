//! Control networks of many processes in virtual time: the state machines as they are, over links without sockets.
//!
//! The unit of time is a hop: a process treats one frame in one unit, one after the other, and a link takes no time beyond
//! that. So a process that many messages go through shows as time. What the units are on a machine, a bench measures there.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::message::{Frame, Kind, Message};
use super::torus::Torus;
use super::{Action, Network};
use crate::connect::ring;

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Connections of a process, on the average, when the ring was closed.
    pub connections_at_start: f64,
    /// The same when the requests were answered.
    pub connections: f64,
    /// Of the process that has most.
    pub most_connections: u32,
    /// Calls and frames of all processes until the ring was closed.
    pub start_messages: u64,
    /// Calls and frames of all processes after that.
    pub request_messages: u64,
    /// Hops of each request, one way.
    pub hops: Vec<f64>,
    /// From each request to its answer, in hops' times.
    pub times: Vec<f64>,
}

/// Opens a session of so many processes in so many dimensions; then `requests` of them, spread over the ranks, ask each a
/// peer for a link at the same moment, as an application does in its first exchange. The peers are of a fixed sequence.
///
/// # Panics
/// When a request is not answered, which would be a bug of the network.
#[must_use]
pub fn requests(size: u32, dimensions: u32, requests: u32) -> Counts {
    let torus = Arc::new(Torus::new(size, dimensions));
    let mut world = World::new(size, torus.clone(), Random(u64::from(size) << 8));
    world.settle();
    let connections_at_start = world.connections();
    let start_messages = std::mem::take(&mut world.messages);
    world.begun = world.now;
    let mut hops = Vec::new();
    if size > 1 {
        for number in 0..requests.min(size) {
            let from = (u64::from(number) * u64::from(size) / u64::from(requests.min(size))) as u32;
            let to = (from + 1 + world.random.below(u64::from(size) - 1) as u32) % size;
            hops.push(f64::from(torus.hops(from, to)));
            world.with(from, |network| network.send(to, Kind::Ask, Vec::new()));
        }
    }
    world.settle();
    assert_eq!(world.times.len(), hops.len(), "a request was not answered");
    let most_connections = world.degrees.iter().copied().max().unwrap_or(0);
    Counts {
        connections_at_start,
        connections: world.connections(),
        most_connections,
        start_messages,
        request_messages: world.messages,
        hops,
        times: world.times,
    }
}

/// Numbers by chance, from a seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut it = self.0;
        it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (it ^ (it >> 31)) % bound.max(1)
    }
}

/// What happens at some time.
#[derive(Debug)]
enum Event {
    /// A frame comes over that link to that side.
    Frame(u64, usize, Frame),
    /// A rank's call reaches another.
    Call(u32, u32),
    /// That side of a link sees that it has ended.
    #[cfg_attr(not(test), allow(dead_code, reason = "the tests' faults"))]
    Ended(u64, usize),
}

struct Link {
    ends: [u32; 2],
    /// No frame to this side comes before this time: links keep the order.
    busy: [u64; 2],
    /// The sides that have not seen its end.
    open: [bool; 2],
    cut: bool,
}

/// Processes and what is between them.
pub(super) struct World {
    torus: Arc<Torus>,
    pub(super) networks: Vec<Option<Network>>,
    links: Vec<Link>,
    degrees: Vec<u32>,
    /// Until when each process is treating something.
    busy: Vec<u64>,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    what: std::collections::HashMap<u64, Event>,
    now: u64,
    number: u64,
    /// Frames and calls.
    messages: u64,
    begun: u64,
    times: Vec<f64>,
    pub(super) random: Random,
    /// Frames take up to so much longer, by chance.
    pub(super) jitter: u64,
    /// User messages that came: to, from, body.
    pub(super) came: Vec<(u32, u32, Vec<u8>)>,
}

impl World {
    pub(super) fn new(size: u32, torus: Arc<Torus>, random: Random) -> World {
        let mut world = World {
            networks: Vec::new(),
            torus,
            links: Vec::new(),
            degrees: vec![0; size as usize],
            busy: vec![0; size as usize],
            events: BinaryHeap::new(),
            what: Default::default(),
            now: 0,
            number: 0,
            messages: 0,
            begun: 0,
            times: Vec::new(),
            random,
            jitter: 0,
            came: Vec::new(),
        };
        for rank in 0..size {
            world.networks.push(Some(Network::new(rank, size, world.torus.clone())));
            world.act(rank);
        }
        world
    }

    fn connections(&self) -> f64 {
        self.degrees.iter().map(|&degree| f64::from(degree)).sum::<f64>()
            / self.degrees.len() as f64
    }

    /// Does something with a process that lives, and what it wants then.
    pub(super) fn with(&mut self, rank: u32, what: impl FnOnce(&mut Network)) {
        if let Some(network) = &mut self.networks[rank as usize] {
            what(network);
            self.act(rank);
        }
    }

    fn at(&mut self, time: u64, event: Event) {
        self.number += 1;
        self.events.push(Reverse((time, self.number)));
        self.what.insert(self.number, event);
    }

    /// A process takes a unit of time for what comes, when it has time.
    fn takes(&mut self, rank: u32, not_before: u64) -> u64 {
        let extra = if self.jitter > 0 { self.random.below(self.jitter) } else { 0 };
        let busy = &mut self.busy[rank as usize];
        *busy = (*busy).max(not_before + extra) + 1;
        *busy
    }

    fn act(&mut self, rank: u32) {
        while let Some(action) = self.networks[rank as usize].as_mut().and_then(Network::action) {
            match action {
                Action::Ring(ring::Action::Send(link, notice)) => {
                    self.transmit(rank, link, Frame::Notice(notice));
                }
                Action::Forward(link, message) => {
                    self.transmit(rank, link, Frame::Message(message));
                }
                Action::Ring(ring::Action::Call(peer)) => {
                    self.messages += 1;
                    let time = self.takes(peer, self.now);
                    self.at(time, Event::Call(rank, peer));
                }
                Action::Ring(ring::Action::Expelled) => panic!("rank {rank} was expelled"),
                Action::Ring(_) => {}
                Action::Deliver(Message { kind, from, body, .. }) => match kind {
                    Kind::Ask => {
                        if let Some(network) = &mut self.networks[rank as usize] {
                            network.send(from, Kind::Card, Vec::new());
                        }
                    }
                    Kind::Card => self.times.push((self.now - self.begun) as f64),
                    _ => self.came.push((rank, from, body)),
                },
            }
        }
    }

    fn transmit(&mut self, from: u32, link: u64, frame: Frame) {
        let Link { ends, cut, .. } = self.links[link as usize];
        if cut {
            // Its end is seen later; until then the kernel takes everything.
            return;
        }
        self.messages += 1;
        let side = usize::from(ends[0] == from);
        let not_before = self.now.max(self.links[link as usize].busy[side]);
        let time = self.takes(ends[side], not_before);
        self.links[link as usize].busy[side] = time;
        self.at(time, Event::Frame(link, side, frame));
    }

    /// Lets one thing happen. False: nothing is left to happen.
    pub(super) fn step(&mut self) -> bool {
        let Some(Reverse((time, number))) = self.events.pop() else { return false };
        self.now = self.now.max(time);
        match self.what.remove(&number) {
            Some(Event::Frame(link, side, frame)) => {
                let Link { ends, open, .. } = self.links[link as usize];
                if open[side] {
                    self.with(ends[side], |network| network.heard(link, frame));
                }
            }
            Some(Event::Call(from, to)) => self.connect(from, to),
            Some(Event::Ended(link, side)) => self.end(link, side),
            None => {}
        }
        true
    }

    fn connect(&mut self, from: u32, to: u32) {
        if self.networks[from as usize].is_none() {
            return;
        }
        if self.networks[to as usize].is_none() {
            return self.with(from, |network| network.unreachable(to));
        }
        let link = self.links.len() as u64;
        let busy = [self.now; 2];
        self.links.push(Link { ends: [from, to], busy, open: [true; 2], cut: false });
        for rank in [from, to] {
            self.degrees[rank as usize] += 1;
        }
        self.with(from, |network| network.connected(link, to));
        self.with(to, |network| network.connected(link, from));
    }

    fn end(&mut self, link: u64, side: usize) {
        let it = &mut self.links[link as usize];
        if !std::mem::replace(&mut it.open[side], false) {
            return;
        }
        let (rank, peer) = (it.ends[side], it.ends[1 - side]);
        self.degrees[rank as usize] -= 1;
        // Whether a death is seen at once, or has to be found out by a call, depends on the network.
        let sure = self.networks[peer as usize].is_none() && link.is_multiple_of(2);
        self.with(rank, |network| network.lost(link, sure));
    }

    /// Until nothing is left to happen.
    pub(super) fn settle(&mut self) {
        while self.step() {}
    }
}

/// Faults: the simulation of many processes has none.
#[cfg(test)]
impl World {
    /// The process ends without a word.
    pub(super) fn kill(&mut self, rank: u32) {
        self.networks[rank as usize] = None;
        for link in 0..self.links.len() {
            let Link { ends, open, .. } = self.links[link];
            if ends.contains(&rank) && open != [false; 2] {
                self.sever(link);
            }
        }
    }

    /// That link breaks: what is on its way over it is lost, or is not, up to some frame.
    pub(super) fn cut(&mut self, link: usize) {
        if !self.links.is_empty() {
            let link = link % self.links.len();
            if self.links[link].open == [true; 2] && !self.links[link].cut {
                self.sever(link);
            }
        }
    }

    pub(super) fn link_count(&self) -> usize {
        self.links.len()
    }

    fn sever(&mut self, link: usize) {
        self.links[link].cut = true;
        for side in 0..2 {
            // The rest of what was sent is lost, beginning anywhere: the end overtakes it.
            let last = self.links[link].busy[side].max(self.now);
            let time = self.now + 1 + self.random.below(last + 2 - self.now);
            self.at(time, Event::Ended(link as u64, side));
        }
    }
}
