//! Strategies that answer anything, and packets of several messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::network::{Nature, USUAL, Virtual, Way};
use super::{MTU, World, content, pair, settle};
use crate::net::Driver;
use crate::proto::core::Core;
use crate::sampling::Pace;
use crate::strategy::selection::Selection;
use crate::strategy::{self, Large, Lone, Packet, Rail, Strategy, Waiting};
use crate::testing::asked::{Asked, How};
use crate::wire::{Header, Kind};

/// Answers by chance: takes some messages in some order, or none; holds some back.
struct Whims(AtomicU64, bool);

impl Whims {
    fn on_next(&self, below: u64) -> u64 {
        let mut state = self.0.load(Ordering::Relaxed);
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.0.store(state, Ordering::Relaxed);
        state % below
    }
}

impl Strategy for Whims {
    fn name(&self) -> &str {
        "default"
    }
    fn fill(&self, waiting: &Waiting<'_>, packet: &mut Packet<'_>) {
        for _ in 0..self.on_next(8) {
            packet.take(self.on_next(waiting.len() as u64 + 2) as usize);
        }
        assert!(!self.1 || self.on_next(50) > 0, "a strategy of the simulation that panics");
    }
    fn may_hold(&self) -> bool {
        true
    }
    fn hold(&self, _: &Lone) -> bool {
        self.on_next(2) == 0
    }
    fn share(&self, large: &Large, rails: &[Rail], shares: &mut [usize]) {
        let mut left = large.len;
        for share in shares.iter_mut() {
            *share = self.on_next(left as u64 + 1) as usize;
            left -= *share;
        }
        // Sometimes too little, sometimes more than there is.
        shares[0] += if self.on_next(4) > 0 { left } else { self.on_next(9) as usize };
        assert_eq!(shares.len(), rails.len());
    }
}

/// Gives every gate a strategy that answers by chance, unless `seed` is zero, and now and then `panics`.
pub(super) fn whims<D: Driver>(core: &mut Core<D>, seed: u64, panics: bool) {
    core.patient = true;
    for peer in 0..core.gates.len() as u32 {
        if seed > 0 {
            let seed = seed * 1000 + u64::from(core.process * 10 + peer) + 1;
            core.gates.set_strategy(
                peer,
                Selection::new(Arc::new(Whims(AtomicU64::new(seed * 0x9e37_79b9), panics))),
            );
        }
    }
}

/// Submits sends of a few bytes each, which stay queued until something flushes; `named`: tag and priority of each.
fn gather(
    core: &mut Core<Virtual>,
    buffers: &[Vec<u8>],
    named: impl Fn(usize) -> (u64, i8),
) -> Vec<Asked> {
    core.gathering = true;
    let send = |(number, buffer): (usize, &Vec<u8>)| {
        let (tag, priority) = named(number);
        let with = |mut request: crate::request::Request| {
            request.priority = priority;
            request
        };
        Asked::send_with(core, (1, tag), &buffer[..], How::default(), with)
    };
    let asked = buffers.iter().enumerate().map(send).collect();
    core.gathering = false;
    asked
}

/// 680 cells are there, and packets of three messages: the cells run out in the middle of one.
#[test]
fn a_packet_whose_messages_find_no_cells_is_taken_in_parts() {
    let (mut cores, _) = pair();
    cores[0].gates.set_strategy(1, Selection::new(strategy::by_name("aggreg").unwrap()));
    let buffers: Vec<Vec<u8>> =
        (0..2000).map(|number| (0..4).map(|at| content(0, number, at)).collect()).collect();
    let sent = gather(&mut cores[0], &buffers, |_| (7, 0));
    let mut halves = 0;
    for _ in 0..10_000 {
        let any = cores[0].progress() | cores[1].progress();
        halves += usize::from(cores[1].gates[0].unpacked > 0);
        if cores[1].signals.starved.load(Ordering::Relaxed) {
            assert!(cores[1].grow());
        } else if !any {
            break;
        }
    }
    assert!(halves > 0, "the cells never ran out inside a packet");
    for buffer in &buffers {
        assert_eq!(&Asked::recv(&mut cores[1], (0, 7), 4).message(), buffer);
    }
    assert!(sent.iter().all(Asked::is_finished));
}

