//! What connections cost on which nothing is sent any more, and which side polls on whose behalf.

use std::ptr::NonNull;

use pioman::plumbing::Delegated;

use super::*;
use crate::engine::{FAVOURS, POLL, WORK};
use crate::net::reliable::PATIENCE_MS;

/// Two ranks with a link that can break, and how often each of the words about packets was on the wires.
struct Pair {
    cores: Vec<Core<Virtual>>,
    world: World,
    now: usize,
    /// When each rank's connection manager has called last, and how often they have in all.
    ticked: [usize; 2],
    ticks: usize,
    probes: usize,
    acks: usize,
}

impl Pair {
    fn new() -> Pair {
        let world = World::new(1, Nature { breaks: true, room: 99, ..USUAL });
        Pair { cores: world.pair(), world, now: 0, ticked: [0; 2], ticks: 0, probes: 0, acks: 0 }
    }

    /// Rank 0 sends to rank 1: an empty message is over when it is submitted.
    fn send(&mut self) {
        Asked::send(&mut self.cores[0], (1, 0), []);
    }

    /// Counts what is on the wire to `rank`.
    fn count(&mut self, rank: u32) {
        self.world.way((0, 1 - rank, rank), |way| {
            self.probes += way.count(Kind::Probe);
            self.acks += way.count(Kind::Ack);
        });
    }

    /// So many milliseconds go by, in which these ranks look for events.
    fn pass(&mut self, time: usize, who_looks: &[u32]) {
        for _ in 0..time {
            self.now += 1;
            let now = self.now;
            for rank in 0..2u32 {
                let passed = now - self.ticked[rank as usize];
                let pace = self.cores[rank as usize].signals.pace();
                let ticks = pace.is_some_and(|pace| passed >= pace.as_millis() as usize);
                if ticks || who_looks.contains(&rank) {
                    self.count(rank);
                }
                let core = &mut self.cores[rank as usize];
                if ticks {
                    self.ticked[rank as usize] = now;
                    self.ticks += 1;
                    core.tick(now as u64);
                }
                if who_looks.contains(&rank) {
                    core.progress();
                }
            }
        }
    }

    fn is_quiet(&self) -> bool {
        self.cores.iter().all(|core| {
            core.signals.pace().is_none()
                && core.gates.iter().all(|gate| gate.reliability.is_settled())
        })
    }
}

#[test]
fn a_connection_that_has_fallen_quiet_costs_one_question() {
    // Whether or not the sender looks for events: without pending requests, no thread of it does.
    for who_looks in [&[0, 1][..], &[1]] {
        let mut pair = Pair::new();
        pair.send();
        pair.pass(4000, who_looks);
        assert!(pair.is_quiet());
        assert_eq!((pair.probes, pair.acks), (1, 1), "{who_looks:?} look");
    }
}

#[test]
fn a_peer_that_computes_is_asked_ever_more_seldom() {
    let mut pair = Pair::new();
    // Rank 0 waits for an answer, which will wake it: its connection manager looks only when it asks.
    let how = How { waits: true, spread: 0 };
    let answer = Asked::recv_with(&mut pair.cores[0], (1, 1), 8, how, |request| request);
    pair.send();
    pair.pass(4000, &[]);
    assert!(!pair.is_quiet());
    pair.count(1);
    assert!((1..15).contains(&pair.probes), "{} questions in 4 s", pair.probes);
    assert!(pair.ticks <= pair.probes + 2, "{} looks in 4 s", pair.ticks);
    assert_eq!(pair.cores[0].gates[1].open, 1, "the link was given up");
    // It looks once, and then it is quiet.
    pair.pass(1, &[1]);
    pair.pass(1000, &[]);
    assert!(pair.is_quiet());
    Asked::send(&mut pair.cores[1], (0, 1), []);
    pair.pass(1000, &[0, 1]);
    assert!(answer.is_finished() && pair.is_quiet());
}

#[test]
fn a_peer_that_computes_outlives_the_repair_of_its_link() {
    let mut pair = Pair::new();
    pair.send();
    pair.pass(PATIENCE_MS as usize + 200, &[]);
    assert_eq!(pair.cores[0].gates[1].open, 0, "the link was not given up");
    let id = pair.world.connect(0);
    // The connection managers are slow, and not at the same pace.
    for rank in 0..2 {
        pair.pass(300, &[]);
        attach(&mut pair.cores[rank], 0, id);
    }
    pair.pass(3 * PATIENCE_MS as usize, &[]);
    assert!(pair.is_quiet());
    assert!(pair.cores.iter().all(|core| core.gates.last_failed.is_none()));
}

#[test]
fn who_polls_without_pause_keeps_no_holder() {
    let mut pair = Pair::new();
    pair.cores[1].favours = FAVOURS;
    for turn in 1..=FAVOURS + 3 {
        pair.send();
        pair.cores[1].run_delegated(POLL);
        let left = pair.world.way((0, 0, 1), |way| way.small.len());
        assert_eq!(left as u32, turn.saturating_sub(FAVOURS));
    }
    // What was submitted is begun whatever else is asked for.
    // SAFETY: nothing is read.
    let mut request = unsafe { Request::send(0, 0, &[], false) };
    // SAFETY: it stays here until it is over, as is asserted.
    unsafe { pair.cores[1].signals.submissions.push(NonNull::from(&mut request)) };
    pair.cores[1].run_delegated(POLL | WORK);
    assert!(request.is_finished());
}

/// A thread that looks once, as the connection manager does for a link that is new, finds a message for which a thread
/// sleeps: the copy that lets rounds pass first is made by then. (A receive as a job's first message slept for ever.)
#[test]
fn one_look_makes_the_copy_that_it_finds() {
    let (mut cores, _world) = pair();
    let how = How { waits: true, spread: 0 };
    let data = vec![7; 100_000];
    let receive = Asked::recv_with(&mut cores[1], (0, 0), data.len(), how, |request| request);
    let send = Asked::send(&mut cores[0], (1, 0), data);
    assert!(cores[1].progress());
    assert!(cores[1].copies.is_empty(), "a copy stays behind");
    assert!(cores[1].gates.rails[0].driver.copies > 0);
    settle(&mut cores);
    assert!(receive.is_finished() && send.is_finished());
}
