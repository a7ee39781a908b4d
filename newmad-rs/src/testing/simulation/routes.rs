//! Receivers that have messages sent over another virtual rail, in the middle of traffic.

use super::*;

/// Two ranks over an adapter with so many virtual rails.
fn pair(rails: usize, nature: Nature) -> (Vec<Core<Virtual>>, World) {
    let world = World { are_virtual: true, ..World::new(rails, nature) };
    (world.pair(), world)
}

/// So many messages of ten bytes from rank 0 to rank 1, one by one.
fn send(cores: &mut [Core<Virtual>], count: u8) {
    for number in 0..count {
        Asked::send(&mut cores[0], (1, 0), [number; 10]);
        let receive = Asked::recv(&mut cores[1], (0, 0), 10);
        settle(cores);
        assert_eq!(receive.message(), [number; 10]);
    }
}

fn packets(core: &Core<Virtual>) -> [[u64; 4]; 2] {
    core.gates.routes.as_ref().unwrap().packets()
}

fn routes(core: &Core<Virtual>) -> [u64; 2] {
    core.gates.routes.as_ref().unwrap().routes()
}

const BREAKS: Nature = Nature { breaks: true, ..USUAL };

#[test]
fn messages_go_over_the_rail_that_their_receiver_asks_for_and_over_another_while_it_is_closed() {
    let (mut cores, world) = pair(3, BREAKS);
    send(&mut cores, 5);
    assert_eq!(packets(&cores[1])[1], [5, 0, 0, 0]);
    cores[1].gates.receive_on(0, 2);
    cores[1].gates.receive_on(0, 2);
    settle(&mut cores);
    send(&mut cores, 7);
    assert_eq!(packets(&cores[1])[1], [5, 0, 7, 0]);
    assert_eq!((cores[1].gates.incoming(0), cores[0].gates.incoming(1)), (2, 0));
    assert_eq!((routes(&cores[0]), routes(&cores[1])), ([0, 1], [1, 0]));
    // The rail breaks: the first one that is open carries on, until it is back.
    world.network.lock().unwrap().cut(|rail, _| rail == 2);
    settle(&mut cores);
    assert_eq!((cores[0].gates[1].open, cores[1].gates[0].open), (3, 3));
    send(&mut cores, 4);
    assert_eq!(packets(&cores[1])[1], [9, 0, 7, 0]);
    let again = world.connect(2);
    cores.iter_mut().for_each(|core| attach(core, 2, again));
    send(&mut cores, 2);
    assert_eq!(packets(&cores[1])[1], [9, 0, 9, 0]);
    assert_eq!(packets(&cores[0])[0], packets(&cores[1])[1]);
}

/// A word that is lost with its link is said again by the link that is made anew.
#[test]
fn a_word_that_is_lost_is_said_again() {
    let (mut cores, world) = pair(2, BREAKS);
    send(&mut cores, 1);
    // An answer, so that nothing is sent again, which would bring a word.
    Asked::send(&mut cores[1], (0, 0), [7; 10]);
    let receive = Asked::recv(&mut cores[0], (1, 0), 10);
    settle(&mut cores);
    assert_eq!(receive.message(), [7; 10]);
    cores[1].gates.receive_on(0, 1);
    world.network.lock().unwrap().cut(|rail, _| rail == 0);
    settle(&mut cores);
    assert_eq!(cores[0].gates[1].route.theirs(), 0);
    let again = world.connect(0);
    cores.iter_mut().for_each(|core| attach(core, 0, again));
    settle(&mut cores);
    assert_eq!(cores[0].gates[1].route.theirs(), 1);
    send(&mut cores, 3);
    assert_eq!(packets(&cores[1])[1][1], 3);
}

/// A rail whose packets cannot be sent again is not left: what is under way over it would be overtaken.
#[test]
fn a_rail_that_does_not_break_keeps_its_packets() {
    let (mut cores, _) = pair(2, USUAL);
    send(&mut cores, 1);
    cores[1].gates.receive_on(0, 1);
    settle(&mut cores);
    send(&mut cores, 5);
    assert_eq!((cores[0].gates[1].small, cores[0].gates[1].route.theirs()), (0, 1));
}