/// What waits leaves together, the most urgent first; equal tags keep their order.
#[test]
fn urgent_messages_leave_first() {
    let (mut cores, world) = pair();
    cores[0].gates.set_strategy(1, Selection::new(strategy::by_name("prio").unwrap()));
    let buffers: Vec<Vec<u8>> = (0..6u8).map(|number| vec![number; 30]).collect();
    // Numbers are priorities; 5 has the tag of 0, and waits for it.
    let sent = gather(&mut cores[0], &buffers, |number| (number as u64 % 5, number as i8));
    cores[0].flush_all();
    let mut order = Vec::new();
    for _ in 0..100 {
        for (header, payload) in world.way((0, 0, 1), Way::heard) {
            assert_eq!(header.kind, Kind::Eager);
            order.push(payload[0]);
        }
        cores[0].progress();
    }
    assert_eq!(order, [4, 3, 2, 1, 0, 5]);
    assert!(sent.iter().all(Asked::is_finished));
}

/// A message that is always overtaken leaves in the end.
#[test]
fn the_oldest_message_does_not_wait_for_ever() {
    let (mut cores, world) = pair();
    cores[0].gates.set_strategy(1, Selection::new(strategy::by_name("prio").unwrap()));
    let buffers: Vec<Vec<u8>> = (0..300).map(|number| vec![(number > 0) as u8; 30]).collect();
    let urgent = |number| (number as u64, (number > 0) as i8);
    let sent = gather(&mut cores[0], &buffers, urgent);
    let mut order = Vec::new();
    for _ in 0..200 {
        cores[0].progress();
        for (_, payload) in world.way((0, 0, 1), Way::heard) {
            order.push(payload[0]);
        }
    }
    assert_eq!(order.len(), 300);
    assert_eq!(order.iter().position(|&urgent| urgent == 0), Some(strategy::PATIENCE as usize));
    assert!(sent.iter().all(Asked::is_finished));
}

/// Held until a poll; a message that a thread waits for takes everything along.
#[test]
fn held_messages_leave_together_at_the_next_look() {
    struct Holds;
    impl Strategy for Holds {
        fn name(&self) -> &str {
            "holds"
        }
        fn fill(&self, waiting: &Waiting<'_>, packet: &mut Packet<'_>) {
            for index in 0..waiting.len() {
                packet.take(index);
            }
        }
        fn may_hold(&self) -> bool {
            true
        }
        fn hold(&self, _: &Lone) -> bool {
            true
        }
    }
    let (mut cores, world) = pair();
    cores[0].patient = true;
    cores[0].gates.set_strategy(1, Selection::new(Arc::new(Holds)));
    let on_the_way = || world.way((0, 0, 1), |way| way.small.len());
    let send = |core: &mut Core<Virtual>, waits| {
        Asked::send_with(core, (1, 0), [1; 4], How { waits, spread: 0 }, |request| request)
    };
    let mut sent = vec![send(&mut cores[0], false), send(&mut cores[0], false)];
    assert_eq!(on_the_way(), 0);
    assert!(cores[0].signals.held.load(Ordering::Relaxed));
    // Who arms meanwhile is woken later, once, unless there is a look before.
    let alarm = |core: &Core<Virtual>| core.gates.rails[0].driver.alarm;
    let now = crate::sys::now_ns();
    assert!(cores[0].call_for_held());
    let first = alarm(&cores[0]);
    assert!(first > now, "{first}, {now}");
    assert!(cores[0].call_for_held());
    assert_eq!((alarm(&cores[0]), on_the_way()), (first, 0));
    cores[0].progress();
    assert_eq!(on_the_way(), 1);
    assert!(crate::sys::now_ns() > first || alarm(&cores[0]) == 0, "nothing is held any more");
    assert!(!cores[0].signals.held.load(Ordering::Relaxed) && !cores[0].call_for_held());
    assert_eq!(cores[0].signals.self_wakes.load(Ordering::Relaxed), 0);
    sent.push(send(&mut cores[0], false));
    assert_eq!(on_the_way(), 1);
    assert!(cores[0].signals.held.load(Ordering::Relaxed) && cores[0].call_for_held());
    // One that its sender waits for leaves at once, and those that are held with it: without a look. So who has armed, and
    // sleeps, is woken all the same: what came before it armed is still to be found.
    let called = alarm(&cores[0]);
    sent.push(send(&mut cores[0], true));
    assert_eq!((on_the_way(), alarm(&cores[0])), (2, called));
    assert!(called > 0 && !cores[0].signals.held.load(Ordering::Relaxed));
    assert!(!cores[0].call_for_held());
    cores[0].progress();
    assert!(crate::sys::now_ns() > called || alarm(&cores[0]) == 0, "there was a look");
    // Without a patient caller no message is held.
    cores[0].patient = false;
    sent.push(send(&mut cores[0], false));
    assert_eq!(on_the_way(), 3);
    assert!(sent.iter().all(Asked::is_finished));
    // What is taken out, as when its receiver leaves, holds no other one up.
    cores[0].patient = true;
    let out = send(&mut cores[0], false);
    let request = cores[0].gates[1].sends.front().unwrap();
    cores[0].gates.dequeue(1, request);
    assert_eq!(cores[0].gates[1].held, 0);
    cores[0].gates.enqueue(1, request, crate::request::Place::Sends);
    settle(&mut cores);
    assert!(out.is_finished());
}

