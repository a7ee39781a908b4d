//! The measured programs, written once for every library with the habits of `std::thread`.
//!
//! Here they run over marcel and kernel threads, and in `peers/threads/rust`, which includes this file, over `may`.
//! The C, C++, Go and tokio programs in `peers/threads` follow them step by step: a change of one is a change of all.
//!
//! A *sample* is the time of one operation as the mean over a run of so many that it takes [`RUN`]; how many that
//! is, runs of doubling length find out, which warm everything up as well. Start and end of a process do not count.

use std::hint::{black_box, spin_loop};
use std::ops::DerefMut;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How long the run of a sample takes at least.
const RUN: Duration = Duration::from_millis(10);
/// Threads that are alive together in `batch`.
pub(crate) const BATCH: u64 = 1000;
/// How long spread threads wait for each other on cores of their own before they let others run.
const MEET: Duration = Duration::from_millis(200);
/// Set in `memory`'s count when its threads may go.
const OPEN: u64 = 1 << 63;

/// What a thread library has to offer. Everything is called on one of its threads.
pub(crate) trait Library: Sized + 'static {
    /// Right to join a thread.
    type Handle<T: Send + 'static>;
    /// A lock around a number.
    type Mutex: Send + Sync + 'static;
    /// The lock, held.
    type Guard<'a>: DerefMut<Target = u64>;
    /// A condition of such a lock.
    type Condvar: Send + Sync + 'static;
    /// One end of a channel that holds one number.
    type Sender: Send + 'static;
    /// The other end.
    type Receiver: Send + 'static;

    /// `fib` computes this Fibonacci number.
    const FIB: u64 = 25;

    /// Starts a thread, or says why not.
    fn try_spawn<T: Send + 'static>(
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Self::Handle<T>, String>;
    /// Starts a thread.
    fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> Self::Handle<T>;
    /// Its result.
    fn join<T: Send + 'static>(handle: Self::Handle<T>) -> T;
    /// Lets others run.
    fn yield_now();
    /// A lock.
    fn mutex() -> Self::Mutex;
    /// Takes it.
    fn lock(mutex: &Self::Mutex) -> Self::Guard<'_>;
    /// A condition.
    fn condvar() -> Self::Condvar;
    /// Waits for a notification.
    fn wait<'a>(condvar: &Self::Condvar, guard: Self::Guard<'a>) -> Self::Guard<'a>;
    /// Wakes one.
    fn notify_one(condvar: &Self::Condvar);
    /// Wakes all.
    fn notify_all(condvar: &Self::Condvar);
    /// A channel.
    fn channel() -> (Self::Sender, Self::Receiver);
    /// Sends a number.
    fn send(sender: &Self::Sender, x: u64);
    /// Receives one.
    fn receive(receiver: &Self::Receiver) -> u64;
}

/// What one process measures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measurement<'a> {
    /// The program.
    pub(crate) op: &'a str,
    /// Kernel threads of the library, or cores.
    pub(crate) workers: u64,
    /// How many samples.
    pub(crate) samples: u64,
    /// Threads of `memory`.
    pub(crate) threads: u64,
}

/// Runs a program and reports its samples: nanoseconds, of `memory` bytes.
pub(crate) fn measure<L: Library>(
    measurement: Measurement<'_>,
    mut report: impl FnMut(f64) -> Result<(), String>,
) -> Result<(), String> {
    let workers = measurement.workers;
    match measurement.op {
        "createjoin" => sample(measurement, report, 100, create_join::<L>),
        "batch" => sample(measurement, report, BATCH, batch::<L>),
        "yield" => sample(measurement, report, 100, |n| yields::<L>(workers, n)),
        "handoff" => sample(measurement, report, 1000, hand_over::<L>),
        "mutex" => sample(measurement, report, 100_000, |n| locks::<L>(1, 1, n)),
        "mutex4" => sample(measurement, report, 100_000, |n| locks::<L>(workers, 4, n)),
        "channel" => sample(measurement, report, 1000, channel::<L>),
        "fib" => sample(measurement, report, 1, fork_join::<L>),
        "memory" => report(memory::<L>(measurement.threads)?),
        other => Err(format!("no program is called {other}")),
    }
}

