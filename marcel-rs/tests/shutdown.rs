//! The end of a runtime: threads that wait for something are unwound, wherever and for whatever they wait.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use marcel::policy::{Fair, Fresh, Policy, Ready, Source, Why};
use marcel::sync::{Condvar, Mutex, Semaphore};
use marcel::{Builder, JoinHandle, Latch, Mode, Priority, Runtime, Stopped};

mod common;
use common::in_a_child;

const LIMIT: Duration = Duration::from_secs(60);

/// Counts when it is dropped.
#[derive(Clone)]
struct Witness(Arc<AtomicUsize>);

impl Drop for Witness {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Does something when it is dropped.
struct Then<F: FnMut()>(F);

impl<F: FnMut()> Drop for Then<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn count() -> Arc<AtomicUsize> {
    Arc::default()
}

fn runtimes() -> impl Iterator<Item = Runtime> {
    let usual = [(Mode::Mono, 1, 1), (Mode::Smp, 1, 1), (Mode::Smp, 2, 2), (Mode::Smp, 6, 2)];
    let usual = usual.map(|(mode, vps, reactive)| (mode, vps, reactive, false));
    usual.into_iter().chain([(Mode::Smp, 4, 2, true)]).map(|(mode, vps, reactive, migrate)| {
        let builder = Runtime::builder().mode(mode).vps(vps).reactive(reactive);
        // SAFETY: the threads here hold nothing of the kernel thread's across a wait.
        unsafe { builder.migrate_started_threads(migrate) }.build().unwrap()
    })
}

fn forever() -> ! {
    loop {
        marcel::park();
    }
}

/// Waits, on a kernel thread, until `n` threads have said that they are there.
fn until(ready: &AtomicUsize, n: usize) {
    let limit = Instant::now() + LIMIT;
    while ready.load(SeqCst) < n {
        assert!(Instant::now() < limit, "waited for {LIMIT:?}");
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(2)); // and has gone to wait
}

fn stopped<T>(handle: JoinHandle<T>) -> bool {
    handle.join().err().is_some_and(|payload| payload.is::<Stopped>())
}

type Body = Box<dyn FnOnce() + Send>;

/// One thread blocked in each way there is; none of these waits is ever over.
fn blocked_in_every_way(ready: &Arc<AtomicUsize>) -> Vec<Body> {
    let mutex = Arc::new(Mutex::new(()));
    let held = Arc::new(AtomicBool::new(false));
    let (holder, holds) = (mutex.clone(), held.clone());
    let after = move || {
        while !held.load(SeqCst) {
            marcel::yield_now();
        }
    };
    let never: Arc<AtomicBool> = Arc::default();
    let mut bodies: Vec<Body> = vec![
        Box::new(move || {
            let _guard = holder.lock();
            holds.store(true, SeqCst);
            forever()
        }),
        Box::new(move || {
            after();
            drop(mutex.lock());
        }),
        Box::new(|| forever()),
        Box::new(|| marcel::sleep(Duration::from_secs(100_000))),
        Box::new(|| marcel::sleep(Duration::MAX)),
        Box::new(|| {
            loop {
                marcel::park_timeout(Duration::from_secs(100_000)); // spurious wake-ups are allowed
            }
        }),
        Box::new(|| {
            let _ = marcel::sleep_interruptible(Duration::from_secs(100_000));
        }),
        Box::new(|| while marcel::park_interruptible().is_ok() {}),
        Box::new(|| Semaphore::new(0).acquire().forget()),
        Box::new(|| {
            Semaphore::new(0).acquire_timeout(Duration::from_secs(100_000));
        }),
        Box::new(|| {
            let mutex = Mutex::new(());
            drop(Condvar::new().wait(mutex.lock()));
        }),
        Box::new(|| {
            let mutex = Mutex::new(());
            drop(Condvar::new().wait_while(mutex.lock(), |_| true));
        }),
        Box::new(|| Latch::new().wait("a test")),
        Box::new(|| {
            Latch::new().wait_until("a test", Instant::now() + Duration::from_secs(100_000));
        }),
        Box::new(|| drop(marcel::spawn(|| forever()).join())),
        Box::new(|| {
            marcel::scope(|s| {
                s.spawn(|| forever());
            })
        }),
        Box::new(|| drop(marcel::scope(|s| s.spawn(|| forever()).join()))),
        Box::new(|| {
            drop(marcel::scope(|s| {
                s.spawn(|| {
                    marcel::scope(|s| {
                        s.spawn(|| forever());
                        forever()
                    })
                })
                .join()
            }))
        }),
        Box::new(move || {
            while !never.load(SeqCst) {
                marcel::yield_now();
            }
        }),
    ];
    for body in &mut bodies {
        let (inner, ready) = (std::mem::replace(body, Box::new(|| ())), ready.clone());
        *body = Box::new(move || {
            ready.fetch_add(1, SeqCst);
            inner();
        });
    }
    bodies
}

#[test]
fn threads_blocked_in_every_way_are_unwound_and_drop_what_they_have() {
    in_a_child("threads_blocked_in_every_way_are_unwound_and_drop_what_they_have", LIMIT, || {
        for runtime in runtimes() {
            for reactive in [false, true] {
                let (dropped, ready) = (count(), count());
                let owned = Witness(dropped.clone());
                let bodies = blocked_in_every_way(&ready);
                let n = bodies.len();
                runtime.run(move || {
                    for body in bodies {
                        let witness = owned.clone();
                        let builder = Builder::new().reactive(reactive);
                        let started = builder.spawn(move || {
                            let _on_the_stack = witness;
                            body()
                        });
                        drop(started.unwrap());
                    }
                    drop(owned);
                });
                until(&ready, n);
                if reactive {
                    assert_eq!(dropped.load(SeqCst), 1, "the threads wait");
                    drop(runtime);
                    assert_eq!(dropped.load(SeqCst), 1 + n);
                    break;
                }
            }
        }
    });
}

#[test]
fn a_destructor_may_lock_what_a_thread_holds_that_is_unwound_later() {
    in_a_child("a_destructor_may_lock_what_a_thread_holds_that_is_unwound_later", LIMIT, || {
        // The waiting one is started first, and last, so that it is unwound before the holder in one of the two.
        for runtime in runtimes().chain(runtimes()).enumerate().map(|(i, r)| (i % 2 == 0, r)) {
            let (holder_first, runtime) = runtime;
            let (mutex, got, ready) = (Arc::new(Mutex::new(0)), count(), count());
            let hold = {
                let (mutex, ready) = (mutex.clone(), ready.clone());
                move || {
                    let _guard = mutex.lock();
                    ready.fetch_add(1, SeqCst);
                    forever()
                }
            };
            let wait = {
                let (mutex, got, ready) = (mutex.clone(), got.clone(), ready.clone());
                move || {
                    let _locks = Then(|| {
                        *mutex.lock() += 1;
                        got.fetch_add(1, SeqCst);
                    });
                    ready.fetch_add(1, SeqCst);
                    forever()
                }
            };
            if holder_first {
                runtime.spawn(hold);
                until(&ready, 1);
                runtime.spawn(wait);
            } else {
                runtime.spawn(wait);
                until(&ready, 1);
                runtime.spawn(hold);
            }
            until(&ready, 2);
            drop(runtime);
            assert_eq!((got.load(SeqCst), *mutex.lock()), (1, 1));
        }
    });
}

#[test]
fn a_destructor_may_join_a_thread_that_is_unwound_later() {
    in_a_child("a_destructor_may_join_a_thread_that_is_unwound_later", LIMIT, || {
        for runtime in runtimes() {
            let (joined, ready) = (count(), count());
            for reactive in [false, true] {
                for _ in 0..5 {
                    let (joined, ready) = (joined.clone(), ready.clone());
                    runtime.spawn(move || {
                        let inner = ready.clone();
                        let other = Builder::new().reactive(reactive).spawn(move || {
                            inner.fetch_add(1, SeqCst);
                            forever()
                        });
                        let mut other = Some(other.unwrap());
                        let _joins = Then(|| {
                            let other = other.take().unwrap();
                            joined.fetch_add(stopped::<()>(other) as usize, SeqCst);
                        });
                        ready.fetch_add(1, SeqCst);
                        forever()
                    });
                }
            }
            until(&ready, 20);
            drop(runtime);
            assert_eq!(joined.load(SeqCst), 10);
        }
    });
}

#[test]
fn the_threads_of_a_scope_end_before_their_owners_frame_goes() {
    in_a_child("the_threads_of_a_scope_end_before_their_owners_frame_goes", LIMIT, || {
        for runtime in runtimes() {
            let (ready, broken) = (count(), count());
            for deep in 0..10 {
                let (ready, broken) = (ready.clone(), broken.clone());
                runtime.spawn(move || {
                    let alive = AtomicUsize::new(0);
                    let borrowed = &alive;
                    let _checks = Then(|| {
                        broken.fetch_add(borrowed.load(SeqCst), SeqCst);
                    });
                    marcel::scope(|s| {
                        for _ in 0..3 {
                            s.spawn(|| {
                                alive.fetch_add(1, SeqCst);
                                let _counts = Then(|| {
                                    // Its end takes a while, and others' turns.
                                    for _ in 0..10 {
                                        marcel::yield_now();
                                    }
                                    alive.fetch_sub(1, SeqCst);
                                });
                                ready.fetch_add(1, SeqCst);
                                forever()
                            });
                        }
                        if deep % 2 == 0 {
                            forever()
                        }
                    });
                });
            }
            until(&ready, 30);
            drop(runtime);
            assert_eq!(broken.load(SeqCst), 0, "threads outlived what they borrowed");
        }
    });
}

#[test]
fn a_thread_that_a_destructor_starts_ends_also_where_nobody_is_left_to_run_it() {
    in_a_child(
        "a_thread_that_a_destructor_starts_ends_also_where_nobody_is_left_to_run_it",
        LIMIT,
        || {
            for runtime in runtimes() {
                let (ended, ready) = (count(), count());
                for reactive in [false, true] {
                    for _ in 0..4 {
                        let (ended, ready) = (ended.clone(), ready.clone());
                        let body = move || {
                            let _starts = Then(|| {
                                // The others of our kind and all of the other kind are through by now.
                                std::thread::sleep(Duration::from_millis(3));
                                let witness = Witness(ended.clone());
                                let other = Builder::new().reactive(!reactive);
                                let other = other.spawn(move || drop(witness)).unwrap();
                                let _ = other.join();
                            });
                            ready.fetch_add(1, SeqCst);
                            forever()
                        };
                        runtime
                            .run(|| drop(Builder::new().reactive(reactive).spawn(body).unwrap()));
                    }
                }
                until(&ready, 8);
                drop(runtime);
                assert_eq!(ended.load(SeqCst), 8);
            }
        },
    );
}

#[test]
fn a_thread_that_waits_in_a_destructor_during_its_panic_is_not_unwound_twice() {
    in_a_child(
        "a_thread_that_waits_in_a_destructor_during_its_panic_is_not_unwound_twice",
        LIMIT,
        || {
            for runtime in runtimes() {
                let (dropped, ready) = (count(), count());
                let handles: Vec<_> = (0..6)
                    .map(|i| {
                        let (witness, ready) = (Witness(dropped.clone()), ready.clone());
                        runtime.spawn(move || {
                            let _last = witness;
                            let _waits = Then(|| {
                                ready.fetch_add(1, SeqCst);
                                match i % 3 {
                                    0 => Semaphore::new(0).acquire().forget(),
                                    1 => marcel::sleep(Duration::from_secs(100_000)),
                                    _ => {
                                        while !marcel::is_stopping() {
                                            marcel::park();
                                        }
                                    }
                                }
                            });
                            panic!("as planned");
                        })
                    })
                    .collect();
                let innocent = {
                    let (witness, ready) = (Witness(dropped.clone()), ready.clone());
                    runtime.spawn(move || {
                        let _last = witness;
                        ready.fetch_add(1, SeqCst);
                        forever()
                    })
                };
                until(&ready, 7);
                drop(runtime);
                assert_eq!(dropped.load(SeqCst), 7);
                assert!(stopped(innocent));
                for handle in handles {
                    assert!(handle.join().is_err());
                }
            }
        },
    );
}

#[test]
fn a_thread_that_waits_in_a_destructor_of_its_normal_end_is_unwound() {
    in_a_child("a_thread_that_waits_in_a_destructor_of_its_normal_end_is_unwound", LIMIT, || {
        for runtime in runtimes() {
            let (dropped, ready) = (count(), count());
            let (witness, there) = (Witness(dropped.clone()), ready.clone());
            runtime.spawn(move || {
                let _last = witness;
                let _waits = Then(|| {
                    there.fetch_add(1, SeqCst);
                    forever()
                });
            });
            until(&ready, 1);
            drop(runtime);
            assert_eq!(dropped.load(SeqCst), 1);
        }
    });
}

/// A thread drops what another one has left: a result, or the payload of a panic, whose destructor waits, or panics with
/// a payload whose destructor does. The thread is unwound there, once, and that does not stop at the handle.
#[test]
fn a_thread_that_waits_in_the_destructor_of_a_result_is_unwound() {
    type Left = Then<Box<dyn FnMut() + Send>>;
    let waits = |begun: &Arc<AtomicUsize>| -> Left {
        let begun = begun.clone();
        Then(Box::new(move || {
            begun.fetch_add(1, SeqCst);
            forever()
        }))
    };
    let makes = |begun: &Arc<AtomicUsize>| -> [Box<dyn FnOnce() -> Left + Send>; 3] {
        let (result, payload, nested) = (waits(begun), waits(begun), waits(begun));
        let mut nested = Some(nested);
        let panics: Left = Then(Box::new(move || resume_unwind(Box::new(nested.take()))));
        [Box::new(|| result), Box::new(|| resume_unwind(Box::new(payload))), Box::new(|| panics)]
    };
    let test = "a_thread_that_waits_in_the_destructor_of_a_result_is_unwound";
    in_a_child(test, LIMIT, || {
        for runtime in runtimes() {
            let begun = count();
            let mut threads = Vec::new();
            for make in makes(&begun) {
                threads.push(runtime.spawn(move || {
                    let handle = marcel::spawn(make);
                    while !handle.is_finished() {
                        marcel::yield_now();
                    }
                    drop(handle);
                    forever()
                }));
            }
            for make in makes(&begun) {
                threads.push(runtime.spawn(move || {
                    marcel::scope(|s| {
                        let handle = s.spawn(make);
                        while !handle.is_finished() {
                            marcel::yield_now();
                        }
                        drop(handle);
                        forever()
                    })
                }));
            }
            until(&begun, 6);
            drop(runtime);
            assert!(threads.into_iter().all(stopped));
        }
    });
}

/// A thread of a scope drops its own result, since its handle is gone, and is unwound there: it counts itself out.
#[test]
fn a_thread_of_a_scope_that_waits_in_the_destructor_of_its_result_is_unwound() {
    let test = "a_thread_of_a_scope_that_waits_in_the_destructor_of_its_result_is_unwound";
    in_a_child(test, LIMIT, || {
        for runtime in runtimes() {
            let begun = count();
            let begins = begun.clone();
            let thread = runtime.spawn(move || {
                marcel::scope(|s| {
                    s.spawn(|| {
                        Then(|| {
                            begins.fetch_add(1, SeqCst);
                            forever()
                        })
                    });
                })
            });
            until(&begun, 1);
            drop(runtime);
            assert!(stopped(thread));
        }
    });
}

#[test]
fn a_thread_that_catches_its_unwinding_ends_all_the_same() {
    in_a_child("a_thread_that_catches_its_unwinding_ends_all_the_same", LIMIT, || {
        for runtime in runtimes() {
            let (dropped, ready) = (count(), count());
            let (witness, there) = (Witness(dropped.clone()), ready.clone());
            let handle = runtime.spawn(move || {
                let _last = witness;
                there.fetch_add(1, SeqCst);
                let caught = catch_unwind(|| forever());
                assert!(caught.is_err());
                assert!(marcel::is_stopping());
                marcel::yield_now();
                marcel::sleep(Duration::from_millis(1));
                5
            });
            until(&ready, 1);
            drop(runtime);
            assert_eq!(dropped.load(SeqCst), 1);
            assert!(handle.join().is_err());
        }
    });
}

#[test]
fn what_threads_that_never_ran_own_is_dropped_whatever_its_destructors_do() {
    in_a_child(
        "what_threads_that_never_ran_own_is_dropped_whatever_its_destructors_do",
        LIMIT,
        || {
            for mode in [Mode::Mono, Mode::Smp] {
                let runtime = Runtime::builder().mode(mode).vps(1).reactive(1).build().unwrap();
                let (dropped, ready, go) = (count(), count(), Arc::new(AtomicBool::new(false)));
                let (there, seen) = (ready.clone(), go.clone());
                runtime.spawn(move || {
                    there.fetch_add(1, SeqCst);
                    while !seen.load(SeqCst) {} // the virtual processor starts nobody
                });
                until(&ready, 1);
                for i in 0..9 {
                    let witness = Witness(dropped.clone());
                    let acts = Then(move || {
                        let _last = &witness;
                        match i % 3 {
                            0 => panic!("in a destructor, as planned"),
                            1 => marcel::sleep(Duration::from_millis(1)),
                            _ => drop(marcel::spawn(|| forever())),
                        }
                    });
                    runtime.spawn(move || drop(acts));
                }
                let ending = std::thread::spawn(move || drop(runtime));
                std::thread::sleep(Duration::from_millis(10));
                go.store(true, SeqCst);
                ending.join().unwrap();
                assert_eq!(dropped.load(SeqCst), 9);
            }
        },
    );
}

#[test]
fn the_locks_of_unwound_threads_are_free_for_others() {
    for runtime in runtimes() {
        let (mutex, ready) = (Arc::new(Mutex::new(0)), count());
        let (theirs, there) = (mutex.clone(), ready.clone());
        runtime.spawn(move || {
            let mut guard = theirs.lock();
            *guard = 1;
            there.fetch_add(1, SeqCst);
            forever()
        });
        until(&ready, 1);
        // A kernel thread and a thread of another runtime wait for it.
        let other = Runtime::builder().mode(Mode::Mono).build().unwrap();
        let (a, b) = (mutex.clone(), mutex.clone());
        let kernel = std::thread::spawn(move || *a.lock() += 10);
        let green = other.spawn(move || *b.lock() += 100);
        std::thread::sleep(Duration::from_millis(2));
        drop(runtime);
        kernel.join().unwrap();
        green.join().unwrap();
        assert_eq!(*mutex.lock(), 111);
    }
}

#[test]
fn threads_of_two_runtimes_that_wait_for_each_other_are_unwound_one_runtime_after_the_other() {
    in_a_child(
        "threads_of_two_runtimes_that_wait_for_each_other_are_unwound_one_runtime_after_the_other",
        LIMIT,
        || {
            let (one, ready) = (Runtime::builder().vps(1).build().unwrap(), count());
            let two = Runtime::builder().vps(1).build().unwrap();
            let there = ready.clone();
            let first = one.spawn(move || {
                there.fetch_add(1, SeqCst);
                forever()
            });
            let there = ready.clone();
            let second = two.spawn(move || {
                there.fetch_add(1, SeqCst);
                assert!(stopped::<()>(first));
                there.fetch_add(1, SeqCst);
                forever()
            });
            until(&ready, 2);
            drop(one);
            until(&ready, 3);
            drop(two);
            assert!(stopped::<()>(second));
        },
    );
}

#[test]
fn a_runtime_may_be_dropped_by_a_green_thread_of_another_one_and_by_its_own() {
    in_a_child(
        "a_runtime_may_be_dropped_by_a_green_thread_of_another_one_and_by_its_own",
        LIMIT,
        || {
            let outer = Runtime::builder().vps(1).build().unwrap();
            let dropped = count();
            outer.run(|| {
                let inner = Runtime::builder().vps(1).build().unwrap();
                let (witness, ready) = (Witness(dropped.clone()), count());
                let there = ready.clone();
                inner.spawn(move || {
                    let _last = witness;
                    there.fetch_add(1, SeqCst);
                    forever()
                });
                until(&ready, 1);
                drop(inner);
                assert_eq!(dropped.load(SeqCst), 1);
            });
            for runtime in runtimes() {
                let before = dropped.load(SeqCst);
                let shared = Arc::new(runtime);
                let (theirs, witness) = (shared.clone(), Witness(dropped.clone()));
                let go = Arc::new(AtomicBool::new(false));
                let seen = go.clone();
                let handle = shared.spawn(move || {
                    let _last = witness;
                    while !seen.load(SeqCst) {
                        marcel::yield_now();
                    }
                    drop(theirs); // the last
                    forever()
                });
                drop(shared);
                go.store(true, SeqCst);
                assert!(stopped::<()>(handle));
                let limit = Instant::now() + LIMIT;
                while dropped.load(SeqCst) == before {
                    assert!(Instant::now() < limit);
                    std::thread::yield_now();
                }
            }
        },
    );
}

#[test]
fn stopping_is_seen_by_threads_that_are_unwound_and_by_no_other() {
    for runtime in runtimes() {
        let (seen, ready) = (count(), count());
        assert!(!marcel::is_stopping());
        assert!(!runtime.run(marcel::is_stopping));
        let (counted, there) = (seen.clone(), ready.clone());
        runtime.spawn(move || {
            let _looks = Then(|| {
                counted.fetch_add(marcel::is_stopping() as usize, SeqCst);
            });
            there.fetch_add(1, SeqCst);
            forever()
        });
        until(&ready, 1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            runtime.run(|| {
                let _looks = Then(|| assert!(!marcel::is_stopping()));
                panic!("as planned");
            })
        }));
        assert!(panicked.is_err());
        drop(runtime);
        assert_eq!(seen.load(SeqCst), 1);
    }
}