#[test]
fn a_word_about_a_rail_that_there_is_not_ends_the_gate() {
    for word in [1 << 8 | 2, 1, u64::MAX] {
        let world = World { are_virtual: true, ..World::new(2, BREAKS) };
        let mut core = world.one();
        world.way((0, 1, 0), |way| way.say(Header { id: word, ..Header::new(Kind::Ack) }, &[]));
        core.progress();
        assert!(!core.gates[1].is_open(), "{word:x}");
    }
    // Where no rail is virtual every word is wrong.
    let world = World::new(2, BREAKS);
    let mut core = world.one();
    world.way((0, 1, 0), |way| way.say(Header { id: 1 << 8, ..Header::new(Kind::Ack) }, &[]));
    core.progress();
    assert!(!core.gates[1].is_open());
}

/// Lets what is under way arrive.
fn arrive(cores: &mut [Core<Virtual>], world: &World) {
    loop {
        settle(cores);
        let mut network = world.network.lock().unwrap();
        let Some(at) = network.next_arrival() else { return };
        network.now = at;
    }
}

proptest! {
    /// Messages of all kinds go both ways, and both sides ask for other routes at any time: each message reaches its receive,
    /// whole and in order, and each packet is counted once on both sides.
    #[test]
    fn order_and_counts_hold_whenever_a_route_changes(
        rails in 2usize..5, room in 1usize..6, delay in 0u64..6, reads: bool,
        steps in proptest::collection::vec((0u8..10, 0usize..2, 0usize..300), 1..150),
    ) {
        let nature = Nature { room, delay, reads: reads.then_some(150), ..BREAKS };
        let (mut cores, world) = pair(rails, nature);
        let (mut sends, mut receives) = ([vec![], vec![]], [vec![], vec![]]);
        let mut asked = [0; 2];
        for (what, side, number) in steps {
            let (core, peer) = (&mut cores[side], 1 - side as u32);
            match what {
                0..=2 => {
                    let at = sends[side].len();
                    let bytes: Vec<u8> = (0..number).map(|byte| content(side as u32, at, byte)).collect();
                    sends[side].push((number, Asked::send(core, (peer, 0), bytes)));
                }
                3 | 4 => receives[side].push(Asked::recv(core, (peer, 0), 300)),
                5 | 6 => {
                    let before = core.gates[peer as usize].route.own();
                    core.gates.receive_on(peer, number % rails);
                    asked[side] += u64::from(number % rails != before);
                }
                7 => {
                    core.progress();
                }
                _ => {
                    world.network.lock().unwrap().now += 1;
                    for core in &mut cores {
                        core.progress();
                    }
                }
            }
        }
        for side in 0..2 {
            while receives[side].len() < sends[1 - side].len() {
                receives[side].push(Asked::recv(&mut cores[side], (1 - side as u32, 0), 300));
            }
        }
        arrive(&mut cores, &world);
        for side in 0..2 {
            for (at, (len, send)) in sends[side].iter().enumerate() {
                let expected: Vec<u8> = (0..*len).map(|byte| content(side as u32, at, byte)).collect();
                prop_assert!(send.result().is_ok());
                prop_assert!(receives[1 - side][at].message() == expected, "message {} of {}", at, side);
            }
            prop_assert_eq!(packets(&cores[side])[0].iter().sum::<u64>(), packets(&cores[1 - side])[1].iter().sum());
            prop_assert_eq!(routes(&cores[side])[0], asked[side]);
            let gate = &cores[side].gates[1 - side];
            prop_assert_eq!(gate.route.theirs(), cores[1 - side].gates[side].route.own(), "the last word is heard");
            prop_assert_eq!(gate.small, gate.route.theirs());
        }
        // Receives that are left over.
        for side in 0..2 {
            for receive in &receives[side] {
                prop_assert!(receive.is_finished() || receive.cancel(&mut cores[side]));
            }
        }
    }
}
