//! All ranks' plans carried out in one thread, in any order that is possible, against a sequential oracle.
//!
//! A message is copied when it is sent (eager) or when it arrives (rendezvous); receives of a pair get its messages in
//! order. Whatever is under way at once is checked not to touch the same bytes. Some ranks walk through a part of their
//! plan first, as callers that wait do (`straight`).

use std::collections::HashMap;

use proptest::prelude::*;

use crate::coll::algo::choose::{Choices, algorithms, choose};
use crate::coll::algo::record;
use crate::coll::operator::{Op, Operator, as_bytes};
use crate::coll::plan::{Action, Buf, Place, Plan, Progress, Side};
use crate::coll::recorder::Recorder;
use crate::coll::task::{Blocks, Task};

struct Rank {
    plan: Plan,
    progress: Progress,
    /// The next step of a caller that walks.
    walk: Option<usize>,
    buffers: [Vec<u8>; 3],
    /// Messages under way: what they read, or write.
    open: Vec<(u32, Place, bool)>,
}

struct Sent {
    step: u32,
    /// What was copied already.
    data: Option<Vec<u8>>,
}

#[derive(Default)]
struct Pair {
    sent: std::collections::VecDeque<Sent>,
    posted: std::collections::VecDeque<u32>,
}

struct World {
    ranks: Vec<Rank>,
    pairs: HashMap<(u32, u32), Pair>,
    operator: Operator,
    random: u64,
}

impl World {
    fn random(&mut self) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as usize
    }

    /// One step of some rank, or one message. False: nothing is possible any more.
    fn advance(&mut self) -> bool {
        let count = self.ranks.len();
        let first = self.random();
        let messages_first = self.random().is_multiple_of(2);
        if messages_first && self.deliver() {
            return true;
        }
        for turn in 0..count {
            let rank = (first + turn) % count;
            if let Some(at) = self.ranks[rank].walk {
                if self.walk(rank as u32, at) {
                    return true;
                }
                continue;
            }
            let choice = self.random();
            if let Some(step) = self.ranks[rank].progress.take_any(choice) {
                self.start(rank as u32, step);
                return true;
            }
        }
        self.deliver()
    }

    /// The next step of a rank that walks. False: it looks for a message that has not come.
    fn walk(&mut self, me: u32, at: usize) -> bool {
        let rank = &mut self.ranks[me as usize];
        if at == rank.plan.steps.len() {
            self.run(me, at);
            return true;
        }
        rank.walk = Some(at + 1);
        match rank.plan.action(at as u32) {
            Action::Send { to, from } => {
                let data = Some(rank.bytes(from).to_vec());
                let pair = self.pairs.entry((me, to)).or_default();
                pair.sent.push_back(Sent { step: at as u32, data });
            }
            Action::Recv { from, into } => {
                let sent = &mut self.pairs.entry((from, me)).or_default().sent;
                match sent.front().map(|sent| sent.data.is_some()) {
                    Some(true) => {
                        let data = sent.pop_front().and_then(|sent| sent.data).unwrap();
                        rank.bytes_mut(into).copy_from_slice(&data);
                    }
                    // It takes a request to receive it.
                    Some(false) => self.run(me, at),
                    None => {
                        rank.walk = Some(at);
                        return false;
                    }
                }
            }
            action @ (Action::Combine { .. } | Action::Copy { .. } | Action::Nothing) => {
                local(&self.operator, rank, action);
            }
        }
        true
    }

    /// The rest of a walk becomes a run.
    fn run(&mut self, me: u32, done: usize) {
        let rank = &mut self.ranks[me as usize];
        rank.progress = Progress::after(&rank.plan, done);
        rank.walk = None;
    }

    /// A rank that walks has looked for long enough. False: none does.
    fn give_up(&mut self) -> bool {
        let count = self.ranks.len();
        let first = self.random();
        let walks = (0..count).map(|turn| (first + turn) % count);
        let found = walks.into_iter().find_map(|rank| Some((rank, self.ranks[rank].walk?)));
        if let Some((rank, at)) = found {
            self.run(rank as u32, at);
        }
        found.is_some()
    }

    fn start(&mut self, me: u32, step: u32) {
        let eager = self.random().is_multiple_of(2);
        let operator = self.operator.clone();
        let rank = &mut self.ranks[me as usize];
        let action = rank.plan.action(step);
        let touches: Vec<(Place, bool)> = match action {
            Action::Send { from, .. } => vec![(from, false)],
            Action::Recv { into, .. } => vec![(into, true)],
            Action::Combine { left, right, keep } => {
                vec![(left, keep == Side::Left), (right, true)]
            }
            Action::Copy { from, into } => vec![(from, false), (into, true)],
            Action::Nothing => vec![],
        };
        for (place, writes) in &touches {
            assert!(!(*writes && place.buf == Buf::In), "the contribution is not written to");
            for (_, other, other_writes) in &rank.open {
                let apart = place.buf != other.buf
                    || place.at + place.len <= other.at
                    || other.at + other.len <= place.at;
                assert!(apart || !writes && !other_writes, "{action:?} meets {other:?}");
            }
        }
        match action {
            Action::Send { to, from } => {
                let data = eager.then(|| rank.bytes(from).to_vec());
                let pair = self.pairs.entry((me, to)).or_default();
                pair.sent.push_back(Sent { step, data });
                rank.progress.started(&rank.plan, step);
                if eager {
                    rank.progress.ended(&rank.plan, step);
                } else {
                    rank.open.push((step, from, false));
                }
                return;
            }
            Action::Recv { from, into } => {
                self.pairs.entry((from, me)).or_default().posted.push_back(step);
                rank.open.push((step, into, true));
                rank.progress.started(&rank.plan, step);
                return;
            }
            action => local(&operator, rank, action),
        }
        rank.progress.ended(&rank.plan, step);
    }

    fn deliver(&mut self) -> bool {
        let mut possible: Vec<(u32, u32)> = self
            .pairs
            .iter()
            .filter(|(_, pair)| !pair.sent.is_empty() && !pair.posted.is_empty())
            .map(|(pair, _)| *pair)
            .collect();
        if possible.is_empty() {
            return false;
        }
        possible.sort_unstable();
        let (from, to) = possible[self.random() % possible.len()];
        let pair = self.pairs.get_mut(&(from, to)).unwrap();
        let (sent, receive) = (pair.sent.pop_front().unwrap(), pair.posted.pop_front().unwrap());
        let data = sent.data.unwrap_or_else(|| {
            let sender = &mut self.ranks[from as usize];
            let Action::Send { from, .. } = sender.plan.action(sent.step) else { unreachable!() };
            let data = sender.bytes(from).to_vec();
            sender.open.retain(|open| open.0 != sent.step);
            sender.progress.ended(&sender.plan, sent.step);
            data
        });
        let receiver = &mut self.ranks[to as usize];
        let Action::Recv { into, .. } = receiver.plan.action(receive) else { unreachable!() };
        receiver.bytes_mut(into).copy_from_slice(&data);
        receiver.open.retain(|open| open.0 != receive);
        receiver.progress.ended(&receiver.plan, receive);
        true
    }
}

