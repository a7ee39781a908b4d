//! A thread that is asked to stop: interruptible calls fail, the others wait on.

use std::sync::Arc;
use std::time::Duration;

use marcel::sync::channel::{self, RecvInterruptibleError, SendInterruptibleError};
use marcel::sync::{Barrier, Condvar, Event, Mutex, Once, OnceLock, RwLock, Semaphore};
use marcel::{Mode, Runtime};

use super::{Count, alone};

/// What a thread could wait for in vain.
struct Nothing {
    mutex: Mutex<()>,
    lock: RwLock<()>,
    semaphore: Semaphore,
    barrier: Barrier,
    event: Event,
    once: Once,
    cell: OnceLock<()>,
    condvar: Condvar,
    full: (channel::Sender<u8>, channel::Receiver<u8>),
    empty: (channel::Sender<u8>, channel::Receiver<u8>),
}

type Call = fn(&Nothing) -> bool;

/// Each interruptible call; true if it failed as interrupted. The locks are held by somebody else.
const CALLS: [Call; 13] = [
    |n| n.mutex.lock_interruptible().is_err(),
    |n| n.lock.read_interruptible().is_err(),
    |n| n.lock.write_interruptible().is_err(),
    |n| n.semaphore.acquire_interruptible().is_err(),
    |n| n.semaphore.acquire_many_interruptible(2).is_err(),
    |n| n.barrier.wait_interruptible().is_err(),
    |n| n.event.wait_interruptible().is_err(),
    |n| n.once.wait_interruptible().is_err(),
    |n| n.cell.wait_interruptible().is_err(),
    |n| n.condvar.wait_interruptible(Mutex::new(()).lock()).1.is_err(),
    |n| n.full.0.send_interruptible(9) == Err(SendInterruptibleError::Interrupted(9)),
    |n| n.empty.1.recv_interruptible() == Err(RecvInterruptibleError::Interrupted),
    |n| {
        let (mut send, mut recv) = (n.full.0.sending(9), n.empty.1.receiving());
        channel::select_interruptible(&mut [&mut send, &mut recv]).is_err()
            && send.into_message() == Some(9)
    },
];

fn nothing() -> Nothing {
    Nothing {
        mutex: Mutex::new(()),
        lock: RwLock::new(()),
        semaphore: Semaphore::new(0),
        barrier: Barrier::new(2),
        event: Event::new(),
        once: Once::new(),
        cell: OnceLock::new(),
        condvar: Condvar::new(),
        full: channel::bounded(0),
        empty: channel::bounded(0),
    }
}

/// After an interruption nobody may be left in a list: each primitive works as if nobody had waited.
fn check(nothing: &Nothing) {
    nothing.semaphore.release();
    assert!(nothing.semaphore.try_acquire().map(marcel::sync::Permit::forget).is_some());
    assert!(nothing.full.0.try_send(1).is_err() && nothing.empty.1.try_recv().is_err());
    assert!(nothing.full.1.try_recv().is_err(), "a message of a send that failed");
    nothing.condvar.notify_one();
    nothing.event.set();
}

#[test]
fn an_interruption_ends_every_interruptible_wait() {
    for (mode, vps) in [(Mode::Mono, 1), (Mode::Smp, 2)] {
        Runtime::builder().mode(mode).vps(vps).build().unwrap().run(|| {
            for call in CALLS {
                let (shared, waits) = (Arc::new(nothing()), Count::default());
                let (mutex, lock) = (shared.mutex.lock(), shared.lock.write());
                let thread = {
                    let (shared, waits) = (shared.clone(), waits.clone());
                    marcel::spawn(move || {
                        waits.add();
                        let while_it_waits = call(&shared);
                        // The request stays until it is cleared.
                        let before = call(&shared);
                        marcel::clear_interrupt();
                        (while_it_waits, before, marcel::is_interrupted())
                    })
                };
                super::until(|| waits.get() == 1);
                marcel::sleep(Duration::from_millis(2));
                assert!(!thread.is_finished());
                thread.thread().interrupt();
                assert_eq!(thread.join().unwrap(), (true, true, false));
                drop((mutex, lock));
                assert!(shared.mutex.try_lock().is_some() && shared.lock.try_write().is_some());
                check(&shared);
            }
        });
    }
}

#[test]
fn an_interrupted_thread_takes_what_is_there() {
    alone(|| {
        let shared = Arc::new(nothing());
        let theirs = shared.clone();
        let thread = marcel::spawn(move || {
            while !marcel::is_interrupted() {
                marcel::park();
            }
            theirs.semaphore.release();
            theirs.semaphore.acquire_interruptible().unwrap().forget();
            drop(theirs.mutex.lock_interruptible().unwrap());
            drop(theirs.lock.read_interruptible().unwrap());
            drop(theirs.lock.write_interruptible().unwrap());
            let (tx, rx) = channel::bounded(1);
            tx.send_interruptible(1).unwrap();
            assert_eq!(rx.recv_interruptible(), Ok(1));
            drop(tx);
            assert_eq!(rx.recv_interruptible(), Err(RecvInterruptibleError::Disconnected));
        });
        thread.thread().interrupt();
        thread.join().unwrap();
    });
}

#[test]
fn calls_that_are_not_interruptible_wait_on() {
    alone(|| {
        let shared = Arc::new(nothing());
        let guard = shared.mutex.lock();
        let theirs = shared.clone();
        let thread = marcel::spawn(move || {
            drop(theirs.mutex.lock());
            theirs.semaphore.acquire().forget();
            theirs.event.wait();
            theirs.empty.1.recv()
        });
        thread.thread().interrupt();
        marcel::sleep(Duration::from_millis(2));
        drop(guard);
        marcel::sleep(Duration::from_millis(2));
        shared.semaphore.release();
        marcel::sleep(Duration::from_millis(2));
        shared.event.set();
        marcel::sleep(Duration::from_millis(2));
        assert!(!thread.is_finished());
        shared.empty.0.send(3).unwrap();
        assert_eq!(thread.join().unwrap(), Ok(3));
    });
}

#[test]
fn who_is_interrupted_at_a_barrier_has_not_come() {
    alone(|| {
        let barrier = Arc::new(Barrier::new(2));
        let come = || {
            let barrier = barrier.clone();
            let thread = marcel::spawn(move || barrier.wait_interruptible());
            marcel::yield_now();
            thread
        };
        let gone = come();
        gone.thread().interrupt();
        assert!(gone.join().unwrap().is_err());
        let (one, other) = (come(), come());
        let leaders = [one, other].map(|thread| thread.join().unwrap().unwrap().is_leader());
        assert_eq!(leaders, [false, true]);
    });
}

#[test]
fn a_kernel_thread_is_interrupted_too() {
    let event = Arc::new(Event::new());
    let theirs = event.clone();
    let (tx, rx) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        tx.send(marcel::current()).unwrap();
        theirs.wait_interruptible().is_err()
    });
    let waiter = rx.recv().unwrap();
    std::thread::sleep(Duration::from_millis(5));
    waiter.interrupt();
    assert!(thread.join().unwrap());
}
