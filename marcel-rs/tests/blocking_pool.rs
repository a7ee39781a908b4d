//! The pool for blocking calls on a real kernel: it grows, shrinks, and does without when it gets no threads. One test
//! at a time: they count the threads of the process.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use marcel::blocking::export;
use marcel::{Mode, Runtime};

fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(|e| e.into_inner())
}

/// Number of kernel threads that the pool has.
fn pool_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .filter(|name| name.trim_end() == "marcel-blk")
        .count()
}

fn wait_for(what: &str, mut ready: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !ready() {
        assert!(Instant::now() < limit, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn threads_that_are_to_stay_for_ever_make_every_call() {
    let _alone = alone();
    let runtime = Runtime::builder()
        .mode(Mode::Mono)
        .vps(1)
        .blocking_max(2)
        .blocking_keep(Duration::MAX)
        .build()
        .unwrap();
    runtime.run(|| (0..20).for_each(|call| assert_eq!(export(move || call), call)));
}

/// Calls that wait for one another: they end only if each has a kernel thread. Then the threads leave, but for one.
#[test]
fn the_pool_grows_as_needed_and_shrinks_when_it_is_not() {
    let _alone = alone();
    const CALLS: usize = 60;
    for (mode, vps) in [(Mode::Mono, 1), (Mode::Smp, 3)] {
        let runtime = Runtime::builder()
            .mode(mode)
            .vps(vps)
            .blocking_keep(Duration::from_millis(30))
            .build()
            .unwrap();
        for _ in 0..2 {
            let barrier = Arc::new(Barrier::new(CALLS));
            let seen = runtime.run(|| {
                let threads: Vec<_> = (0..CALLS)
                    .map(|_| {
                        let barrier = barrier.clone();
                        marcel::spawn(move || {
                            export(|| {
                                barrier.wait();
                                pool_threads()
                            })
                        })
                    })
                    .collect();
                threads.into_iter().map(|t| t.join().unwrap()).max()
            });
            assert!(seen >= Some(CALLS / 2), "{seen:?} threads were seen, {CALLS} were needed");
            wait_for("idle threads stayed", || pool_threads() == 1);
        }
    }
}

#[test]
fn a_thousand_threads_block_at_once_in_a_pool_of_four() {
    let _alone = alone();
    for (mode, vps) in [(Mode::Mono, 1), (Mode::Smp, 8)] {
        let runtime = Runtime::builder().mode(mode).vps(vps).blocking_max(4).build().unwrap();
        let (most, now) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (most, now) = (Arc::new(most), Arc::new(now));
        let calls = runtime.run(|| {
            let threads: Vec<_> = (0..1000)
                .map(|i| {
                    let (most, now) = (most.clone(), now.clone());
                    marcel::spawn(move || {
                        export(|| {
                            most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                            std::thread::sleep(Duration::from_micros(200));
                            now.fetch_sub(1, SeqCst);
                            i
                        })
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).sum::<usize>()
        });
        assert_eq!(calls, 999 * 1000 / 2);
        assert!((1..=4).contains(&most.load(SeqCst)), "{most:?} at once");
        assert!(pool_threads() <= 4);
        drop(runtime);
        wait_for("the runtime has left threads behind", || pool_threads() == 0);
    }
}

/// Under `RLIMIT_NPROC`, in a process of its own, since the limit is the user's: the one thread that there is makes
/// all calls.
#[test]
fn without_new_kernel_threads_no_call_is_lost() {
    const CHILD: &str = "MARCEL_TEST_NPROC";
    let _alone = alone();
    if std::env::var_os(CHILD).is_some() {
        std::process::exit(under_a_limit());
    }
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "without_new_kernel_threads_no_call_is_lost", "--nocapture"])
        .env(CHILD, "1")
        .status()
        .unwrap();
    match status.code() {
        Some(NOT_ENFORCED) => eprintln!("this kernel lets us pass the limit: nothing was tested"),
        code => assert_eq!(code, Some(0)),
    }
}

const NOT_ENFORCED: i32 = 77;

fn under_a_limit() -> i32 {
    let runtime = Runtime::builder().mode(Mode::Smp).vps(2).build().unwrap();
    let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let limit = |limit: &libc::rlimit| {
        // SAFETY: a valid rlimit.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NPROC, limit) }, 0);
    };
    // SAFETY: as above.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NPROC, &mut before) }, 0);
    let calls = || {
        runtime.run(|| {
            let threads: Vec<_> = (0..50)
                .map(|_| {
                    marcel::spawn(|| export(|| std::thread::current().name().map(String::from)))
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect::<Vec<_>>()
        })
    };
    limit(&libc::rlimit { rlim_cur: 1, ..before });
    // SAFETY: plain system calls. Root is not limited, so become somebody else.
    if unsafe { libc::geteuid() == 0 && (libc::setgid(65534) != 0 || libc::setuid(65534) != 0) } {
        return NOT_ENFORCED;
    }
    if std::thread::Builder::new().spawn(|| ()).is_ok() {
        return NOT_ENFORCED;
    }
    let made = calls();
    assert!(made.iter().all(|name| name.as_deref() == Some("marcel-blk")), "{made:?}");
    assert_eq!((made.len(), pool_threads()), (50, 1));
    // The limit is gone: the pool grows again.
    limit(&before);
    runtime.run(|| {
        let meeting = Barrier::new(2);
        marcel::scope(|scope| {
            (0..2).for_each(|_| drop(scope.spawn(|| export(|| meeting.wait()))));
        });
    });
    assert!(pool_threads() > 1);
    drop(runtime);
    0
}