impl Rank {
    fn bytes(&self, place: Place) -> &[u8] {
        &self.buffers[place.buf as usize][place.at..place.at + place.len]
    }

    fn bytes_mut(&mut self, place: Place) -> &mut [u8] {
        &mut self.buffers[place.buf as usize][place.at..place.at + place.len]
    }
}

/// A step that is no message.
fn local(operator: &Operator, rank: &mut Rank, action: Action) {
    match action {
        Action::Combine { left, right, keep } => {
            let left_bytes = rank.bytes(left).to_vec();
            operator.apply(&left_bytes, rank.bytes_mut(right));
            if keep == Side::Left {
                let result = rank.bytes(right).to_vec();
                rank.bytes_mut(left).copy_from_slice(&result);
                rank.bytes_mut(right).fill(0xee);
            }
        }
        Action::Copy { from, into } => {
            let data = rank.bytes(from).to_vec();
            rank.bytes_mut(into).copy_from_slice(&data);
        }
        Action::Nothing | Action::Send { .. } | Action::Recv { .. } => {}
    }
}

/// One rank's part of a collective.
struct Part {
    task: Task,
    input: Vec<u8>,
    output: Vec<u8>,
    in_place: bool,
}

/// Whether callers that walk through their plans, step by step in the order of the steps, come to their ends while sends
/// do not wait for receives. (Of an all-to-all each caller waited for a message before it had sent its own.)
fn can_be_walked(ranks: &[Rank]) -> bool {
    let mut at = vec![0; ranks.len()];
    let mut messages: HashMap<(u32, u32), usize> = HashMap::new();
    loop {
        let mut moved = false;
        for (me, rank) in (0..).zip(ranks) {
            while let Some(step) = rank.plan.steps.get(at[me as usize]) {
                match step.action {
                    Action::Send { to, .. } => *messages.entry((me, to)).or_default() += 1,
                    Action::Recv { from, .. } => match messages.get_mut(&(from, me)) {
                        Some(count) if *count > 0 => *count -= 1,
                        _ => break,
                    },
                    _ => {}
                }
                at[me as usize] += 1;
                moved = true;
            }
        }
        if !moved {
            return at.iter().zip(ranks).all(|(&at, rank)| at == rank.plan.steps.len());
        }
    }
}

