//! `may`: the programs of src/experiments/threads/ops.rs over its coroutines.

#[allow(dead_code, unreachable_pub)]
#[path = "../../../../../src/experiments/threads/ops.rs"]
mod ops;

use std::sync::PoisonError;

use may::coroutine::{self, JoinHandle};
use may::sync::{Condvar, Mutex, MutexGuard, mpsc};
use ops::{Measurement, Library, measure};

struct May;

impl Library for May {
    type Handle<T: Send + 'static> = JoinHandle<T>;
    type Mutex = Mutex<u64>;
    type Guard<'a> = MutexGuard<'a, u64>;
    type Condvar = Condvar;
    // Its channels have no bound; no more than one number is ever in them.
    type Sender = mpsc::Sender<u64>;
    type Receiver = mpsc::Receiver<u64>;

    fn try_spawn<T: Send + 'static>(
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, String> {
        Ok(Self::spawn(f))
    }
    fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        // SAFETY: the programs use no thread-locals, and their frames are small.
        unsafe { coroutine::spawn(f) }
    }
    fn join<T: Send + 'static>(handle: JoinHandle<T>) -> T {
        handle.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
    }
    fn yield_now() {
        coroutine::yield_now();
    }
    fn mutex() -> Mutex<u64> {
        Mutex::new(0)
    }
    fn lock(mutex: &Mutex<u64>) -> MutexGuard<'_, u64> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn condvar() -> Condvar {
        Condvar::new()
    }
    fn wait<'a>(condvar: &Condvar, guard: Self::Guard<'a>) -> Self::Guard<'a> {
        condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }
    fn notify_one(condvar: &Condvar) {
        condvar.notify_one();
    }
    fn notify_all(condvar: &Condvar) {
        condvar.notify_all();
    }
    fn channel() -> (Self::Sender, Self::Receiver) {
        mpsc::channel()
    }
    fn send(sender: &Self::Sender, x: u64) {
        sender.send(x).expect("the receiver outlives the exchange");
    }
    fn receive(receiver: &Self::Receiver) -> u64 {
        receiver.recv().expect("the sender outlives the exchange")
    }
}

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [op, numbers @ ..] = &arguments[..] else { return Err("no operation".into()) };
    let numbers: Vec<u64> = numbers.iter().flat_map(|text| text.parse()).collect();
    let [workers, samples, threads] = numbers[..] else {
        return Err("usage: OPERATION WORKERS SAMPLES THREADS".into());
    };
    may::config().set_workers(workers as usize);
    let op = op.clone();
    let unit = if op == "memory" { "bytes" } else { "ns" };
    May::join(May::spawn(move || {
        measure::<May>(Measurement { op: &op, workers, samples, threads }, |sample| {
            println!("{{\"op\":\"{op}\",\"{unit}\":{sample:.3}}}");
            Ok(())
        })
    }))
}
