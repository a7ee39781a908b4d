//! The engine against an oracle in a world that fails: seeded schedules in virtual time over a network that delays,
//! drops, repeats, corrupts, cuts and parts, between ranks that crash. No threads and no clock: a seed is a schedule.
//!
//! `NEWMAD_FIRST` says from which seed on they are run, `NEWMAD_SEED` which one alone. `program` what the ranks do,
//! `world` the loop of events, `managers` their connection managers, `oracle` what must hold.

mod managers;
mod oracle;
mod program;
mod world;

use proptest::prelude::*;

use self::program::{Program, RANKS, Step};
use super::THRESHOLD;
use super::network::{Nature, USUAL};
use crate::gate::config::Config;

/// What happened in schedules.
#[derive(Default, Debug)]
pub(super) struct Tally {
    pub(super) messages: u64,
    pub(super) cuts: u64,
    pub(super) crashes: u64,
    pub(super) partings: u64,
    pub(super) leaves: u64,
    pub(super) drops: u64,
    pub(super) doubles: u64,
    pub(super) corrupted: u64,
    /// Pieces that adapters have read.
    pub(super) reads: u64,
    /// Routes that were changed.
    pub(super) routes: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Tally) {
        self.messages += other.messages;
        self.cuts += other.cuts;
        self.crashes += other.crashes;
        self.partings += other.partings;
        self.leaves += other.leaves;
        self.drops += other.drops;
        self.doubles += other.doubles;
        self.corrupted += other.corrupted;
        self.reads += other.reads;
        self.routes += other.routes;
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn one(seed: u64) -> Result<Tally, String> {
    std::panic::catch_unwind(|| oracle::judge(Program::new(seed), seed)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()))
            .unwrap_or_default()
    })
}

#[test]
fn nothing_is_lost_doubled_or_stuck_whatever_fails() {
    judge_all(1_000);
}

#[test]
#[ignore = "a minute: cargo test --release -p newmad --lib -- --ignored --nocapture a_hundred_thousand"]
fn nothing_is_lost_in_a_hundred_thousand_schedules() {
    judge_all(100_000);
}

/// Judges this many schedules, over two cores at most.
fn judge_all(schedules: u64) {
    if let Some(seed) = number("NEWMAD_SEED") {
        oracle::judge(Program::new(seed), seed);
        return;
    }
    let first = number("NEWMAD_FIRST").unwrap_or(0);
    let next = std::sync::atomic::AtomicU64::new(first);
    let failed = std::sync::Mutex::new(None);
    let tally = std::sync::Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()).min(2) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if seed >= first + schedules || failed.lock().unwrap().is_some() {
                        return;
                    }
                    match one(seed) {
                        Ok(one) => tally.lock().unwrap().add(&one),
                        Err(why) => *failed.lock().unwrap() = Some((seed, why)),
                    }
                }
            });
        }
    });
    if let Some((seed, why)) = failed.into_inner().unwrap() {
        panic!("{why}\nagain: NEWMAD_SEED={seed} cargo test -p newmad --lib faults");
    }
    let tally = tally.into_inner().unwrap();
    println!("{schedules} schedules: {tally:?}");
    // The world did fail: a simulation in which nothing happens proves nothing.
    assert!(tally.reads > schedules && tally.routes > 50);
    assert!(tally.messages > schedules && tally.cuts > 50 && tally.crashes > 50);
    assert!(
        tally.drops > 50
            && tally.doubles > 50
            && tally.corrupted > 50
            && tally.partings > 50
            && tally.leaves > 50
    );
}

/// What the ranks do in a world without faults, each step so long after the one before.
fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let len = || prop_oneof![0usize..8, 45usize..55, 95usize..160, 110usize..130, 300usize..2000];
    let spread = || prop_oneof![4 => Just(0usize), 1 => 1usize..70];
    let send = (0..RANKS, 0..RANKS, 0u64..3, len(), any::<bool>(), any::<bool>(), spread());
    let receive =
        (0..RANKS, proptest::option::of(0..RANKS), 0u64..3, len(), any::<bool>(), spread());
    let step = prop_oneof![
        send.prop_map(|(from, to, tag, len, waits, synchronous, spread)| {
            Step::Send { from, to, tag, len, waits, synchronous, spread, priority: 0 }
        }),
        receive.prop_map(|(rank, from, tag, len, exact, spread)| {
            let room = if exact { len } else { 2000 };
            Step::Recv { rank, from, tag, mask: !0, room, spread }
        }),
    ];
    let pause = prop_oneof![4 => Just(0u64), 2 => 1u64..4, 1 => 1u64..40];
    proptest::collection::vec((pause, step), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]
    /// Schedules that shrink, over rails that neither lose nor double anything. `whims`: seed of a strategy that
    /// answers by chance, and panics now and then; 0: the default strategy.
    #[test]
    fn every_message_reaches_its_receive_whole_and_in_order(
        rails in 1usize..4, breaks: bool, room in 1usize..6, copies: bool, reads: bool, piece in 1usize..200, whims in 0u64..4,
        steps in steps(),
    ) {
        let reads = reads.then_some(100);
        let nature = Nature { breaks, copies, reads, room, delay: 1, piece, refusals: 200, ..USUAL };
        let config = Config { repairs: breaks, retransmit: 1000, ..Config::new(THRESHOLD, 1 << 20) };
        let mut at = 0;
        let steps = steps.into_iter().map(|(pause, step)| {
            at += pause;
            (at, step)
        });
        let program = Program {
            natures: vec![nature; rails],
            config,
            steps: steps.collect(),
            strategy: (whims == 0).then_some("default"),
            panics: true,
            start: 0,
            tight: false,
            rough_end: false,
            virtual_rails: None,
        };
        oracle::judge(program, whims);
    }
}
