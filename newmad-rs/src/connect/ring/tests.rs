//! Rings of state machines over virtual links, with deaths and ends of sessions at random moments.

use super::*;
use proptest::prelude::*;

/// A connection: the two ends, what is on its way to each, and which end has been told that it is over.
struct Wire {
    ends: [u32; 2],
    way: [VecDeque<Notice>; 2],
    open: [bool; 2],
}

struct World {
    rings: Vec<Option<Ring>>,
    wires: Vec<Wire>,
    /// Calls that have not been answered yet.
    calls: VecDeque<(u32, u32)>,
    died: Vec<Vec<u32>>,
    sent: usize,
}

impl World {
    fn new(size: u32) -> World {
        World {
            rings: (0..size).map(|rank| Some(Ring::new(rank, size))).collect(),
            wires: Vec::new(),
            calls: VecDeque::new(),
            died: vec![Vec::new(); size as usize],
            sent: 0,
        }
    }

    fn act(&mut self, rank: u32) {
        while let Some(action) = self.rings[rank as usize].as_mut().and_then(Ring::action) {
            match action {
                Action::Send(link, notice) => {
                    let wire = &mut self.wires[link as usize];
                    let side = usize::from(wire.ends[1] == rank);
                    wire.way[1 - side].push_back(notice);
                    self.sent += 1;
                }
                Action::Call(peer) => self.calls.push_back((rank, peer)),
                Action::Died(peer) => self.died[rank as usize].push(peer),
                Action::Left(_) | Action::Cut => {}
                Action::Expelled => panic!("rank {rank} was expelled, and no network is cut"),
            }
        }
    }

    fn kill(&mut self, rank: u32) {
        self.rings[rank as usize] = None;
    }

    /// Lets one thing happen. `pick` chooses. False: nothing is left to happen.
    fn step(&mut self, pick: usize) -> bool {
        let mut events: Vec<(usize, usize)> = Vec::new();
        for (number, wire) in self.wires.iter().enumerate() {
            for side in 0..2 {
                let there = self.rings[wire.ends[side] as usize].is_some() && wire.open[side];
                let over = self.rings[wire.ends[1 - side] as usize].is_none();
                if there && (over || !wire.way[side].is_empty()) {
                    events.push((number, side));
                }
            }
        }
        let count = events.len() + self.calls.len();
        if count == 0 {
            return false;
        }
        let pick = pick % count;
        if pick >= events.len() {
            let (from, to) = self.calls.remove(pick - events.len()).unwrap();
            let link = self.wires.len() as u64;
            let alive = self.rings[to as usize].is_some();
            let Some(caller) = &mut self.rings[from as usize] else { return true };
            if !alive {
                caller.unreachable(to);
            } else {
                let way = [VecDeque::new(), VecDeque::new()];
                self.wires.push(Wire { ends: [from, to], way, open: [true; 2] });
                caller.connected(link, to);
            }
            if let (true, Some(called)) = (alive, &mut self.rings[to as usize]) {
                called.connected(link, from);
            }
            self.act(from);
            self.act(to);
            return true;
        }
        let (number, side) = events[pick];
        let wire = &mut self.wires[number];
        let rank = wire.ends[side];
        let ring = self.rings[rank as usize].as_mut().unwrap();
        match wire.way[side].pop_front() {
            Some(notice) => assert!(ring.heard(number as u64, notice)),
            None => {
                wire.open[side] = false;
                ring.lost(number as u64, number % 2 == 0);
            }
        }
        self.act(rank);
        true
    }
}

#[derive(Clone, Debug)]
enum Event {
    Kill(u32),
    Leave(u32),
    Steps(Vec<usize>),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        2 => any::<u32>().prop_map(Event::Kill),
        1 => any::<u32>().prop_map(Event::Leave),
        4 => proptest::collection::vec(any::<usize>(), 0..30).prop_map(Event::Steps),
    ];
    proptest::collection::vec(event, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]
    #[test]
    fn everybody_alive_learns_of_every_death_and_all_end_in_order(
        size in 2u32..10, events in events(), picks in proptest::collection::vec(any::<usize>(), 8),
    ) {
        let mut world = World::new(size);
        (0..size).for_each(|rank| world.act(rank));
        let settle = |world: &mut World| {
            for step in 0.. {
                assert!(step < 100_000, "notices go round for ever");
                if !world.step(picks[step % picks.len()].wrapping_add(step)) {
                    break;
                }
            }
        };
        for event in events {
            match event {
                Event::Kill(rank) => world.kill(rank % size),
                Event::Leave(rank) => {
                    let rank = rank % size;
                    if let Some(ring) = &mut world.rings[rank as usize] {
                        ring.leave();
                    }
                    world.act(rank);
                }
                Event::Steps(picks) => picks.into_iter().for_each(|pick| { world.step(pick); }),
            }
        }
        settle(&mut world);
        let dead: Vec<u32> = (0..size).filter(|&rank| world.rings[rank as usize].is_none()).collect();
        for rank in 0..size {
            if world.rings[rank as usize].is_none() {
                continue;
            }
            let mut told = world.died[rank as usize].clone();
            told.sort_unstable();
            // A rank that has left together with all others does not care for deaths any more.
            let over = world.rings[rank as usize].as_ref().is_some_and(Ring::is_over);
            let right = if over { told.iter().all(|one| dead.contains(one)) } else { told == dead };
            prop_assert!(right, "rank {} was told of {:?}, and dead are {:?}", rank, told, dead);
            if let Some(ring) = &mut world.rings[rank as usize] {
                let alone = (0..size).all(|other| other == rank || ring.life(other) != Life::Alive);
                prop_assert_eq!(ring.is_over(), ring.left && alone);
                ring.leave();
            }
            world.act(rank);
        }
        settle(&mut world);
        for ring in world.rings.iter().flatten() {
            prop_assert!(ring.is_over());
        }
    }
}

#[test]
fn a_quiet_ring_sends_nothing_and_has_one_link_to_the_next() {
    let mut world = World::new(64);
    (0..64).for_each(|rank| world.act(rank));
    while world.step(0) {}
    assert_eq!(world.wires.len(), 64);
    assert_eq!(world.sent, 0);
    world.kill(5);
    while world.step(0) {}
    // The fact goes once over each link, or twice where it meets itself.
    assert!(world.sent <= 2 * 64, "{}", world.sent);
    assert_eq!(world.wires.len(), 65);
}

#[test]
fn who_is_held_for_dead_is_told_and_does_not_spread_it() {
    let mut ring = Ring::new(1, 3);
    assert_eq!(ring.action(), Some(Action::Call(2)));
    ring.connected(7, 2);
    assert!(ring.heard(7, Notice::Dead(1)));
    assert_eq!(ring.action(), Some(Action::Expelled));
    assert!(ring.heard(7, Notice::Dead(0)));
    assert_eq!(ring.action(), None);
}

proptest! {
    #[test]
    fn hostile_notices_are_refused(bytes: [u8; NOTICE]) {
        if let Some(notice) = Notice::decode(bytes, 4) {
            prop_assert_eq!(notice.encode(), bytes);
        }
    }
}
