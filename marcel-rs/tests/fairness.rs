//! One virtual processor, and a thread whose operations never have to wait: its neighbours run all the same.
//!
//! Each test runs in a process of its own, since its failure is a hang.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use marcel::plumbing::budget;
use marcel::policy::{Fair, Fresh, Policy, Ready, Why};
use marcel::sync::{Barrier, Event, Mutex, RwLock, Semaphore, channel};
use marcel::{Mode, Runtime};

mod common;
#[path = "common/neighbour.rs"]
mod neighbour;
use common::in_a_child;

/// What takes longer hangs.
const LIMIT: Duration = Duration::from_secs(120);
/// Much more than a turn has.
const MANY: usize = 10_000;

/// In a process of its own, on one virtual processor: makes `operations` until the neighbour has run.
fn lets_a_sleeper_run<F: FnMut()>(name: &str, operations: impl FnOnce() -> F + Send) {
    in_a_child(name, LIMIT, || {
        let runtime = Runtime::builder().mode(Mode::Mono).build().unwrap();
        runtime.run(|| neighbour::lets_a_sleeper_run(operations()));
    });
}

#[test]
fn messages_that_are_there_let_others_run() {
    lets_a_sleeper_run("messages_that_are_there_let_others_run", || {
        let (tx, rx) = channel::unbounded();
        move || {
            tx.send(1).unwrap();
            assert_eq!(rx.recv(), Ok(1));
        }
    });
}

#[test]
fn sends_that_have_room_let_others_run() {
    lets_a_sleeper_run("sends_that_have_room_let_others_run", || {
        let (tx, rx) = channel::bounded(4);
        move || {
            tx.send(1).unwrap();
            assert_eq!(rx.try_recv(), Ok(1));
        }
    });
}

#[test]
fn a_select_that_need_not_wait_lets_others_run() {
    lets_a_sleeper_run("a_select_that_need_not_wait_lets_others_run", || {
        let (tx, rx) = channel::unbounded();
        let (keep, none) = channel::unbounded::<()>();
        move || {
            let _keep = &keep;
            tx.send(1).unwrap();
            marcel::select! {
                recv(rx) -> one => assert_eq!(one, Ok(1)),
                recv(none) -> _none => unreachable!(),
            }
        }
    });
}

#[test]
fn permits_that_are_free_let_others_run() {
    lets_a_sleeper_run("permits_that_are_free_let_others_run", || {
        let semaphore = Semaphore::new(1);
        move || drop(semaphore.acquire())
    });
}

#[test]
fn tokens_that_are_there_let_others_run() {
    lets_a_sleeper_run("tokens_that_are_there_let_others_run", || {
        || {
            marcel::current().unpark();
            marcel::park();
        }
    });
}

#[test]
fn a_barrier_of_one_lets_others_run() {
    lets_a_sleeper_run("a_barrier_of_one_lets_others_run", || {
        let barrier = Barrier::new(1);
        move || assert!(barrier.wait().is_leader())
    });
}

#[test]
fn sleeps_that_are_over_let_others_run() {
    lets_a_sleeper_run("sleeps_that_are_over_let_others_run", || || marcel::sleep(Duration::ZERO));
}

#[test]
fn calls_that_do_not_block_let_others_run() {
    lets_a_sleeper_run("calls_that_do_not_block_let_others_run", || {
        || marcel::blocking::standby(|| ())
    });
}

struct Over<F: FnMut()>(F);

