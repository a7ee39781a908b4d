//! What `std::thread` documents, restated for green threads. Where marcel differs, the test's name says so.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use marcel::{Builder, JoinHandle, Mode, Runtime, ScopedJoinHandle, Stopped, Thread};

/// Longer than any wait here takes, unless a wake-up is lost.
const LONG: Duration = Duration::from_secs(60);

/// Runs `f` as the environment says, in mono mode, on one compute VP, and on more than there are cores.
fn everywhere(f: impl Fn() + Send + Sync) {
    Runtime::builder().build().unwrap().run(&f);
    for (mode, vps) in [(Mode::Mono, 1), (Mode::Smp, 1), (Mode::Smp, 6)] {
        Runtime::builder().mode(mode).vps(vps).build().unwrap().run(&f);
    }
}

fn text(payload: &(dyn Any + Send)) -> &str {
    match payload.downcast_ref::<&str>() {
        Some(text) => text,
        None => payload.downcast_ref::<String>().expect("a panic with a message"),
    }
}

/// Lets others run until `condition` holds.
fn until(condition: impl Fn() -> bool) {
    let limit = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < limit, "waited for {LONG:?}");
        marcel::sleep(Duration::from_micros(50));
    }
}

// spawn and join

#[test]
fn join_gives_the_value_and_what_the_thread_did_before_is_visible() {
    everywhere(|| {
        let written = Arc::new(AtomicUsize::new(0));
        let theirs = written.clone();
        let thread = marcel::spawn(move || {
            theirs.store(5, Relaxed);
            String::from("value")
        });
        assert_eq!(thread.join().unwrap(), "value");
        assert_eq!(written.load(Relaxed), 5);
    });
}

#[test]
fn what_came_before_the_spawn_is_visible_to_the_thread() {
    everywhere(|| {
        static BEFORE: AtomicUsize = AtomicUsize::new(0);
        for i in 0..200 {
            BEFORE.store(i, Relaxed);
            marcel::spawn(move || assert_eq!(BEFORE.load(Relaxed), i)).join().unwrap();
        }
    });
}

#[test]
fn join_gives_the_payload_of_a_panic_whatever_its_type() {
    everywhere(|| {
        let literal = marcel::spawn(|| -> u8 { panic!("literal") }).join().unwrap_err();
        assert_eq!(text(&*literal), "literal");
        let formatted = marcel::spawn(|| -> u8 { panic!("number {}", 7) }).join().unwrap_err();
        assert_eq!(text(&*formatted), "number 7");
        let any = marcel::spawn(|| panic_any(42u64)).join().unwrap_err();
        assert_eq!(any.downcast_ref(), Some(&42u64));
        let nested = marcel::spawn(|| marcel::spawn(|| panic!("inner")).join().unwrap());
        assert!(text(&*nested.join().unwrap_err()).contains("Any"));
    });
}

#[test]
fn a_panic_can_be_caught_in_the_thread_across_switches() {
    everywhere(|| {
        let threads: Vec<_> = (0..20)
            .map(|i| {
                marcel::spawn(move || {
                    let caught = catch_unwind(|| {
                        marcel::yield_now();
                        panic_any(i);
                    });
                    marcel::yield_now();
                    *caught.unwrap_err().downcast::<i32>().unwrap()
                })
            })
            .collect();
        for (i, thread) in threads.into_iter().enumerate() {
            assert_eq!(thread.join().unwrap(), i as i32);
        }
        assert!(!std::thread::panicking());
    });
}

#[test]
fn a_thread_whose_handle_is_dropped_goes_on() {
    everywhere(|| {
        let ran = Arc::new(AtomicBool::new(false));
        let theirs = ran.clone();
        drop(marcel::spawn(move || {
            marcel::sleep(Duration::from_millis(2));
            theirs.store(true, SeqCst);
        }));
        until(|| ran.load(SeqCst));
    });
}