/// Carries it out; every rank's output.
fn run(parts: Vec<Part>, operator: &Operator, choices: &Choices, seed: u64) -> Vec<Vec<u8>> {
    let size = parts.len() as u32;
    let task = parts[0].task.clone();
    let ranks = parts
        .into_iter()
        .enumerate()
        .map(|(rank, part)| {
            let algorithm = choose(choices, &part.task, size, !operator.commutative);
            let recorder = Recorder::new(rank as u32, size, operator.element, part.in_place);
            let plan = record(recorder, &part.task, algorithm);
            let scratch = vec![0xdd; plan.scratch];
            let progress = Progress::after(&plan, 0);
            let buffers = [part.input, part.output, scratch];
            let walk = (seed >> (rank % 64) & 1 == 1).then_some(0);
            Rank { plan, progress, walk, buffers, open: Vec::new() }
        })
        .collect::<Vec<_>>();
    assert!(can_be_walked(&ranks), "callers wait for each other: {task:?}, {size} ranks");
    let operator = operator.clone();
    let mut world = World { ranks, pairs: HashMap::new(), operator, random: seed | 1 };
    while world.advance() || world.give_up() {}
    for (number, rank) in world.ranks.iter().enumerate() {
        assert!(rank.progress.is_over(), "rank {number} of {size} waits for ever");
    }
    let left = world.pairs.values().filter(|pair| !pair.sent.is_empty());
    assert_eq!(left.count(), 0, "messages that no step receives");
    world.ranks.into_iter().map(|rank| rank.buffers.into_iter().nth(1).unwrap()).collect()
}

type Pairs = [u32; 2];

/// Composition of affine maps: associative, not commutative.
fn compose() -> Op<Pairs> {
    Op::ordered(|a: Pairs, b: Pairs| {
        [a[0].wrapping_mul(b[0]), a[1].wrapping_mul(b[0]).wrapping_add(b[1])]
    })
}

fn add() -> Op<Pairs> {
    Op::new(|a: Pairs, b: Pairs| [a[0].wrapping_add(b[0]), a[1].wrapping_add(b[1])])
}

const EACH: usize = size_of::<Pairs>();

fn value(rank: usize, index: usize) -> Pairs {
    [(rank * 7919 + index * 31 + 3) as u32 | 1, (rank * 104_729 + index) as u32]
}

fn values(rank: usize, count: usize) -> Vec<u8> {
    let all: Vec<Pairs> = (0..count).map(|index| value(rank, index)).collect();
    as_bytes(&all).to_vec()
}

/// What ranks `from..to` have, combined in order.
fn fold(op: &Op<Pairs>, from: usize, to: usize, count: usize) -> Vec<u8> {
    let mut sum = values(to - 1, count);
    for rank in (from..to - 1).rev() {
        op.bytes.apply(&values(rank, count), &mut sum);
    }
    sum
}

#[derive(Clone, Debug)]
struct Case {
    operation: usize,
    algorithm: usize,
    size: usize,
    count: usize,
    counts: Vec<usize>,
    root: usize,
    commutative: bool,
    in_place: bool,
    seed: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let count = prop_oneof![0usize..20, 0usize..1000];
    let counts = proptest::collection::vec(prop_oneof![Just(0usize), 0usize..50], 17 * 17);
    (0..14usize, any::<prop::sample::Index>(), 1..=17usize, count, counts, 0..17usize)
        .prop_flat_map(|(operation, algorithm, size, count, counts, root)| {
            (any::<bool>(), any::<bool>(), any::<u64>()).prop_map(
                move |(commutative, in_place, seed)| Case {
                    operation,
                    algorithm: algorithm.index(4),
                    size,
                    count,
                    counts: counts.clone(),
                    root: root % size,
                    commutative,
                    in_place,
                    seed,
                },
            )
        })
}

