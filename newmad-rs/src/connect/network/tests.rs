//! Networks in virtual time, with deaths and broken links at random moments, against what was sent.

use super::simulation::{Random, World};
use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Event {
    Send(u32, u32, usize),
    Kill(u32),
    Cut(usize),
    Steps(usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => (any::<u32>(), any::<u32>(), 1..50usize).prop_map(|(a, b, count)| Event::Send(a, b, count)),
        1 => any::<u32>().prop_map(Event::Kill),
        1 => any::<usize>().prop_map(Event::Cut),
        6 => (0..60usize).prop_map(Event::Steps),
    ];
    proptest::collection::vec(event, 0..40)
}

/// Bounded, since messages that go round for ever would be a failure, too.
fn settle(world: &mut World) {
    for step in 0.. {
        assert!(step < 3_000_000, "something goes round for ever");
        if !world.step() {
            break;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn every_message_between_the_living_comes_once_and_in_order(
        size in 2u32..24, dimensions in 1u32..=3, jitter in 0u64..12, seed: u64, events in events(),
    ) {
        let torus = Arc::new(Torus::new(size, dimensions));
        let mut world = World::new(size, torus, Random(seed));
        world.jitter = jitter;
        let mut sent: BTreeMap<(u32, u32), Vec<Vec<u8>>> = BTreeMap::new();
        let mut number = 0u32;
        for event in events {
            match event {
                Event::Send(from, to, count) => {
                    let (from, to) = (from % size, to % size);
                    for _ in 0..count {
                        number += 1;
                        let body = number.to_le_bytes().to_vec();
                        world.with(from, |network| network.send(to, Kind::User, body.clone()));
                        if from != to {
                            sent.entry((to, from)).or_default().push(body);
                        }
                    }
                }
                Event::Kill(rank) => world.kill(rank % size),
                Event::Cut(link) => world.cut(link),
                Event::Steps(steps) => (0..steps).for_each(|_| { world.step(); }),
            }
        }
        settle(&mut world);
        let mut came: BTreeMap<(u32, u32), Vec<Vec<u8>>> = BTreeMap::new();
        for (to, from, body) in std::mem::take(&mut world.came) {
            came.entry((to, from)).or_default().push(body);
        }
        let lives = |rank: u32| world.networks[rank as usize].is_some();
        for to in 0..size {
            for from in 0..size {
                let (sent, came) = (sent.get(&(to, from)), came.get(&(to, from)));
                let (sent, came) = (sent.cloned().unwrap_or_default(), came.cloned().unwrap_or_default());
                if lives(to) && lives(from) {
                    prop_assert_eq!(&came, &sent, "from {} to {}", from, to);
                }
                // Of what a dead process has sent, the beginning.
                prop_assert_eq!(&came[..], &sent[..came.len()]);
            }
        }
        for rank in 0..size {
            if let Some(network) = &world.networks[rank as usize] {
                prop_assert_eq!(network.unacknowledged(), 0);
                prop_assert!(network.waiting.values().all(Vec::is_empty), "{}", rank);
            }
            world.with(rank, Network::leave);
        }
        settle(&mut world);
        prop_assert!(world.networks.iter().flatten().all(|network| network.ring.is_over()));
    }
}

#[test]
fn short_cuts_are_made_when_they_are_wanted_and_then_serve() {
    let torus = Arc::new(Torus::new(64, 2));
    let mut world = World::new(64, torus, Random(1));
    world.settle();
    assert_eq!(world.link_count(), 64, "the ring, and no more");
    world.with(0, |network| network.send(16, Kind::User, vec![1]));
    world.settle();
    // 0, 8, 16: and the answer goes the same way back.
    assert_eq!(world.link_count(), 66);
    world.with(0, |network| network.send(16, Kind::User, vec![2]));
    world.settle();
    assert_eq!(world.link_count(), 66);
    assert_eq!(world.came, [(16, 0, vec![1]), (16, 0, vec![2])]);
}

#[test]
fn a_process_leaves_when_its_last_message_has_come() {
    let mut world = World::new(8, Arc::new(Torus::new(8, 1)), Random(1));
    world.settle();
    world.with(0, |network| {
        network.send(4, Kind::User, vec![1]);
        network.leave();
        assert_eq!(network.unacknowledged(), 1);
    });
    world.settle();
    assert_eq!(world.came, [(4, 0, vec![1])]);
    for rank in 1..8 {
        world.with(rank, Network::leave);
    }
    world.settle();
    assert!(world.networks.iter().flatten().all(|network| network.ring.is_over()));
}

#[test]
fn the_simulation_counts_what_the_shape_says() {
    let ring = simulation::requests(256, 1, 256);
    let torus = simulation::requests(256, 2, 256);
    assert_eq!((ring.connections_at_start, ring.connections), (2.0, 2.0));
    assert_eq!(torus.connections_at_start, 2.0);
    assert!(torus.most_connections >= 4 && torus.connections <= 5.0, "{}", torus.connections);
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    assert!(mean(&torus.hops) < mean(&ring.hops) / 5.0);
    assert!(mean(&torus.times) < mean(&ring.times) / 5.0);
    // To close the ring each process calls once.
    assert_eq!(ring.start_messages, 256);
}