#[test]
fn a_thread_outlives_the_one_that_started_it() {
    everywhere(|| {
        let (child, ended) = marcel::spawn(|| {
            let ended = Arc::new(AtomicBool::new(false));
            let theirs = ended.clone();
            let child = marcel::spawn(move || {
                marcel::sleep(Duration::from_millis(5));
                theirs.store(true, SeqCst);
            });
            (child, ended)
        })
        .join()
        .unwrap();
        child.join().unwrap();
        assert!(ended.load(SeqCst));
    });
}

#[test]
fn anybody_may_join_kernel_threads_too() {
    let runtime = Runtime::builder().build().unwrap();
    let value = runtime.spawn(|| 1);
    assert_eq!(value.join().unwrap(), 1); // this kernel thread
    runtime.run(|| {
        let thread = marcel::spawn(|| {
            marcel::sleep(Duration::from_millis(2));
            2
        });
        let elsewhere = std::thread::spawn(move || thread.join().unwrap());
        assert_eq!(elsewhere.join().unwrap(), 2);
        let thread = marcel::spawn(|| 3);
        assert_eq!(marcel::spawn(move || thread.join().unwrap()).join().unwrap(), 3);
    });
}

#[test]
fn is_finished_says_so_without_waiting() {
    everywhere(|| {
        let go = Arc::new(AtomicBool::new(false));
        let theirs = go.clone();
        let thread = marcel::spawn(move || until(|| theirs.load(SeqCst)));
        assert!(!thread.is_finished());
        marcel::yield_now();
        assert!(!thread.is_finished());
        go.store(true, SeqCst);
        until(|| thread.is_finished());
        thread.join().unwrap();
        // It is true of a thread that panicked as well.
        let thread = marcel::spawn(|| panic!("as planned"));
        until(|| thread.is_finished());
        assert!(thread.join().is_err());
    });
}

#[test]
fn results_and_functions_are_dropped_once() {
    struct Counts(Arc<AtomicUsize>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    everywhere(|| {
        let dropped = Arc::new(AtomicUsize::new(0));
        let (captured, result) = (Counts(dropped.clone()), Counts(dropped.clone()));
        let thread = marcel::spawn(move || {
            let _captured = captured;
            result
        });
        let result = thread.join().unwrap();
        assert_eq!(dropped.load(SeqCst), 1);
        drop(result);
        assert_eq!(dropped.load(SeqCst), 2);
        // Nobody joins: before the thread's end, and after it.
        for late in [false, true] {
            let result = Counts(dropped.clone());
            let before = dropped.load(SeqCst);
            let thread = marcel::spawn(move || result);
            if late {
                until(|| thread.is_finished());
            }
            drop(thread);
            until(|| dropped.load(SeqCst) == before + 1);
        }
    });
}

#[test]
fn large_and_zero_sized_values_go_through() {
    everywhere(|| {
        let large = [7u8; 8_000];
        let thread = marcel::spawn(move || {
            let mut large = large;
            large[7_999] = 8;
            large
        });
        let large = thread.join().unwrap();
        assert_eq!((large[0], large[7_999]), (7, 8));
        marcel::spawn(|| ()).join().unwrap();
    });
}

#[test]
fn handles_and_threads_can_be_sent_and_shared() {
    fn check<T: Send + Sync>() {}
    check::<JoinHandle<Cell<u8>>>();
    check::<ScopedJoinHandle<'static, u8>>();
    check::<Thread>();
    check::<marcel::Scope<'static, 'static>>();
    check::<Runtime>();
}

// Builder

#[test]
fn a_builder_gives_name_and_stack_size() {
    everywhere(|| {
        let thread = Builder::new()
            .name("worker")
            .stack_size(1 << 20)
            .spawn(|| {
                let large = std::hint::black_box([1u8; 270_000]);
                marcel::yield_now();
                (marcel::current_name(), large.iter().map(|b| *b as u32).sum::<u32>())
            })
            .unwrap();
        assert_eq!(thread.join().unwrap(), (Some("worker".to_owned()), 270_000));
        assert_eq!(marcel::spawn(marcel::current_name).join().unwrap(), None);
    });
}

#[test]
fn a_name_with_nul_and_a_stack_too_small_are_errors_where_std_panics() {
    everywhere(|| {
        let error = Builder::new().name("a\0b").spawn(|| ()).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("NUL"), "{error}");
        let error = Builder::new().stack_size(1).spawn(|| ()).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("16384"), "{error}");
    });
}

