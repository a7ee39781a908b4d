//! A runtime that stops: who waits leaves, what was handed over goes on to the next, destructors do not hang.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use marcel::sync::channel::{self, RecvInterruptibleError};
use marcel::sync::{Barrier, Condvar, Event, Mutex, Once, OnceLock, RwLock, Semaphore};
use marcel::{Mode, Runtime, select};

use super::Count;

const LONG: Duration = Duration::from_secs(1000);

fn forever(come: &Count) -> ! {
    come.add();
    loop {
        marcel::park();
    }
}

fn runtimes() -> impl Iterator<Item = Runtime> {
    [(Mode::Mono, 1), (Mode::Smp, 1), (Mode::Smp, 3)]
        .into_iter()
        .map(|(mode, vps)| Runtime::builder().mode(mode).vps(vps).reactive(1).build().unwrap())
}

/// Waits, on a kernel thread, until so many have come, and has them go to wait.
fn until(count: &Count, n: usize) {
    let limit = Instant::now() + Duration::from_secs(60);
    while count.get() < n {
        assert!(Instant::now() < limit, "nobody comes");
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(2));
}

/// Calls what it holds when it is dropped.
struct Finally<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for Finally<F> {
    fn drop(&mut self) {
        if let Some(f) = self.0.take() {
            f();
        }
    }
}

/// Runs `f` in a destructor while a runtime stops.
fn in_a_destructor(runtime: Runtime, f: impl FnOnce() + Send + 'static) {
    let (come, done) = (Count::default(), Count::default());
    let (there, over) = (come.clone(), done.clone());
    runtime.spawn(move || {
        let _finally = Finally(Some(move || {
            assert!(marcel::is_stopping());
            f();
            over.add();
        }));
        forever(&there);
    });
    until(&come, 1);
    drop(runtime);
    assert_eq!(done.get(), 1, "the destructor has failed");
}

/// The select's frame is left by unwinding, the arms live on: the send has its message, and both are tried again.
#[test]
fn an_unwound_select_leaves_its_arms_as_they_were() {
    for runtime in runtimes() {
        let come = Count::default();
        let left = Arc::new(std::sync::Mutex::new(None));
        let (there, message) = (come.clone(), left.clone());
        runtime.spawn(move || {
            let ((tx, _rx), (_tx, rx)) = (channel::bounded(0), channel::bounded::<u8>(0));
            let (mut send, mut recv) = (tx.sending(7), rx.receiving());
            there.add();
            let arms = AssertUnwindSafe(|| channel::select(&mut [&mut recv, &mut send]));
            let stopped = catch_unwind(arms).expect_err("no arm is possible");
            assert_eq!(channel::try_select(&mut [&mut recv, &mut send]), None);
            *message.lock().unwrap() = send.into_message();
            resume_unwind(stopped)
        });
        until(&come, 1);
        drop(runtime);
        assert_eq!(*left.lock().unwrap(), Some(7));
    }
}

#[test]
fn waits_that_may_fail_fail_at_once_in_a_destructor() {
    for runtime in runtimes() {
        in_a_destructor(runtime, || {
            let mutex = Mutex::new(());
            let guard = mutex.lock();
            assert!(mutex.try_lock_timeout(LONG).is_none() && mutex.lock_interruptible().is_err());
            drop(guard);
            let lock = RwLock::new(());
            let guard = lock.write();
            assert!(
                lock.try_read_timeout(LONG).is_none() && lock.try_write_timeout(LONG).is_none()
            );
            assert!(lock.read_interruptible().is_err() && lock.write_interruptible().is_err());
            drop(guard);

            let condvar = Condvar::new();
            let guard = condvar.wait(mutex.lock());
            let guard = condvar.wait_while(guard, |()| true);
            let (guard, result) = condvar.wait_timeout(guard, LONG);
            assert!(result.timed_out());
            assert!(condvar.wait_interruptible(guard).1.is_err());

            assert!(!Event::new().wait_timeout(LONG));
            Event::new().wait();
            assert!(!Barrier::new(2).wait().is_leader());
            Once::new().wait();
            assert!(OnceLock::<()>::new().wait_interruptible().is_err());
            assert!(Semaphore::new(0).acquire_timeout(LONG).is_none());

            let (tx, rx) = channel::bounded(0);
            assert!(tx.send(1).is_err() && rx.recv().is_err());
            assert!(tx.send_timeout(1, LONG).is_err() && rx.recv_timeout(LONG).is_err());
            assert_eq!(rx.recv_interruptible(), Err(RecvInterruptibleError::Interrupted));
            assert_eq!(rx.iter().next(), None);
            select! {
                recv(rx) -> got => assert!(got.is_err()),
                send(tx, 1) -> sent => assert!(sent.is_err()),
            }
        });
    }
}

