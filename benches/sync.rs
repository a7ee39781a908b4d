//! What telling waiters costs: `cargo bench --bench sync`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use pioman::{Completion, Cond, Manager, Notifier, Semaphore, Waitable};

/// Time of `measured` alone, after an untimed `prepare` each.
fn alone<T>(n: u64, mut prepare: impl FnMut() -> T, mut measured: impl FnMut(&T)) -> Duration {
    (0..n).fold(Duration::ZERO, |sum, _| {
        let input = prepare();
        let start = Instant::now();
        measured(&input);
        sum + start.elapsed()
    })
}

fn sync(c: &mut Criterion) {
    c.bench_function("nothing, between two looks at the clock", |b| {
        b.iter_custom(|n| alone(n, || (), |()| ()));
    });
    c.bench_function("complete: without waiters", |b| {
        let completion = Completion::new();
        b.iter_custom(|n| alone(n, || (), |()| black_box(&completion).complete()));
    });
    for waiters in [1, 2, 8, 64] {
        c.bench_function(&format!("complete: {waiters} watched by a descriptor"), |b| {
            let notifier = Notifier::new().expect("a descriptor");
            b.iter_custom(|n| {
                (0..n).fold(Duration::ZERO, |sum, _| {
                    let completion = Completion::new();
                    let watched: Vec<_> =
                        (0..waiters).map(|_| notifier.watch(&completion)).collect();
                    let start = Instant::now();
                    black_box(&completion).complete();
                    let time = start.elapsed();
                    drop(watched);
                    sum + time
                })
            });
        });
    }
    c.bench_function("complete: one callback", |b| {
        b.iter_custom(|n| {
            (0..n).fold(Duration::ZERO, |sum, _| {
                let completion = Completion::new();
                let callback = completion.on_complete(|| ());
                let start = Instant::now();
                black_box(&completion).complete();
                let time = start.elapsed();
                drop(callback);
                sum + time
            })
        });
    });
    // Kernel threads in the same latch: the time until the call returns, wake-ups by the kernel included.
    let manager = Manager::builder().mode(marcel::Mode::NoThread).build().expect("a manager");
    for waiters in [1usize, 2, 4] {
        c.bench_function(&format!("complete: {waiters} kernel threads sleep"), |b| {
            b.iter_custom(|n| {
                (0..n).fold(Duration::ZERO, |sum, _| {
                    let completion = Completion::new();
                    std::thread::scope(|s| {
                        for _ in 0..waiters {
                            s.spawn(|| manager.wait(&completion, pioman::Hint::Long));
                        }
                        std::thread::sleep(Duration::from_micros(300));
                        let start = Instant::now();
                        completion.complete();
                        sum + start.elapsed()
                    })
                })
            });
        });
    }

    let cond = Cond::new();
    c.bench_function("condition: signal, without waiters", |b| {
        b.iter(|| black_box(&cond).signal(1))
    });
    let semaphore = Semaphore::new(0);
    c.bench_function("semaphore: V, then P that need not wait", |b| {
        b.iter(|| {
            black_box(&semaphore).release();
            assert!(semaphore.try_acquire());
        });
    });
    for n in [2, 8] {
        c.bench_function(&format!("wait_any: {n} completions, none complete, no time"), |b| {
            let completions: Vec<_> = (0..n).map(|_| Completion::new()).collect();
            let what: Vec<Waitable<'_>> = completions.iter().map(Waitable::from).collect();
            let past = Instant::now();
            b.iter(|| manager.wait_any_until(black_box(&what), past));
        });
    }
    c.bench_function("wait_any: the last of 8 is complete", |b| {
        let completions: Vec<_> = (0..8).map(|_| Completion::new()).collect();
        completions[7].complete();
        let what: Vec<Waitable<'_>> = completions.iter().map(Waitable::from).collect();
        b.iter(|| manager.wait_any(black_box(&what)));
    });
    let notifier = Notifier::new().expect("a descriptor");
    c.bench_function("descriptor: notify, not armed", |b| b.iter(|| black_box(&notifier).notify()));
    c.bench_function("descriptor: arm and notify", |b| {
        b.iter(|| {
            notifier.arm();
            notifier.notify();
        });
    });
}

criterion_group!(benches, sync);
criterion_main!(benches);
