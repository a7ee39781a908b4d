//! Long messages that an adapter reads from the sender's memory ([`crate::proto::reading`]).

use super::*;
use crate::error::{Cause, Error};
use crate::proto::pieces::Wanted;
use crate::wire::{READ, REFUSED};

const LEN: usize = 1500;

fn nature(delay: u64) -> Nature {
    Nature { reads: Some(200), breaks: true, delay, ..USUAL }
}

fn data(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|index| content(0, number, index)).collect()
}

/// Pieces that rank 1 has read, over all rails.
fn reads(cores: &[Core<Virtual>]) -> usize {
    cores[1].gates.rails.iter().map(|rail| rail.driver.adapter.reads).sum()
}

/// Nothing is left in any table.
fn all_is_over(cores: &[Core<Virtual>]) {
    for core in cores {
        assert!(core.reads.is_empty() && core.exposures.is_empty());
        assert_eq!((core.gates.backlog, core.reads.unasked, core.exposures.untold), (0, 0, 0));
        assert!(core.gates.rails.iter().all(|rail| rail.driver.adapter.is_empty()));
        assert!(core.gates.iter().all(|gate| gate.large_expected == 0));
    }
}

/// A message from rank 0 to rank 1, and how many pieces were read.
fn carry(cores: &mut [Core<Virtual>], len: usize, room: usize, spread: [usize; 2]) -> usize {
    let before = reads(cores);
    let how = |spread| How { waits: false, spread };
    let send =
        Asked::send_with(&mut cores[0], (1, 0), data(3, len), how(spread[0]), |request| request);
    let receive =
        Asked::recv_with(&mut cores[1], (ANY_SOURCE, 0), room, how(spread[1]), |request| request);
    settle(cores);
    assert!(send.result().is_ok());
    match receive.result() {
        Ok(status) => assert_eq!((status.len, status.source), (len, 0)),
        Err(Error::Truncated { message, capacity, .. }) => {
            assert_eq!((message, capacity), (len, room))
        }
        Err(error) => panic!("{error}"),
    }
    assert_eq!(receive.bytes()[..len.min(room)], data(3, len.min(room)));
    all_is_over(cores);
    reads(cores) - before
}

#[test]
fn a_long_message_is_read_in_growing_pieces_and_a_short_or_scattered_one_is_not() {
    let mut cores = World::new(1, nature(0)).pair();
    // 64, 128, 256 bytes and so on.
    assert_eq!(carry(&mut cores, LEN, LEN, [0, 0]), 7);
    assert_eq!(carry(&mut cores, 200, 200, [0, 0]), 2);
    assert_eq!(carry(&mut cores, 199, 300, [0, 0]), 0);
    assert_eq!(carry(&mut cores, LEN, LEN, [50, 0]), 0);
    assert_eq!(carry(&mut cores, LEN, LEN, [0, 50]), 0);
    // What does not fit is not read.
    assert_eq!(carry(&mut cores, LEN, 200, [0, 0]), 2);
    assert_eq!(carry(&mut cores, LEN, 199, [0, 0]), 0);
    // To oneself it is copied.
    let mut core = cores.remove(0);
    let send = Asked::send(&mut core, (0, 7), data(1, LEN));
    let receive = Asked::recv(&mut core, (0, 7), LEN);
    settle(std::slice::from_mut(&mut core));
    assert!(send.result().is_ok());
    assert_eq!(receive.message(), data(1, LEN));
}

#[test]
fn where_packets_have_checksums_nothing_is_read() {
    let mut cores = World { checksum: true, ..World::new(1, nature(0)) }.pair();
    assert_eq!(carry(&mut cores, LEN, LEN, [0, 0]), 0);
}

#[test]
fn memory_that_is_refused_on_either_side_goes_as_fragments() {
    for side in 0..2 {
        let mut cores = World::new(1, nature(0)).pair();
        cores[side].gates.rails[0].driver.adapter.refusals = 1000;
        assert_eq!(carry(&mut cores, LEN, LEN, [0, 0]), 0);
        cores[side].gates.rails[0].driver.adapter.refusals = 0;
        assert_eq!(carry(&mut cores, LEN, LEN, [0, 0]), 7);
    }
    // In the middle, by chance.
    for seed in 0..200 {
        let world = World::new(1, Nature { refusals: 100, ..nature(0) });
        world.network.lock().unwrap().random = Random(seed);
        carry(&mut world.pair(), LEN, LEN, [0, 0]);
    }
}

