//! Green threads on real kernel threads, in every mode.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use marcel::sync::{Condvar, Mutex, Semaphore};
use marcel::{Mode, Runtime};

/// Runs `f` in mono mode, on one compute VP with reactive ones, and on more VPs than cores.
fn everywhere(f: impl Fn() + Send + Sync) {
    for (mode, vps) in [(Mode::Mono, 1), (Mode::Smp, 1), (Mode::Smp, 2), (Mode::Smp, 5)] {
        let runtime = Runtime::builder().mode(mode).vps(vps).build().unwrap();
        runtime.run(&f);
    }
}

#[test]
fn spawned_threads_run_and_are_joined() {
    everywhere(|| {
        let handles: Vec<_> = (0..500usize).map(|i| marcel::spawn(move || i * 2)).collect();
        for (i, handle) in handles.into_iter().enumerate() {
            assert_eq!(handle.join().unwrap(), i * 2);
        }
    });
}

#[test]
fn threads_of_threads() {
    fn fib(n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let left = marcel::spawn(move || fib(n - 1));
        let right = fib(n - 2);
        left.join().unwrap() + right
    }
    everywhere(|| assert_eq!(fib(12), 144));
}

#[test]
fn a_panic_comes_out_of_join_and_hurts_nobody_else() {
    everywhere(|| {
        let bad = marcel::spawn(|| panic!("as planned"));
        let good = marcel::spawn(|| 7);
        let payload = bad.join().unwrap_err();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"as planned"));
        assert_eq!(good.join().unwrap(), 7);
    });
}

#[test]
fn a_panic_of_the_main_thread_comes_out_of_run() {
    let runtime = Runtime::builder().vps(1).build().unwrap();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        runtime.run(|| panic!("main"));
    }));
    assert!(result.is_err());
    assert_eq!(runtime.run(|| 3), 3);
}

