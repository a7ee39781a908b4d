//! The bare switch of stacks: `cargo bench --bench switch`. With the other back ends (`marcel-rs/src/context`):
//! `--features marcel/back-end-corosensei`, `--features marcel/back-end-context`.
//!
//! A switch to a context and back, without a scheduler: what every yield and every wait pays at the least (`--bench
//! threads` measures those). By a thread that suspends in its loop, as a generator does, and by one that suspends two
//! calls deep, as `park` and `lock` do: back ends differ there, since processors predict returns by the calls before
//! them. Then a body that begins and ends on a pooled context: the part of a thread's creation that is the switch's.

use criterion::{Criterion, criterion_group, criterion_main};
use marcel::internals::{BACK_END, Rounds, Starts};

fn switch(c: &mut Criterion) {
    let mut group = c.benchmark_group(format!("switch ({BACK_END})"));
    for (name, deep) in [("there and back", false), ("there and back, two calls deep", true)] {
        group.bench_function(name, |b| {
            let rounds = Rounds::new(deep).expect("memory for a stack");
            let (before, mut n) = (rounds.count(), 0);
            b.iter(|| {
                rounds.round();
                n += 1;
            });
            assert_eq!(rounds.count() - before, n);
        });
    }
    group.bench_function("a body begins and ends", |b| {
        let mut starts = Starts::new();
        let mut ended = starts.start().expect("memory for a stack");
        b.iter(|| {
            let now = starts.start().expect("memory for a stack");
            assert_eq!(now, ended + 1);
            ended = now;
        });
    });
    group.finish();
}

criterion_group!(benches, switch);
criterion_main!(benches);
