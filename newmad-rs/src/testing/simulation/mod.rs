//! The engine against a simple oracle, over a virtual network whose tracks fill up, split pieces and refuse copies
//! at random; no threads, no system calls, so every failure shrinks and repeats.

mod checked;
mod chunks;
mod faults;
mod inline;
mod late;
mod lent;
mod missing;
mod poll_once;
mod quiet;
mod strategies;
mod twice;

use std::collections::{HashMap, VecDeque};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use crate::gate::config::Config;
use crate::gate::signals::Signals;
use crate::memory::span::Span;
use crate::net::ready::Ready;
use crate::net::{Driver, Peek, Refused, Rings};
use crate::proto::core::Core;
use crate::request::{ANY_SOURCE, Request};
use crate::testing::asked::{Asked, How};
use crate::wire::{Header, Kind, LONG, Malformed};

const MTU: usize = 50;
const THRESHOLD: usize = 120;

/// What is on the way from one rank to another.
#[derive(Default)]
struct Wire {
    small: VecDeque<(Header, Vec<u8>)>,
    large: VecDeque<(Header, Vec<u8>)>,
}

/// Rail, sender and receiver.
type Way = (usize, u32, u32);

#[derive(Clone, Default)]
struct Wires(Arc<Mutex<HashMap<Way, Wire>>>);

impl Wires {
    fn with<T>(&self, way: Way, f: impl FnOnce(&mut Wire) -> T) -> T {
        f(self.0.lock().unwrap().entry(way).or_default())
    }

    /// A rank says this, whatever it is.
    fn say(&self, way: Way, header: Header, payload: &[u8]) {
        let header = Header { payload: payload.len() as u32, ..header };
        let header = carried(&header).unwrap();
        self.with(way, |wire| wire.small.push_back((header, payload.to_vec())));
    }
}

/// What arrives of a header.
fn carried(header: &Header) -> Result<Header, Malformed> {
    let mut raw = [0; LONG];
    header.encode(&mut raw);
    Header::decode(&raw[..header.kind.header_len()])
}

#[derive(Clone, Copy, Debug)]
struct World {
    rails: usize,
    fragile: bool,
    checksum: bool,
    capacity: usize,
    copies: bool,
    piece: usize,
}

impl World {
    const USUAL: World =
        World { rails: 1, fragile: false, checksum: false, capacity: 9, copies: false, piece: 64 };

    /// One of so many ranks, without links.
    fn core(self, rank: u32, ranks: u32, wires: &Wires) -> Core<Virtual> {
        let drivers = (0..self.rails).map(|rail| Virtual {
            rank,
            rail,
            wires: wires.clone(),
            world: self,
            shown: HashMap::new(),
            piece: HashMap::new(),
            copies: 0,
        });
        let config = Config {
            repairs: self.fragile,
            checksum: self.checksum,
            retransmit: 1000,
            ..Config::new(THRESHOLD, 1 << 20)
        };
        let signals = Signals::new(ranks, self.rails).unwrap();
        Core::new(rank, ranks, drivers.collect(), config, signals)
    }

    /// Two ranks with links over all rails.
    fn pair(self) -> (Vec<Core<Virtual>>, Wires) {
        let wires = Wires::default();
        let linked = |rank| {
            let mut core = self.core(rank, 2, &wires);
            (0..self.rails).for_each(|rail| core.attach(rail, 1 - rank, |_| ()));
            core
        };
        ((0..2).map(linked).collect(), wires)
    }

    /// Rank 0 of them; the test plays rank 1.
    fn one(self) -> (Core<Virtual>, Wires) {
        let (mut cores, wires) = self.pair();
        (cores.swap_remove(0), wires)
    }
}

struct Virtual {
    rank: u32,
    rail: usize,
    wires: Wires,
    world: World,
    shown: HashMap<u32, (Header, Vec<u8>)>,
    piece: HashMap<u32, VecDeque<u8>>,
    copies: usize,
}

impl Virtual {
    fn wire<T>(&self, from: u32, to: u32, f: impl FnOnce(&mut Wire) -> T) -> T {
        self.wires.with((self.rail, from, to), f)
    }
}

/// The connection manager: opens the links that are wanted.
fn connect(cores: &mut [Core<Virtual>]) -> bool {
    let mut wanted = Vec::new();
    for core in cores.iter() {
        crate::sys::unring(core.signals.bell().as_raw_fd());
        core.signals.take_wanted(|rail, peer| wanted.push((core.rank, rail, peer)));
    }
    for &(rank, rail, peer) in &wanted {
        for (here, there) in [(rank, peer), (peer, rank)] {
            if cores[here as usize].gates[there as usize].open & 1 << rail == 0 {
                cores[here as usize].attach(rail, there, |_| ());
            }
        }
    }
    !wanted.is_empty()
}

fn bytes(span: Span) -> Vec<u8> {
    let mut bytes = vec![0; span.len()];
    // SAFETY: the vector has the span's length.
    unsafe { span.copy_to(bytes.as_mut_ptr()) };
    bytes
}

