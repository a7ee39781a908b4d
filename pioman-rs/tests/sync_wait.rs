//! Conditions, semaphores, and waiting for several things at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use marcel::Mode;
use pioman::{Completion, Cond, Manager, Runtime, Semaphore, Waitable};
use proptest::prelude::*;

fn runtime(mode: Mode) -> Runtime {
    Runtime::build(Manager::builder().mode(mode), marcel::Runtime::builder()).unwrap()
}

fn manager() -> Arc<Manager> {
    Manager::builder().mode(Mode::NoThread).build().unwrap()
}

fn now() -> Instant {
    Instant::now()
}

/// Runs `kernel` kernel threads and `green` green threads.
fn crowd(runtime: &Runtime, kernel: usize, green: usize, body: impl Fn(usize) + Sync) {
    let body = &body;
    std::thread::scope(|s| {
        (0..kernel).for_each(|i| drop(s.spawn(move || body(i))));
        runtime.run(|| {
            marcel::scope(|s| {
                (kernel..kernel + green).for_each(|i| drop(s.spawn(move || body(i))));
            })
        });
    });
}

#[test]
fn all_bits_wake_who_wants_them_at_the_same_time() {
    let manager = manager();
    let cond = Cond::new();
    let woken = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            cond.wait_all(&manager, 0b11);
            woken.store(true, SeqCst);
        });
        cond.signal(0b01);
        cond.clear(0b01);
        cond.signal(0b10);
        assert!(!cond.wait_all_until(&manager, 0b11, now() + Duration::from_millis(20)));
        assert!(!woken.load(SeqCst));
        cond.signal(0b01);
    });
    assert!(woken.load(SeqCst) && cond.test_all(0b11));
}

/// Exclusion, and none is lost: green and kernel threads, some of which give up.
#[test]
fn permits_exclude_and_are_never_lost() {
    for mode in [Mode::Mono, Mode::Smp] {
        let runtime = runtime(mode);
        let manager = runtime.manager();
        let semaphore = Semaphore::new(2);
        let inside = AtomicUsize::new(0);
        let hasty = AtomicUsize::new(0);
        crowd(&runtime, 3, 6, |i| {
            for round in 0..200 {
                if i % 3 == 0 {
                    let soon = now() + Duration::from_micros(round % 50);
                    if !semaphore.acquire_until(manager, soon) {
                        hasty.fetch_add(1, SeqCst);
                        marcel::yield_now();
                        continue;
                    }
                } else {
                    semaphore.acquire(manager);
                }
                assert!(inside.fetch_add(1, SeqCst) < 2);
                marcel::yield_now();
                inside.fetch_sub(1, SeqCst);
                semaphore.release();
            }
        });
        assert_eq!(semaphore.available(), 2, "{mode}: {} gave up", hasty.load(SeqCst));
    }
}

#[test]
fn permits_go_to_who_has_waited_longest() {
    let runtime = runtime(Mode::Mono);
    let (manager, semaphore) = (runtime.manager(), Semaphore::new(0));
    let (order, begun) = (std::sync::Mutex::new(Vec::new()), AtomicUsize::new(0));
    runtime.run(|| {
        marcel::scope(|s| {
            for i in 0..5 {
                let (order, begun, semaphore) = (&order, &begun, &semaphore);
                s.spawn(move || {
                    begun.fetch_add(1, SeqCst);
                    semaphore.acquire(manager);
                    order.lock().unwrap().push(i);
                    semaphore.release();
                });
                // On one virtual processor it goes on until it waits.
                while begun.load(SeqCst) <= i {
                    marcel::yield_now();
                }
            }
            semaphore.release();
        });
    });
    let order = order.into_inner().unwrap();
    assert!(order.is_sorted() && order.len() == 5, "{order:?}");
    assert_eq!(semaphore.available(), 1);
}

/// Each round one of many things happens, and whoever waits for any of them is told which.
#[test]
fn any_of_many_kinds_ends_a_wait() {
    for mode in [Mode::Mono, Mode::Smp] {
        let runtime = runtime(mode);
        let manager = runtime.manager();
        for round in 0..100 {
            let (one, two) = (Completion::new(), Completion::new());
            let (cond, semaphore) = (Cond::new(), Semaphore::new(0));
            let winners = [(); 4].map(|()| AtomicUsize::new(0));
            crowd(&runtime, 2, 4, |i| {
                if i == 5 {
                    (0..round % 7).for_each(|_| marcel::yield_now());
                    match round % 4 {
                        0 => one.complete(),
                        1 => two.complete(),
                        2 => cond.signal(0b111),
                        _ => semaphore.release_many(5),
                    }
                    return;
                }
                let what = [(&one).into(), (&two).into(), cond.all(0b111), semaphore.permit()];
                let which = match i % 2 {
                    0 => manager.wait_any(&what),
                    _ => loop {
                        let soon = now() + Duration::from_micros(20);
                        match manager.wait_any_until(&what, soon) {
                            Some(which) => break which,
                            None => marcel::yield_now(),
                        }
                    },
                };
                winners[which].fetch_add(1, SeqCst);
            });
            assert_eq!(winners[round % 4].load(SeqCst), 5, "{mode}");
            assert_eq!(semaphore.available(), 0);
            assert!(!one.has_waiter() && !two.has_waiter());
        }
    }
}

