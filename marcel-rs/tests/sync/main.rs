//! What `marcel::sync` promises: between green threads, kernel threads, and both, in every mode of the runtime.

mod channels;
mod interruption;
mod locks;
mod once;
mod oracle;
mod order;
mod selection;
mod shutdown;
mod signals;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use marcel::{Mode, Runtime};

/// Runs `f` in mono mode, on one compute VP with reactive ones, on more VPs than cores, and on a plain kernel thread.
fn everywhere(f: impl Fn() + Send + Sync) {
    for (mode, vps) in [(Mode::Mono, 1), (Mode::Smp, 1), (Mode::Smp, 2), (Mode::Smp, 5)] {
        let runtime = Runtime::builder().mode(mode).vps(vps).build().unwrap();
        runtime.run(&f);
    }
    f();
}

/// Runs `f` in mono mode: what happens there happens in one order.
fn alone<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    Runtime::builder().mode(Mode::Mono).build().unwrap().run(f)
}

/// A thread that the test joins: green, or a kernel thread where there is no runtime or `kernel` says so.
enum Joiner<T> {
    Green(marcel::JoinHandle<T>),
    Kernel(std::thread::JoinHandle<T>),
}

impl<T> Joiner<T> {
    fn is_finished(&self) -> bool {
        match self {
            Joiner::Green(thread) => thread.is_finished(),
            Joiner::Kernel(thread) => thread.is_finished(),
        }
    }

    fn join(self) -> T {
        match self {
            Joiner::Green(thread) => thread.join().unwrap(),
            // The virtual processor goes on meanwhile, for whoever the kernel thread waits for.
            Joiner::Kernel(thread) => {
                while !thread.is_finished() {
                    marcel::sleep(Duration::from_micros(200));
                }
                thread.join().unwrap()
            }
        }
    }
}

fn spawn<T: Send + 'static>(kernel: bool, f: impl FnOnce() -> T + Send + 'static) -> Joiner<T> {
    if kernel || !marcel::is_green() {
        Joiner::Kernel(std::thread::spawn(f))
    } else {
        Joiner::Green(marcel::spawn(f))
    }
}

/// `n` threads, every third of them a kernel thread.
fn crowd<T: Send + 'static>(n: usize, f: impl Fn(usize) -> T + Send + Sync + 'static) -> Vec<T> {
    let f = Arc::new(f);
    let threads: Vec<_> = (0..n)
        .map(|i| {
            let f = f.clone();
            spawn(i % 3 == 2, move || f(i))
        })
        .collect();
    threads.into_iter().map(Joiner::join).collect()
}

/// Lets others run until `condition` holds; a hang shows as one.
fn until(condition: impl Fn() -> bool) {
    while !condition() {
        marcel::sleep(Duration::from_micros(200));
    }
}

/// Counts what is alive, or has been dropped.
#[derive(Clone, Default)]
struct Count(Arc<AtomicUsize>);

impl Count {
    fn get(&self) -> usize {
        self.0.load(SeqCst)
    }

    fn add(&self) -> usize {
        self.0.fetch_add(1, SeqCst) + 1
    }

    fn sub(&self) -> usize {
        self.0.fetch_sub(1, SeqCst) - 1
    }
}

/// Counts when it is dropped.
struct Witness(Count);

impl Drop for Witness {
    fn drop(&mut self) {
        self.0.add();
    }
}