impl Driver for Virtual {
    fn name(&self) -> &'static str {
        "virtual"
    }
    fn mtu(&self, _: u32) -> usize {
        MTU
    }
    fn can_copy(&self, _: u32) -> bool {
        self.world.copies
    }
    fn copies_too(&self, _: u32, _: bool) -> bool {
        // Sometimes: it is a hint.
        self.copies % 3 == 1
    }
    fn begin(&mut self) -> bool {
        false
    }
    fn post_small(&mut self, to: u32, header: &Header, parts: &[Span]) -> bool {
        let payload: Vec<u8> = parts.iter().flat_map(|&part| bytes(part)).collect();
        assert!(payload.len() <= MTU);
        let (header, capacity) = (carried(header).unwrap(), self.world.capacity);
        self.wire(self.rank, to, |wire| {
            if wire.small.len() >= capacity {
                return false;
            }
            wire.small.push_back((header, payload));
            true
        })
    }
    fn peek_small(&mut self, from: u32) -> Peek {
        if !self.shown.contains_key(&from) {
            let Some(packet) = self.wire(from, self.rank, |wire| wire.small.pop_front()) else {
                return Peek::Empty;
            };
            self.shown.insert(from, packet);
        }
        let (header, payload) = &self.shown[&from];
        // SAFETY: kept until `release`.
        let span = unsafe { Span::new(payload.as_ptr(), payload.len()) };
        Peek::Packet(*header, span)
    }
    fn release(&mut self, from: u32) {
        self.shown.remove(&from).unwrap();
    }
    fn post_large(&mut self, to: u32, header: &Header, data: Span) -> usize {
        let World { capacity, piece, .. } = self.world;
        self.wire(self.rank, to, |wire| {
            let mut sent = 0;
            while sent < data.len() && wire.large.len() < capacity {
                let part = bytes(data.part(sent, piece));
                let header =
                    Header { len: header.len + sent as u64, payload: part.len() as u32, ..*header };
                sent += part.len();
                wire.large.push_back((header, part));
            }
            sent
        })
    }
    fn can_break(&self) -> bool {
        self.world.fragile
    }
    fn peek_large(&mut self, from: u32) -> Peek {
        match self.wire(from, self.rank, |wire| wire.large.pop_front()) {
            None => Peek::Empty,
            Some((header, data)) => {
                self.piece.insert(from, data.into());
                Peek::Packet(header, Span::EMPTY)
            }
        }
    }
    unsafe fn read_large(&mut self, from: u32, to: *mut u8, len: usize) -> usize {
        let piece = self.piece.get_mut(&from).unwrap();
        let count = len.min(piece.len()).min(7);
        for (index, byte) in piece.drain(..count).enumerate() {
            // SAFETY: the caller's promise.
            unsafe { to.add(index).write(byte) };
        }
        count
    }
    unsafe fn get(
        &mut self,
        _: u32,
        remote: u64,
        to: *mut u8,
        len: usize,
    ) -> Result<usize, Refused> {
        self.copies += 1;
        let len = len.min(33);
        // SAFETY: the test keeps every buffer until its request is finished.
        unsafe { core::ptr::copy_nonoverlapping(remote as *const u8, to, len) };
        Ok(len)
    }
    unsafe fn put(&mut self, _: u32, remote: u64, data: Span) -> Result<usize, Refused> {
        self.copies += 1;
        let data = data.part(0, 33);
        // SAFETY: as in `get`.
        unsafe { data.copy_to(remote as *mut u8) };
        Ok(data.len())
    }
    fn close(&mut self, _: u32) {}
    fn arm(&mut self, _: Rings) -> bool {
        true
    }
    fn wake_oneself(&mut self) {}
    fn ready(&self) -> Option<&Arc<Ready>> {
        None
    }
}

/// The byte at `index` of message `number` from `from`.
fn content(from: u32, number: usize, index: usize) -> u8 {
    (from as usize * 31 + number * 17 + index * 7 + index / 256) as u8
}

fn settle(cores: &mut [Core<Virtual>]) {
    let mut quiet = 0;
    for _ in 0..200_000 {
        let mut any = connect(cores);
        for core in cores.iter_mut() {
            any |= core.progress();
            if core.signals.starved.load(std::sync::atomic::Ordering::Relaxed) {
                any |= core.grow();
            }
        }
        quiet = if any { 0 } else { quiet + 1 };
        if quiet == 2 {
            return;
        }
    }
    panic!("the network never settles");
}

/// Two ranks over a link that copies.
fn pair() -> (Vec<Core<Virtual>>, Wires) {
    World { capacity: 4, copies: true, ..World::USUAL }.pair()
}

