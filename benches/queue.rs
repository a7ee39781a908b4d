//! The queues of runnable threads (marcel) and of light tasks (pioman): `cargo bench --bench queue`.
//!
//! One in, one out, with others in the queue: none of them may cost more for that. Marcel: the run queue has one
//! owner and no atomics; the inbox takes what others wake, an exchange each, and is emptied as a whole; the deque
//! holds what never ran, plain while no thief may come, and otherwise it costs a fence; then a thief beside an owner
//! that goes on. Pioman's queue is lock-free for all; what counts most is the visit of an empty one, which every
//! switch and idle round makes.

mod pair;

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use marcel::internals::{Block, Deque, Inbox, RunQueue};
use pair::{across, until};
use pioman::internals::{Node, Queue};

const OTHERS: [usize; 3] = [0, 100, 10_000];

fn marcel_own(c: &mut Criterion) {
    let mut group = c.benchmark_group("marcel: one in, one out");
    for others in OTHERS {
        let mut queue = RunQueue::default();
        (0..others).for_each(|_| queue.push(Block::new()));
        let mut block = Some(Block::new());
        group.bench_function(BenchmarkId::new("run queue", others), |b| {
            b.iter(|| {
                queue.push(block.take().expect("the one that came out"));
                block = queue.pop();
            });
        });
        assert_eq!(std::iter::from_fn(|| queue.pop()).count(), others);
    }
    for (name, alone) in [("deque, without thieves", true), ("deque, open to thieves", false)] {
        for others in OTHERS {
            let mut deque = Deque::new(alone);
            (0..others).for_each(|_| deque.push(Block::new()));
            let mut block = Some(Block::new());
            group.bench_function(BenchmarkId::new(name, others), |b| {
                b.iter(|| {
                    deque.push(block.take().expect("the one that came out"));
                    block = deque.pop();
                });
            });
            assert_eq!(std::iter::from_fn(|| deque.pop()).count(), others);
        }
    }
    group.bench_function("deque, by a thief", |b| {
        let mut deque = Deque::new(false);
        let thief = deque.thief();
        let mut block = Some(Block::new());
        b.iter(|| {
            deque.push(block.take().expect("the one that came out"));
            block = thief.steal();
        });
        assert!(block.is_some());
    });
    group.bench_function("deque, a thief finds nothing", |b| {
        let thief = Deque::new(false).thief();
        b.iter(|| assert!(black_box(&thief).steal().is_none()));
    });
    group.finish();
}

/// So many pushed, then emptied into a run queue, as a virtual processor does; per round.
fn marcel_inbox(c: &mut Criterion) {
    let mut group = c.benchmark_group("marcel: inbox, so many woken by others");
    for many in [1, 10, 100] {
        let inbox = Inbox::default();
        let mut queue = RunQueue::default();
        (0..many).for_each(|_| queue.push(Block::new()));
        group.throughput(Throughput::Elements(many));
        group.bench_function(BenchmarkId::from_parameter(many), |b| {
            b.iter(|| {
                while let Some(block) = queue.pop() {
                    inbox.push(block);
                }
                let mut came = 0;
                inbox.drain(|block| {
                    queue.push(block);
                    came += 1;
                });
                assert_eq!(came, many);
            });
        });
    }
    group.finish();
}

/// The owner puts `n` in, two for each that it takes out, while a thief takes what it can: all come out once.
fn marcel_stealing(c: &mut Criterion) {
    c.bench_function(
        "marcel: two in, one out by the owner, the others by a thief; per thread",
        |b| {
            let mut blocks: Vec<Block> = Vec::new();
            b.iter_custom(|n| {
                blocks.extend((blocks.len() as u64..n).map(|_| Block::new()));
                let (mut given, keep) = (std::mem::take(&mut blocks), AtomicBool::new(true));
                let rest = given.split_off(n as usize);
                let mut deque = Deque::new(false);
                let (thief, mut stolen) = (deque.thief(), Vec::with_capacity(n as usize));
                let (took, mut out) = across(
                    || {
                        while keep.load(Ordering::Acquire) {
                            stolen.extend(thief.steal());
                        }
                    },
                    || {
                        let mut out = Vec::with_capacity(n as usize);
                        let start = Instant::now();
                        while let Some(block) = given.pop() {
                            deque.push(block);
                            if let Some(block) = given.pop() {
                                deque.push(block);
                            }
                            out.extend(deque.pop());
                        }
                        while let Some(block) = deque.pop() {
                            out.push(block);
                        }
                        let took = start.elapsed();
                        keep.store(false, Ordering::Release);
                        (took, out)
                    },
                );
                out.extend(stolen);
                assert_eq!(out.len() as u64, n);
                out.extend(rest);
                blocks = out;
                took
            });
        },
    );
}

fn pioman_own(c: &mut Criterion) {
    let mut group = c.benchmark_group("pioman: one in, one out");
    let queue = Queue::new();
    group.bench_function("visit of an empty queue", |b| {
        b.iter(|| assert!(!black_box(&queue).is_occupied()));
    });
    group.bench_function("nothing there after all", |b| {
        b.iter(|| assert!(black_box(&queue).pop(0).is_none()));
    });
    for others in OTHERS {
        let queue = Queue::new();
        (0..others).for_each(|_| queue.push(0, Node::new()));
        let mut node = Some(Node::new());
        group.bench_function(BenchmarkId::new("queue", others), |b| {
            b.iter(|| {
                queue.push(0, node.take().expect("the one that came out"));
                node = queue.pop(0);
            });
        });
        assert_eq!(std::iter::from_fn(|| queue.pop(0)).count(), others);
    }
    group.finish();
}

/// From one core to another and back, through two queues: what a task pays that changes cores.
fn pioman_across(c: &mut Criterion) {
    let mut group = c.benchmark_group("pioman: two cores");
    group.bench_function("a task there and back", |b| {
        let (there, back) = (Queue::new(), Queue::new());
        let mut node = Some(Node::new());
        b.iter_custom(|n| {
            across(
                || (0..n).for_each(|_| back.push(0, until(|| there.pop(0)))),
                || {
                    let start = Instant::now();
                    for _ in 0..n {
                        there.push(0, node.take().expect("the one that came back"));
                        node = Some(until(|| back.is_occupied().then(|| back.pop(0)).flatten()));
                    }
                    start.elapsed()
                },
            )
        });
    });
    // Both on the same words: the worst case. Four tasks that go round.
    group.bench_function("one out, one in, while another core does the same", |b| {
        let queue = Queue::new();
        (0..4).for_each(|_| queue.push(0, Node::new()));
        b.iter_custom(|n| {
            let turns = || {
                for _ in 0..n {
                    queue.push(0, until(|| queue.pop(0)));
                }
            };
            across(turns, || {
                let start = Instant::now();
                turns();
                start.elapsed()
            })
        });
        assert_eq!(std::iter::from_fn(|| queue.pop(0)).count(), 4);
    });
    group.finish();
}

criterion_group!(benches, marcel_own, marcel_inbox, marcel_stealing, pioman_own, pioman_across);
criterion_main!(benches);
