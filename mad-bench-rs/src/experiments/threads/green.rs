//! marcel's threads.
//!
//! One worker is mode mono, all are mode smp with a compute virtual processor for each core. The program runs on a
//! compute thread in both, and not where [`Runtime::run`] would put it in mode smp, on a reactive one.

use marcel::sync::channel::{self, Receiver, Sender};
use marcel::sync::{Condvar, Mutex, MutexGuard};
use marcel::{Builder, JoinHandle, Mode, Runtime};

use crate::experiments::threads::ops::{Library, Measurement, measure};

/// The library.
pub(crate) struct Marcel;

/// Runs a program in a runtime of its own.
///
/// # Errors
/// What the runtime or the program says.
pub(crate) fn run(
    measurement: Measurement<'_>,
    mut report: impl FnMut(f64) -> Result<(), String>,
) -> Result<(), String> {
    let builder = Runtime::builder();
    let builder = match measurement.workers {
        1 => builder.mode(Mode::Mono),
        n => builder.mode(Mode::Smp).vps(n as usize),
    };
    let runtime = builder.build().map_err(|e| e.to_string())?;
    let (op, Measurement { workers, samples, threads, .. }) =
        (measurement.op.to_owned(), measurement);
    let thread = runtime.spawn(move || {
        let mut found = Vec::new();
        measure::<Marcel>(Measurement { op: &op, workers, samples, threads }, |sample| {
            found.push(sample);
            Ok(())
        })?;
        Ok::<_, String>(found)
    });
    let found = thread.join().map_err(|_| "its thread panicked".to_string())??;
    found.into_iter().try_for_each(&mut report)
}

impl Library for Marcel {
    type Handle<T: Send + 'static> = JoinHandle<T>;
    type Mutex = Mutex<u64>;
    type Guard<'a> = MutexGuard<'a, u64>;
    type Condvar = Condvar;
    type Sender = Sender<u64>;
    type Receiver = Receiver<u64>;

    fn try_spawn<T: Send + 'static>(
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, String> {
        Builder::new().spawn(f).map_err(|e| e.to_string())
    }
    fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        marcel::spawn(f)
    }
    fn join<T: Send + 'static>(handle: JoinHandle<T>) -> T {
        handle.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
    }
    fn yield_now() {
        marcel::yield_now();
    }
    fn mutex() -> Mutex<u64> {
        Mutex::new(0)
    }
    fn lock(mutex: &Mutex<u64>) -> MutexGuard<'_, u64> {
        mutex.lock()
    }
    fn condvar() -> Condvar {
        Condvar::new()
    }
    fn wait<'a>(condvar: &Condvar, guard: Self::Guard<'a>) -> Self::Guard<'a> {
        condvar.wait(guard)
    }
    fn notify_one(condvar: &Condvar) {
        condvar.notify_one();
    }
    fn notify_all(condvar: &Condvar) {
        condvar.notify_all();
    }
    fn channel() -> (Sender<u64>, Receiver<u64>) {
        channel::bounded(1)
    }
    fn send(sender: &Sender<u64>, x: u64) {
        sender.send(x).expect("the receiver outlives the exchange");
    }
    fn receive(receiver: &Receiver<u64>) -> u64 {
        receiver.recv().expect("the sender outlives the exchange")
    }
}