/// What a strategy is told of a message when it is submitted: how many came before it since the last look.
#[test]
fn a_strategy_is_told_of_bursts() {
    struct Records(std::sync::Mutex<Vec<(u32, u32)>>);
    impl Strategy for Records {
        fn name(&self) -> &str {
            "records"
        }
        fn fill(&self, _: &Waiting<'_>, packet: &mut Packet<'_>) {
            packet.take(0);
        }
        fn may_hold(&self) -> bool {
            true
        }
        fn hold(&self, lone: &Lone) -> bool {
            self.0.lock().unwrap().push((lone.before, lone.last_burst));
            false
        }
    }
    let (mut cores, _) = pair();
    let records = Arc::new(Records(std::sync::Mutex::new(Vec::new())));
    cores[0].patient = true;
    cores[0].gates.set_strategy(1, Selection::new(records.clone()));
    let mut sent = Vec::new();
    for burst in [1, 3, 1] {
        for _ in 0..burst {
            let asked =
                Asked::send_with(&mut cores[0], (1, 0), [1; 4], How::default(), |request| request);
            sent.push(asked);
        }
        cores[0].progress();
    }
    assert_eq!(*records.0.lock().unwrap(), [(0, 0), (0, 1), (1, 1), (2, 1), (0, 3)]);
    settle(&mut cores);
    assert!(sent.iter().all(Asked::is_finished));
}

/// Two rails of 1 Gbit/s and 400 Mbit/s, as sampled: the parts are as 10 to 4.
#[test]
fn a_large_message_is_divided_as_the_rails_were_sampled() {
    let world = World::new(2, Nature { room: 100_000, ..USUAL });
    let mut cores = world.pair();
    for (rail, mib_ns) in cores[0].gates.rails.iter_mut().zip([8_388_608, 20_971_520]) {
        rail.pace = Pace { latency_ns: 1_000, mib_ns };
        rail.copies = false;
    }
    cores[0].gates.set_strategy(1, Selection::new(strategy::by_name("split_balance").unwrap()));
    let data: Vec<u8> = (0..1 << 20).map(|at| content(0, 0, at)).collect();
    let send = Asked::send(&mut cores[0], (1, 0), &data[..]);
    let receive = Asked::recv(&mut cores[1], (0, 0), data.len());
    cores[1].progress();
    cores[0].progress();
    let carried = |rail| -> usize {
        world.way((rail, 0, 1), |way| way.pieces().iter().map(|piece| piece.1).sum())
    };
    let parts = [carried(0), carried(1)];
    assert_eq!(parts[0] + parts[1], data.len());
    let share = parts[0] as f64 / data.len() as f64;
    assert!((share - 1.0 / 1.4).abs() < 0.01, "{parts:?}");
    settle(&mut cores);
    assert!(send.result().is_ok() && receive.message() == data);
}

proptest! {
    /// Bytes that are no entries end the gate; what came before them stays.
    #[test]
    fn a_hostile_pack_ends_its_gate_and_nothing_else(
        packs in proptest::collection::vec(
            proptest::collection::vec(prop_oneof![5 => 0u8..6, 1 => any::<u8>()], 1..MTU), 1..10),
    ) {
        let (mut cores, world) = pair();
        let core = &mut cores[1];
        let asked: Vec<_> = (0..3).map(|tag| Asked::recv(core, (0, tag), 40)).collect();
        for (seq, pack) in packs.into_iter().enumerate() {
            let header = Header { seq: seq as u32, len: pack.len() as u64, ..Header::new(Kind::Pack) };
            world.way((0, 0, 1), |way| way.say(header, &pack));
            core.progress();
        }
        core.fail_peer(0, crate::Cause::Vanished);
        prop_assert_eq!(core.pending.count(), 0);
        prop_assert!(asked.iter().all(Asked::is_finished));
    }
}
