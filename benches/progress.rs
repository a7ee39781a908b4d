//! What the pieces of the progress path cost: `cargo bench --bench progress`.

use std::hint::black_box;
use std::os::fd::RawFd;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use marcel::Mode;
use pioman::plumbing::{Delegated, DelegationLock};
use pioman::{Completion, Hint, Manager, Point, Source};

struct Count(u64);

impl Delegated for Count {
    fn run_delegated(&mut self, bits: u64) {
        self.0 += bits;
    }
}

/// A source that never has anything.
struct Silent;

// SAFETY: constants only.
unsafe impl Source for Silent {
    fn name(&self) -> &str {
        "silent"
    }
    fn poll(&self) -> bool {
        black_box(false)
    }
    fn pending(&self) -> bool {
        black_box(false)
    }
    fn fd(&self) -> Option<RawFd> {
        None
    }
    fn arm(&self) -> bool {
        true
    }
    fn disarm(&self) {}
}

fn progress(c: &mut Criterion) {
    let lock = DelegationLock::new(Count(0));
    c.bench_function("delegation lock: lock and unlock", |b| {
        b.iter(|| black_box(&lock).try_lock().map(|mut count| count.0 += 1));
    });
    c.bench_function("delegation lock: leave work, free", |b| {
        b.iter(|| black_box(&lock).delegate(1))
    });
    c.bench_function("delegation lock: leave work, held", |b| {
        let _held = lock.try_lock();
        b.iter(|| black_box(&lock).delegate(1));
    });

    c.bench_function("completion: complete, look, reset", |b| {
        let mut completion = Completion::new();
        b.iter(|| {
            black_box(&completion).complete();
            assert!(completion.is_done());
            completion.reset();
        });
    });

    let manager = Manager::builder().mode(Mode::Mono).build().expect("a manager");
    c.bench_function("poll: no source", |b| b.iter(|| manager.poll(Point::Library)));
    let _source = manager.add_source(Arc::new(Silent)).expect("room for a source");
    c.bench_function("poll: one silent source", |b| b.iter(|| manager.poll(Point::Library)));
    c.bench_function("wait: complete already", |b| {
        let completion = Completion::new();
        completion.complete();
        b.iter(|| manager.wait(black_box(&completion), Hint::Short));
    });
}

criterion_group!(benches, progress);
criterion_main!(benches);