/// A policy that forgets the threads that yield, some of those that are woken, and some that never ran.
#[derive(Default)]
struct Forgets(Fair, usize, usize);

// SAFETY: what it does not drop is passed on.
unsafe impl Policy for Forgets {
    fn put(&mut self, thread: Ready, why: Why) {
        self.1 += 1;
        if why == Why::Woken && !self.1.is_multiple_of(3) {
            self.0.put(thread, why);
        }
    }

    fn next(&mut self, fresh: &mut dyn Fresh) -> Option<Ready> {
        struct Some2of3<'a>(&'a mut dyn Fresh, &'a mut usize);
        impl Fresh for Some2of3<'_> {
            fn take(&mut self, priority: Priority, from: Source) -> Option<Ready> {
                loop {
                    let ready = self.0.take(priority, from)?;
                    *self.1 += 1;
                    if !self.1.is_multiple_of(3) {
                        return Some(ready);
                    }
                }
            }
        }
        Policy::next(&mut self.0, &mut Some2of3(fresh, &mut self.2))
    }

    fn take(&mut self, thread: marcel::ThreadId) -> Option<Ready> {
        self.0.take(thread)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

#[test]
fn threads_that_a_policy_forgets_end_with_the_runtime() {
    in_a_child("threads_that_a_policy_forgets_end_with_the_runtime", LIMIT, || {
        for (mode, migrate) in [(Mode::Mono, false), (Mode::Smp, false), (Mode::Smp, true)] {
            let builder = Runtime::builder().mode(mode).vps(2);
            // SAFETY: the threads hold nothing of the kernel thread's across a wait.
            let builder = unsafe { builder.migrate_started_threads(migrate) };
            let runtime = builder.policy(|_| Box::<Forgets>::default()).build().unwrap();
            let (dropped, ready) = (count(), count());
            let thread = |i| {
                let (witness, there) = (Witness(dropped.clone()), ready.clone());
                runtime.spawn(move || {
                    let _last = witness;
                    there.fetch_add(1, SeqCst);
                    loop {
                        match i % 3 {
                            0 => marcel::yield_now(),
                            1 => marcel::sleep(Duration::from_micros(100)),
                            _ => marcel::park(),
                        }
                    }
                })
            };
            let threads: Vec<_> = (0..12).map(thread).collect();
            until(&ready, 8);
            drop(runtime);
            assert!(threads.into_iter().all(stopped));
            assert_eq!(dropped.load(SeqCst), 12);
        }
    });
}

/// Who wakes the last thread from outside may find the runtime gone when it looks up. (On one core, where the woken
/// preempts it, that is the rule.)
#[test]
fn a_kernel_thread_wakes_the_last_thread_of_a_runtime() {
    for round in 0..200 {
        let builder = Runtime::builder().mode(Mode::Mono);
        // SAFETY: the thread holds nothing of the kernel thread's across a wait.
        let runtime = unsafe { builder.migrate_started_threads(round % 3 == 0) }.build().unwrap();
        let (go, there) = (count(), count());
        let (goes, waits) = (go.clone(), there.clone());
        let thread = runtime.spawn(move || {
            waits.fetch_add(1, SeqCst);
            while goes.load(SeqCst) == 0 {
                marcel::park();
            }
        });
        until(&there, 1);
        if round % 2 == 0 {
            std::thread::sleep(Duration::from_micros(300)); // it waits, and its virtual processor sleeps
        }
        std::thread::scope(|s| {
            let waker = *thread.thread();
            s.spawn(move || {
                go.store(1, SeqCst);
                waker.unpark();
            });
            thread.join().unwrap();
            drop(runtime);
        });
    }
}

#[test]
fn a_runtime_that_cannot_be_built_leaves_nothing_behind() {
    in_a_child("a_runtime_that_cannot_be_built_leaves_nothing_behind", LIMIT, || {
        // SAFETY: the process has no other thread that reads the environment.
        unsafe { std::env::set_var("MARCEL_SIGQUIT", "perhaps") };
        let held = Arc::new(());
        let policy = {
            let held = held.clone();
            move |_| -> Box<dyn marcel::policy::Policy> {
                let _ = &held;
                Box::new(marcel::policy::Fair::new())
            }
        };
        let built = marcel::Runtime::builder().mode(marcel::Mode::Smp).policy(policy).build();
        assert!(matches!(built, Err(marcel::Error::Knob(_))), "{built:?}");
        assert_eq!(Arc::strong_count(&held), 1);
    });
}

/// The pool's thread that makes the call does not wait for its own end, nor for that of its caller.
#[test]
fn the_last_handle_may_be_dropped_inside_an_exported_call() {
    in_a_child("the_last_handle_may_be_dropped_inside_an_exported_call", LIMIT, || {
        for runtime in runtimes().map(Arc::new) {
            let (ended, thread_ends) = std::sync::mpsc::channel::<()>();
            let last = runtime.clone();
            runtime.spawn(move || {
                let _ends = ended;
                marcel::blocking::export(move || {
                    while Arc::strong_count(&last) > 1 {
                        std::thread::yield_now();
                    }
                    drop(last);
                });
            });
            drop(runtime);
            assert!(thread_ends.recv().is_err(), "disconnected when the thread has ended");
        }
    });
}

/// A destructor that runs because the runtime stops is nobody that the others wait for.
#[test]
fn a_destructor_of_the_end_is_no_arrival_at_a_barrier() {
    let barrier = Arc::new(marcel::sync::Barrier::new(2));
    let (ready, met) = (count(), count());
    let runtime = Runtime::builder().mode(Mode::Mono).build().unwrap();
    let _thread = {
        let (barrier, ready, met) = (barrier.clone(), ready.clone(), met.clone());
        runtime.spawn(move || {
            let _then = Then(move || {
                met.fetch_add(usize::from(barrier.wait().is_leader()), SeqCst);
            });
            ready.fetch_add(1, SeqCst);
            forever();
        })
    };
    until(&ready, 1);
    let other = std::thread::spawn({
        let barrier = barrier.clone();
        move || barrier.wait().is_leader()
    });
    std::thread::sleep(Duration::from_millis(20));
    drop(runtime);
    assert_eq!(met.load(SeqCst), 0, "two met, of whom one was no thread any more");
    // Who waits is met by a thread.
    assert!(barrier.wait().is_leader() != other.join().unwrap());
}

/// Only an initialiser that is itself unwound by the end may run again.
#[test]
fn a_panic_of_an_initialiser_in_a_destructor_of_the_end_is_one() {
    let once = Arc::new(marcel::sync::Once::new());
    let ready = count();
    let runtime = Runtime::builder().mode(Mode::Mono).build().unwrap();
    let _thread = {
        let (once, ready) = (once.clone(), ready.clone());
        runtime.spawn(move || {
            let _then = Then(move || {
                let fails = || once.call_once(|| resume_unwind(Box::new("in a destructor")));
                assert!(catch_unwind(AssertUnwindSafe(fails)).is_err());
            });
            ready.fetch_add(1, SeqCst);
            forever();
        })
    };
    until(&ready, 1);
    drop(runtime);
    assert!(catch_unwind(AssertUnwindSafe(|| once.call_once(|| ()))).is_err(), "not poisoned");
}
