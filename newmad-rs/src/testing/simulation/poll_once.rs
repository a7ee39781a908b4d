//! Polls of a thread that waits for one peer, at one link of several.

use super::*;
use crate::wire::Kind;

/// A message from rank 1 to rank 0, which arrives over that link.
fn arrives(rail: usize) -> usize {
    let wires = Wires::default();
    let (copies, refuses, fragile) = (false, false, false);
    let world = World { rails: 2, fragile, capacity: 9, copies, refuses, piece: 64, whims: 0 };
    let signals = Signals::new(2, 2).unwrap();
    let drivers = (0..2).map(|rail| driver(0, rail, &wires, world)).collect();
    let mut core = Core::new(0, 2, drivers, config(world), signals);
    for rail in 0..2 {
        core.attach(rail, 1, |_| ());
    }
    let mut buffer = [0; 1];
    // SAFETY: the buffer outlives the request, which is finished below.
    let request = ask(&mut core, unsafe { Request::recv(1, 0, &mut buffer[..], false) });
    let header = Header { len: 1, payload: 1, ..Header::new(Kind::Eager) };
    let mut raw = [0; LONG];
    header.encode(&mut raw);
    let packet = (raw[..Kind::Eager.header_len()].to_vec(), vec![7]);
    wires.lock().unwrap().entry((rail, 1, 0)).or_default().small.push_back(packet);
    let found = (1..100).find(|_| core.poll_once(1)).unwrap();
    // SAFETY: boxed by `ask`; finished, as is asserted.
    let request = unsafe { Box::from_raw(request.as_ptr()) };
    assert!(request.is_finished() && request.result().is_ok());
    assert_eq!(buffer, [7]);
    found
}

#[test]
fn the_link_of_the_small_track_is_looked_at_each_time_and_the_others_now_and_then() {
    assert_eq!(arrives(0), 1);
    assert!((2..100).contains(&arrives(1)));
}