#[test]
fn what_is_there_is_there_in_a_destructor_too() {
    for runtime in runtimes() {
        in_a_destructor(runtime, || {
            let (tx, rx) = channel::bounded(1);
            tx.send(1).unwrap();
            assert_eq!(rx.recv(), Ok(1));
            drop(Semaphore::new(1).acquire());
            *RwLock::new(1).write() += 1;
            let cell = OnceLock::new();
            assert_eq!(cell.get_or_init(|| 3), &3);
            Once::new().call_once(|| ());
        });
    }
}

#[test]
fn permits_taken_on_credit_are_paid_for() {
    for runtime in runtimes() {
        let semaphore = Arc::new(Semaphore::new(0));
        let theirs = semaphore.clone();
        in_a_destructor(runtime, move || {
            theirs.acquire_many(3).forget();
            assert_eq!(theirs.available(), 0);
            drop(theirs.acquire()); // pays for itself
        });
        semaphore.release_many(2);
        assert!(semaphore.try_acquire().is_none(), "two of three are paid for");
        semaphore.release_many(2);
        assert_eq!(semaphore.available(), 1);
    }
}

/// Hands something to a thread that waits, on a virtual processor that does not run it before the runtime stops.
fn hand_over_and_stop(wait: impl FnOnce() + Send + 'static, hand: impl FnOnce()) {
    let runtime = Runtime::builder().mode(Mode::Mono).build().unwrap();
    let (come, computes, stop) = (Count::default(), Count::default(), Count::default());
    let there = come.clone();
    runtime.spawn(move || {
        there.add();
        wait();
    });
    until(&come, 1);
    let (there, end) = (computes.clone(), stop.clone());
    runtime.spawn(move || {
        there.add();
        while end.get() == 0 {
            std::hint::spin_loop();
        }
    });
    until(&computes, 1);
    hand();
    let timer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        stop.add();
    });
    drop(runtime); // told to stop before the computing thread ends, unless this machine is very busy
    timer.join().unwrap();
}

/// At least five tries, and until one has passed on what its thread was given; a minute is enough for that.
fn some_are_passed_on(mut passes_on: impl FnMut() -> bool) {
    let (limit, mut passed_on) = (Instant::now() + Duration::from_secs(60), 0);
    for tries in 1.. {
        passed_on += usize::from(passes_on());
        if tries >= 5 && passed_on > 0 {
            break;
        }
        assert!(Instant::now() < limit, "nothing was passed on in {tries} tries");
    }
}

#[test]
fn a_message_for_a_thread_that_is_unwound_goes_to_the_next_receiver() {
    for capacity in [None, Some(3)] {
        some_are_passed_on(|| {
            let (tx, rx) = capacity.map_or_else(channel::unbounded, channel::bounded);
            let (theirs, got) = (rx.clone(), Count::default());
            let received = got.clone();
            hand_over_and_stop(
                move || {
                    assert_eq!(theirs.recv(), Ok(1));
                    received.add();
                },
                || {
                    tx.send(1).unwrap();
                    tx.send(2).unwrap();
                },
            );
            let left: Vec<_> = rx.try_iter().collect();
            let passed_on = got.get() == 0;
            assert_eq!(left, if passed_on { vec![1, 2] } else { vec![2] });
            passed_on
        });
    }
}

#[test]
fn a_select_that_is_unwound_passes_on_what_it_was_given_and_leaves_every_queue() {
    some_are_passed_on(|| {
        let ((tx0, rx0), (tx1, rx1)) = (channel::unbounded(), channel::bounded::<i32>(0));
        let (theirs0, theirs1, got) = (rx0.clone(), rx1.clone(), Count::default());
        let received = got.clone();
        hand_over_and_stop(
            move || {
                select! {
                    recv(theirs0) -> message => assert_eq!(message, Ok(1)),
                    recv(theirs1) -> _message => unreachable!(),
                }
                received.add();
            },
            || tx0.send(1).unwrap(),
        );
        assert_eq!(rx0.try_recv().is_ok(), got.get() == 0);
        assert!(tx1.try_send(1).is_err(), "sent to a thread that is gone");
        got.get() == 0
    });
}

