//! Strategies that answer anything, and packets of several messages.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::{MTU, Virtual, Wires, World, ask, content, driver, pair, settle};
use crate::gate::signals::Signals;
use crate::net::Driver;
use crate::proto::core::Core;
use crate::request::Request;
use crate::sampling::Pace;
use crate::strategy::selection::Selection;
use crate::strategy::{self, Large, Lone, Packet, Rail, Strategy, Waiting};
use crate::wire::{Header, Kind, LONG};

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
            let seed = seed * 1000 + u64::from(core.rank * 10 + peer) + 1;
            core.choose(
                peer,
                Selection::new(Arc::new(Whims(AtomicU64::new(seed * 0x9e37_79b9), panics))),
            );
        }
    }
}

/// Submits sends of a few bytes each, which stay queued until something flushes.
fn gather(
    core: &mut Core<Virtual>,
    buffers: &[Vec<u8>],
    tag: impl Fn(usize) -> u64,
) -> Vec<NonNull<Request>> {
    core.gathering = true;
    let asked = buffers.iter().enumerate().map(|(number, buffer)| {
        // SAFETY: the tests keep the buffers until the requests are finished.
        let request = unsafe { Request::send(1, tag(number), &raw const buffer[..], false) };
        ask(core, request.with_priority(number as i8))
    });
    let asked = asked.collect();
    core.gathering = false;
    asked
}

fn free(asked: Vec<NonNull<Request>>) {
    for request in asked {
        // SAFETY: boxed by `ask`.
        let request = unsafe { Box::from_raw(request.as_ptr()) };
        assert!(request.is_finished());
    }
}

/// Receives `len` bytes with this tag at rank 1.
fn receive(core: &mut Core<Virtual>, tag: u64, buffer: &mut [u8]) -> NonNull<Request> {
    // SAFETY: the tests keep the buffer until the request is finished.
    ask(core, unsafe { Request::recv(0, tag, &raw mut *buffer, false) })
}

/// 680 cells are there, and packets of three messages: the cells run out in the middle of one.
#[test]
fn a_packet_whose_messages_find_no_cells_is_taken_in_parts() {
    let (mut cores, _) = pair();
    cores[0].choose(1, Selection::new(strategy::by_name("aggreg").unwrap()));
    let buffers: Vec<Vec<u8>> =
        (0..2000).map(|number| (0..4).map(|at| content(0, number, at)).collect()).collect();
    let sent = gather(&mut cores[0], &buffers, |_| 7);
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
        let mut got = vec![0; 4];
        let request = receive(&mut cores[1], 7, &mut got);
        free(vec![request]);
        assert_eq!(&got, buffer);
    }
    free(sent);
}

/// What waits leaves together, the most urgent first; equal tags keep their order.
#[test]
fn urgent_messages_leave_first() {
    let (mut cores, wires) = pair();
    cores[0].choose(1, Selection::new(strategy::by_name("prio").unwrap()));
    let buffers: Vec<Vec<u8>> = (0..6u8).map(|number| vec![number; 30]).collect();
    // Numbers are priorities; 5 has the tag of 0, and waits for it.
    let sent = gather(&mut cores[0], &buffers, |number| number as u64 % 5);
    cores[0].flush_all();
    let mut order = Vec::new();
    for _ in 0..100 {
        while let Some((head, payload)) =
            wires.lock().unwrap().entry((0, 0, 1)).or_default().small.pop_front()
        {
            assert_eq!(Header::decode(&head).unwrap().kind, Kind::Eager);
            order.push(payload[0]);
        }
        cores[0].progress();
    }
    assert_eq!(order, [4, 3, 2, 1, 0, 5]);
    free(sent);
}

