//! Many threads, many runtimes, and too few resources for either.
//!
//! `MARCEL_TEST_MANY` (default 200 000): how many threads the soak creates; 10 000 000 is the long one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use marcel::sync::Semaphore;
use marcel::{Builder, Mode, NoStack, Runtime};

mod common;
use common::in_a_child;

const LIMIT: Duration = Duration::from_secs(300);

fn many() -> usize {
    match std::env::var("MARCEL_TEST_MANY") {
        Ok(text) => text.parse().expect("MARCEL_TEST_MANY is a number"),
        Err(_) => 200_000,
    }
}

/// Resident memory of this process, in KiB.
fn resident() -> usize {
    status("VmRSS:")
}

/// Its kernel threads.
fn kernel_threads() -> usize {
    status("Threads:")
}

fn status(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn message(payload: &(dyn std::any::Any + Send)) -> String {
    let literal = payload.downcast_ref::<&str>().map(|text| text.to_string());
    literal.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}

#[test]
fn a_soak_of_short_threads_loses_none_and_does_not_grow() {
    // The first part warms pools and caches up.
    in_a_child("a_soak_of_short_threads_loses_none_and_does_not_grow", LIMIT * 10, || {
        let total = many();
        let runtime = Runtime::builder().build().unwrap();
        let ended = Arc::new(AtomicUsize::new(0));
        let mut after_first = 0;
        for part in 0..10 {
            let (ended, each) = (ended.clone(), total / 10);
            runtime.run(move || {
                // Four threads create the others: joined at once, in batches, detached, and by scopes.
                let wave = |f: fn(usize, &Arc<AtomicUsize>)| {
                    let ended = ended.clone();
                    marcel::spawn(move || f(each / 4, &ended))
                };
                let waves = [wave(one_by_one), wave(in_batches), wave(detached), wave(scoped)];
                waves.into_iter().for_each(|w| w.join().unwrap());
            });
            if part == 0 {
                after_first = resident();
            }
        }
        assert_eq!(ended.load(SeqCst), total / 10 / 4 * 4 * 10);
        let grown = resident().saturating_sub(after_first);
        assert!(grown < 32 * 1024, "{grown} KiB more than after the first tenth");
    });

    fn one_by_one(n: usize, ended: &Arc<AtomicUsize>) {
        for i in 0..n {
            let ended = ended.clone();
            let thread = marcel::spawn(move || {
                ended.fetch_add(1, SeqCst);
                i
            });
            assert_eq!(thread.join().unwrap(), i);
        }
    }

    fn in_batches(n: usize, ended: &Arc<AtomicUsize>) {
        let mut left = n;
        while left > 0 {
            let batch = left.min(500);
            let start = |_| {
                let ended = ended.clone();
                marcel::spawn(move || {
                    marcel::yield_now();
                    ended.fetch_add(1, SeqCst)
                })
            };
            let threads: Vec<_> = (0..batch).map(start).collect();
            threads.into_iter().for_each(|t| assert!(t.join().is_ok()));
            left -= batch;
        }
    }

    fn detached(n: usize, ended: &Arc<AtomicUsize>) {
        let room = Arc::new(Semaphore::new(300));
        for _ in 0..n {
            room.acquire().forget();
            let (ended, room) = (ended.clone(), room.clone());
            drop(marcel::spawn(move || {
                ended.fetch_add(1, SeqCst);
                room.release();
            }));
        }
        (0..300).for_each(|_| room.acquire().forget());
    }

    fn scoped(n: usize, ended: &Arc<AtomicUsize>) {
        let mut left = n;
        while left > 0 {
            let batch = left.min(100);
            marcel::scope(|s| {
                for _ in 0..batch {
                    s.spawn(|| ended.fetch_add(1, SeqCst));
                }
            });
            left -= batch;
        }
    }
}

#[test]
fn a_burst_of_threads_waits_and_goes_on_together() {
    in_a_child("a_burst_of_threads_waits_and_goes_on_together", LIMIT, || {
        let n = (many() / 40).clamp(1000, 20_000);
        for mode in [Mode::Mono, Mode::Smp] {
            let runtime = Runtime::builder().mode(mode).build().unwrap();
            runtime.run(|| {
                for _ in 0..2 {
                    let (gate, there) =
                        (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
                    let start = |i| {
                        let (gate, there) = (gate.clone(), there.clone());
                        marcel::spawn(move || {
                            there.fetch_add(1, SeqCst);
                            gate.acquire().forget();
                            i
                        })
                    };
                    let threads: Vec<_> = (0..n).map(start).collect();
                    while there.load(SeqCst) < n {
                        marcel::yield_now();
                    }
                    (0..n).for_each(|_| gate.release());
                    for (i, thread) in threads.into_iter().enumerate() {
                        assert_eq!(thread.join().unwrap(), i);
                    }
                }
            });
        }
    });
}

#[test]
fn runtimes_that_start_and_stop_leave_nothing_behind() {
    in_a_child("runtimes_that_start_and_stop_leave_nothing_behind", LIMIT, || {
        let once = |i: usize| {
            let mode = if i.is_multiple_of(3) { Mode::Mono } else { Mode::Smp };
            let runtime = Runtime::builder().mode(mode).vps(3).reactive(2).build().unwrap();
            runtime.run(|| {
                // As an I/O manager does that sleeps in `epoll_wait`.
                marcel::current_vp().unwrap().sleeper().fd().unwrap();
                if i.is_multiple_of(2) {
                    marcel::blocking::standby(|| ());
                }
                let threads: Vec<_> = (0..20).map(|i| marcel::spawn(move || i)).collect();
                threads.into_iter().for_each(|t| assert!(t.join().is_ok()));
            });
            for _ in 0..5 {
                drop(runtime.spawn(|| {
                    loop {
                        marcel::park();
                    }
                }));
            }
        };
        (0..20).for_each(once);
        // The kernel counts a thread that was joined for a moment more.
        let look = |_| {
            std::thread::sleep(Duration::from_millis(2));
            kernel_threads()
        };
        let before = (descriptors(), (0..50).map(look).min().unwrap(), resident());
        (0..800).for_each(once);
        let limit = Instant::now() + Duration::from_secs(60);
        while kernel_threads() > before.1 && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(2));
        }
        let after = (descriptors(), kernel_threads(), resident());
        assert_eq!(before.0, after.0, "descriptors");
        assert!(after.1 <= before.1, "kernel threads: {before:?} then {after:?}");
        let grown = after.2.saturating_sub(before.2);
        // AddressSanitizer keeps a record of each kernel thread that has ended, 4,400 here; its own part that finds leaks looks
        // after memory then.
        let records = cfg!(feature = "asan");
        assert!(records || grown < 1024, "{grown} KiB for 800 runtimes");
    });
}

