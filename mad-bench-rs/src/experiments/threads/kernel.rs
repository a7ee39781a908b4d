//! Kernel threads: `std::thread` and `std::sync`.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

use crate::experiments::threads::ops::Library;

/// Stack of a thread of `memory`: what is touched of it is what counts, and 10 000 have to fit.
const STACK: usize = 64 << 10;

/// The library.
pub(crate) struct Kernel;

impl Library for Kernel {
    type Handle<T: Send + 'static> = JoinHandle<T>;
    type Mutex = Mutex<u64>;
    type Guard<'a> = MutexGuard<'a, u64>;
    type Condvar = Condvar;
    type Sender = mpsc::SyncSender<u64>;
    type Receiver = mpsc::Receiver<u64>;

    /// The kernel runs them all at once: 121 392 are too many for it.
    const FIB: u64 = 15;

    fn try_spawn<T: Send + 'static>(
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, String> {
        thread::Builder::new().stack_size(STACK).spawn(f).map_err(|e| e.to_string())
    }
    fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        thread::spawn(f)
    }
    fn join<T: Send + 'static>(handle: JoinHandle<T>) -> T {
        handle.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
    }
    fn yield_now() {
        thread::yield_now();
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
        mpsc::sync_channel(1)
    }
    fn send(sender: &Self::Sender, x: u64) {
        sender.send(x).expect("the receiver outlives the exchange");
    }
    fn receive(receiver: &Self::Receiver) -> u64 {
        receiver.recv().expect("the sender outlives the exchange")
    }
}
