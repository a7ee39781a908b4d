//! Polls of a thread that waits for one peer, at one link of several.

use super::*;

/// A message from rank 1 to rank 0, which arrives over that link: how many polls find it. `route`: the links are virtual rails, and
/// rank 0 has asked for that one.
fn arrives(rail: usize, route: Option<usize>) -> usize {
    let world = World { are_virtual: route.is_some(), ..World::new(2, USUAL) };
    let mut core = world.one();
    if let Some(route) = route {
        core.gates.receive_on(1, route);
    }
    let receive = Asked::recv(&mut core, (1, 0), 1);
    let header = Header { len: 1, ..Header::new(Kind::Eager) };
    world.way((rail, 1, 0), |way| way.say(header, &[7]));
    let found = (1..100).find(|_| core.poll_once(1)).unwrap();
    assert_eq!(receive.message(), [7]);
    found
}

#[test]
fn the_link_of_the_small_track_is_looked_at_each_time_and_the_others_now_and_then() {
    assert_eq!(arrives(0, None), 1);
    assert!((2..100).contains(&arrives(1, None)));
}

#[test]
fn of_virtual_rails_that_of_the_route_is_looked_at_each_time() {
    assert_eq!([arrives(0, Some(0)), arrives(1, Some(1))], [1, 1]);
    assert!((2..100).contains(&arrives(0, Some(1))));
}