#[test]
fn a_driver_without_a_place_is_asked_again() {
    let mut cores = World::new(1, nature(0)).pair();
    cores[1].gates.rails[0].driver.adapter.places = 1;
    assert_eq!(carry(&mut cores, LEN, LEN, [0, 0]), 7);
    cores[0].gates.rails[0].driver.adapter.places = 0;
    assert_eq!(carry(&mut cores, LEN, LEN, [0, 0]), 0, "a sender without one refuses");
}

#[test]
fn many_messages_take_turns_over_both_rails() {
    let mut cores = World::new(2, nature(0)).pair();
    let receives: Vec<_> = (0..20).map(|tag| Asked::recv(&mut cores[1], (0, tag), LEN)).collect();
    let sends: Vec<_> =
        (0..20).map(|tag| Asked::send(&mut cores[0], (1, tag), data(tag as usize, LEN))).collect();
    settle(&mut cores);
    assert!(sends.iter().all(|send| send.result().is_ok()));
    for (number, receive) in receives.iter().enumerate() {
        assert_eq!(receive.message(), data(number, LEN));
    }
    all_is_over(&cores);
    assert!(cores[1].gates.rails.iter().all(|rail| rail.driver.adapter.reads > 20));
    // And so do the pieces of one.
    let before = cores[1].gates.rails[0].driver.adapter.reads;
    let reads = carry(&mut cores, LEN, LEN, [0, 0]);
    let of_first = cores[1].gates.rails[0].driver.adapter.reads - before;
    assert!(reads == 7 && (3..=4).contains(&of_first), "{of_first} of {reads} pieces");
}

/// Two ranks, with a message of which rank 1 is reading.
fn halfway() -> (Vec<Core<Virtual>>, World, [Asked; 2]) {
    let world = World::new(1, nature(100));
    let mut cores = world.pair();
    let receive = Asked::recv(&mut cores[1], (0, 0), LEN);
    let send = Asked::send(&mut cores[0], (1, 0), data(0, LEN));
    settle(&mut cores);
    while !cores[1].gates.rails[0].driver.adapter.is_reading() {
        pass(&mut cores, &world);
        settle(&mut cores);
    }
    (cores, world, [send, receive])
}

/// Time goes on to what happens next.
fn pass(cores: &mut [Core<Virtual>], world: &World) {
    settle(cores);
    let mut network = world.network.lock().unwrap();
    network.now = network.next_arrival().unwrap_or(network.now);
}

#[test]
fn a_receive_ends_with_its_peer_but_not_before_the_adapter_has_given_up() {
    let (mut cores, world, [send, receive]) = halfway();
    cores[1].fail_peer(0, Cause::Vanished);
    assert!(!receive.is_finished(), "the adapter may still write to its memory");
    let close = Asked::plain(&mut cores[1], Request::close());
    settle(&mut cores);
    assert!(!close.is_finished());
    cores[0].fail_peer(1, Cause::Vanished);
    assert!(send.is_finished(), "reads of its memory do no harm");
    while !receive.is_finished() {
        assert!(cores[1].gates.rails[0].driver.adapter.is_reading());
        pass(&mut cores, &world);
    }
    assert!(matches!(receive.result(), Err(Error::PeerDied { rank: 0, .. })));
    settle(&mut cores);
    assert!(close.result().is_ok());
    all_is_over(&cores);
}

#[test]
fn a_message_whose_link_breaks_comes_as_fragments_when_the_adapter_has_given_up() {
    for first in 0..2 {
        let (mut cores, world, [send, receive]) = halfway();
        world.network.lock().unwrap().cut(|_, _| true);
        cores[first].broke(0, 1 - first as u32, Cause::Broken(libc::ECONNRESET));
        settle(&mut cores);
        let id = world.connect(0);
        cores.iter_mut().for_each(|core| attach(core, 0, id));
        for _ in 0..2000 {
            pass(&mut cores, &world);
        }
        assert!(send.result().is_ok());
        assert_eq!(receive.message(), data(0, LEN));
        all_is_over(&cores);
    }
}

