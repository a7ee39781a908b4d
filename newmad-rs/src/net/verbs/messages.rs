//! Whole messages over the driver: two engines in one thread, with links that fail. Packets, slots, words and reads share
//! their send queues. In the guest of `ci/verbs.sh`.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::Verbs;
use super::channels::Count;
use super::connect::Own;
use super::tests::{FEW, Mapped, ends};
use crate::error::{Cause, Error};
use crate::gate::config::Config;
use crate::gate::ranks::Ranks;
use crate::gate::signals::Signals;
use crate::proto::core::Core;
use crate::request::{ANY_SOURCE, Request};
use crate::testing::asked::{Asked, How};

const LIMIT: Duration = Duration::from_secs(120);
const THRESHOLD: usize = 500;
/// From this length on messages are read.
const READS_FROM: usize = 2000;

/// Two ranks with a link.
struct Pair {
    owns: [Own; 2],
    cores: [Core<Verbs>; 2],
    links: usize,
    /// Which side called last.
    caller: usize,
}

impl Pair {
    /// `None`: there is no adapter.
    fn new() -> Option<Pair> {
        let [(first, one), (second, other)] = ends(FEW)?;
        let mut ranks = 0..;
        let cores = [one, other].map(|driver| {
            let config = Config { repairs: true, ..Config::new(THRESHOLD, 1 << 24) };
            let signals = Signals::new(2, 1).unwrap();
            let (rank, ranks) = (ranks.next().unwrap(), Ranks::one_each(2));
            let mut core = Core::new(rank, ranks, vec![driver], config, signals);
            core.gates.reads_from = READS_FROM;
            core
        });
        let mut pair = Pair { owns: [first, second], cores, links: 0, caller: 1 };
        pair.link();
        Some(pair)
    }

    /// Makes a link, as two connection managers would.
    fn link(&mut self) {
        self.links += 1;
        self.caller = 1 - self.caller;
        let (near, far) = UnixStream::pair().unwrap();
        [&near, &far].iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
        let (caller, called) = (self.caller, 1 - self.caller);
        let offers = [0, 1].map(|side| self.owns[side].offer().unwrap());
        let addresses = offers.each_ref().map(|offer| offer.address());
        let mut offers = offers.map(Some);
        let mut sockets = [Some(near), Some(far)];
        for (socket, side) in [called, caller].into_iter().enumerate() {
            let peer = 1 - side as u32;
            let (offer, theirs) = (offers[side].take().unwrap(), Some(addresses[1 - side]));
            let socket = sockets[socket].take().unwrap().into();
            let link = self.owns[side].link(peer, socket, offer, theirs, side == caller).unwrap();
            self.cores[side].attach(0, peer, |driver| driver.install(peer, link).unwrap());
        }
    }

    /// Both sides look for events, and make a new link if they have none.
    fn poll(&mut self) {
        for side in 0..2 {
            while let Some(event) = self.owns[side].event() {
                self.driver(side).on_event(event);
            }
            self.cores[side].progress();
            while self.cores[side].signals.starved.load(std::sync::atomic::Ordering::Relaxed) {
                self.cores[side].grow();
            }
        }
        let is_closed = |side: usize| {
            let gate = &self.cores[side].gates[1 - side];
            gate.is_open() && gate.open == 0
        };
        if is_closed(0) && is_closed(1) {
            self.link();
        }
        std::thread::yield_now();
    }

    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Pair) -> bool) {
        let start = Instant::now();
        while !done(self) {
            assert!(start.elapsed() < LIMIT, "{what} took too long");
            self.poll();
        }
    }

    fn driver(&mut self, side: usize) -> &mut Verbs {
        &mut self.cores[side].gates.rails[0].driver
    }

    /// Pieces that were read, on both sides.
    fn reads(&mut self) -> usize {
        (0..2).map(|side| self.driver(side).pieces.as_ref().unwrap().done).sum()
    }

    /// Packets that went through eager channels, both ways.
    fn slots(&mut self) -> u64 {
        (0..2).map(|side| self.driver(side).counts.get(Count::Ring)).sum()
    }

    /// Nothing is under way, registered or kept.
    fn all_is_over(&mut self) {
        self.until("the end of all that is registered", |pair| {
            (0..2).all(|side| pair.driver(side).pieces.as_ref().unwrap().is_idle())
        });
        for core in &self.cores {
            assert!(core.reads.is_empty() && core.exposures.is_empty());
            assert_eq!(core.pending.count(), 0);
        }
    }
}

