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
    let wires = Wires::default();
    let (capacity, piece) = (100_000, 1024);
    let (copies, refuses, fragile) = (false, false, false);
    let world = World { rails: RAILS, fragile, capacity, copies, refuses, piece, whims: 0 };
    let mut cores: Vec<Core<Virtual>> = (0..2)
        .map(|rank| {
            let drivers = (0..RAILS).map(|rail| driver(rank, rail, &wires, world)).collect();
            let signals = Signals::new(2, RAILS).unwrap();
            let mut core = Core::new(rank, 2, drivers, config(world), signals);
            (0..RAILS).for_each(|rail| core.attach(rail, 1 - rank, |_| ()));
            core
        })
        .collect();
    for rail in &mut cores[0].gates.rails {
        rail.pace = Pace { latency_ns: 1_000, mib_ns: 8_388_608 };
        rail.copies = false;
    }
    let load = Arc::new(AtomicUsize::new(0));
    let fake = load.clone();
    cores[0].idle = Some(Box::new(move || fake.load(Ordering::Relaxed)));
    cores[0].chunks = chunks;
    cores[0].choose(1, Selection::new(by_name("split_balance").unwrap()));
    let data: Vec<u8> = (0..LEN).map(|at| content(0, 0, at)).collect();
    let carry = |&idle: &usize| {
        load.store(idle, Ordering::Relaxed);
        let mut got = vec![0; LEN];
        // SAFETY: the buffers outlive the requests, which are over below.
        let asked = unsafe {
            [
                ask(&mut cores[0], Request::send(1, 0, &raw const data[..], false)),
                ask(&mut cores[1], Request::recv(0, 0, &raw mut got[..], false)),
            ]
        };
        cores[1].progress();
        cores[0].progress();
        let carries = |rail| {
            let wires = wires.lock().unwrap();
            wires.get(&(rail, 0, 1)).is_some_and(|wire| !wire.large.is_empty())
        };
        let used = (0..RAILS).filter(|&rail| carries(rail)).count();
        settle(&mut cores);
        for request in asked {
            // SAFETY: boxed by `ask`; over, as is asserted.
            let request = unsafe { Box::from_raw(request.as_ptr()) };
            assert!(request.is_finished() && request.result().is_ok());
        }
        assert!(got == data, "each byte once, and where it belongs");
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