#[test]
fn a_failed_spawn_drops_its_function() {
    everywhere(|| {
        let owned = Arc::new(());
        let theirs = owned.clone();
        assert!(Builder::new().stack_size(1).spawn(move || drop(theirs)).is_err());
        assert_eq!(Arc::strong_count(&owned), 1);
    });
}

#[test]
fn outside_a_runtime_spawn_panics_and_a_builder_gives_an_error() {
    let error = Builder::new().spawn(|| ()).unwrap_err();
    assert!(error.to_string().contains("Runtime::spawn"), "{error}");
    let payload = catch_unwind(|| marcel::spawn(|| ())).unwrap_err();
    assert!(text(&*payload).contains("Runtime::spawn"));
    let payload = catch_unwind(|| marcel::scope(|_| ())).unwrap_err();
    assert!(text(&*payload).contains("Runtime::scope"));
}

// current, park, unpark

#[test]
fn current_is_the_handles_thread_and_stays_so() {
    everywhere(|| {
        let thread = marcel::spawn(|| {
            let first = marcel::current();
            marcel::yield_now();
            marcel::sleep(Duration::from_millis(1));
            assert_eq!(first, marcel::current());
            first
        });
        let (handle, me) = (*thread.thread(), marcel::current());
        assert_ne!(handle, me);
        assert_eq!(thread.join().unwrap(), handle);
        assert_eq!(marcel::current(), me);
    });
}

#[test]
fn a_token_from_before_the_park_lets_it_return_at_once() {
    let check = || {
        for _ in 0..100 {
            marcel::current().unpark();
            marcel::current().unpark(); // tokens do not add up
            let start = Instant::now();
            marcel::park();
            assert!(start.elapsed() < LONG);
        }
    };
    everywhere(check);
    check();
}

#[test]
fn park_waits_for_unpark_and_sees_what_came_before_it() {
    everywhere(|| {
        static DATA: AtomicUsize = AtomicUsize::new(0);
        for i in 1..100 {
            let flag = Arc::new(AtomicBool::new(false));
            let theirs = flag.clone();
            let parked = marcel::spawn(move || {
                while !theirs.load(Relaxed) {
                    marcel::park();
                }
                DATA.load(Relaxed)
            });
            if i % 3 == 0 {
                marcel::yield_now();
            }
            DATA.store(i, Relaxed);
            flag.store(true, Release);
            parked.thread().unpark();
            assert_eq!(parked.join().unwrap(), i);
        }
    });
}

#[test]
fn kernel_threads_park_and_are_unparked_by_green_ones() {
    let runtime = Runtime::builder().build().unwrap();
    for _ in 0..100 {
        let (me, flag) = (marcel::current(), Arc::new(AtomicBool::new(false)));
        let theirs = flag.clone();
        drop(runtime.spawn(move || {
            theirs.store(true, SeqCst);
            me.unpark();
        }));
        while !flag.load(SeqCst) {
            marcel::park();
        }
    }
}

#[test]
fn park_timeout_returns_in_the_end_and_sooner_when_unparked() {
    let check = || {
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(10) {
            marcel::park_timeout(Duration::from_millis(3)); // may return early, not never
        }
        marcel::park_timeout(Duration::ZERO);
        marcel::current().unpark();
        marcel::park_timeout(Duration::MAX);
        marcel::current().unpark();
        marcel::park_timeout(LONG * 100);
        assert!(start.elapsed() < LONG);
    };
    everywhere(check);
    check();
    everywhere(|| {
        let parked = marcel::spawn(|| marcel::park_timeout(LONG * 100));
        marcel::sleep(Duration::from_millis(1));
        parked.thread().unpark();
        parked.join().unwrap();
    });
}

