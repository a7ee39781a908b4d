//! The engine over a virtual network (`network`): no threads, no clock, so every failure repeats. `faults` has the
//! oracle, and the schedules that are made by chance; the other files what happens in a certain situation.

mod adapter;
mod away;
mod checked;
mod chunks;
mod faults;
mod inline;
mod late;
mod lent;
mod missing;
mod network;
mod poll_once;
mod quiet;
mod reads;
mod ring;
mod routes;
mod strategies;
mod taken_back;
mod twice;

use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use self::network::{Nature, Network, Random, USUAL, Virtual, Way};
use crate::gate::config::Config;
use crate::gate::ranks::Ranks;
use crate::gate::signals::Signals;
use crate::net::virtual_rails::VirtualRails;
use crate::nodes::Nodes;
use crate::proto::core::Core;
use crate::request::{ANY_SOURCE, Request};
use crate::testing::asked::{Asked, How};
use crate::wire::{Header, Kind, LONG};

const MTU: usize = USUAL.mtu;
const THRESHOLD: usize = 120;

/// Ranks, which tests link with each other, over rails of one nature.
#[derive(Clone)]
struct World {
    rails: usize,
    nature: Nature,
    checksum: bool,
    /// The rails are virtual ones of one adapter.
    are_virtual: bool,
    network: Arc<Mutex<Network>>,
}

impl World {
    fn new(rails: usize, nature: Nature) -> World {
        let network = Network::new(Random(1));
        network.lock().unwrap().calm = true;
        World { rails, nature, checksum: false, are_virtual: false, network }
    }

    /// One of so many ranks, without links.
    fn core(&self, rank: u32, ranks: u32) -> Core<Virtual> {
        let config = Config {
            repairs: self.nature.breaks,
            checksum: self.checksum,
            retransmit: 1000,
            ..Config::new(THRESHOLD, 1 << 20)
        };
        self.core_with(rank, ranks, config)
    }

    fn core_with(&self, rank: u32, ranks: u32, config: Config) -> Core<Virtual> {
        let drivers = (0..self.rails).map(|rail| Virtual::new(rail, self.nature, &self.network));
        let signals = Signals::new(ranks, self.rails).unwrap();
        let mut core = Core::new(rank, Ranks::one_each(ranks), drivers.collect(), config, signals);
        core.gates.reads_from = network::reads_from(&[self.nature]);
        if self.are_virtual {
            let rails = VirtualRails::new(Nodes::default(), self.rails, [true], 1);
            core.gates.are_virtual(Arc::new(rails));
        }
        core
    }

    /// A new connection between ranks 0 and 1.
    fn connect(&self, rail: usize) -> u64 {
        self.network.lock().unwrap().connect(rail, [0, 1])
    }

    /// Rank 0, over all rails; the test plays rank 1.
    fn one(&self) -> Core<Virtual> {
        let mut core = self.core(0, 2);
        (0..self.rails).for_each(|rail| attach(&mut core, rail, self.connect(rail)));
        core
    }

    /// Ranks 0 and 1, with links over all rails.
    fn pair(&self) -> Vec<Core<Virtual>> {
        let mut cores: Vec<_> = (0..2).map(|rank| self.core(rank, 2)).collect();
        for rail in 0..self.rails {
            let id = self.connect(rail);
            cores.iter_mut().for_each(|core| attach(core, rail, id));
        }
        cores
    }

    /// What is on the way over a rail, from one rank to another.
    fn way<T>(&self, way: (usize, u32, u32), f: impl FnOnce(&mut Way) -> T) -> T {
        f(self.network.lock().unwrap().way(way))
    }
}

/// A rank has its end of a connection between ranks 0 and 1.
fn attach(core: &mut Core<Virtual>, rail: usize, id: u64) {
    let (rank, peer) = (core.process as usize, 1 - core.process);
    core.attach(rail, peer, |driver| driver.install(peer, id, rank));
}

/// The byte at `index` of message `number` from `from`.
fn content(from: u32, number: usize, index: usize) -> u8 {
    (from as usize * 31 + number * 17 + index * 7 + index / 256) as u8
}

fn settle(cores: &mut [Core<Virtual>]) {
    let mut quiet = 0;
    for _ in 0..200_000 {
        let mut any = false;
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
fn pair() -> (Vec<Core<Virtual>>, World) {
    let world = World::new(1, Nature { copies: true, room: 4, ..USUAL });
    (world.pair(), world)
}

proptest! {
    /// Sound headers that make no sense where they come: the gate ends, the engine does not.
    #[test]
    fn a_hostile_peer_ends_its_gate_and_nothing_else(
        packets in proptest::collection::vec(
            (1u8..9, any::<u8>(), 0u64..4, 0u64..300, 0usize..60, 0u64..6, any::<bool>()), 1..40),
    ) {
        let (mut cores, world) = pair();
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
            let mut raw = [0; LONG];
            header.encode(&mut raw);
            if Header::decode(&raw).is_err() {
                continue;
            }
            seq += u32::from(next);
            world.way((0, 1, 0), |way| way.say(header, &payload));
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
    let world = World::new(1, Nature { copies: true, ..USUAL });
    let mut core = world.one();
    let receive = Asked::recv(&mut core, (1, 0), 1000);
    let rts = Header { flags: SENDER_WAITS, len: 1000, id: 5, addr: 1, ..Header::new(Kind::Rts) };
    world.way((0, 1, 0), |way| way.say(rts, &[]));
    core.progress();
    let data = Header { len: 0, payload: 1000, id: 1, ..Header::new(Kind::Data) };
    world.way((0, 1, 0), |way| way.begin(data, &[1; 1000]));
    core.progress();
    assert!(core.gates[1].arrivals[0].is_some());
    let fin = Header { flags: TO_RECEIVER, seq: 1, id: 1, ..Header::new(Kind::Fin) };
    world.way((0, 1, 0), |way| way.say(fin, &[]));
    core.progress();
    let ended = receive.result();
    let malformed = crate::Cause::Malformed;
    assert!(matches!(ended, Err(crate::Error::PeerDied { rank: 1, cause }) if cause == malformed));
    assert!(core.gates[1].arrivals[0].is_none());
}

/// Sends to a rank that is not connected wait; they end with an error when it turns out that it cannot be.
#[test]
fn what_waits_for_a_link_ends_when_there_is_no_way() {
    let mut core = World::new(2, USUAL).core(0, 3);
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
