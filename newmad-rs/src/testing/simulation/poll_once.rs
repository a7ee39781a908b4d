//! Polls of a thread that waits for one peer, at one link of several.

use super::*;

/// A message from rank 1 to rank 0, which arrives over that link.
fn arrives(rail: usize) -> usize {
    let world = World::new(2, USUAL);
    let mut core = world.one();
    let receive = Asked::recv(&mut core, (1, 0), 1);
    let header = Header { len: 1, ..Header::new(Kind::Eager) };
    world.way((rail, 1, 0), |way| way.say(header, &[7]));
    let found = (1..100).find(|_| core.poll_once(1)).unwrap();
    assert_eq!(receive.message(), [7]);
    found
}

#[test]
fn the_link_of_the_small_track_is_looked_at_each_time_and_the_others_now_and_then() {
    assert_eq!(arrives(0), 1);
    assert!((2..100).contains(&arrives(1)));
}