#[test]
fn unparking_a_thread_that_has_ended_harms_nobody() {
    everywhere(|| {
        let thread = marcel::spawn(|| ());
        let ended = *thread.thread();
        thread.join().unwrap();
        let others: Vec<_> = (0..20)
            .map(|_| {
                marcel::spawn(|| {
                    // Spurious wake-ups are allowed: a wait is a loop.
                    let start = Instant::now();
                    while start.elapsed() < Duration::from_millis(2) {
                        marcel::park_timeout(Duration::from_millis(2));
                    }
                })
            })
            .collect();
        (0..50).for_each(|_| ended.unpark());
        others.into_iter().for_each(|t| t.join().unwrap());
    });
}

/// As in the standard library, where a lock, a sleep or a join does not use the token of `park`.
#[test]
fn a_token_is_kept_while_the_thread_waits_for_something_else() {
    fn is_kept(wait: impl FnOnce()) {
        marcel::current().unpark();
        wait();
        let start = Instant::now();
        marcel::park_timeout(Duration::from_secs(60));
        assert!(start.elapsed() < Duration::from_secs(50));
    }
    let check = || {
        is_kept(|| ());
        is_kept(|| marcel::sleep(Duration::from_millis(3)));
        is_kept(|| assert!(marcel::sleep_interruptible(Duration::from_millis(3)).is_ok()));
        is_kept(|| {
            let (tx, rx) = marcel::sync::channel::unbounded();
            let sender = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(3));
                tx.send(7).unwrap();
            });
            assert_eq!(rx.recv(), Ok(7));
            sender.join().unwrap();
        });
    };
    everywhere(check);
    check();
}

// sleep and yield

#[test]
fn sleep_takes_at_least_its_time() {
    let check = || {
        for time in [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(7)] {
            let start = Instant::now();
            marcel::current().unpark(); // no token ends a sleep
            marcel::sleep(time);
            assert!(start.elapsed() >= time);
        }
    };
    everywhere(check);
    check();
}

#[test]
fn a_sleeping_thread_does_not_hold_up_its_virtual_processor() {
    Runtime::builder().mode(Mode::Mono).build().unwrap().run(|| {
        let start = Instant::now();
        let threads: Vec<_> =
            (0..300).map(|_| marcel::spawn(|| marcel::sleep(Duration::from_secs(1)))).collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert!(start.elapsed() < Duration::from_secs(100), "one after the other it takes 300 s");
    });
}

#[test]
fn yield_now_lets_the_others_run() {
    everywhere(|| {
        let flag = Arc::new(AtomicBool::new(false));
        let theirs = flag.clone();
        let other = marcel::spawn(move || theirs.store(true, SeqCst));
        let limit = Instant::now() + LONG;
        while !flag.load(SeqCst) {
            assert!(Instant::now() < limit);
            marcel::yield_now();
        }
        other.join().unwrap();
    });
    marcel::yield_now(); // a kernel thread may
}

// scope

#[test]
fn threads_of_a_scope_borrow_what_lives_longer() {
    everywhere(|| {
        let mut numbers: Vec<u64> = (0..100).collect();
        let (total, first) = (AtomicUsize::new(0), &mut numbers);
        let returned = marcel::scope(|s| {
            let handles: Vec<_> = first
                .chunks_mut(10)
                .map(|chunk| {
                    s.spawn(|| {
                        chunk.iter_mut().for_each(|n| *n *= 2);
                        marcel::yield_now();
                        total.fetch_add(chunk.len(), SeqCst);
                        &*chunk // results may borrow
                    })
                })
                .collect();
            handles.into_iter().map(|h| h.join().unwrap().iter().sum::<u64>()).sum::<u64>()
        });
        assert_eq!((returned, numbers[99], total.into_inner()), (9900, 198, 100));
    });
}

#[test]
fn a_scope_waits_for_threads_that_nobody_joins() {
    everywhere(|| {
        let ended = AtomicUsize::new(0);
        marcel::scope(|s| {
            for i in 0..20 {
                let ended = &ended;
                drop(s.spawn(move || {
                    marcel::sleep(Duration::from_micros(i * 50));
                    ended.fetch_add(1, SeqCst);
                }));
            }
            std::mem::forget(s.spawn(|| ended.fetch_add(1, SeqCst))); // where std waits for ever
        });
        assert_eq!(ended.into_inner(), 21);
    });
}