/// More than there is room for on the stack, completed in all orders by another thread.
#[test]
fn all_of_many_end_a_wait_when_the_last_has_come() {
    let runtime = runtime(Mode::Smp);
    let manager = runtime.manager();
    for n in [1usize, 2, 8, 9, 40] {
        let completions: Vec<_> = (0..n).map(|_| Completion::new()).collect();
        let what: Vec<Waitable<'_>> = completions.iter().map(Waitable::from).collect();
        let come = AtomicUsize::new(0);
        crowd(&runtime, 2, 3, |i| {
            if i == 4 {
                for j in 0..n {
                    marcel::yield_now();
                    come.fetch_add(1, SeqCst);
                    completions[n - 1 - j].complete(); // again, for some
                    completions[j].complete();
                }
            } else {
                manager.wait_all(&what);
                assert!(completions.iter().all(Completion::is_done));
            }
        });
        assert_eq!(come.load(SeqCst), n);
        assert!(manager.wait_all_until(&what, now()));
    }
}

#[test]
fn a_wait_for_all_that_times_out_takes_no_permit() {
    let manager = manager();
    let (semaphore, never) = (Semaphore::new(1), Completion::new());
    let what = [semaphore.permit(), (&never).into()];
    assert!(!manager.wait_all_until(&what, now() + Duration::from_millis(2)));
    assert_eq!(semaphore.available(), 1);
    assert!(!never.has_waiter());
}

/// A runtime that stops unwinds its waiters; what others touch afterwards must not be their stacks.
#[test]
fn a_runtime_that_stops_takes_its_waiters_off_everything() {
    for _ in 0..20 {
        let runtime = runtime(Mode::Mono);
        let things = Arc::new((Completion::new(), Cond::new(), Semaphore::new(0)));
        let waiting = Arc::new(AtomicU64::new(0));
        let handles: Vec<_> = (0..6)
            .map(|i| {
                let (things, manager) = (things.clone(), runtime.manager().clone());
                let waiting = waiting.clone();
                runtime.threads().spawn(move || {
                    let (completion, cond, semaphore) = &*things;
                    let what = [completion.into(), cond.any(1), semaphore.permit()];
                    waiting.fetch_add(1, SeqCst);
                    match i % 3 {
                        0 => drop(manager.wait_any(&what)),
                        1 => manager.wait_all(&what),
                        _ => semaphore.acquire(&manager),
                    }
                })
            })
            .collect();
        while waiting.load(SeqCst) < 6 {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(2));
        drop(runtime);
        things.0.complete();
        things.1.signal(1);
        things.2.release();
        assert!(handles.into_iter().all(|handle| handle.join().is_err()));
        assert_eq!(things.2.available(), 1);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Signal(u64),
    Clear(u64),
    Complete(usize),
    Release(u64),
    TryAcquire,
    /// Waits for things until now: completions by index, masks of any and all, a permit.
    Wait {
        all: bool,
        completions: Vec<usize>,
        any: Option<u64>,
        each: Option<u64>,
        permit: bool,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let mask = 1u64..8;
    let wait = (
        any::<bool>(),
        prop::collection::vec(0usize..4, 0..12),
        prop::option::of(mask.clone()),
        prop::option::of(mask.clone()),
        any::<bool>(),
    );
    let step = prop_oneof![
        mask.clone().prop_map(Step::Signal),
        mask.prop_map(Step::Clear),
        (0usize..4).prop_map(Step::Complete),
        (0u64..3).prop_map(Step::Release),
        Just(Step::TryAcquire),
        wait.prop_map(|(all, completions, any, each, permit)| Step::Wait {
            all,
            completions,
            any,
            each,
            permit
        }),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    /// By one thread, against plain values: what a wait says, and what it takes.
    #[test]
    fn a_wait_says_what_is_there(steps in steps()) {
        let manager = manager();
        let (cond, semaphore) = (Cond::new(), Semaphore::new(0));
        let completions: [Completion; 4] = Default::default();
        let (mut bits, mut permits, mut done) = (0u64, 0u64, [false; 4]);
        for step in steps {
            match step {
                Step::Signal(mask) => { cond.signal(mask); bits |= mask; }
                Step::Clear(mask) => { cond.clear(mask); bits &= !mask; }
                Step::Complete(i) => { completions[i].complete(); done[i] = true; }
                Step::Release(n) => { semaphore.release_many(n); permits += n; }
                Step::TryAcquire => {
                    prop_assert_eq!(semaphore.try_acquire(), permits > 0);
                    permits = permits.saturating_sub(1);
                }
                Step::Wait { all, completions: indices, any, each, permit } => {
                    let mut what: Vec<Waitable<'_>> = Vec::new();
                    let mut there = Vec::new();
                    for i in indices {
                        what.push((&completions[i]).into());
                        there.push(done[i]);
                    }
                    if let Some(mask) = any {
                        what.push(cond.any(mask));
                        there.push(bits & mask != 0);
                    }
                    if permit {
                        what.push(semaphore.permit());
                        there.push(permits > 0);
                    }
                    if let Some(mask) = each {
                        what.push(cond.all(mask));
                        there.push(bits & mask == mask);
                    }
                    let got_permit = if all {
                        let got = manager.wait_all_until(&what, now());
                        prop_assert_eq!(got, there.iter().all(|there| *there));
                        got && permit
                    } else {
                        let which = manager.wait_any_until(&what, now());
                        prop_assert_eq!(which, there.iter().position(|there| *there));
                        which.is_some_and(|which| matches!(what[which], Waitable::Permit(_)))
                    };
                    permits -= u64::from(got_permit);
                }
            }
            prop_assert_eq!(semaphore.available(), permits);
            prop_assert!(completions.iter().all(|completion| !completion.has_waiter()));
        }
    }
}
