//! The number of parts of a large message follows the load of the moment, where `NMAD_CHUNKS` says so.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::sampling::Pace;
use crate::strategy::selection::Selection;
use crate::strategy::{Chunks, by_name};

const RAILS: usize = 3;
const LEN: usize = 1 << 20;

/// Over how many of three like rails messages leave one after the other, while so many cores are idle.
fn rails_used(chunks: Chunks, loads: &[usize]) -> Vec<usize> {
    let world = World::new(RAILS, Nature { room: 100_000, piece: 1024, ..USUAL });
    let mut cores = world.pair();
    for rail in &mut cores[0].gates.rails {
        rail.pace = Pace { latency_ns: 1_000, mib_ns: 8_388_608 };
        rail.copies = false;
    }
    let load = Arc::new(AtomicUsize::new(0));
    let fake = load.clone();
    cores[0].idle = Some(Box::new(move || fake.load(Ordering::Relaxed)));
    cores[0].chunks = chunks;
    cores[0].gates.set_strategy(1, Selection::new(by_name("split_balance").unwrap()));
    let data: Vec<u8> = (0..LEN).map(|at| content(0, 0, at)).collect();
    let carry = |&idle: &usize| {
        load.store(idle, Ordering::Relaxed);
        let send = Asked::send(&mut cores[0], (1, 0), &data[..]);
        let receive = Asked::recv(&mut cores[1], (0, 0), LEN);
        cores[1].progress();
        cores[0].progress();
        let carries = |rail| world.way((rail, 0, 1), |way| !way.pieces().is_empty());
        let used = (0..RAILS).filter(|&rail| carries(rail)).count();
        settle(&mut cores);
        assert!(send.result().is_ok());
        assert!(receive.message() == data, "each byte once, and where it belongs");
        used
    };
    loads.iter().map(carry).collect()
}

#[test]
fn one_part_more_leaves_for_each_idle_core() {
    let loads = [0, 1, 2, 7, 0, 1];
    assert_eq!(rails_used(Chunks::Idle, &loads), [1, 2, 3, 3, 1, 2]);
    assert_eq!(rails_used(Chunks::Rails, &loads), [3; 6]);
}