#[test]
fn a_thread_of_a_scope_starts_others_in_it() {
    everywhere(|| {
        let ended = AtomicUsize::new(0);
        marcel::scope(|s| {
            let ended = &ended;
            s.spawn(move || {
                for _ in 0..5 {
                    s.spawn(move || {
                        marcel::yield_now();
                        s.spawn(move || ended.fetch_add(1, SeqCst));
                    });
                }
            });
        });
        assert_eq!(ended.into_inner(), 5);
    });
}

#[test]
fn scopes_nest() {
    fn fib(n: u32) -> u32 {
        if n < 2 {
            return n;
        }
        marcel::scope(|s| {
            let left = s.spawn(|| fib(n - 1));
            fib(n - 2) + left.join().unwrap()
        })
    }
    everywhere(|| assert_eq!(fib(11), 89));
}

#[test]
fn a_panic_that_nobody_joined_comes_out_of_the_scope_after_all_threads_have_ended() {
    everywhere(|| {
        for late in [false, true] {
            let ended = AtomicUsize::new(0);
            let payload = catch_unwind(AssertUnwindSafe(|| {
                marcel::scope(|s| {
                    let bad = s.spawn(|| panic!("as planned"));
                    s.spawn(|| {
                        marcel::sleep(Duration::from_millis(5));
                        ended.fetch_add(1, SeqCst);
                    });
                    if late {
                        until(|| bad.is_finished());
                    }
                })
            }))
            .unwrap_err();
            assert_eq!(text(&*payload), "a scoped thread panicked");
            assert_eq!(ended.into_inner(), 1);
        }
    });
}

#[test]
fn a_panic_that_was_joined_is_the_joiners_business() {
    everywhere(|| {
        marcel::scope(|s| {
            let payload = s.spawn(|| panic!("as planned")).join().unwrap_err();
            assert_eq!(text(&*payload), "as planned");
        });
    });
}

#[test]
fn a_panic_of_the_scopes_function_comes_out_after_all_threads_have_ended() {
    everywhere(|| {
        let ended = AtomicBool::new(false);
        let payload = catch_unwind(AssertUnwindSafe(|| {
            marcel::scope(|s| {
                s.spawn(|| {
                    marcel::sleep(Duration::from_millis(5));
                    ended.store(true, SeqCst);
                });
                panic!("the function's own");
            })
        }))
        .unwrap_err();
        assert_eq!(text(&*payload), "the function's own");
        assert!(ended.into_inner());
    });
}

#[test]
fn a_result_that_panics_when_it_is_dropped_counts_as_the_threads_panic() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("in a destructor, as planned");
        }
    }
    everywhere(|| {
        let result = catch_unwind(|| {
            marcel::scope(|s| {
                s.spawn(|| Bad);
            })
        });
        assert_eq!(text(&*result.unwrap_err()), "a scoped thread panicked");
    });
}

#[test]
fn builders_start_threads_in_scopes() {
    everywhere(|| {
        marcel::scope(|s| {
            let named = Builder::new().name("scoped").reactive(true);
            let handle = named.spawn_scoped(s, marcel::current_name).unwrap();
            assert_eq!(handle.join().unwrap().as_deref(), Some("scoped"));
            assert!(Builder::new().stack_size(1).spawn_scoped(s, || ()).is_err());
            assert!(Builder::new().name("\0").spawn_scoped(s, || ()).is_err());
            let handle = s.spawn(|| {
                while !marcel::is_interrupted() {
                    marcel::park();
                }
            });
            assert!(!handle.is_finished());
            handle.thread().interrupt();
            handle.join().unwrap();
        });
    });
}

