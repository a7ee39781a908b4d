//! Long messages around a ring of ranks: each sends to its right and receives from its left.

use std::sync::atomic::Ordering;

use super::*;

/// One call of a rank's program, in the order of the program.
#[derive(Clone, Copy, Debug)]
enum Call {
    Send,
    Receive,
    /// It begins to wait for both.
    Wait,
}

/// One rank in one round.
struct Member {
    calls: Vec<Call>,
    asked: Vec<Asked>,
    waits: bool,
}

struct Ring {
    cores: Vec<Core<Virtual>>,
    network: Arc<Mutex<Network>>,
    random: Random,
}

impl Ring {
    fn new(ranks: u32, seed: u64) -> Ring {
        let nature = Nature { copies: true, room: 64, mtu: 4096, copy: usize::MAX, ..USUAL };
        let world = World::new(1, nature);
        let config = Config::new(16 << 10, 1 << 20);
        let mut cores: Vec<_> =
            (0..ranks).map(|rank| world.core_with(rank, ranks, config)).collect();
        for rank in 0..ranks {
            let right = (rank + 1) % ranks;
            let id = world.network.lock().unwrap().connect(0, [rank, right]);
            for (side, (rank, peer)) in [(rank, right), (right, rank)].into_iter().enumerate() {
                cores[rank as usize].attach(0, peer, |driver| driver.install(peer, id, side));
            }
        }
        world.network.lock().unwrap().waiters = Some(Vec::new());
        Ring { cores, network: world.network, random: Random(seed) }
    }

    fn call(&mut self, rank: u32, member: &mut Member, len: usize) {
        let ranks = self.cores.len() as u32;
        let core = &mut self.cores[rank as usize];
        match member.calls.remove(0) {
            Call::Send => {
                member.asked.push(Asked::send(core, ((rank + 1) % ranks, 0), vec![rank as u8; len]))
            }
            Call::Receive => {
                member.asked.push(Asked::recv(core, ((rank + ranks - 1) % ranks, 0), len))
            }
            Call::Wait => {
                member.asked.iter().for_each(|asked| asked.get().set_waiting());
                self.shows_waiter(rank, true);
                member.waits = true;
            }
        }
    }

    fn shows_waiter(&mut self, rank: u32, waits: bool) {
        let waiters = &self.cores[rank as usize].signals.waiters;
        waiters.store(usize::from(waits) as _, Ordering::Relaxed);
        if let Some(ranks) = &mut self.network.lock().unwrap().waiters {
            ranks.retain(|&other| other != rank);
            ranks.extend(waits.then_some(rank));
        }
    }

    /// All shift a message, in an order by chance. A rank that waits polls; others look now and then.
    fn shift(&mut self, len: usize) {
        let ranks = self.cores.len();
        let mut members: Vec<_> = (0..ranks)
            .map(|_| {
                let mut calls = vec![Call::Send, Call::Receive, Call::Wait];
                if self.random.chance(500) {
                    calls.swap(0, 1);
                }
                Member { calls, asked: Vec::new(), waits: false }
            })
            .collect();
        let mut turns = 0;
        while members.iter().any(|member| member.waits || !member.calls.is_empty()) {
            turns += 1;
            assert!(turns < 100_000, "a shift of {len} bytes never ends");
            let rank = self.random.below(ranks as u64) as usize;
            let member = &mut members[rank];
            if !member.calls.is_empty() && self.random.chance(700) {
                self.call(rank as u32, member, len);
            } else if member.waits {
                self.cores[rank].round();
                if member.asked.iter().all(Asked::is_finished) {
                    member.waits = false;
                    self.shows_waiter(rank as u32, false);
                }
            } else if member.calls.len() == 1 && self.random.chance(100) {
                self.cores[rank].round();
            }
        }
        for (rank, member) in members.iter().enumerate() {
            let left = (rank + ranks - 1) % ranks;
            let received = |asked: &&Asked| asked.get().op == crate::request::Op::Recv;
            let receive = member.asked.iter().find(received).unwrap();
            assert!(receive.message().iter().all(|&byte| byte == left as u8));
        }
    }

    /// Of each rank: bytes that it was sent as fragments.
    fn streamed(&self) -> Vec<usize> {
        let left = |rank: usize| (rank + self.cores.len() - 1) % self.cores.len();
        let of = |rank: usize| self.cores[left(rank)].gates.rails[0].driver.streamed;
        (0..self.cores.len()).map(of).collect()
    }
}

/// A rank that has sent and received at once, once, takes its next messages for ones that cross.
#[test]
fn around_a_ring_messages_are_copied_by_the_kernel_and_none_hangs() {
    let (mut messages, mut by_fragments) = (0, 0);
    for seed in 0..12 {
        let mut ring = Ring::new(3 + seed as u32 % 3, seed);
        if seed % 2 == 0 {
            ring.cores.iter().for_each(|core| core.signals.absence.comes_at_once());
        }
        for _ in 0..8 {
            let know: Vec<_> = ring.cores.iter().map(|core| core.crossing.is_expected()).collect();
            let before = ring.streamed();
            let len = 1 << ring.random.range(18, 23);
            ring.shift(len);
            for (rank, (after, before)) in ring.streamed().into_iter().zip(before).enumerate() {
                assert!(after == before || !know[rank], "seed {seed}, rank {rank}, {len} bytes");
                messages += 1;
                by_fragments += usize::from(after > before);
            }
        }
    }
    assert!(by_fragments * 20 < messages, "{by_fragments} of {messages} by fragments");
}
