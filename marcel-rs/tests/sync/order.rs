//! Fairness and hand-over, as the table in `sync` says.

use std::sync::Arc;
use std::time::Duration;

use marcel::sync::{Condvar, Event, Mutex, RwLock, Semaphore, channel};

use super::{Count, alone, everywhere, spawn};

/// Starts `n` threads one after the other, each of which waits (`act`) before the next one starts; then `go`. The order
/// in which they came through.
fn order_of(
    n: usize,
    act: impl Fn(usize) + Send + Sync + 'static,
    go: impl FnOnce(),
) -> Vec<usize> {
    let (log, act) = (Arc::new(Mutex::new(Vec::new())), Arc::new(act));
    let threads: Vec<_> = (0..n)
        .map(|i| {
            let (log, act) = (log.clone(), act.clone());
            let thread = marcel::spawn(move || {
                act(i);
                log.lock().push(i);
            });
            marcel::yield_now(); // the only virtual processor runs it until it waits
            thread
        })
        .collect();
    go();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    Arc::into_inner(log).unwrap().into_inner()
}

#[test]
fn who_waits_longest_gets_the_mutex_first() {
    alone(|| {
        let mutex = Arc::new(Mutex::new(()));
        let guard = mutex.lock();
        let theirs = mutex.clone();
        assert_eq!(order_of(6, move |_| drop(theirs.lock()), || drop(guard)), [0, 1, 2, 3, 4, 5]);
    });
}

#[test]
fn permits_go_to_who_waits_longest() {
    alone(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let theirs = semaphore.clone();
        let order = order_of(
            6,
            move |i| theirs.acquire_many(i % 2 + 1).forget(),
            || (0..9).for_each(|_| semaphore.release()),
        );
        assert_eq!(order, [0, 1, 2, 3, 4, 5]);
        assert_eq!(semaphore.available(), 0);
    });
}

#[test]
fn nobody_overtakes_who_waits_for_many_permits() {
    alone(|| {
        let semaphore = Arc::new(Semaphore::new(1));
        let theirs = semaphore.clone();
        let order = order_of(
            1,
            move |_| theirs.acquire_many(3).forget(),
            || {
                assert!(semaphore.try_acquire().is_none(), "a permit, but somebody waits");
                semaphore.release_many(2);
                assert!(semaphore.try_acquire().is_none());
            },
        );
        assert_eq!(order, [0]);
    });
}

#[test]
fn a_condvar_wakes_who_waits_longest() {
    alone(|| {
        let pair = Arc::new((Mutex::new(()), Condvar::new()));
        let theirs = pair.clone();
        let order = order_of(
            5,
            move |_| drop(theirs.1.wait(theirs.0.lock())),
            || (0..5).for_each(|_| pair.1.notify_one()),
        );
        assert_eq!(order, [0, 1, 2, 3, 4]);
    });
}

#[test]
fn readers_and_writers_are_served_in_the_order_in_which_they_came() {
    alone(|| {
        let lock = Arc::new(RwLock::new(()));
        let guard = lock.write();
        let theirs = lock.clone();
        let write = |i| i == 2 || i == 3;
        let order = order_of(
            6,
            move |i| if write(i) { drop(theirs.write()) } else { drop(theirs.read()) },
            || drop(guard),
        );
        assert_eq!(order, [0, 1, 2, 3, 4, 5]);
    });
}

#[test]
fn messages_are_handed_to_who_waits_longest() {
    alone(|| {
        let (tx, rx) = channel::unbounded();
        let order = order_of(
            5,
            move |i| assert_eq!(rx.recv(), Ok(i)),
            || (0..5).for_each(|i| tx.send(i).unwrap()),
        );
        assert_eq!(order, [0, 1, 2, 3, 4]);
    });
}

#[test]
fn senders_get_room_in_the_order_in_which_they_came() {
    for capacity in [0, 1, 2] {
        alone(move || {
            let (tx, rx) = channel::bounded(capacity);
            (0..capacity).for_each(|n| tx.send(100 + n).unwrap());
            order_of(
                5,
                move |i| tx.send(i).unwrap(),
                || {
                    let all: Vec<_> = (0..5 + capacity).map(|_| rx.recv().unwrap()).collect();
                    assert_eq!(all[capacity..], [0, 1, 2, 3, 4]);
                },
            );
        });
    }
}

#[test]
fn a_message_for_a_receiver_that_waits_is_not_taken_by_another() {
    alone(|| {
        let (tx, rx) = channel::unbounded();
        let theirs = rx.clone();
        order_of(
            1,
            move |_| assert_eq!(theirs.recv(), Ok(1)),
            || {
                tx.send(1).unwrap();
                assert!(rx.try_recv().is_err(), "it waits, and has not run yet");
            },
        );
    });
}

/// Without hand-over this would never end: the mutex is free only while the waiter does not run.
#[test]
fn a_thread_that_always_locks_again_does_not_starve_the_others() {
    everywhere(|| {
        let (mutex, got) = (Arc::new(Mutex::new(())), Arc::new(Event::new()));
        let hog = {
            let (mutex, got) = (mutex.clone(), got.clone());
            spawn(false, move || {
                let mut guard = mutex.lock();
                while !got.is_set() {
                    marcel::yield_now();
                    drop(guard);
                    guard = mutex.lock();
                }
            })
        };
        for _ in 0..3 {
            drop(mutex.lock());
        }
        got.set();
        hog.join();
    });
}

#[test]
fn readers_that_never_leave_a_gap_do_not_starve_a_writer() {
    everywhere(|| {
        let (lock, done) = (Arc::new(RwLock::new(())), Arc::new(Event::new()));
        let inside = Count::default();
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (lock, done, inside) = (lock.clone(), done.clone(), inside.clone());
                spawn(false, move || {
                    while !done.is_set() {
                        let guard = lock.read();
                        inside.add();
                        // One stays until the other has come again, unless a writer keeps it out.
                        for _ in 0..20 {
                            if inside.get() > 1 || done.is_set() {
                                break;
                            }
                            marcel::sleep(Duration::from_micros(100));
                        }
                        inside.sub();
                        drop(guard);
                    }
                })
            })
            .collect();
        for _ in 0..3 {
            drop(lock.write());
        }
        done.set();
        readers.into_iter().for_each(super::Joiner::join);
    });
}

#[test]
fn writers_that_always_lock_again_do_not_starve_a_reader() {
    everywhere(|| {
        let (lock, done) = (Arc::new(RwLock::new(())), Arc::new(Event::new()));
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let (lock, done) = (lock.clone(), done.clone());
                spawn(false, move || {
                    while !done.is_set() {
                        let _guard = lock.write();
                        marcel::yield_now();
                    }
                })
            })
            .collect();
        for _ in 0..3 {
            drop(lock.read());
        }
        done.set();
        writers.into_iter().for_each(super::Joiner::join);
    });
}
