//! tokio's tasks: step by step the programs of src/experiments/threads/ops.rs, which cannot be shared, since what
//! waits here is a future. It has no condition variable; `Notify` is what its documentation names for the purpose.
//!
//! One worker is its current-thread scheduler, several are the multi-thread one.

use std::future::Future;
use std::hint::{black_box, spin_loop};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::sync::{Mutex, Notify, mpsc};
use tokio::task::{JoinHandle, spawn, yield_now};

const RUN: Duration = Duration::from_millis(10);
const BATCH: u64 = 1000;
const MEET: Duration = Duration::from_millis(200);
const FIB: u64 = 25;

type Run = (Duration, u64);

async fn join<T>(handle: JoinHandle<T>) -> T {
    handle.await.expect("no task panics")
}

/// One task at a time.
async fn create_join(n: u64) -> Run {
    let start = Instant::now();
    for i in 0..n {
        join(spawn(async move { black_box(i) })).await;
    }
    (start.elapsed(), n)
}

/// A thousand at a time, joined in the order in which they were started.
async fn batch(n: u64) -> Run {
    let batches = n.div_ceil(BATCH);
    let mut handles = Vec::with_capacity(BATCH as usize);
    let start = Instant::now();
    for _ in 0..batches {
        handles.extend((0..BATCH).map(|i| spawn(async move { black_box(i) })));
        for handle in handles.drain(..) {
            join(handle).await;
        }
    }
    (start.elapsed(), batches * BATCH)
}

/// First a task for each worker, which computes until all of them run, then each of these starts its share.
async fn spread<F, T>(workers: u64, threads: u64, f: F) -> Duration
where
    F: Fn() -> T + Clone + Send + 'static,
    T: Future<Output = ()> + Send + 'static,
{
    let first = workers.min(threads) as usize;
    let meeting = Arc::new((AtomicUsize::new(0), OnceLock::new()));
    let handles: Vec<_> = (0..first)
        .map(|index| {
            let (meeting, f) = (meeting.clone(), f.clone());
            spawn(async move {
                if meeting.0.fetch_add(1, SeqCst) + 1 == first {
                    let _ = meeting.1.set(Instant::now());
                }
                let come = Instant::now();
                while meeting.1.get().is_none() {
                    if come.elapsed() > MEET {
                        yield_now().await;
                    }
                    spin_loop();
                }
                let share = (index..threads as usize).step_by(first);
                let own: Vec<_> = share.map(|_| spawn(f())).collect();
                for handle in own {
                    join(handle).await;
                }
                meeting.1.get().map_or(Duration::ZERO, Instant::elapsed)
            })
        })
        .collect();
    let mut longest = Duration::ZERO;
    for handle in handles {
        longest = longest.max(join(handle).await);
    }
    longest
}

/// Two tasks for each worker, which do nothing else. Time of one switch of a worker.
async fn yields(workers: u64, n: u64) -> Run {
    let often = move || async move {
        for _ in 0..n {
            yield_now().await;
        }
    };
    (spread(workers, 2 * workers, often).await, 2 * n)
}

/// So many tasks lock and unlock, n times together.
async fn locks(workers: u64, threads: u64, n: u64) -> Run {
    let mutex = Arc::new(Mutex::new(0u64));
    let each = n.div_ceil(threads);
    let often = {
        let mutex = mutex.clone();
        move || {
            let mutex = mutex.clone();
            async move {
                for _ in 0..each {
                    *black_box(&mutex).lock().await += 1;
                }
            }
        }
    };
    let time = spread(workers, threads, often).await;
    assert_eq!(*mutex.lock().await, each * threads, "a lock that does not lock");
    (time, each * threads)
}

/// Two tasks take turns by a lock and a notification of each: of one for both, one could take what is the other's.
async fn hand_over(n: u64) -> Run {
    async fn take_turns(turn: &(Mutex<u64>, [Notify; 2]), mine: u64, n: u64) {
        for _ in 0..n {
            let mut now = turn.0.lock().await;
            while *now != mine {
                drop(now);
                turn.1[mine as usize].notified().await;
                now = turn.0.lock().await;
            }
            *now = 1 - mine;
            turn.1[1 - mine as usize].notify_one();
        }
    }
    let turn = Arc::new((Mutex::new(0), [Notify::new(), Notify::new()]));
    let start = Instant::now();
    let other = {
        let turn = turn.clone();
        spawn(async move { take_turns(&turn, 1, n).await })
    };
    take_turns(&turn, 0, n).await;
    join(other).await;
    (start.elapsed(), 2 * n)
}