proptest! {
    /// Sound headers that make no sense where they come: the gate ends, the engine does not.
    #[test]
    fn a_hostile_peer_ends_its_gate_and_nothing_else(
        packets in proptest::collection::vec(
            (1u8..9, any::<u8>(), 0u64..4, 0u64..300, 0usize..60, 0u64..6, any::<bool>()), 1..40),
    ) {
        let (mut cores, wires) = pair();
        let core = &mut cores[0];
        let asked: Vec<_> = (0..3).map(|tag| Asked::recv(core, (1, tag), 100)).collect();
        let mut seq = 0;
        for (kind, flags, tag, len, payload, id, next) in packets {
            let payload = vec![1; payload.min(MTU)];
            let kind = match kind {
                2 => Kind::First,
                3 => Kind::Next,
                5 => Kind::Cts,
                6 => Kind::Fin,
                7 => Kind::Data,
                _ => Kind::Eager,
            };
            let len = if kind == Kind::Eager { payload.len() as u64 } else { len };
            let header =
                Header { flags: flags & 1, seq, tag, len, id, payload: payload.len() as u32, ..Header::new(kind) };
            if carried(&header).is_err() {
                continue;
            }
            seq += u32::from(next);
            wires.say((0, 1, 0), header, &payload);
            core.progress();
        }
        core.fail_peer(1, crate::Cause::Vanished);
        prop_assert!(asked.iter().all(Asked::is_finished));
        prop_assert_eq!(core.pending.count(), 0);
    }
}

/// A peer that streams a piece of a message and then says that it has pushed it: the request must not end while
/// the piece is still coming in.
#[test]
fn a_message_is_streamed_or_pushed_but_not_both() {
    use crate::wire::{SENDER_WAITS, TO_RECEIVER};
    let (mut core, wires) = World { copies: true, ..World::USUAL }.one();
    let receive = Asked::recv(&mut core, (1, 0), 1000);
    let rts = Header { flags: SENDER_WAITS, len: 1000, id: 5, addr: 1, ..Header::new(Kind::Rts) };
    wires.say((0, 1, 0), rts, &[]);
    core.progress();
    let data = Header { len: 0, payload: 1000, id: 1, ..Header::new(Kind::Data) };
    wires.with((0, 1, 0), |wire| wire.large.push_back((data, vec![1; 1000])));
    core.progress();
    assert!(core.gates[1].arrivals[0].is_some());
    let fin = Header { flags: TO_RECEIVER, seq: 1, id: 1, ..Header::new(Kind::Fin) };
    wires.say((0, 1, 0), fin, &[]);
    core.progress();
    let ended = receive.result();
    let malformed = crate::Cause::Malformed;
    assert!(matches!(ended, Err(crate::Error::PeerDied { rank: 1, cause }) if cause == malformed));
    assert!(core.gates[1].arrivals[0].is_none());
}

/// Sends to a rank that is not connected wait; they end with an error when it turns out that it cannot be.
#[test]
fn what_waits_for_a_link_ends_when_there_is_no_way() {
    let mut core = World { rails: 2, ..World::USUAL }.core(0, 3, &Wires::default());
    let asked = [
        Asked::send(&mut core, (1, 0), [1; 10]),
        Asked::send(&mut core, (1, 0), [1; 1000]),
        Asked::recv(&mut core, (2, 0), 10),
        Asked::recv(&mut core, (ANY_SOURCE, 1), 10),
    ];
    core.progress();
    let mut wanted = Vec::new();
    core.signals.take_wanted(|rail, peer| wanted.push((rail, peer)));
    assert_eq!(wanted, [(0, 1), (0, 2), (1, 1), (1, 2)]);
    let over =
        |core: &Core<Virtual>| (asked.each_ref().map(Asked::is_finished), core.pending.count());
    core.fail_peer(1, crate::Cause::Vanished);
    assert_eq!(over(&core), ([true, true, false, false], 2));
    core.fail_peer(2, crate::Cause::Vanished);
    assert_eq!(over(&core), ([true; 4], 0));
    assert_eq!(core.gates.backlog, 0);
    for asked in asked {
        assert!(matches!(asked.result(), Err(crate::Error::PeerDied { .. })));
    }
}

/// A flood that is not received stays with its sender, but for the credit; what comes behind it is received; and in the
/// end all of it is, in order.
#[test]
fn a_flood_stays_with_its_sender_and_holds_up_no_other() {
    const CREDIT: u64 = 2000;
    let (mut cores, _) = pair();
    cores.iter_mut().for_each(|core| core.gates.config.credit = CREDIT);
    let flood: Vec<Vec<u8>> = (0..2000).map(|number| vec![number as u8; 40]).collect();
    let mut asked: Vec<_> =
        flood.iter().map(|data| Asked::send(&mut cores[0], (1, 1), &data[..])).collect();
    asked.push(Asked::send(&mut cores[0], (1, 2), [7; 10]));
    settle(&mut cores);
    assert!(cores[0].gates[1].credit.out() <= CREDIT);
    let over = asked.iter().filter(|asked| asked.is_finished()).count();
    assert!(over as u64 <= CREDIT / (40 + 64), "{over} messages of a flood have left");
    let behind = Asked::recv(&mut cores[1], (0, 2), 10);
    settle(&mut cores);
    assert_eq!(behind.message(), [7; 10]);
    for data in &flood {
        let receive = Asked::recv(&mut cores[1], (0, 1), 40);
        settle(&mut cores);
        assert_eq!(&receive.message(), data);
    }
    assert!(asked.iter().all(|asked| asked.result().is_ok()));
}
