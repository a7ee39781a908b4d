//! What must hold in every schedule: each message arrives once, whole and in order, between ranks that live; what needs
//! a rank that does not ends with an error, and nothing else does; every rank can close, and nothing is left in any
//! table.

use super::Tally;
use super::program::{Program, RANKS, Step};
use super::world::World;
use crate::error::{Cause, Error};
use crate::proto::core::Core;
use crate::request::ANY_SOURCE;
use crate::testing::asked::Asked;
use crate::testing::simulation::content;
use crate::testing::simulation::network::Virtual;

/// Runs a schedule, in which what is left open comes from a seed; panics when something does not hold.
pub(super) fn judge(program: Program, seed: u64) -> Tally {
    let mut world = World::new(&program, seed);
    world.pass(|_| false);
    world.network.lock().unwrap().calm = true;
    let pairs = || (0..RANKS).flat_map(|a| (0..RANKS).map(move |b| (a, b)));
    for (a, b) in pairs() {
        let right = world.are_whole(a, b) || world.have_reason(a, b);
        assert!(right, "{a} and {b} lost each other: {:?}", world.lives(a, b));
    }
    take_back(&mut world, program.tight);
    let whole: Vec<(u32, u32)> = pairs().filter(|&(a, b)| world.are_whole(a, b)).collect();
    for (key, messages) in world.sent.clone() {
        let (from, to, tag) = key;
        let missing = messages.len() - taken(&world, from, to, tag).len();
        for _ in 0..if whole.contains(&(from, to)) { missing } else { 0 } {
            world.receive(to, Some(from), (tag, !0), (2000, 0), None);
        }
    }
    world.pass(|_| false);
    take_back(&mut world, false);
    for asked in world.sends.iter().chain(&world.receives).chain(&world.probes) {
        let over = asked.is_finished() || world.cores[asked.rank as usize].is_none();
        // A request that needs a leaving rank may wait until the others leave, too.
        assert!(over || !world.left.is_empty(), "a request never ends: {}", stuck(&world, asked));
    }
    check_ends(&world, &whole);
    for (&(from, to, tag), messages) in &world.sent {
        check_messages(&world, (from, to, tag), messages, whole.contains(&(from, to)));
    }
    close(&mut world, &program, &whole);
    let [drops, doubles, corrupted] = world.network.lock().unwrap().counts;
    let rails = world.cores.iter().flatten().flat_map(|core| &core.gates.rails);
    let reads = rails.map(|rail| rail.driver.adapter.reads as u64).sum();
    let virtual_rails = world.cores.iter().flatten().filter_map(|core| core.gates.routes.as_ref());
    let routes = virtual_rails.map(|rails| rails.routes()[1]).sum();
    Tally { reads, routes, drops, doubles, corrupted, ..std::mem::take(&mut world.tally) }
}

/// What is known of a request that does not end.
fn stuck(world: &World, asked: &Asked) -> String {
    let request = asked.get();
    let gate = world.cores[asked.rank as usize].as_ref().and_then(|core| {
        let gate = core.gates.get(request.source.get() as usize)?;
        let (open, small, late) = (gate.open, gate.small, gate.reliability.late);
        Some((gate.life, open, small, late, gate.mid_pieces, gate.large_expected, gate.reliable))
    });
    format!(
        "{:?} of {} with {} over {:?}: {:?}, {:?}, {} of {} bytes, {:?}",
        request.op,
        asked.rank,
        request.source.get(),
        gate,
        request.place.get(),
        request.owes.get(),
        request.moved.get(),
        request.total.get(),
        request.parts,
    )
}

/// Receives and probes that nothing matched are taken back. What needs a rank that is gone must have ended. `tight`: a
/// receive may have been matched and yet wait, when something before its message has no room, or when
/// a leaving rank receives from one that has heard of its end.
fn take_back(world: &mut World, tight: bool) {
    for index in 0..world.receives.len() + world.probes.len() {
        let asked = world.receives.iter().chain(&world.probes).nth(index).unwrap();
        let (rank, from) = (asked.rank, asked.get().peer);
        if asked.is_finished() || world.cores[rank as usize].is_none() {
            continue;
        }
        let leaves = |rank| world.left.contains(&rank);
        let lives = from == ANY_SOURCE || world.are_whole(rank, from);
        assert!(lives || leaves(rank) || leaves(from), "waits for a rank that is gone");
        let over = asked.cancel(world.cores[rank as usize].as_mut().unwrap());
        assert!(over || tight || leaves(rank), "matched, and yet nothing more happens");
    }
}