/// The case with one of the algorithms that there are for it.
fn check(case: &Case) {
    let Case { size, count, root, in_place, .. } = *case;
    let op = if case.commutative { add() } else { compose() };
    let mut choices = Choices::read().unwrap();
    for (operation, names) in algorithms() {
        if let Some(name) = names.get(case.algorithm) {
            assert!(choices.force(operation, name));
        }
    }
    let len = count * EACH;
    let all: Vec<usize> = (0..size).collect();
    let part = |task: Task, input: Vec<u8>, output: usize| Part {
        task,
        input,
        output: vec![0; output],
        in_place: false,
    };
    // In place: what the rank has is at the beginning of where the result goes, or where `at` says.
    let place = |task: Task, input: Vec<u8>, output: usize, at: usize| {
        let mut whole = vec![0; output.max(at + input.len())];
        if !in_place {
            return Part { task, input, output: whole, in_place: false };
        }
        whole[at..at + input.len()].copy_from_slice(&input);
        Part { task, input: Vec::new(), output: whole, in_place: true }
    };
    let go = |parts: Vec<Part>| run(parts, &op.bytes, &choices, case.seed);
    let root32 = root as u32;
    let counts = &case.counts[..size];
    let blocks = Blocks::of_lengths(counts.iter().map(|count| count * EACH));
    let ends: usize = counts.iter().sum::<usize>() * EACH;
    match case.operation {
        0 => {
            go(all.iter().map(|_| part(Task::Barrier, vec![], 0)).collect());
        }
        1 => {
            let task = || Task::Bcast { root: root32, len };
            let parts = all.iter().map(|&rank| Part {
                task: task(),
                input: vec![],
                output: if rank == root { values(root, count) } else { vec![0; len] },
                in_place: true,
            });
            for output in go(parts.collect()) {
                assert_eq!(output, values(root, count));
            }
        }
        2 => {
            let parts = all.iter().map(|&rank| {
                let task = Task::Reduce { root: root32, len };
                match rank == root {
                    true => place(task, values(rank, count), len, 0),
                    false => part(task, values(rank, count), 0),
                }
            });
            assert_eq!(go(parts.collect())[root], fold(&op, 0, size, count));
        }
        3 => {
            let parts =
                all.iter().map(|&rank| place(Task::Allreduce { len }, values(rank, count), len, 0));
            for output in go(parts.collect()) {
                assert_eq!(output, fold(&op, 0, size, count));
            }
        }
        4 => {
            let parts = all.iter().map(|&rank| {
                let task = Task::Gather { root: root32, own: len, blocks: Some(Blocks::Even(len)) };
                match rank == root {
                    true => place(task, values(rank, count), size * len, rank * len),
                    false => part(task, values(rank, count), 0),
                }
            });
            let expected: Vec<u8> = all.iter().flat_map(|&rank| values(rank, count)).collect();
            assert_eq!(go(parts.collect())[root], expected);
        }
        5 => {
            let parts = all.iter().map(|&rank| {
                let own = blocks.len(rank as u32);
                let blocks = (rank == root).then(|| blocks.clone());
                let output = if rank == root { ends } else { 0 };
                part(Task::Gather { root: root32, own, blocks }, values(rank, counts[rank]), output)
            });
            let expected: Vec<u8> =
                all.iter().flat_map(|&rank| values(rank, counts[rank])).collect();
            assert_eq!(go(parts.collect())[root], expected);
        }
        6 => {
            let parts = all.iter().map(|&rank| {
                let task =
                    Task::Scatter { root: root32, own: len, blocks: Some(Blocks::Even(len)) };
                let input = if rank == root { values(99, size * count) } else { vec![] };
                part(task, input, len)
            });
            let whole = values(99, size * count);
            for (rank, output) in go(parts.collect()).into_iter().enumerate() {
                assert_eq!(output, whole[rank * len..(rank + 1) * len]);
            }
        }
        7 => {
            let whole = values(98, ends / EACH);
            let parts = all.iter().map(|&rank| {
                let own = blocks.len(rank as u32);
                let input = if rank == root { whole.clone() } else { vec![] };
                let blocks = (rank == root).then(|| blocks.clone());
                part(Task::Scatter { root: root32, own, blocks }, input, own)
            });
            for (rank, output) in go(parts.collect()).into_iter().enumerate() {
                let (at, len) = blocks.get(rank as u32);
                assert_eq!(output, whole[at..at + len]);
            }
        }
        8 | 9 => {
            let (blocks, counts) = match case.operation {
                8 => (Blocks::Even(len), vec![count; size]),
                _ => (blocks, counts.to_vec()),
            };
            let total = blocks.total(size as u32);
            let parts = all.iter().map(|&rank| {
                let task = Task::Allgather { blocks: blocks.clone() };
                place(task, values(rank, counts[rank]), total, blocks.get(rank as u32).0)
            });
            let expected: Vec<u8> =
                all.iter().flat_map(|&rank| values(rank, counts[rank])).collect();
            for output in go(parts.collect()) {
                assert_eq!(output, expected);
            }
        }
        10 => {
            let count = count % 100;
            let len = count * EACH;
            let parts = all.iter().map(|&rank| {
                let task = Task::Alltoall { send: Blocks::Even(len), recv: Blocks::Even(len) };
                place(task, values(rank, size * count), size * len, 0)
            });
            for (rank, output) in go(parts.collect()).into_iter().enumerate() {
                for from in 0..size {
                    let sent = values(from, size * count);
                    let (at, from) = (rank * len, from * len);
                    assert_eq!(output[from..from + len], sent[at..at + len]);
                }
            }
        }
        11 => {
            let lens = |row: &dyn Fn(usize) -> usize| Blocks::of_lengths((0..size).map(row));
            let count = |from: usize, to: usize| case.counts[from * 17 + to] * EACH;
            let sends: Vec<Blocks> = all.iter().map(|&me| lens(&|to| count(me, to))).collect();
            let recvs: Vec<Blocks> = all.iter().map(|&me| lens(&|from| count(from, me))).collect();
            let total = |blocks: &Blocks| blocks.total(size as u32);
            let parts = all.iter().map(|&me| {
                let task = Task::Alltoall { send: sends[me].clone(), recv: recvs[me].clone() };
                part(task, values(me, total(&sends[me]) / EACH), total(&recvs[me]))
            });
            for (me, output) in go(parts.collect()).into_iter().enumerate() {
                for (from, blocks) in sends.iter().enumerate() {
                    let sent = values(from, total(blocks) / EACH);
                    let (at, len) = recvs[me].get(from as u32);
                    let (source, _) = blocks.get(me as u32);
                    assert_eq!(output[at..at + len], sent[source..source + len]);
                }
            }
        }
        12 => {
            let even = count % 60;
            let (blocks, total) = match case.seed % 2 {
                0 => (Blocks::Even(even * EACH), size * even),
                _ => (blocks, ends / EACH),
            };
            let parts = all.iter().map(|&rank| {
                let task = Task::ReduceScatter { blocks: blocks.clone() };
                place(task, values(rank, total), blocks.len(rank as u32), 0)
            });
            let whole = fold(&op, 0, size, total);
            for (rank, output) in go(parts.collect()).into_iter().enumerate() {
                let (at, len) = blocks.get(rank as u32);
                assert_eq!(output[..len], whole[at..at + len]);
            }
        }
        _ => {
            let inclusive = case.seed.is_multiple_of(2);
            let parts = all.iter().map(|&rank| {
                let task = Task::Scan { len, inclusive };
                place(task, values(rank, count), len, 0)
            });
            for (rank, output) in go(parts.collect()).into_iter().enumerate() {
                match inclusive {
                    true => assert_eq!(output, fold(&op, 0, rank + 1, count)),
                    false if rank > 0 => assert_eq!(output, fold(&op, 0, rank, count)),
                    false => {}
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]
    #[test]
    fn every_algorithm_agrees_with_the_oracle(case in cases()) {
        check(&case);
    }
}

#[test]
fn small_groups_without_exception() {
    for operation in 0..14 {
        for algorithm in 0..4 {
            for size in 1..=9 {
                for count in [0, 1, 2, 13] {
                    let seed = (operation * 1000 + algorithm * 100 + size * 10 + count) as u64;
                    check(&Case {
                        operation,
                        algorithm,
                        size,
                        count,
                        counts: (0..17 * 17).map(|i| i % 4).collect(),
                        root: seed as usize % size,
                        commutative: !seed.is_multiple_of(3),
                        in_place: seed.is_multiple_of(2),
                        seed: seed * 77 + 5,
                    });
                }
            }
        }
    }
}

#[test]
fn long_vectors_are_combined_slice_by_slice() {
    let count = 3 * crate::coll::recorder::SLICE / EACH + 5;
    for algorithm in 0..4 {
        for size in [2, 3, 4] {
            let case = Case {
                operation: 3,
                algorithm,
                size,
                count,
                counts: vec![0; 17 * 17],
                root: 0,
                commutative: algorithm % 2 == 0,
                in_place: false,
                seed: 11,
            };
            check(&case);
            check(&Case { operation: 1, ..case });
        }
    }
}