/// A small generator of random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

fn data(side: usize, tag: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251 + tag as usize * 31 + side * 101) as u8).collect()
}

/// So many messages go both ways, some of them scattered, too long for their receives, or for any receive; `fault` is
/// called now and then. How many pieces were read.
fn mix(
    pair: &mut Pair,
    messages: u64,
    seed: u64,
    mut fault: impl FnMut(&mut Pair, usize),
) -> usize {
    let random = &mut Random(seed);
    let before = pair.reads();
    for begin in (0..messages).step_by(24) {
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        for tag in begin..(begin + 24).min(messages) {
            let side = random.below(2);
            let len = [random.below(600), random.below(9000), READS_FROM + random.below(30_000)]
                [random.below(3)];
            let room = if random.below(8) == 0 { random.below(len + 1) } else { len };
            let mut how = || How {
                waits: random.below(2) == 0,
                spread: if random.below(8) == 0 { 1 + random.below(3000) } else { 0 },
            };
            let (of_send, of_receive) = (how(), how());
            let from = if random.below(2) == 0 { ANY_SOURCE } else { side as u32 };
            let (early, late) = (random.below(2) == 0, 1 - side);
            let receive = |pair: &mut Pair| {
                let core = &mut pair.cores[late];
                Asked::recv_with(core, (from, tag), room, of_receive, |request| request)
            };
            let came_first = early.then(|| receive(pair));
            let bytes = data(side, tag, len);
            let core = &mut pair.cores[side];
            sends.push(Asked::send_with(core, (late as u32, tag), bytes, of_send, |it| it));
            for _ in 0..random.below(3) {
                pair.poll();
            }
            let receive = came_first.unwrap_or_else(|| receive(pair));
            receives.push((side, tag, len, room, receive));
            fault(pair, random.below(1000));
        }
        pair.until("a batch of messages", |pair| {
            let over = receives.iter().all(|(.., receive)| receive.is_finished())
                && sends.iter().all(Asked::is_finished);
            if !over {
                fault(pair, random.below(1000));
            }
            over
        });
        for (side, tag, len, room, receive) in &receives {
            match receive.result() {
                Ok(status) => assert_eq!((status.len, status.source as usize), (*len, *side)),
                Err(Error::Truncated { message, capacity, .. }) => {
                    assert_eq!((message, capacity), (*len, *room));
                }
                Err(error) => panic!("{error}"),
            }
            assert!(receive.bytes()[..] == data(*side, *tag, *len)[..*room], "message {tag}");
        }
        assert!(sends.iter().all(|send| send.result().is_ok()));
    }
    pair.all_is_over();
    pair.reads() - before
}

#[test]
fn messages_of_all_kinds_arrive_and_the_long_ones_are_read() {
    let Some(mut pair) = Pair::new() else { return };
    let reads = mix(&mut pair, 600, 1, |_, _| ());
    // A third is that long, of 64 pieces on the average, and some of these are scattered.
    assert!(reads > 600 * 64 / 3 / 2, "{reads} pieces were read");
    let slots = pair.slots();
    assert!(slots > 300, "{slots} packets went through channels");
    assert_eq!(pair.links, 1);
}