#[test]
fn a_kernel_thread_owns_a_scope_of_a_runtime() {
    let runtime = Runtime::builder().mode(Mode::Smp).vps(2).build().unwrap();
    let log = Mutex::new(Vec::new());
    let sum: usize = runtime.scope(|s| {
        let handles: Vec<_> = (0..10usize)
            .map(|i| {
                let log = &log;
                s.spawn(move || {
                    assert!(marcel::is_green());
                    log.lock().unwrap().push(i);
                    i
                })
            })
            .collect();
        handles.into_iter().map(|h| h.join().unwrap()).sum()
    });
    assert_eq!((sum, log.into_inner().unwrap().len()), (45, 10));
    // From a green thread of another runtime.
    let other = Runtime::builder().mode(Mode::Mono).build().unwrap();
    let here = || marcel::current_vp().unwrap() as *const marcel::Vp as usize;
    other.run(|| {
        let theirs = runtime.scope(|s| s.spawn(here).join().unwrap());
        assert_ne!(theirs, here());
    });
}

#[test]
fn without_green_threads_a_scope_has_none() {
    let runtime = Runtime::builder().mode(Mode::NoThread).build().unwrap();
    assert_eq!(runtime.scope(|_| 5), 5);
    let payload = catch_unwind(AssertUnwindSafe(|| {
        runtime.scope(|s| {
            s.spawn(|| ());
        })
    }))
    .unwrap_err();
    assert!(text(&*payload).contains("no-thread mode"));
}

#[test]
fn a_waiting_scope_blocks_its_green_thread_only() {
    Runtime::builder().mode(Mode::Mono).build().unwrap().run(|| {
        let (turns, go) = (AtomicUsize::new(0), AtomicBool::new(false));
        marcel::scope(|outer| {
            outer.spawn(|| {
                marcel::scope(|s| {
                    s.spawn(|| until(|| go.load(SeqCst)));
                });
                turns.fetch_add(1, SeqCst);
            });
            for _ in 0..10 {
                marcel::yield_now();
            }
            assert_eq!(turns.load(SeqCst), 0);
            go.store(true, SeqCst);
        });
        assert_eq!(turns.into_inner(), 1);
    });
}

// the end of a runtime, which std has not

#[test]
fn a_thread_that_its_runtime_stopped_is_reported_to_whoever_joins() {
    let runtime = Runtime::builder().build().unwrap();
    let thread = runtime.spawn(|| {
        loop {
            marcel::park();
        }
    });
    drop(runtime);
    let payload = thread.join().unwrap_err();
    assert!(payload.is::<Stopped>());
    assert!(Stopped.to_string().contains("runtime stopped"));
}

/// `std::thread::sleep_until`.
#[test]
fn sleep_until_waits_for_its_deadline_and_not_for_one_that_has_passed() {
    let runtime = Runtime::builder().build().unwrap();
    runtime.run(|| {
        let end = Instant::now() + Duration::from_millis(20);
        marcel::sleep_until(end);
        assert!(Instant::now() >= end);
        marcel::sleep_until(end);
    });
    marcel::sleep_until(Instant::now());
}

/// `std::thread::ThreadId`: a thread has one, no other thread has the same, not even a later one.
#[test]
fn ids_tell_threads_apart() {
    let runtime = Runtime::builder().build().unwrap();
    runtime.run(|| {
        let ids: std::collections::HashSet<_> =
            (0..1000).map(|_| marcel::spawn(|| marcel::current().id()).join().unwrap()).collect();
        assert_eq!(ids.len(), 1000);
        let other = marcel::spawn(|| marcel::current().id());
        let id = other.thread().id();
        assert_eq!(other.join().unwrap(), id);
        assert_ne!(marcel::current().id(), id);
    });
}

#[test]
fn a_detached_thread_runs_and_can_be_unparked() {
    let runtime = Runtime::builder().build().unwrap();
    runtime.run(|| {
        let (tx, rx) = marcel::sync::channel::unbounded();
        let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = over.clone();
        let detached = marcel::Builder::new().name("detached").spawn_detached(move || {
            while !seen.load(std::sync::atomic::Ordering::SeqCst) {
                marcel::park();
            }
            tx.send(marcel::current_name()).unwrap();
        });
        over.store(true, std::sync::atomic::Ordering::SeqCst);
        detached.unwrap().unpark();
        assert_eq!(rx.recv().unwrap().as_deref(), Some("detached"));
    });
}