#[test]
fn timed_waits_that_end_early_leave_nothing_behind() {
    in_a_child("timed_waits_that_end_early_leave_nothing_behind", LIMIT, || {
        let n = many();
        let runtime = Runtime::builder().mode(Mode::Mono).build().unwrap();
        runtime.run(|| {
            let stop = Arc::new(AtomicBool::new(false));
            let seen = stop.clone();
            let sleeper = marcel::spawn(move || {
                let mut turns = 0usize;
                while !seen.load(SeqCst) {
                    marcel::park_timeout(Duration::from_secs(100_000));
                    turns += 1;
                }
                turns
            });
            let wake = |times: usize| {
                for _ in 0..times {
                    sleeper.thread().unpark();
                    marcel::yield_now();
                }
            };
            wake(n / 10);
            let before = resident();
            wake(n * 3);
            let grown = resident().saturating_sub(before);
            stop.store(true, SeqCst);
            sleeper.thread().unpark();
            assert!(sleeper.join().unwrap() >= n, "each wake-up was a wait");
            assert!(grown < 8 * 1024, "{grown} KiB of timers that nobody waits for");
        });
    });
}

#[test]
fn a_runtime_inside_a_runtime_works_and_runs_only_from_outside() {
    let outer = Runtime::builder().mode(Mode::Smp).vps(1).build().unwrap();
    outer.run(|| {
        let inner = Runtime::builder().mode(Mode::Smp).vps(2).build().unwrap();
        let payload = catch_unwind(AssertUnwindSafe(|| inner.run(|| ()))).unwrap_err();
        assert!(message(&*payload).contains("spawn a thread instead"), "{}", message(&*payload));
        // The way out that the message names; the caller's virtual processor goes on meanwhile.
        let theirs = inner.spawn(|| {
            marcel::sleep(Duration::from_millis(2));
            marcel::spawn(|| 4).join().unwrap()
        });
        assert_eq!(marcel::spawn(|| 3).join().unwrap() + theirs.join().unwrap(), 7);
        inner.scope(|s| drop(s.spawn(|| ())));
    });
}