#[test]
fn queue_pairs_that_fail_under_reads_lose_nothing() {
    let Some(mut pair) = Pair::new() else { return };
    let mut faults = 0;
    let reads = mix(&mut pair, 400, 2, |pair, chance| {
        let side = chance % 2;
        if chance < 4
            && pair.driver(side).pieces.as_ref().unwrap().reads() > 0
            && let Some(peer) = pair.driver(side).links.peer(1 - side as u32)
        {
            // One side or the other notices first.
            peer.pair.fail();
            faults += 1;
        } else if (10..12).contains(&chance) && pair.cores[side].gates[1 - side].open != 0 {
            pair.cores[side].broke(0, 1 - side as u32, Cause::Broken(libc::ECONNRESET));
            faults += 1;
        }
    });
    assert!(faults > 5 && pair.links > faults / 2, "{faults} faults, {} links", pair.links);
    assert!(reads > 200, "{reads} pieces were read");
    // Each link's channel is asked for anew.
    let slots = pair.slots();
    assert!(slots > 20, "{slots} packets went through channels");
}

/// Each message is registered anew: what is mapped where something was unmapped is sent and received as it is now.
#[test]
fn memory_that_is_unmapped_and_mapped_again_is_read_as_it_is_now() {
    const LEN: usize = 64 * 1024;
    let Some(mut pair) = Pair::new() else { return };
    let places = [Mapped::ones(LEN), Mapped::ones(LEN)];
    for round in 0..20u8 {
        for place in &places {
            // Sometimes other pages at the same place, sometimes the same ones without what was in them.
            place.renew(round % 2 == 0);
        }
        let [from, to] = &places;
        from.fill(round + 2);
        let memory = |mapped: &Mapped| std::ptr::slice_from_raw_parts_mut(mapped.at(), LEN);
        // SAFETY: the memory stays until both are over, and is touched by nothing else.
        let requests = unsafe {
            [Request::send(1, 0, memory(from), false), Request::recv(0, 0, memory(to), false)]
        };
        let mut requests = requests.map(Box::new);
        for (side, request) in requests.iter_mut().enumerate() {
            let request = std::ptr::NonNull::from(&mut **request);
            // SAFETY: it stays in its box until it is over.
            pair.cores[side].start(unsafe { crate::request::Ref::new(request) });
        }
        let before = pair.reads();
        pair.until("a message", |_| requests.iter().all(|request| request.is_finished()));
        assert!(pair.reads() - before > LEN / 512);
        assert!((0..LEN).all(|at| to.byte(at) == round + 2), "round {round}");
    }
    pair.all_is_over();
}

/// Receives whose peer fails in the middle end, and their memory is not written afterwards.
#[test]
fn memory_that_is_given_back_after_a_failure_is_not_written() {
    for round in 0..12 {
        let Some(mut pair) = Pair::new() else { return };
        let (core, len) = (&mut pair.cores[1], 200_000);
        let receives: Vec<_> = (0..10).map(|tag| Asked::recv(core, (0, tag), len)).collect();
        let sends: Vec<_> = (0..10)
            .map(|tag| Asked::send(&mut pair.cores[0], (1, tag), data(0, tag, len)))
            .collect();
        pair.until("a read", |pair| pair.driver(1).pieces.as_ref().unwrap().reads() > 0);
        (0..round).for_each(|_| pair.poll());
        pair.cores[1].fail_peer(0, Cause::Vanished);
        pair.until("the ends of receives", |_| receives.iter().all(Asked::is_finished));
        // The peer lives, and answers what it is still asked.
        let now: Vec<_> = receives.iter().map(Asked::bytes).collect();
        for _ in 0..200 {
            pair.poll();
        }
        assert!(receives.iter().zip(&now).all(|(receive, now)| receive.bytes() == *now));
        pair.cores[0].fail_peer(1, Cause::Vanished);
        pair.until("the ends of sends", |_| sends.iter().all(Asked::is_finished));
        pair.all_is_over();
    }
}
