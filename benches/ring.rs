//! The shared-memory ring of short messages: `cargo bench --bench ring`.
//!
//! In one process, with the sizes that the knobs have by default. By one thread, in and out: the instructions and the
//! two copies of a message, beside two copies alone. A ring filled until it refuses, then emptied: so it wraps around
//! once each time. By two cores: how fast messages stream, and how long one takes there and back, beside a word that
//! two cores poll, which is the least that any message costs on the machine.

mod pair;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use newmad::internals::{Receiver, Sender};
use pair::{across, until};

const SLOTS: usize = 64;
const SLOT: usize = 8256;

fn ring() -> (Sender, Receiver) {
    newmad::internals::ring(SLOTS, SLOT).expect("memory for a ring")
}

fn one_thread(c: &mut Criterion) {
    let mut group = c.benchmark_group("ring: one thread, in and out");
    for size in [8, 64, 1024, 8192] {
        group.throughput(Throughput::Bytes(size as u64));
        let (data, mut slot, mut buffer) = (vec![7u8; size], vec![0; size], vec![0; size]);
        group.bench_function(BenchmarkId::new("message", size), |b| {
            let (mut sender, mut receiver) = ring();
            let mut number = 0;
            b.iter(|| {
                assert!(sender.send(number, &data));
                assert_eq!(receiver.receive(&mut buffer), Some((number, size)));
                number += 1;
            });
        });
        assert_eq!(buffer, data);
        group.bench_function(BenchmarkId::new("two copies alone", size), |b| {
            b.iter(|| {
                slot.copy_from_slice(std::hint::black_box(&data));
                buffer.copy_from_slice(std::hint::black_box(&slot));
            });
        });
    }
    group.finish();

    let mut group = c.benchmark_group("ring: one thread, filled and emptied");
    group.throughput(Throughput::Elements(SLOTS as u64));
    group.bench_function("64 messages of 8 bytes, and one refused", |b| {
        let (mut sender, mut receiver) = ring();
        let mut buffer = [0; 8];
        b.iter(|| {
            for number in 0..SLOTS as u64 {
                assert!(sender.send(number, &number.to_ne_bytes()));
            }
            assert!(!sender.send(0, &[0; 8]), "a full ring took a message");
            for number in 0..SLOTS as u64 {
                assert_eq!(receiver.receive(&mut buffer), Some((number, 8)));
                assert_eq!(u64::from_ne_bytes(buffer), number);
            }
            assert!(receiver.receive(&mut buffer).is_none());
        });
    });
    group.finish();
}

/// Sends when there is room, and receives when there is something.
fn send(sender: &mut Sender, number: u64, data: &[u8]) {
    until(|| sender.send(number, data).then_some(()));
}

fn receive(receiver: &mut Receiver, number: u64, buffer: &mut [u8]) {
    let size = buffer.len();
    assert_eq!(until(|| receiver.receive(buffer)), (number, size));
}

fn streaming(c: &mut Criterion) {
    let mut group = c.benchmark_group("ring: two cores, one way");
    for size in [8, 64, 1024, 8192] {
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(BenchmarkId::from_parameter(size), |b| {
            let (mut sender, mut receiver) = ring();
            let (data, mut buffer) = (vec![7; size], vec![0; size]);
            b.iter_custom(|n| {
                across(
                    || (0..n).for_each(|number| send(&mut sender, number, &data)),
                    || {
                        let start = Instant::now();
                        (0..n).for_each(|number| receive(&mut receiver, number, &mut buffer));
                        start.elapsed()
                    },
                )
            });
            assert_eq!(buffer, data);
        });
    }
    group.finish();
}

fn there_and_back(c: &mut Criterion) {
    let mut group = c.benchmark_group("ring: two cores, there and back");
    for size in [8, 64, 1024, 8192] {
        group.bench_function(BenchmarkId::new("message", size), |b| {
            let ((mut to, mut there), (mut back, mut here)) = (ring(), ring());
            let (mut mine, mut theirs) = (vec![7; size], vec![0; size]);
            b.iter_custom(|n| {
                across(
                    || {
                        for number in 0..n {
                            receive(&mut there, number, &mut theirs);
                            send(&mut back, number, &theirs);
                        }
                    },
                    || {
                        let start = Instant::now();
                        for number in 0..n {
                            send(&mut to, number, &mine);
                            receive(&mut here, number, &mut mine);
                        }
                        start.elapsed()
                    },
                )
            });
            assert_eq!(mine, vec![7; size]);
        });
    }
    group.bench_function("a word that is polled", |b| {
        let word = AtomicU64::new(0);
        let turn = |now: u64| until(|| (word.load(Ordering::Acquire) == now).then_some(()));
        b.iter_custom(|n| {
            word.store(0, Ordering::Relaxed);
            across(
                || {
                    for number in 0..n {
                        turn(2 * number + 1);
                        word.store(2 * number + 2, Ordering::Release);
                    }
                },
                || {
                    let start = Instant::now();
                    for number in 0..n {
                        word.store(2 * number + 1, Ordering::Release);
                        turn(2 * number + 2);
                    }
                    start.elapsed()
                },
            )
        });
    });
    group.finish();
}

criterion_group!(benches, one_thread, streaming, there_and_back);
criterion_main!(benches);