/// Rank 1 announces and then computes for ever; rank 2 is there.
#[test]
fn a_peer_that_does_not_answer_holds_up_no_other() {
    let world = World::new(1, nature(0));
    let mut cores: Vec<_> = (0..3).map(|rank| world.core(rank, 3)).collect();
    for peer in [1, 2] {
        let id = world.network.lock().unwrap().connect(0, [0, peer]);
        cores[0].attach(0, peer, |driver| driver.install(peer, id, 0));
        cores[peer as usize].attach(0, 0, |driver| driver.install(0, id, 1));
    }
    let receive = |core: &mut Core<Virtual>, from: u32| {
        (0..6).map(|tag| Asked::recv(core, (from, tag), LEN)).collect::<Vec<_>>()
    };
    let send = |core: &mut Core<Virtual>| {
        (0..6).map(|tag| Asked::send(core, (0, tag), data(tag as usize, LEN))).collect::<Vec<_>>()
    };
    let of = [1, 2].map(|from| receive(&mut cores[0], from));
    let from_first = send(&mut cores[1]);
    let mut second = cores.remove(2);
    let mut first = cores.remove(1);
    while cores[0].progress() {}
    let from_second = send(&mut second);
    cores.push(second);
    settle(&mut cores);
    for (number, receive) in of[1].iter().enumerate() {
        assert_eq!(receive.message(), data(number, LEN));
    }
    assert!(from_second.iter().all(|send| send.result().is_ok()));
    assert!(of[0].iter().all(|receive| !receive.is_finished()));
    let reads = cores[0].gates.rails[0].driver.adapter.reads;
    assert!(reads > 0, "the other peer has places, too");
    // The first one answers in the end.
    first.progress();
    cores.push(first);
    settle(&mut cores);
    for (number, receive) in of[0].iter().enumerate() {
        assert_eq!(receive.message(), data(number, LEN));
    }
    assert!(from_first.iter().all(|send| send.result().is_ok()));
    all_is_over(&cores);
}

#[test]
fn what_waits_for_its_turn_ends_with_its_peer() {
    let world = World::new(1, nature(100));
    let mut cores = world.pair();
    let receives: Vec<_> = (0..9).map(|tag| Asked::recv(&mut cores[1], (0, tag), LEN)).collect();
    let sends: Vec<_> =
        (0..9).map(|tag| Asked::send(&mut cores[0], (1, tag), data(0, LEN))).collect();
    while !cores[1].gates.rails[0].driver.adapter.is_reading() {
        pass(&mut cores, &world);
    }
    cores[1].fail_peer(0, Cause::Vanished);
    cores[0].fail_peer(1, Cause::Vanished);
    let over = receives.iter().filter(|receive| receive.is_finished()).count();
    assert!((6..9).contains(&over), "{over} of them did not begin");
    for _ in 0..9 {
        pass(&mut cores, &world);
    }
    assert!(receives.iter().chain(&sends).all(Asked::is_finished));
    all_is_over(&cores);
}

proptest! {
    /// A peer that asks for keys, and tells some, as it likes: its gate ends, and no memory stays registered.
    #[test]
    fn a_hostile_reader_ends_its_gate_and_nothing_else(
        packets in proptest::collection::vec((0u8..6, 0u64..5, 0usize..2000, 0usize..300, 0usize..3, 0usize..3), 1..40),
    ) {
        let world = World::new(2, nature(0));
        let mut core = world.one();
        let mut asked: Vec<_> = (0..2).map(|tag| Asked::recv(&mut core, (1, tag), LEN)).collect();
        asked.extend((0..3).map(|tag| Asked::send(&mut core, (1, tag), data(0, LEN))));
        for (seq, (kind, id, at, len, lane, rail)) in (0..).zip(packets) {
            let wanted = Wanted { at, len, lane, rail };
            let (tag, at) = (7 | (lane as u64) << 32, at as u64);
            let header = match kind {
                0 => Header { len: LEN as u64, id, addr: 4096, tag: at % 2, ..Header::new(Kind::Rts) },
                1 | 2 => Header { flags: READ, tag, len: at, id, addr: wanted.word(), ..Header::new(Kind::Cts) },
                3 => Header { flags: REFUSED, id, ..Header::new(Kind::Key) },
                4 => Header { tag, len: [0, 64, at][lane], id, ..Header::new(Kind::Key) },
                _ => Header { id, ..Header::new(Kind::Fin) },
            };
            // A key that is not one is the adapter's affair.
            world.network.lock().unwrap().cut(|_, _| kind == 4);
            let header = Header { seq, ..header };
            if core.gates[1].open & 1 != 0 {
                world.way((0, 1, 0), |way| way.say(header, &[]));
            }
            core.progress();
        }
        core.fail_peer(1, Cause::Vanished);
        while core.progress() {}
        prop_assert!(asked.iter().all(Asked::is_finished));
        prop_assert_eq!((core.pending.count(), core.gates.backlog), (0, 0));
        prop_assert!(core.reads.is_empty() && core.exposures.is_empty());
        prop_assert!(core.gates.rails.iter().all(|rail| rail.driver.adapter.is_empty()));
    }
}