/// A run and how many operations it was.
type Run = (Duration, u64);

fn sample(
    measurement: Measurement<'_>,
    mut report: impl FnMut(f64) -> Result<(), String>,
    least: u64,
    run: impl Fn(u64) -> Run,
) -> Result<(), String> {
    let mut n = least;
    // Thrice, and not from one operation on: another process may hold up a run for as long.
    while !(0..3).all(|_| run(n).0 >= RUN) {
        n *= 2;
    }
    for _ in 0..measurement.samples {
        let (time, operations) = run(n);
        report(time.as_nanos() as f64 / operations as f64)?;
    }
    Ok(())
}

/// One thread at a time.
fn create_join<L: Library>(n: u64) -> Run {
    let start = Instant::now();
    for i in 0..n {
        L::join(L::spawn(move || black_box(i)));
    }
    (start.elapsed(), n)
}

/// A thousand at a time, joined in the order in which they were started.
fn batch<L: Library>(n: u64) -> Run {
    let batches = n.div_ceil(BATCH);
    let mut handles = Vec::with_capacity(BATCH as usize);
    let start = Instant::now();
    for _ in 0..batches {
        handles.extend((0..BATCH).map(|i| L::spawn(move || black_box(i))));
        for handle in handles.drain(..) {
            L::join(handle);
        }
    }
    (start.elapsed(), batches * BATCH)
}

/// Where the threads that [`spread`] the others meet.
struct Meeting {
    arrived: AtomicUsize,
    start: OnceLock<Instant>,
}

impl Meeting {
    /// Waits for all. Computing, so that each worker takes one of them, and no longer than the library may take to
    /// wake its workers.
    fn meet<L: Library>(&self, all: usize) -> Instant {
        if self.arrived.fetch_add(1, SeqCst) + 1 == all {
            return *self.start.get_or_init(Instant::now);
        }
        let come = Instant::now();
        loop {
            if let Some(start) = self.start.get() {
                return *start;
            }
            if come.elapsed() > MEET {
                L::yield_now();
            }
            spin_loop();
        }
    }
}

/// Runs so many threads of `f`, spread over the workers as evenly as the library lets us: first a thread for each
/// worker, which computes until all of them run, then each of these starts its share. From then to the last end.
fn spread<L: Library>(
    workers: u64,
    threads: u64,
    f: impl Fn() + Clone + Send + 'static,
) -> Duration {
    let first = workers.min(threads) as usize;
    let meeting = Arc::new(Meeting { arrived: AtomicUsize::new(0), start: OnceLock::new() });
    let handles: Vec<_> = (0..first)
        .map(|index| {
            let (meeting, f) = (meeting.clone(), f.clone());
            L::spawn(move || {
                let start = meeting.meet::<L>(first);
                let share = (index..threads as usize).step_by(first);
                let own: Vec<_> = share.map(|_| L::spawn(f.clone())).collect();
                own.into_iter().for_each(L::join);
                start.elapsed()
            })
        })
        .collect();
    handles.into_iter().map(L::join).max().unwrap_or_default()
}

/// Two threads for each worker, which do nothing else. Time of one switch of a worker.
fn yields<L: Library>(workers: u64, n: u64) -> Run {
    let time = spread::<L>(workers, 2 * workers, move || {
        for _ in 0..n {
            L::yield_now();
        }
    });
    (time, 2 * n)
}

/// `n` times locked and unlocked by so many threads together.
fn locks<L: Library>(workers: u64, threads: u64, n: u64) -> Run {
    let mutex = Arc::new(L::mutex());
    let each = n.div_ceil(threads);
    let time = spread::<L>(workers, threads, {
        let mutex = mutex.clone();
        move || {
            for _ in 0..each {
                *L::lock(black_box(&mutex)) += 1;
            }
        }
    });
    assert_eq!(*L::lock(&mutex), each * threads, "a lock that does not lock");
    (time, each * threads)
}

