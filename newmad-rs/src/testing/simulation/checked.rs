//! Packets that have checksums.

use super::*;

/// The checksum needs a place among a packet's parts, too.
#[test]
fn a_message_of_many_pieces_arrives_with_a_checksum() {
    let wires = Wires::default();
    let (copies, refuses, fragile) = (false, false, true);
    let world = World { rails: 1, fragile, capacity: 9, copies, refuses, piece: 64, whims: 0 };
    let mut cores: Vec<_> = (0..2)
        .map(|rank| {
            let drivers = vec![driver(rank, 0, &wires, world)];
            let signals = Signals::new(2, 1).unwrap();
            let mut core =
                Core::new(rank, 2, drivers, Config { checksum: true, ..config(world) }, signals);
            core.attach(0, 1 - rank, |_| ());
            core
        })
        .collect();
    for len in 1..=40 {
        let (data, mut buffer) = (vec![len; len as usize], vec![0; len as usize]);
        let pieces = Pieces::of(&data, 1);
        // SAFETY: the buffers outlive the requests, which end below.
        let asked = unsafe {
            let send = Request::send_scattered(1, 0, pieces.layout(), false);
            let receive = Request::recv(0, 0, &raw mut buffer[..], false);
            [ask(&mut cores[0], send), ask(&mut cores[1], receive)]
        };
        settle(&mut cores);
        assert_eq!(buffer, data);
        assert_eq!(cores[1].gates[0].open, 1, "the link was given up");
        for request in asked {
            // SAFETY: boxed by `ask`, finished.
            assert!(unsafe { Box::from_raw(request.as_ptr()) }.result().is_ok());
        }
    }
}
