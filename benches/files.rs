//! What a read of 4 KiB from the page cache costs: a kernel thread by the system call; a green thread by the one that
//! does not wait, by `io_uring` (a transfer), and by the blocking pool; on an idle machine, and while every virtual
//! processor computes.

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use pioman::{Manager, Runtime, fs};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 256;

fn runtime() -> Runtime {
    Runtime::build(Manager::builder().mode(marcel::Mode::Smp), marcel::Runtime::builder())
        .expect("a runtime")
}

/// The time of `n` reads by `read`, at changing offsets.
fn time(n: u64, read: impl Fn(&mut [u8], u64)) -> Duration {
    let mut buffer = [0; BLOCK];
    let start = Instant::now();
    for i in 0..n {
        read(&mut buffer, i % BLOCKS * BLOCK as u64);
    }
    start.elapsed()
}

fn reads(c: &mut Criterion) {
    let path = std::env::temp_dir().join(format!("mad-bench-files-{}", std::process::id()));
    std::fs::write(&path, vec![7; BLOCK * BLOCKS as usize]).expect("a file");
    let plain = std::fs::File::open(&path).expect("a file");
    let file = fs::File::open(&path).expect("a file");
    for computing in [false, true] {
        let mut group = c.benchmark_group(if computing { "read_4k_loaded" } else { "read_4k" });
        let read = |buffer: &mut [u8], at| file.read_exact_at(buffer, at).expect("a read");
        group.bench_function("kernel_thread", |b| {
            b.iter_custom(|n| {
                with_load(&runtime(), computing, |_| {
                    time(n, |buffer, at| plain.read_exact_at(buffer, at).expect("a read"))
                })
            })
        });
        let runtime = runtime();
        group.bench_function("green", |b| {
            b.iter_custom(|n| with_load(&runtime, computing, |r| r.run(|| time(n, read))))
        });
        group.bench_function("green_uring", |b| {
            let buffer = std::sync::Mutex::new(vec![0; BLOCK]);
            let read = |_: &mut [u8], at| {
                let mut buffer = buffer.lock().expect("no panic");
                let (n, back) = file.start_read_at(std::mem::take(&mut *buffer), at).wait();
                assert_eq!(n.expect("a read"), BLOCK);
                *buffer = back;
            };
            b.iter_custom(|n| with_load(&runtime, computing, |r| r.run(|| time(n, read))))
        });
        group.bench_function("green_export", |b| {
            let read = |buffer: &mut [u8], at| {
                marcel::blocking::export(|| plain.read_exact_at(buffer, at)).expect("a read")
            };
            b.iter_custom(|n| with_load(&runtime, computing, |r| r.run(|| time(n, read))))
        });
        group.finish();
    }
    std::fs::remove_file(&path).expect("to remove it");
}

/// Runs `f`, while a thread computes on every virtual processor if wanted.
fn with_load<T>(runtime: &Runtime, computing: bool, f: impl FnOnce(&Runtime) -> T) -> T {
    let stop = Arc::new(AtomicBool::new(false));
    let n = if computing { std::thread::available_parallelism().map_or(1, |n| n.get()) } else { 0 };
    let threads: Vec<_> = (0..n)
        .map(|_| {
            let stop = stop.clone();
            runtime.threads().spawn(move || {
                while !stop.load(Relaxed) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    let result = f(runtime);
    stop.store(true, Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    result
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = reads
}
criterion_main!(benches);
