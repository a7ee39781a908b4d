//! The agreement over a network in virtual time: messages take as long as they like and overtake each other, processes
//! crash between any two steps and take some of what they have sent with them, and the others learn of that one by one.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::tolerance::agreement::{Contribution, Instance, Message, Outbox, Proposal};
use crate::tolerance::wire;

/// Numbers by chance, from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }
}

struct Process {
    instance: Instance,
    began: bool,
    lives: bool,
    /// Ranks that it knows to have failed.
    failed: BTreeSet<u32>,
}

/// What can happen next.
#[derive(Clone, Copy)]
enum Event {
    Begins(usize),
    /// The first learns that the second has crashed.
    Learns(usize, usize),
    /// A message arrives, or its receiver has crashed.
    Comes(usize),
}

struct World {
    random: Random,
    processes: Vec<Process>,
    /// On the way: from, to, what.
    messages: Vec<(u32, u32, Message)>,
    crashes_left: usize,
    /// All decisions that were come to, also by processes that have crashed since.
    decisions: Vec<Proposal>,
}

impl World {
    fn new(size: usize, crashes: usize, seed: u64) -> World {
        let process = |_| Process {
            instance: Instance::default(),
            began: false,
            lives: true,
            failed: BTreeSet::new(),
        };
        World {
            random: Random(seed),
            processes: (0..size).map(process).collect(),
            messages: Vec::new(),
            crashes_left: crashes,
            decisions: Vec::new(),
        }
    }

    /// Each process's own bit is missing in what it contributes.
    fn flags(rank: usize) -> u64 {
        !(1 << rank)
    }

    fn sent(&mut self, from: usize, out: Outbox) {
        let through_the_wire = |message: &Message| {
            let decoded = wire::decode(&wire::agreement((7, 3), message));
            let Some(wire::Word::Agreement { key: 7, number: 3, message }) = decoded else {
                panic!("{message:?} comes as {decoded:?}")
            };
            message
        };
        for (to, message) in out {
            self.messages.push((from as u32, to, through_the_wire(&message)));
        }
        self.note(from);
    }

    fn note(&mut self, rank: usize) {
        if let Some(decision) = self.processes[rank].instance.decision() {
            self.decisions.push(decision.clone());
        }
    }

    /// All that can happen next.
    fn possible(&self) -> Vec<Event> {
        let size = self.processes.len();
        let living = || (0..size).filter(|&rank| self.processes[rank].lives);
        let begins = living().filter(|&rank| !self.processes[rank].began).map(Event::Begins);
        let unknown = |rank: usize| {
            let dead = (0..size).filter(|&dead| !self.processes[dead].lives);
            dead.filter(move |&dead| !self.processes[rank].failed.contains(&(dead as u32)))
                .map(move |dead| Event::Learns(rank, dead))
        };
        let comes = (0..self.messages.len()).map(Event::Comes);
        begins.chain(living().flat_map(unknown)).chain(comes).collect()
    }

    /// Something happens, if anything can.
    fn step(&mut self) -> bool {
        if self.crashes_left > 0 && self.random.below(12) == 0 {
            let rank = self.random.below(self.processes.len());
            if self.processes[rank].lives {
                self.crash(rank);
            }
        }
        let possible = self.possible();
        if possible.is_empty() {
            return false;
        }
        let (rank, mut out) = (self.random.below(possible.len()), Vec::new());
        let rank = match possible[rank] {
            Event::Begins(rank) => {
                let process = &mut self.processes[rank];
                process.began = true;
                let failed: Vec<u32> = process.failed.iter().copied().collect();
                let said = Contribution {
                    flags: World::flags(rank),
                    offer: 100 + rank as u64,
                    settled: 0,
                    acknowledged: failed.clone(),
                    failed,
                };
                let members = (0..self.processes.len() as u32).collect();
                let process = &mut self.processes[rank];
                process.instance.begin(rank as u32, members, said, &process.failed, &mut out);
                rank
            }
            Event::Learns(rank, dead) => {
                let process = &mut self.processes[rank];
                process.failed.insert(dead as u32);
                process.instance.failed(&process.failed, &mut out);
                rank
            }
            Event::Comes(at) => {
                let (from, to, message) = self.messages.swap_remove(at);
                let process = &mut self.processes[to as usize];
                if process.lives {
                    process.instance.receive(from, message, &process.failed, &mut out);
                }
                to as usize
            }
        };
        self.sent(rank, out);
        true
    }

    /// A process ends, with some of its messages that are on the way.
    fn crash(&mut self, rank: usize) {
        self.crashes_left -= 1;
        self.processes[rank].lives = false;
        let lost = self.random.below(3);
        let (random, messages) = (&mut self.random, &mut self.messages);
        messages.retain(|(from, ..)| {
            *from as usize != rank || lost == 0 || (lost == 1 && random.below(2) == 0)
        });
    }

    fn check(&self) {
        let living: Vec<usize> =
            (0..self.processes.len()).filter(|&rank| self.processes[rank].lives).collect();
        for &rank in &living {
            assert!(
                self.processes[rank].instance.decision().is_some(),
                "rank {rank} of {living:?} never decides"
            );
        }
        let Some(first) = self.decisions.first() else { return };
        assert!(self.decisions.iter().all(|other| other == first), "{:?}", self.decisions);
        for &rank in &living {
            assert_eq!(first.flags & 1 << rank, 0, "what rank {rank} has said does not count");
            assert!(!first.failed.contains(&(rank as u32)), "{rank} lives: {first:?}");
        }
        let all_crashed = first.failed.iter().all(|&rank| !self.processes[rank as usize].lives);
        assert!(all_crashed, "{first:?}");
        if self.processes.iter().all(|process| process.lives) {
            let all: u64 = (0..self.processes.len()).map(World::flags).fold(!0, |a, b| a & b);
            let none = first.failed.is_empty() && first.acknowledged;
            assert!(first.flags == all && none, "{first:?}");
        }
    }
}

fn all_that_live_agree(size: usize, crashes: usize, seed: u64) {
    let mut world = World::new(size, crashes.min(size - 1), seed);
    while world.step() {}
    world.check();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]
    #[test]
    fn all_decide_the_same_whatever_crashes(size in 1..9usize, crashes in 0..8usize, seed: u64) {
        all_that_live_agree(size, crashes, seed);
    }
}

/// A long run: `cargo test --release -p newmad --lib -- --ignored a_million_agreements`.
#[test]
#[ignore = "a minute"]
fn a_million_agreements() {
    for seed in 0..1_000_000u64 {
        let size = 2 + (seed % 7) as usize;
        all_that_live_agree(
            size,
            1 + (seed / 7 % 6) as usize,
            seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        );
    }
}