/// Two threads take turns by a lock and a condition. Time from one to the other.
fn hand_over<L: Library>(n: u64) -> Run {
    fn take_turns<L: Library>(turn: &(L::Mutex, L::Condvar), mine: u64, n: u64) {
        for _ in 0..n {
            let mut now = L::lock(&turn.0);
            while *now != mine {
                now = L::wait(&turn.1, now);
            }
            *now = 1 - mine;
            L::notify_one(&turn.1);
        }
    }
    let turn = Arc::new((L::mutex(), L::condvar()));
    let start = Instant::now();
    let other = {
        let turn = turn.clone();
        L::spawn(move || take_turns::<L>(&turn, 1, n))
    };
    take_turns::<L>(&turn, 0, n);
    L::join(other);
    (start.elapsed(), 2 * n)
}

/// A number goes to and fro by two channels that hold one. Time from one thread to the other.
fn channel<L: Library>(n: u64) -> Run {
    let ((to, there), (back, here)) = (L::channel(), L::channel());
    let start = Instant::now();
    let other = L::spawn(move || {
        for _ in 0..n {
            L::send(&back, L::receive(&there) + 1);
        }
    });
    let mut x = 0;
    for _ in 0..n {
        L::send(&to, x);
        x = L::receive(&here);
    }
    L::join(other);
    assert_eq!(x, n, "a channel that loses or repeats");
    (start.elapsed(), 2 * n)
}

fn fib<L: Library>(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let first = L::spawn(move || fib::<L>(n - 1));
    let second = fib::<L>(n - 2);
    L::join(first) + second
}

/// A Fibonacci number and how many threads it takes.
pub(crate) const fn fibonacci(n: u64) -> (u64, u64) {
    let (mut a, mut b, mut i) = (0, 1, 0);
    while i < n {
        (a, b) = (b, a + b);
        i += 1;
    }
    (a, b - 1)
}

/// Fork and join: a thread for one half of the work, the other half oneself. Time per thread.
fn fork_join<L: Library>(n: u64) -> Run {
    let (expected, threads) = fibonacci(L::FIB);
    let times = n.div_ceil(threads);
    let start = Instant::now();
    for _ in 0..times {
        assert_eq!(
            fib::<L>(black_box(L::FIB)),
            expected,
            "threads that do not return what they should"
        );
    }
    (start.elapsed(), times * threads)
}

/// Resident bytes of this process.
fn resident() -> Result<u64, String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|e| e.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| "no VmRSS in /proc/self/status".into())
}

/// What so many threads that wait for one condition keep resident, for each, their handles included. The last to
/// come wakes the thread that counts.
fn memory<L: Library>(threads: u64) -> Result<f64, String> {
    struct Gate<L: Library> {
        waiting: L::Mutex,
        opened: L::Condvar,
        all_here: L::Condvar,
    }
    L::join(L::spawn(|| ()));
    let gate =
        Arc::new(Gate::<L> { waiting: L::mutex(), opened: L::condvar(), all_here: L::condvar() });
    let mut handles = Vec::new();
    let before = resident()?;
    for i in 0..threads {
        let gate = gate.clone();
        let wait = move || {
            let mut waiting = L::lock(&gate.waiting);
            *waiting += 1;
            if *waiting == threads {
                L::notify_one(&gate.all_here);
            }
            while *waiting & OPEN == 0 {
                waiting = L::wait(&gate.opened, waiting);
            }
        };
        handles.push(L::try_spawn(wait).map_err(|why| format!("after {i} threads: {why}"))?);
    }
    let mut waiting = L::lock(&gate.waiting);
    while *waiting < threads {
        waiting = L::wait(&gate.all_here, waiting);
    }
    drop(waiting);
    let bytes = resident()?.saturating_sub(before) as f64 / threads as f64;
    *L::lock(&gate.waiting) |= OPEN;
    L::notify_all(&gate.opened);
    handles.into_iter().for_each(L::join);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fib_of_25_takes_121_392_threads() {
        assert_eq!(fibonacci(25), (75_025, 121_392));
        assert_eq!([fibonacci(0), fibonacci(1), fibonacci(2)], [(0, 0), (1, 0), (1, 1)]);
    }
}