#[test]
fn permits_locks_and_notifications_for_a_thread_that_is_unwound_go_to_the_next() {
    for _ in 0..5 {
        let semaphore = Arc::new(Semaphore::new(0));
        let theirs = semaphore.clone();
        hand_over_and_stop(move || theirs.acquire_many(2).forget(), || semaphore.release_many(2));
        assert!(semaphore.available() == 2 || semaphore.available() == 0);

        let lock = Arc::new(RwLock::new(()));
        let guard = lock.write();
        let theirs = lock.clone();
        hand_over_and_stop(move || drop(theirs.write()), || drop(guard));
        assert!(lock.try_write().is_some(), "granted to a thread that is gone");

        let mutex = Arc::new(Mutex::new(()));
        let guard = mutex.lock();
        let theirs = mutex.clone();
        hand_over_and_stop(move || drop(theirs.lock()), || drop(guard));
        assert!(mutex.try_lock().is_some());
    }
}

#[test]
fn who_is_unwound_while_it_waits_leaves_the_queue() {
    for runtime in runtimes() {
        let (come, event) = (Count::default(), Arc::new(Event::new()));
        let (lock, mutex) = (Arc::new(RwLock::new(())), Arc::new(Mutex::new(())));
        let (full, empty) = (channel::bounded(0), channel::bounded::<i32>(0));
        let (reading, held) = (lock.read(), mutex.lock());
        for i in 0..14 {
            let (come, event, lock, mutex) =
                (come.clone(), event.clone(), lock.clone(), mutex.clone());
            let (full, empty) = (full.0.clone(), empty.1.clone());
            runtime.spawn(move || {
                come.add();
                match i % 7 {
                    0 => event.wait(),
                    1 => drop(lock.write()),
                    2 => drop(lock.read()),
                    3 => drop(mutex.lock()),
                    4 => drop(full.send(1)),
                    5 => drop(empty.recv()),
                    _ => select! { send(full, 1) -> _s => (), recv(empty) -> _m => () },
                }
            });
        }
        until(&come, 14);
        drop(runtime);
        // Each of these would walk through the stacks of threads that are gone.
        event.set();
        assert!(lock.try_read().is_some(), "behind a writer that is gone");
        drop((reading, held));
        assert!(lock.try_write().is_some() && mutex.try_lock().is_some());
        assert!(full.1.try_recv().is_err(), "a message of a sender that is gone");
        assert!(empty.0.try_send(1).is_err(), "sent to a receiver that is gone");
    }
}

#[test]
fn an_initialiser_that_is_unwound_has_not_run_and_has_not_panicked() {
    for runtime in runtimes() {
        let (come, once, cell) =
            (Count::default(), Arc::new(Once::new()), Arc::new(OnceLock::<i32>::new()));
        let (there, theirs) = (come.clone(), once.clone());
        runtime.spawn(move || theirs.call_once(|| forever(&there)));
        let (there, theirs) = (come.clone(), cell.clone());
        runtime.spawn(move || theirs.get_or_init(|| forever(&there)).to_owned());
        until(&come, 2);
        let theirs = once.clone();
        let waiter = std::thread::spawn(move || {
            let mut ran = false;
            theirs.call_once(|| ran = true);
            ran
        });
        std::thread::sleep(Duration::from_millis(2));
        drop(runtime);
        assert!(waiter.join().unwrap() && once.is_completed());
        assert_eq!(cell.get_or_init(|| 5), &5);
    }
}

#[test]
fn a_lock_is_waited_for_in_a_destructor_until_its_holder_is_unwound() {
    for runtime in runtimes() {
        let (come, seen) = (Count::default(), Count::default());
        let lock = Arc::new((Mutex::new(0), RwLock::new(0)));
        for i in 0..12 {
            let (come, seen, lock) = (come.clone(), seen.clone(), lock.clone());
            runtime.spawn(move || {
                let theirs = lock.clone();
                let _finally = Finally(Some(move || {
                    *theirs.0.lock() += 1;
                    marcel::yield_now();
                    *theirs.1.write() += 1;
                    assert!(*theirs.1.read() > 0);
                    seen.add();
                }));
                come.add();
                // One holds the mutex, another the lock to read, the others wait: unwound in some order.
                let _mutex = (i == 5).then(|| lock.0.lock());
                let _reader = (i == 7).then(|| lock.1.read());
                loop {
                    marcel::park();
                }
            });
        }
        until(&come, 12);
        drop(runtime);
        assert_eq!((seen.get(), *lock.0.lock(), *lock.1.read()), (12, 12, 12));
    }
}
