//! Matching of receives with messages: `cargo bench --bench match`.
//!
//! With so many other receives posted, or messages unexpected: one is matched, and posted (arrives) again. Which one
//! is wanted is random. Exact receives, and those from any source with one tag, are found in hashed tables, so their
//! time is to hardly depend on the number (tables do not grow: beyond a thousand envelopes a little, and caches do
//! the rest); what matches anything takes the first of a list. A receive with a mask (in MPI: `MPI_ANY_TAG`) is
//! looked at, or looks through what is there, one by one: the last kind of each group is the worst case of that, and
//! grows with the number.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use newmad::Tag;
use newmad::internals::Tables;

const NUMBERS: [usize; 5] = [1, 10, 100, 1000, 10_000];

/// What one of so many receives names, and the message for it.
struct Kind {
    name: &'static str,
    receive: fn(usize) -> (Option<u32>, Tag),
    message: fn(usize) -> (u32, u64),
    order: Order,
}

/// Which one is wanted next.
#[derive(Clone, Copy)]
enum Order {
    /// Any. (In a fixed order that goes around every list would soon be sorted by it, for what was matched goes to
    /// its end.)
    Random,
    /// The one that has been there for longest: as any of them would do.
    Oldest,
}

/// Goes from one to the next, of so many.
struct Wanted {
    order: Order,
    n: usize,
    oldest: usize,
    state: u64,
}

impl Wanted {
    fn new(order: Order, n: usize) -> Wanted {
        Wanted { order, n, oldest: 0, state: 0x2545_f491_4f6c_dd1d }
    }

    fn next(&mut self) -> usize {
        if let Order::Oldest = self.order {
            let oldest = self.oldest;
            self.oldest = (oldest + 1) % self.n;
            return oldest;
        }
        // Marsaglia's generator, scaled to what there is.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        ((u128::from(self.state) * self.n as u128) >> 64) as usize
    }
}

fn wish(source: Option<u32>, tag: impl Into<Tag>) -> (Option<u32>, Tag) {
    (source, tag.into())
}

const KINDS: [Kind; 5] = [
    Kind {
        name: "one source, its tag",
        receive: |i| wish(Some(0), i as u64),
        message: |i| (0, i as u64),
        order: Order::Random,
    },
    Kind {
        name: "its source, one tag",
        receive: |i| wish(Some(i as u32), 7),
        message: |i| (i as u32, 7),
        order: Order::Random,
    },
    Kind {
        name: "any source, its tag",
        receive: |i| wish(None, i as u64),
        message: |i| (1, i as u64),
        order: Order::Random,
    },
    Kind {
        name: "any source, any tag",
        receive: |_| wish(None, Tag::ANY),
        message: |i| (2, i as u64),
        order: Order::Oldest,
    },
    Kind {
        name: "its source, any tag (walks)",
        receive: |i| wish(Some(i as u32), Tag::ANY),
        message: |i| (i as u32, 7),
        order: Order::Random,
    },
];

fn tables(kind: &Kind, n: usize) -> Tables {
    Tables::new((0..n).map(kind.receive)).expect("tags of a program's")
}

fn posted(c: &mut Criterion) {
    let mut group = c.benchmark_group("match: a message, so many receives posted");
    for kind in &KINDS {
        for n in NUMBERS {
            let mut tables = tables(kind, n);
            (0..n).for_each(|i| assert!(tables.receive(i).is_none()));
            let mut order = Wanted::new(kind.order, n);
            group.bench_function(BenchmarkId::new(kind.name, n), |b| {
                b.iter(|| {
                    let wanted = order.next();
                    let (source, tag) = (kind.message)(wanted);
                    assert_eq!(tables.arrive(source, tag, 0), Some(wanted));
                    assert!(tables.receive(wanted).is_none());
                });
            });
        }
    }
    group.finish();
}

fn unexpected(c: &mut Criterion) {
    let mut group = c.benchmark_group("match: a receive, so many messages unexpected");
    for kind in &KINDS {
        for n in NUMBERS {
            let mut tables = tables(kind, n);
            let arrive = |tables: &mut Tables, i| {
                let (source, tag) = (kind.message)(i);
                assert!(tables.arrive(source, tag, i as u64).is_none());
            };
            (0..n).for_each(|i| arrive(&mut tables, i));
            let mut order = Wanted::new(kind.order, n);
            group.bench_function(BenchmarkId::new(kind.name, n), |b| {
                b.iter(|| {
                    let wanted = order.next();
                    assert_eq!(tables.receive(wanted), Some(wanted as u64));
                    arrive(&mut tables, wanted);
                });
            });
        }
    }
    group.finish();
}

/// All with one source and one tag: only the order counts.
fn one_envelope(c: &mut Criterion) {
    let mut group = c.benchmark_group("match: all from one source with one tag");
    for n in NUMBERS {
        let mut tables = Tables::new((0..n).map(|_| wish(Some(0), 7))).expect("a program's tag");
        (0..n).for_each(|i| assert!(tables.receive(i).is_none()));
        let mut oldest = 0;
        group.bench_function(BenchmarkId::new("posted", n), |b| {
            b.iter(|| {
                assert_eq!(tables.arrive(0, 7, 0), Some(oldest));
                assert!(tables.receive(oldest).is_none());
                oldest = (oldest + 1) % n;
            });
        });
        let mut tables = Tables::new([wish(Some(0), 7)]).expect("a program's tag");
        (0..n as u64).for_each(|i| assert!(tables.arrive(0, 7, i).is_none()));
        let mut oldest = 0;
        group.bench_function(BenchmarkId::new("unexpected", n), |b| {
            b.iter(|| {
                assert_eq!(tables.receive(0), Some(oldest));
                assert!(tables.arrive(0, 7, oldest + n as u64).is_none());
                oldest += 1;
            });
        });
    }
    group.finish();
}

criterion_group!(benches, posted, unexpected, one_envelope);
criterion_main!(benches);
