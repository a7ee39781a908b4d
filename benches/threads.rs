//! What green threads cost, all on one virtual processor: `cargo bench --bench threads`. Beside other libraries, and on
//! all cores: `mad bench threads`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use marcel::sync::{Condvar, Mutex, channel};
use marcel::{Mode, Runtime};

/// Measures inside the runtime: `body` does something so many times.
fn bench(
    c: &mut Criterion,
    name: &str,
    body: impl Fn(u64) -> Duration + Send + Sync + Copy + 'static,
) {
    let runtime = Runtime::builder().mode(Mode::Mono).build().expect("a runtime");
    c.bench_function(name, |b| b.iter_custom(|n| runtime.run(move || body(n))));
}

/// `n` yields of each of two threads: 2 n switches, reported as one.
fn switch(n: u64) -> Duration {
    let turns = move || (0..n.div_ceil(2)).for_each(|_| marcel::yield_now());
    let start = Instant::now();
    let other = marcel::spawn(turns);
    turns();
    other.join().expect("no panic");
    start.elapsed()
}

/// With no other thread to run.
fn yield_alone(n: u64) -> Duration {
    let start = Instant::now();
    (0..n).for_each(|_| marcel::yield_now());
    start.elapsed()
}

fn create_join(n: u64) -> Duration {
    let start = Instant::now();
    for i in 0..n {
        marcel::spawn(move || i).join().expect("no panic");
    }
    start.elapsed()
}

/// Two threads take turns by a mutex and a condition variable; one hand-over.
fn hand_over(n: u64) -> Duration {
    let turn = Arc::new((Mutex::new(false), Condvar::new()));
    let take_turns = move |turn: &(Mutex<bool>, Condvar), mine: bool| {
        for _ in 0..n.div_ceil(2) {
            let mut now = turn.1.wait_while(turn.0.lock(), |now| *now != mine);
            *now = !mine;
            turn.1.notify_one();
        }
    };
    let start = Instant::now();
    let other = {
        let turn = turn.clone();
        marcel::spawn(move || take_turns(&turn, true))
    };
    take_turns(&turn, false);
    other.join().expect("no panic");
    start.elapsed()
}

/// Park and unpark: one hand-over.
fn park(n: u64) -> Duration {
    let (over, me) = (Arc::new(AtomicBool::new(false)), marcel::current());
    let start = Instant::now();
    let other = {
        let over = over.clone();
        marcel::spawn(move || {
            while !over.load(Relaxed) {
                me.unpark();
                marcel::park();
            }
        })
    };
    for _ in 0..n.div_ceil(2) {
        marcel::park();
        other.thread().unpark();
    }
    over.store(true, Relaxed);
    other.thread().unpark();
    other.join().expect("no panic");
    start.elapsed()
}

/// A number to and fro by two channels of this capacity; one message.
fn channel(capacity: usize, n: u64) -> Duration {
    let ((to, there), (back, here)) = (channel::bounded(capacity), channel::bounded(capacity));
    let start = Instant::now();
    let other = marcel::spawn(move || {
        while let Ok(x) = there.recv() {
            back.send(x + 1).expect("a receiver is there");
        }
    });
    let mut x = 0;
    for _ in 0..n.div_ceil(2) {
        to.send(x).expect("a receiver is there");
        x = here.recv().expect("a sender is there");
    }
    drop(to);
    other.join().expect("no panic");
    start.elapsed()
}

fn mutex(n: u64) -> Duration {
    let mutex = Mutex::new(0u64);
    let start = Instant::now();
    for _ in 0..n {
        *std::hint::black_box(&mutex).lock() += 1;
    }
    start.elapsed()
}

/// A thousand at a time, joined in the order in which they were started; per thread.
fn batch(n: u64) -> Duration {
    let mut handles = Vec::with_capacity(1000);
    let start = Instant::now();
    let mut left = n;
    while left > 0 {
        let now = left.min(1000);
        handles.extend((0..now).map(|i| marcel::spawn(move || i)));
        for handle in handles.drain(..) {
            handle.join().expect("no panic");
        }
        left -= now;
    }
    start.elapsed()
}

fn fibonacci(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let first = marcel::spawn(move || fibonacci(n - 1));
    let second = fibonacci(n - 2);
    first.join().expect("no panic") + second
}

/// The same by threads that borrow, a scope for each.
fn scoped_fibonacci(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    marcel::scope(|scope| {
        let first = scope.spawn(move || scoped_fibonacci(n - 1));
        let second = scoped_fibonacci(n - 2);
        first.join().expect("no panic") + second
    })
}

/// Fork and join: a thread for one half of the work, the other half oneself; per thread, of which there are 986.
fn fork_join(n: u64, fibonacci: impl Fn(u64) -> u64) -> Duration {
    let start = Instant::now();
    for _ in 0..n.div_ceil(986) {
        assert_eq!(fibonacci(std::hint::black_box(15)), 610);
    }
    start.elapsed().mul_f64(n as f64 / (n.div_ceil(986) * 986) as f64)
}

/// A scope with one thread in it.
fn scope(n: u64) -> Duration {
    let mut sum = 0;
    let start = Instant::now();
    for i in 0..n {
        marcel::scope(|scope| {
            scope.spawn(|| sum += i);
        });
    }
    std::hint::black_box(sum);
    start.elapsed()
}

fn threads(c: &mut Criterion) {
    bench(c, "switch between two threads", switch);
    bench(c, "yield alone", yield_alone);
    bench(c, "create and join", create_join);
    bench(c, "a thousand at a time", batch);
    bench(c, "a scope with a thread", scope);
    bench(c, "fork and join", |n| fork_join(n, fibonacci));
    bench(c, "fork and join in scopes", |n| fork_join(n, scoped_fibonacci));
    bench(c, "hand-over by park and unpark", park);
    bench(c, "hand-over by mutex and condvar", hand_over);
    bench(c, "channel that holds one", |n| channel(1, n));
    bench(c, "rendezvous", |n| channel(0, n));
    bench(c, "uncontended mutex", mutex);
}

criterion_group!(benches, threads);
criterion_main!(benches);