/// A number goes to and fro by two channels that hold one.
async fn channel(n: u64) -> Run {
    let ((to, mut there), (back, mut here)) = (mpsc::channel(1), mpsc::channel(1));
    let start = Instant::now();
    let other = spawn(async move {
        for _ in 0..n {
            let x: u64 = there.recv().await.expect("the sender outlives the exchange");
            back.send(x + 1).await.expect("the receiver outlives the exchange");
        }
    });
    let mut x = 0;
    for _ in 0..n {
        to.send(x).await.expect("the receiver outlives the exchange");
        x = here.recv().await.expect("the sender outlives the exchange");
    }
    join(other).await;
    assert_eq!(x, n, "a channel that loses or repeats");
    (start.elapsed(), 2 * n)
}

fn fib(n: u64) -> Pin<Box<dyn Future<Output = u64> + Send>> {
    Box::pin(async move {
        if n < 2 {
            return n;
        }
        let first = spawn(fib(n - 1));
        let second = fib(n - 2).await;
        join(first).await + second
    })
}

/// Fork and join: a task for one half of the work, the other half oneself.
async fn fork_join(n: u64) -> Run {
    let (expected, next) = (0..FIB).fold((0, 1), |(a, b), _| (b, a + b));
    let threads = next - 1;
    let times = n.div_ceil(threads);
    let start = Instant::now();
    for _ in 0..times {
        assert_eq!(
            fib(black_box(FIB)).await,
            expected,
            "tasks that do not return what they should"
        );
    }
    (start.elapsed(), times * threads)
}

fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.expect("VmRSS in /proc/self/status") * 1024.0
}

/// Resident bytes of tasks that wait for one notification, for each, their handles included. The last to come wakes the
/// task that counts.
async fn memory(threads: u64) -> f64 {
    join(spawn(async {})).await;
    let gate = Arc::new((AtomicU64::new(0), AtomicBool::new(false), Notify::new(), Notify::new()));
    let before = resident();
    let mut handles = Vec::new();
    for _ in 0..threads {
        let gate = gate.clone();
        handles.push(spawn(async move {
            let opened = gate.2.notified();
            if gate.0.fetch_add(1, SeqCst) + 1 == threads {
                gate.3.notify_one();
            }
            if !gate.1.load(SeqCst) {
                opened.await;
            }
        }));
    }
    gate.3.notified().await;
    let bytes = (resident() - before) / threads as f64;
    gate.1.store(true, SeqCst);
    gate.2.notify_waiters();
    for handle in handles {
        join(handle).await;
    }
    bytes
}

async fn once(op: &str, workers: u64, n: u64) -> Run {
    match op {
        "createjoin" => create_join(n).await,
        "batch" => batch(n).await,
        "yield" => yields(workers, n).await,
        "handoff" => hand_over(n).await,
        "mutex" => locks(1, 1, n).await,
        "mutex4" => locks(workers, 4, n).await,
        "channel" => channel(n).await,
        _ => fork_join(n).await,
    }
}

async fn measure(op: String, workers: u64, samples: u64, threads: u64) {
    if op == "memory" {
        println!("{{\"op\":\"memory\",\"bytes\":{:.1}}}", memory(threads).await);
        return;
    }
    let least = match op.as_str() {
        "createjoin" => 100,
        "batch" | "handoff" | "channel" => 1000,
        "yield" => 100,
        "mutex" | "mutex4" => 100_000,
        _ => 1,
    };
    let (mut n, mut long) = (least, 0);
    // Thrice, since another process may hold up one.
    while long < 3 {
        match once(&op, workers, n).await.0 < RUN {
            true => (n, long) = (2 * n, 0),
            false => long += 1,
        }
    }
    for _ in 0..samples {
        let (time, operations) = once(&op, workers, n).await;
        let ns = time.as_nanos() as f64 / operations as f64;
        println!("{{\"op\":\"{op}\",\"ns\":{ns:.3}}}");
    }
}

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [op, numbers @ ..] = &arguments[..] else { return Err("no operation".into()) };
    let numbers: Vec<u64> = numbers.iter().flat_map(|text| text.parse()).collect();
    let [workers, samples, threads] = numbers[..] else {
        return Err("usage: OPERATION WORKERS SAMPLES THREADS".into());
    };
    let runtime = match workers {
        1 => Builder::new_current_thread().build(),
        n => Builder::new_multi_thread().worker_threads(n as usize).build(),
    };
    let op = op.clone();
    let runtime = runtime.map_err(|e| e.to_string())?;
    runtime.block_on(async { join(spawn(measure(op, workers, samples, threads))).await });
    Ok(())
}