#[test]
fn yielding_threads_take_turns_on_one_vp() {
    let runtime = Runtime::builder().mode(Mode::Mono).build().unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = log.clone();
    runtime.run(move || {
        let threads: Vec<_> = (0..3)
            .map(|id| {
                let log = seen.clone();
                marcel::spawn(move || {
                    for _ in 0..3 {
                        log.lock().push(id);
                        marcel::yield_now();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
    });
    let log = log.lock();
    for turn in log.chunks(3) {
        let mut ids = turn.to_vec();
        ids.sort_unstable();
        assert_eq!(ids, [0, 1, 2], "{log:?}");
    }
}

#[test]
fn park_and_unpark_between_green_and_kernel_threads() {
    everywhere(|| {
        let turn = Arc::new(AtomicUsize::new(0));
        let (me, theirs) = (marcel::current(), turn.clone());
        let green = marcel::spawn(move || {
            for i in (1..2000).step_by(2) {
                while theirs.load(SeqCst) != i {
                    marcel::park();
                }
                theirs.store(i + 1, SeqCst);
                me.unpark();
            }
        });
        for i in (0..1998).step_by(2) {
            turn.store(i + 1, SeqCst);
            green.thread().unpark();
            while turn.load(SeqCst) != i + 2 {
                marcel::park();
            }
        }
        turn.store(1999, SeqCst);
        green.thread().unpark();
        green.join().unwrap();
    });
}

#[test]
fn a_mutex_excludes_and_a_condvar_wakes_across_kinds_of_threads() {
    everywhere(|| {
        let shared = Arc::new((Mutex::new(0usize), Condvar::new()));
        let work = |shared: Arc<(Mutex<usize>, Condvar)>| {
            for _ in 0..500 {
                *shared.0.lock() += 1;
                shared.1.notify_all();
            }
        };
        let green: Vec<_> = (0..4)
            .map(|_| {
                let shared = shared.clone();
                marcel::spawn(move || work(shared))
            })
            .collect();
        let kernel = {
            let shared = shared.clone();
            std::thread::spawn(move || work(shared))
        };
        let sum = shared.1.wait_while(shared.0.lock(), |n| *n < 2500);
        assert_eq!(*sum, 2500);
        drop(sum);
        green.into_iter().for_each(|t| t.join().unwrap());
        kernel.join().unwrap();
    });
}

#[test]
fn a_condvar_times_out() {
    everywhere(|| {
        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
        let start = Instant::now();
        let (_guard, result) = condvar.wait_timeout(mutex.lock(), Duration::from_millis(20));
        assert!(result.timed_out() && start.elapsed() >= Duration::from_millis(20));
    });
}

#[test]
fn a_semaphore_hands_permits_over_in_order() {
    everywhere(|| {
        let semaphore = Arc::new(Semaphore::new(2));
        let inside = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let (semaphore, inside) = (semaphore.clone(), inside.clone());
                marcel::spawn(move || {
                    for _ in 0..100 {
                        semaphore.acquire().forget();
                        assert!(inside.fetch_add(1, SeqCst) < 2);
                        marcel::yield_now();
                        inside.fetch_sub(1, SeqCst);
                        semaphore.release();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(semaphore.available(), 2);
        assert!(Semaphore::new(0).acquire_timeout(Duration::from_millis(5)).is_none());
    });
}

#[test]
fn no_sleeping_thread_wakes_before_its_deadline() {
    everywhere(|| {
        let sleep = |ms| {
            marcel::spawn(move || {
                let (begun, time) = (Instant::now(), Duration::from_millis(ms));
                marcel::sleep(time);
                assert!(begun.elapsed() >= time);
            })
        };
        [60, 20, 40].map(sleep).into_iter().for_each(|t| t.join().unwrap());
    });
}

#[test]
fn the_sleeping_threads_of_a_virtual_processor_wake_in_the_order_of_their_deadlines() {
    let runtime = Runtime::builder().mode(Mode::Mono).build().unwrap();
    runtime.run(|| {
        let mut length = Duration::from_millis(20);
        loop {
            let (order, start) = (Arc::new(Mutex::new(Vec::new())), Instant::now());
            let sleep = |nth: u32| {
                let order = order.clone();
                marcel::spawn(move || {
                    let begun = Instant::now();
                    marcel::sleep_until(start + nth * length);
                    order.lock().push(nth);
                    begun
                })
            };
            let begun = [3, 1, 2].map(sleep).map(|thread| thread.join().unwrap());
            // On a busy machine a thread may come too late to sleep; then there is no order to judge.
            if begun.into_iter().all(|begun| begun < start + length) {
                assert_eq!(*order.lock(), [1, 2, 3]);
                break;
            }
            length *= 2;
        }
    });
}

#[test]
fn a_started_thread_stays_on_its_kernel_thread() {
    everywhere(|| {
        let threads: Vec<_> = (0..50)
            .map(|_| {
                marcel::spawn(|| {
                    let home = std::thread::current().id();
                    for i in 0..50 {
                        if i % 10 == 0 {
                            marcel::sleep(Duration::from_micros(100));
                        }
                        marcel::yield_now();
                        assert_eq!(std::thread::current().id(), home);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
    });
}

#[test]
fn a_reactive_thread_runs_while_every_compute_vp_computes() {
    let runtime = Runtime::builder().mode(Mode::Smp).vps(2).build().unwrap();
    runtime.run(|| {
        let stop = Arc::new(AtomicUsize::new(0));
        let computing: Vec<_> = (0..4)
            .map(|_| {
                let stop = stop.clone();
                marcel::spawn(move || while stop.load(SeqCst) == 0 {})
            })
            .collect();
        // The main thread is reactive: it goes on although nobody yields.
        for _ in 0..20 {
            marcel::sleep(Duration::from_millis(1));
        }
        stop.store(1, SeqCst);
        computing.into_iter().for_each(|t| t.join().unwrap());
    });
}

#[test]
fn dropping_a_runtime_unwinds_what_is_blocked() {
    struct Witness(Arc<AtomicUsize>);
    impl Drop for Witness {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    for _ in 0..20 {
        let dropped = Arc::new(AtomicUsize::new(0));
        let runtime = Runtime::builder().mode(Mode::Smp).vps(2).build().unwrap();
        let handles: Vec<_> = (0..20)
            .map(|i| {
                let witness = Witness(dropped.clone());
                runtime.spawn(move || {
                    let _witness = witness;
                    let never = Mutex::new(());
                    let _guard = never.lock();
                    match i % 4 {
                        0 => marcel::park(),
                        1 => marcel::sleep(Duration::from_secs(1000)),
                        2 => Semaphore::new(0).acquire().forget(),
                        _ => drop(never.lock()),
                    }
                    if i % 4 == 0 {
                        loop {
                            marcel::park();
                        }
                    }
                })
            })
            .collect();
        drop(runtime);
        assert_eq!(dropped.load(SeqCst), 20);
        for handle in handles {
            let payload = handle.join().unwrap_err();
            assert!(payload.is::<marcel::Stopped>());
        }
    }
}

#[test]
fn a_thread_that_only_yields_does_not_hold_up_the_end_of_its_runtime() {
    for mode in [Mode::Mono, Mode::Smp] {
        let runtime = Runtime::builder().mode(mode).build().unwrap();
        let handle = runtime.spawn(|| {
            loop {
                marcel::yield_now();
            }
        });
        runtime.run(|| marcel::sleep(Duration::from_millis(2)));
        drop(runtime);
        assert!(handle.join().is_err());
    }
}

#[test]
fn a_dropped_runtime_leaves_no_stacks_behind() {
    let mappings = || std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    let once = || {
        let runtime = Runtime::builder().mode(Mode::Smp).vps(2).build().unwrap();
        runtime.run(|| {
            let threads: Vec<_> = (0..200)
                .map(|_| marcel::spawn(|| marcel::sleep(Duration::from_millis(5))))
                .collect();
            threads.into_iter().for_each(|t| t.join().unwrap());
        });
    };
    once();
    let before = mappings();
    (0..5).for_each(|_| once());
    // Other tests of this program run meanwhile; a leak would be 200 stacks and guards a turn.
    assert!(mappings() < before + 1000, "{before} mappings became {}", mappings());
}

#[test]
fn bad_wishes_are_errors_that_name_the_cause() {
    assert!(
        Runtime::builder().mode(Mode::Smp).vps(0).build().unwrap_err().to_string().contains("vps")
    );
    let runtime = Runtime::builder().vps(1).build().unwrap();
    runtime.run(|| {
        let small = marcel::Builder::new().stack_size(100).spawn(|| ()).unwrap_err();
        assert!(small.to_string().contains("too small"), "{small}");
        assert!(marcel::Builder::new().name("a\0b").spawn(|| ()).is_err());
    });
    assert!(marcel::Builder::new().spawn(|| ()).is_err());
}

#[test]
fn a_stack_overflow_names_its_thread() {
    if std::env::var_os("MARCEL_TEST_OVERFLOW").is_some() {
        #[inline(never)]
        fn deep(n: u64) -> u64 {
            let room = std::hint::black_box([n; 64]);
            if n == 0 { 0 } else { deep(n - 1) + room[(n % 64) as usize] }
        }
        let runtime = Runtime::builder().vps(1).build().unwrap();
        runtime.run(|| {
            let thread = marcel::Builder::new().name("diver").spawn(|| deep(1 << 40)).unwrap();
            let _ = thread.join();
        });
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["a_stack_overflow_names_its_thread", "--exact", "--nocapture"])
        .env("MARCEL_TEST_OVERFLOW", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(text.contains("thread 'diver' has overflowed its stack"), "{text}");
}

#[test]
fn a_thread_of_one_runtime_starts_threads_in_another_that_sleeps() {
    for mode in [Mode::Mono, Mode::Smp] {
        let build = || Runtime::builder().mode(mode).vps(1).reactive(1).build().unwrap();
        let (one, other) = (build(), build());
        std::thread::sleep(Duration::from_millis(20)); // both sleep in the kernel now
        one.run(|| {
            // From a virtual processor with the same number and kind as the one that is to be woken.
            let starter = marcel::current_vp().unwrap().index();
            assert_eq!(starter, 0);
            let start = |f: fn()| other.spawn(f);
            let direct = start(|| ());
            let limit = Instant::now() + Duration::from_secs(60);
            while !direct.is_finished() && Instant::now() < limit {
                marcel::sleep(Duration::from_millis(1));
            }
            assert!(direct.is_finished(), "lost: nobody was woken for it ({mode})");
        });
    }
}

#[test]
fn what_a_stopping_runtime_unwinds_leaves_the_lists_it_waited_in() {
    for _ in 0..20 {
        let mutex = Arc::new(Mutex::new(0));
        let condvar = Arc::new(Condvar::new());
        let semaphore = Arc::new(Semaphore::new(0));
        let runtime = Runtime::builder().mode(Mode::Smp).vps(1).reactive(1).build().unwrap();
        let held = mutex.lock();
        for i in 0..9 {
            let (mutex, condvar, semaphore) = (mutex.clone(), condvar.clone(), semaphore.clone());
            runtime.spawn(move || match i % 3 {
                0 => drop(mutex.lock()),
                1 => drop(condvar.wait(Mutex::new(()).lock())),
                _ => semaphore.acquire().forget(),
            });
        }
        std::thread::sleep(Duration::from_millis(5));
        // One of the waiters gets a permit, and may be unwound before it runs.
        semaphore.release();
        drop(runtime);
        drop(held); // these would walk through the stacks of threads that are gone
        condvar.notify_all();
        semaphore.release();
        assert_eq!(*mutex.lock(), 0);
        assert!(
            semaphore
                .acquire_timeout(Duration::from_secs(1))
                .map(marcel::sync::Permit::forget)
                .is_some()
        );
    }
}

#[test]
fn what_a_thread_that_never_ran_owns_may_wait_when_it_is_dropped() {
    struct Waits(Arc<AtomicUsize>);
    impl Drop for Waits {
        fn drop(&mut self) {
            marcel::sleep(Duration::from_millis(1));
            while !marcel::is_stopping() {
                marcel::park();
            }
            self.0.fetch_add(1, SeqCst);
        }
    }
    /// Starts a thread when the runtime stops already: it never runs.
    struct Starts(Arc<AtomicUsize>);
    impl Drop for Starts {
        fn drop(&mut self) {
            let waits = Waits(self.0.clone());
            marcel::spawn(move || drop(waits));
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let runtime = Runtime::builder().mode(Mode::Mono).build().unwrap();
    let handles: Vec<_> = (0..3)
        .map(|_| {
            let starts = Starts(dropped.clone());
            runtime.spawn(move || {
                let _starts = starts;
                marcel::sleep(Duration::from_secs(1000));
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(20));
    drop(runtime);
    assert_eq!(dropped.load(SeqCst), 3);
    assert!(handles.into_iter().all(|handle| handle.join().is_err()));
}

/// It uses a thread-local value in a destructor, and nobody asks why it did not run: its control block's next user
/// sees neither.
#[test]
fn a_thread_without_a_stack_leaves_nothing_to_the_next_one() {
    use std::cell::Cell;
    marcel::thread_local! {
        static MARK: Cell<u32> = const { Cell::new(0) };
    }
    struct Marks;
    impl Drop for Marks {
        fn drop(&mut self) {
            MARK.set(MARK.get() + 1);
        }
    }
    let runtime = Runtime::builder().mode(Mode::Mono).build().unwrap();
    let never = runtime.run(|| {
        for _ in 0..3 {
            let marks = Marks;
            let huge = marcel::Builder::new().stack_size(1 << 62);
            drop(huge.spawn(move || drop(marks)).unwrap());
            marcel::sleep(Duration::from_millis(1));
            assert_eq!(marcel::spawn(|| MARK.get()).join().unwrap(), 0);
        }
        let huge = marcel::Builder::new().stack_size(1 << 62);
        drop(huge.spawn(|| ()).unwrap());
        marcel::sleep(Duration::from_millis(1));
        // Again and again: `park` may return without reason, for one that the block's last user was given late.
        marcel::spawn(|| -> () {
            loop {
                marcel::park()
            }
        })
    });
    drop(runtime);
    let payload = never.join().unwrap_err();
    assert!(payload.is::<marcel::Stopped>(), "as its block's last user");
}

/// Whoever waits in an interruptible call gets the error; so does whoever was asked before it waits.
#[test]
fn an_interrupted_thread_gets_an_error_where_it_waits() {
    let runtime = Runtime::builder().build().unwrap();
    runtime.run(|| {
        let ready = Arc::new(AtomicBool::new(false));
        let theirs = ready.clone();
        let waiting = marcel::spawn(move || {
            assert!(!marcel::is_interrupted());
            theirs.store(true, SeqCst);
            let asleep = marcel::sleep_interruptible(Duration::from_secs(3600));
            let again = marcel::park_interruptible();
            marcel::clear_interrupt();
            let after = marcel::sleep_interruptible(Duration::from_millis(1));
            (asleep, again, after)
        });
        while !ready.load(SeqCst) {
            marcel::yield_now();
        }
        waiting.thread().interrupt();
        let stopped = Err(marcel::Interrupted);
        assert_eq!(waiting.join().unwrap(), (stopped, stopped, Ok(())));
    });
}

/// The handle of a thread that ended does not stop the next one with the same control block.
#[test]
fn a_late_interrupt_stops_nobody() {
    let runtime = Runtime::builder().mode(Mode::Mono).build().unwrap();
    runtime.run(|| {
        let first = marcel::spawn(marcel::current);
        let ended = first.join().unwrap();
        let next = marcel::spawn(move || {
            ended.interrupt();
            marcel::is_interrupted()
        });
        assert!(!next.join().unwrap());
    });
}

#[test]
fn an_interrupted_join_gives_the_handle_back() {
    let runtime = Runtime::builder().build().unwrap();
    runtime.run(|| {
        let me = marcel::current();
        let over = Arc::new(AtomicBool::new(false));
        let seen = over.clone();
        let forever = marcel::spawn(move || {
            while !seen.load(SeqCst) {
                marcel::park();
            }
        });
        let other = marcel::spawn(move || me.interrupt());
        let forever = forever.join_interruptible().unwrap_err();
        marcel::clear_interrupt();
        other.join().unwrap();
        over.store(true, SeqCst);
        forever.thread().unpark();
        forever.join().unwrap();
    });
}