/// A message that is always overtaken leaves in the end.
#[test]
fn the_oldest_message_does_not_wait_for_ever() {
    let (mut cores, wires) = pair();
    cores[0].choose(1, Selection::new(strategy::by_name("prio").unwrap()));
    let buffers: Vec<Vec<u8>> = (0..300).map(|number| vec![(number > 0) as u8; 30]).collect();
    cores[0].gathering = true;
    let mut sent = Vec::new();
    for (number, buffer) in buffers.iter().enumerate() {
        let priority = (number > 0) as i8;
        // SAFETY: the buffers outlive the requests.
        let request = unsafe { Request::send(1, number as u64, &raw const buffer[..], false) };
        sent.push(ask(&mut cores[0], request.with_priority(priority)));
    }
    cores[0].gathering = false;
    let mut order = Vec::new();
    for _ in 0..200 {
        cores[0].progress();
        while let Some((_, payload)) =
            wires.lock().unwrap().entry((0, 0, 1)).or_default().small.pop_front()
        {
            order.push(payload[0]);
        }
    }
    assert_eq!(order.len(), 300);
    assert_eq!(order.iter().position(|&urgent| urgent == 0), Some(strategy::PATIENCE as usize));
    free(sent);
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
    let (mut cores, wires) = pair();
    cores[0].patient = true;
    cores[0].choose(1, Selection::new(Arc::new(Holds)));
    let on_the_way = || wires.lock().unwrap().get(&(0, 0, 1)).map_or(0, |wire| wire.small.len());
    let data = [1u8; 4];
    let send = |core: &mut Core<Virtual>, waits| {
        // SAFETY: the data outlives the requests.
        ask(core, unsafe { Request::send(1, 0, &raw const data[..], waits) })
    };
    let mut sent = vec![send(&mut cores[0], false), send(&mut cores[0], false)];
    assert_eq!(on_the_way(), 0);
    assert!(cores[0].signals.held.load(Ordering::Relaxed));
    cores[0].progress();
    assert_eq!(on_the_way(), 1);
    assert!(!cores[0].signals.held.load(Ordering::Relaxed));
    sent.push(send(&mut cores[0], false));
    assert_eq!(on_the_way(), 1);
    sent.push(send(&mut cores[0], true));
    assert_eq!(on_the_way(), 2);
    // Without a patient caller no message is held.
    cores[0].patient = false;
    sent.push(send(&mut cores[0], false));
    assert_eq!(on_the_way(), 3);
    free(sent);
}

/// Two rails of 1 Gbit/s and 400 Mbit/s, as sampled: the parts are as 10 to 4.
#[test]
fn a_large_message_is_divided_as_the_rails_were_sampled() {
    let wires = Wires::default();
    let (capacity, piece) = (100_000, 64);
    let (copies, refuses, fragile) = (false, false, false);
    let world = World { rails: 2, fragile, capacity, copies, refuses, piece, whims: 0 };
    let mut cores: Vec<Core<Virtual>> = (0..2)
        .map(|rank| {
            let drivers = (0..2).map(|rail| driver(rank, rail, &wires, world)).collect();
            let signals = Signals::new(2, 2).unwrap();
            let mut core = Core::new(rank, 2, drivers, super::config(world), signals);
            (0..2).for_each(|rail| core.attach(rail, 1 - rank, |_| ()));
            core
        })
        .collect();
    for (rail, mib_ns) in cores[0].gates.rails.iter_mut().zip([8_388_608, 20_971_520]) {
        rail.pace = Pace { latency_ns: 1_000, mib_ns };
        rail.copies = false;
    }
    cores[0].choose(1, Selection::new(strategy::by_name("split_balance").unwrap()));
    let data: Vec<u8> = (0..1 << 20).map(|at| content(0, 0, at)).collect();
    let mut got = vec![0; data.len()];
    // SAFETY: the data outlives the request.
    let send = ask(&mut cores[0], unsafe { Request::send(1, 0, &raw const data[..], false) });
    let receive = receive(&mut cores[1], 0, &mut got);
    cores[1].progress();
    cores[0].progress();
    let carried = |rail| -> usize {
        let wires = wires.lock().unwrap();
        wires
            .get(&(rail, 0, 1))
            .map_or(0, |wire| wire.large.iter().map(|piece| piece.1.len()).sum())
    };
    let parts = [carried(0), carried(1)];
    assert_eq!(parts[0] + parts[1], data.len());
    let share = parts[0] as f64 / data.len() as f64;
    assert!((share - 1.0 / 1.4).abs() < 0.01, "{parts:?}");
    settle(&mut cores);
    free(vec![send, receive]);
    assert!(got == data);
}

proptest! {
    /// Bytes that are no entries end the gate; what came before them stays.
    #[test]
    fn a_hostile_pack_ends_its_gate_and_nothing_else(
        packs in proptest::collection::vec(
            proptest::collection::vec(prop_oneof![5 => 0u8..6, 1 => any::<u8>()], 1..MTU), 1..10),
    ) {
        let (mut cores, wires) = pair();
        let core = &mut cores[1];
        let mut buffers = vec![vec![0; 40]; 3];
        let asked: Vec<_> = buffers.iter_mut().enumerate()
            .map(|(tag, buffer)| receive(core, tag as u64, buffer)).collect();
        for (seq, pack) in packs.into_iter().enumerate() {
            let len = pack.len();
            let mut raw = [0; LONG];
            Header { seq: seq as u32, len: len as u64, payload: len as u32, ..Header::new(Kind::Pack) }
                .encode(&mut raw);
            wires.lock().unwrap().entry((0, 0, 1)).or_default()
                .small.push_back((raw[..Kind::Pack.header_len()].to_vec(), pack));
            core.progress();
        }
        core.fail_peer(0, crate::Cause::Vanished);
        prop_assert_eq!(core.pending.count(), 0);
        free(asked);
    }
}