/// Requests end well unless they need a rank that is gone.
fn check_ends(world: &World, whole: &[(u32, u32)]) {
    let all = world.sends.iter().chain(&world.receives).chain(&world.probes);
    for asked in all.filter(|asked| asked.is_finished()) {
        match asked.result() {
            Ok(_) | Err(Error::Cancelled | Error::Truncated { .. }) => {}
            Err(Error::PeerDied { rank, .. }) => {
                assert!(
                    !whole.contains(&(asked.rank, rank)),
                    "{rank} lives, and yet: {} {:?} {:?}",
                    stuck(world, asked),
                    asked.result(),
                    world.lives(asked.rank, rank)
                );
                let peer = asked.get().peer;
                assert!(peer == rank || peer == ANY_SOURCE);
            }
            Err(Error::Closed) if world.left.contains(&asked.rank) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

/// The receives that got a message of these, in the order in which they were posted.
fn taken(world: &World, from: u32, to: u32, tag: u64) -> Vec<usize> {
    let got = |asked: &Asked| match asked.is_finished().then(|| asked.result()) {
        Some(Ok(status)) => Some((status.source, status.tag)),
        Some(Err(Error::Truncated { from, tag, .. })) => Some((from, tag)),
        _ => None,
    };
    let fits = |asked: &Asked| asked.rank == to && got(asked) == Some((from, tag));
    world
        .receives
        .iter()
        .enumerate()
        .filter(|(_, asked)| fits(asked))
        .map(|(index, _)| index)
        .collect()
}

/// Whether that receive holds that message.
fn holds(asked: &Asked, from: u32, number: usize, len: usize) -> bool {
    let (bytes, room) = (asked.bytes(), asked.room());
    let ended = match asked.result() {
        Ok(status) => status.len == len && len <= room,
        Err(Error::Truncated { message, capacity, .. }) => {
            (message, capacity) == (len, room) && len > room
        }
        Err(_) => false,
    };
    let expected = |at| if at < len { content(from, number, at) } else { 0 };
    ended && bytes.iter().enumerate().all(|(at, &byte)| byte == expected(at))
}

fn check_messages(world: &World, key: (u32, u32, u64), messages: &[(usize, usize)], whole: bool) {
    let (from, to, tag) = key;
    let taken = taken(world, from, to, tag);
    if whole {
        assert_eq!(taken.len(), messages.len(), "{key:?}");
        for (&index, &(number, len)) in taken.iter().zip(messages) {
            let asked = &world.receives[index];
            assert!(holds(asked, from, number, len), "{key:?}: message {number} of {len} bytes");
        }
    } else {
        // Some are missing, but what has come has come in order.
        let mut rest = messages.iter();
        for index in taken {
            let asked = &world.receives[index];
            let found = rest.any(|&(number, len)| holds(asked, from, number, len));
            assert!(found, "{key:?}: twice, out of order, or never sent");
        }
    }
}

/// Tags of messages that are sent after their receivers have begun to close, and of such that are never sent.
const LATE: u64 = 100;
const NEVER: u64 = 101;

/// Functions wait for messages of all others, which close before or after. The receives of such messages as will come.
fn await_late(world: &mut World) -> Vec<(usize, u32)> {
    let mut late = Vec::new();
    for (rank, from) in (0..RANKS).flat_map(|rank| (0..RANKS).map(move |from| (rank, from))) {
        if rank == from || world.left.contains(&rank) || world.left.contains(&from) {
            continue;
        }
        let tags = if from > rank { &[NEVER, LATE][..] } else { &[NEVER] };
        for &tag in tags {
            let any = if tag == NEVER && from == 0 { None } else { Some(from) };
            world.receive(rank, any, (tag, !0), (6000, 0), None);
            if let Some(core) = &world.cores[rank as usize] {
                world.receives.last().unwrap().get().detach();
                // No connection manager waits here for those to which there is no link.
                let comes = tag == LATE && core.gates[from as usize].open != 0;
                late.extend(comes.then(|| (world.receives.len() - 1, from)));
            }
        }
    }
    late
}

/// Every rank closes, in disorder; messages to those that have begun to close come, where functions wait for them.
fn close(world: &mut World, program: &Program, whole: &[(u32, u32)]) {
    // No connection manager says here that a rank is gone which was heard of no more.
    let all_live = world.crashed.is_empty() && world.parted.is_empty();
    // Nor does the network ever let long messages through that is rough to the end.
    let waits = all_live && !program.rough_end && world.sends.len().is_multiple_of(2);
    let late = if waits { await_late(world) } else { Vec::new() };
    // Of messages that no receive takes, who sends them hears by the receiver's end, at once.
    let all_taken = world.sends.iter().all(Asked::is_finished);
    if program.rough_end {
        world.network.lock().unwrap().calm = false;
        for rail in 0..program.natures.len() {
            world.later(rail as u64 * 7, Step::Cut { rail, ends: [0, 1] });
            world.later(rail as u64 * 30 + 3, Step::Cut { rail, ends: [1, 2] });
        }
    }
    for rank in 0..RANKS {
        let delayed = world.now() + 20;
        let left = world.left.clone();
        for to in (0..rank).filter(|to| waits && !left.contains(to)) {
            let len = [10, 300, 5000][(world.sends.len() + to as usize) % 3];
            let (waits, synchronous, spread, priority) = (false, false, 0, 0);
            let step =
                Step::Send { from: rank, to, tag: LATE, len, waits, synchronous, spread, priority };
            world.step(step);
        }
        if !world.left.contains(&rank) {
            world.close(rank);
        }
        if rank != 1 {
            world.pass(|world| world.now() >= delayed);
        }
    }
    world.pass(|_| false);
    let lives = |asked: &&Asked| world.cores[asked.rank as usize].is_some();
    for asked in world.closes.iter().filter(lives) {
        assert!(asked.is_finished(), "a session never closes");
    }
    for asked in world.sends.iter().chain(&world.receives).chain(&world.probes).filter(lives) {
        assert!(asked.is_finished(), "left over: {}", stuck(world, asked));
    }
    for &(index, from) in &late {
        let asked = &world.receives[index];
        let sure = all_taken && whole.contains(&(from, asked.rank));
        let came = lives(&asked) && asked.result().is_ok();
        assert!(came || !sure, "sent by {from} to {}: {:?}", asked.rank, asked.result());
    }
    world.cores.iter().flatten().for_each(nothing_is_left);
}

fn nothing_is_left(core: &Core<Virtual>) {
    assert_eq!((core.pending.count(), core.gates.backlog), (0, 0));
    assert!(core.table.find(|_| true).is_none() && core.copies.is_empty());
    assert!(core.reads.is_empty() && core.exposures.is_empty());
    assert_eq!((core.reads.unasked, core.exposures.untold), (0, 0));
    assert!(core.gates.rails.iter().all(|rail| rail.driver.adapter.is_empty()), "registered");
    assert!(core.matching.find_posted(|_| true).is_none() && core.gates.connected.is_empty());
    for (peer, gate) in core.gates.iter().enumerate() {
        let empty = gate.sends.is_empty() && gate.control.is_empty() && gate.fragments.is_empty();
        let idle = gate.mid_pieces.iter().all(Option::is_none)
            && gate.arrivals.iter().all(Option::is_none);
        assert!(empty && idle && gate.reliability.is_settled() && gate.open == 0, "gate to {peer}");
        assert!(gate.large_expected == 0);
    }
    assert!(
        core.gates.last_failed.is_none_or(|(_, cause)| cause != Cause::Malformed),
        "{:?}",
        core.gates.last_failed
    );
}