impl<F: FnMut()> Drop for Over<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Makes `operations` [`MANY`] times on one virtual processor; how often a neighbour that can run has run meanwhile.
fn turns_of_a_neighbour<F: FnMut()>(operations: impl FnOnce() -> F + Send) -> usize {
    Runtime::builder().mode(Mode::Mono).build().unwrap().run(|| {
        let (turns, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let neighbour = marcel::spawn({
            let (turns, over) = (turns.clone(), over.clone());
            move || {
                while !over.load(SeqCst) {
                    turns.fetch_add(1, SeqCst);
                    marcel::yield_now();
                }
            }
        });
        marcel::yield_now();
        let before = turns.load(SeqCst);
        assert!(before > 0, "the neighbour has begun");
        let mut operation = operations();
        (0..MANY).for_each(|_| operation());
        let after = turns.load(SeqCst);
        over.store(true, SeqCst);
        neighbour.join().unwrap();
        after - before
    })
}

/// Programs make such calls while they hold a lock of the kernel's.
#[test]
fn calls_that_never_wait_never_yield() {
    let turns = turns_of_a_neighbour(|| {
        let (tx, rx) = channel::unbounded();
        let (semaphore, event) = (Semaphore::new(0), Event::new());
        let (mutex, lock) = (Mutex::new(0), RwLock::new(0));
        event.set();
        move || {
            tx.send(1).unwrap();
            assert_eq!(rx.try_recv(), Ok(1));
            semaphore.release();
            semaphore.try_acquire().unwrap().forget();
            event.wait();
            *mutex.try_lock().unwrap() += 1;
            *lock.try_write().unwrap() += 1;
            marcel::current().unpark();
        }
    });
    assert_eq!(turns, 0);
}

#[test]
fn a_thread_has_a_turn_of_operations_at_once() {
    let turns = turns_of_a_neighbour(|| {
        let semaphore = Semaphore::new(1);
        move || drop(semaphore.acquire())
    });
    assert!((MANY / 256..=MANY / 64).contains(&turns), "{turns}");
}

#[test]
fn an_exempt_thread_does_not_yield() {
    let turns = turns_of_a_neighbour(|| {
        let (semaphore, exempt) = (Semaphore::new(1), budget::exempt());
        move || {
            let _exempt = &exempt;
            drop(semaphore.acquire());
        }
    });
    assert_eq!(turns, 0);
}

/// A policy of the program's own, which locks.
struct Locks(Fair, Arc<Semaphore>);

impl Locks {
    fn lock(&self) {
        (0..MANY / 10).for_each(|_| drop(self.1.acquire()));
    }
}

// SAFETY: threads are in its own lists only, until they are returned.
unsafe impl Policy for Locks {
    fn put(&mut self, thread: Ready, why: Why) {
        self.lock();
        self.0.put(thread, why);
    }

    fn next(&mut self, fresh: &mut dyn Fresh) -> Option<Ready> {
        self.lock();
        Policy::next(&mut self.0, fresh)
    }

    fn take(&mut self, thread: marcel::ThreadId) -> Option<Ready> {
        self.0.take(thread)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// A thread that wakes another calls the policy.
#[test]
fn a_policy_that_spends_does_not_switch() {
    in_a_child("a_policy_that_spends_does_not_switch", LIMIT, || {
        let semaphore = Arc::new(Semaphore::new(1));
        let policy = move |_| Box::new(Locks(Fair::new(), semaphore.clone())) as Box<dyn Policy>;
        let runtime = Runtime::builder().mode(Mode::Mono).policy(policy).build().unwrap();
        runtime.run(|| {
            let (to, from) = (channel::bounded(0), channel::bounded(0));
            let (tx, rx) = (from.0, to.1);
            let echo = marcel::spawn(move || {
                for n in rx.iter() {
                    tx.send(n).unwrap();
                }
            });
            for n in 0..100 {
                to.0.send(n).unwrap();
                assert_eq!(from.1.recv(), Ok(n));
            }
            drop(to.0);
            echo.join().unwrap();
        });
    });
}

/// Threads that never wait are unwound where they spend, destructors included.
#[test]
fn a_runtime_whose_threads_never_wait_can_be_dropped() {
    in_a_child("a_runtime_whose_threads_never_wait_can_be_dropped", LIMIT, || {
        for (mode, vps) in [(Mode::Mono, 1), (Mode::Smp, 2)] {
            let runtime = Runtime::builder().mode(mode).vps(vps).build().unwrap();
            let (running, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            for _ in 0..4 {
                let (running, dropped) = (running.clone(), dropped.clone());
                drop(runtime.spawn(move || {
                    let (tx, rx) = channel::unbounded();
                    let (back, end) = (tx.clone(), rx.clone());
                    let _end = Over(move || {
                        // A destructor may go on for longer than a turn.
                        for n in 0..MANY {
                            back.send(n).unwrap();
                            end.recv().unwrap();
                        }
                        dropped.fetch_add(1, SeqCst);
                    });
                    running.fetch_add(1, SeqCst);
                    loop {
                        tx.send(0).unwrap();
                        rx.recv().unwrap();
                    }
                }));
            }
            while running.load(SeqCst) < 4 {
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(runtime);
            assert_eq!(dropped.load(SeqCst), 4);
        }
    });
}