#[test]
fn numbers_that_make_no_sense_are_errors_that_name_them() {
    let error = |builder: marcel::RuntimeBuilder| builder.build().unwrap_err().to_string();
    let builder = || Runtime::builder().mode(Mode::Smp);
    assert!(error(builder().vps(0)).contains("vps"));
    assert!(error(builder().vps(100_000)).contains("vps"));
    assert!(error(builder().reactive(0)).contains("reactive"));
    assert!(error(builder().reactive(65)).contains("reactive"));
    let runtime = builder().vps(1).build().unwrap();
    runtime.run(|| {
        let error = Builder::new().stack_size(4096).spawn(|| ()).unwrap_err().to_string();
        assert!(error.contains("4096") && error.contains("too small"), "{error}");
        let error = Builder::new().name("a\0b").spawn(|| ()).unwrap_err().to_string();
        assert!(error.contains("NUL"), "{error}");
        // More than any machine has: the thread's end, not the process's.
        let huge = Builder::new().stack_size(1 << 60).spawn(|| ());
        match huge.map(|thread| thread.join().unwrap_err()) {
            Err(error) => assert!(error.to_string().contains("stack"), "{error}"),
            Ok(payload) => {
                let why = payload.downcast_ref::<NoStack>().expect("no stack").to_string();
                assert!(why.contains("stack of") && why.contains("ulimit"), "{why}");
            }
        }
        assert_eq!(marcel::spawn(|| 5).join().unwrap(), 5);
    });
    let payload = catch_unwind(|| marcel::spawn(|| ())).unwrap_err();
    assert!(message(&*payload).contains("Runtime::spawn"));
}

#[test]
fn wrong_knobs_are_errors_that_name_them() {
    for (knob, value) in [("MARCEL_NVP", "0"), ("MARCEL_NVP", "many"), ("MARCEL_STACK_SIZE", "1")] {
        let name = "wrong_knobs_are_errors_that_name_them";
        if common::is_child(name) {
            let error = Runtime::builder().build().unwrap_err().to_string();
            eprintln!("{error}");
            std::process::exit(0);
        }
        let (success, text) = common::run(name, LIMIT, |command| {
            command.env(knob, value);
        });
        assert!(success && text.contains(knob), "{knob}={value}: {text}");
    }
}

#[test]
fn without_memory_for_more_stacks_a_thread_says_so_and_the_others_go_on() {
    let name = "without_memory_for_more_stacks_a_thread_says_so_and_the_others_go_on";
    if !common::is_child(name) {
        // An arena for each kernel thread takes address space, too.
        let (success, text) = common::run(name, LIMIT, |command| {
            command.env("MALLOC_ARENA_MAX", "1");
        });
        assert!(success, "the child failed:\n{text}");
        return;
    }
    let runtime = Runtime::builder().mode(Mode::Smp).vps(2).build().unwrap();
    runtime.run(|| {
        let gate = Arc::new(Semaphore::new(0));
        let blocked = || {
            let gate = gate.clone();
            Builder::new().stack_size(1 << 20).spawn(move || {
                gate.acquire().forget();
                1
            })
        };
        // Room for some of the threads' stacks and not for others'.
        let first = blocked().unwrap();
        let room = libc::rlimit {
            rlim_cur: (status("VmSize:") as u64 + 300 * 1024) * 1024,
            rlim_max: libc::RLIM_INFINITY,
        };
        // SAFETY: a valid limit for this process.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &room) }, 0);
        let threads: Vec<_> = (0..2000).map(|_| blocked().unwrap()).collect();
        let limit = Instant::now() + LIMIT;
        while threads.iter().all(|thread| !thread.is_finished()) {
            assert!(Instant::now() < limit, "2 GiB of stacks in 300 MiB of room");
            marcel::sleep(Duration::from_millis(1));
        }
        (0..2001).for_each(|_| gate.release());
        let (mut ran, mut refused) = (0, 0);
        for thread in threads {
            match thread.join() {
                Ok(n) => ran += n,
                Err(payload) => {
                    let why = payload.downcast_ref::<NoStack>().expect("NoStack").to_string();
                    assert!(why.contains("ulimit") && why.contains("stack of 1024 KiB"), "{why}");
                    refused += 1;
                }
            }
        }
        assert!(ran > 0 && refused > 0 && ran + refused == 2000, "{ran} and {refused}");
        assert_eq!(first.join().unwrap(), 1);
        assert_eq!(marcel::spawn(|| 5).join().unwrap(), 5, "there is room again");
    });
}
