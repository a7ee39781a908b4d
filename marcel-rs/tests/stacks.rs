//! Stacks of green threads: their use, their number, and what happens when there are no more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use marcel::{Mode, Runtime};

#[test]
fn a_thread_sees_how_much_of_its_stack_was_used() {
    #[inline(never)]
    fn eat<const N: usize>() {
        std::hint::black_box([1u8; N]);
    }
    let runtime = Runtime::builder().mode(Mode::Mono).build().unwrap();
    assert_eq!(marcel::stack_high_water(), None);
    runtime.run(|| {
        // A size that no thread before had.
        let builder = marcel::Builder::new().stack_size(1 << 20);
        let used = builder.spawn(|| {
            let before = marcel::stack_high_water().unwrap();
            eat::<300_000>();
            (before, marcel::stack_high_water().unwrap())
        });
        let (before, after) = used.unwrap().join().unwrap();
        assert!(before < 100_000, "{before}");
        // Unoptimised code copies.
        assert!((300_000..1_000_000).contains(&after), "{after}");
    });
}

#[test]
fn many_threads_live_at_once_and_their_stacks_are_reused() {
    let runtime = Runtime::builder().vps(2).build().unwrap();
    runtime.run(|| {
        for _ in 0..2 {
            let go = Arc::new(AtomicBool::new(false));
            let alive = Arc::new(AtomicUsize::new(0));
            let threads: Vec<_> = (0..5000usize)
                .map(|i| {
                    let (go, alive) = (go.clone(), alive.clone());
                    marcel::spawn(move || {
                        let own = [i; 16];
                        alive.fetch_add(1, SeqCst);
                        while !go.load(SeqCst) {
                            marcel::park();
                        }
                        own.iter().sum::<usize>() / 16
                    })
                })
                .collect();
            while alive.load(SeqCst) < threads.len() {
                marcel::yield_now();
            }
            go.store(true, SeqCst);
            threads.iter().for_each(|thread| thread.thread().unpark());
            for (i, thread) in threads.into_iter().enumerate() {
                assert_eq!(thread.join().unwrap(), i);
            }
        }
    });
}

/// Runs this test program's test `name` again, alone, with `MARCEL_TEST_CHILD` set.
fn child(name: &str) {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env("MARCEL_TEST_CHILD", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{:?}: {text}", output.status);
}

fn is_child() -> bool {
    std::env::var_os("MARCEL_TEST_CHILD").is_some()
}

/// Lets the process have `more` bytes of address space beyond those that it has.
fn limit_address_space(more: u64) {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = status.split(' ').next().unwrap().parse().unwrap();
    let most = pages * 4096 + more;
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: a valid limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

#[test]
fn without_memory_for_stacks_the_joins_say_so_and_other_threads_go_on() {
    if !is_child() {
        // AddressSanitizer reserves all of the address space.
        if !cfg!(feature = "asan") {
            child("without_memory_for_stacks_the_joins_say_so_and_other_threads_go_on");
        }
        return;
    }
    let runtime = Runtime::builder().vps(1).build().unwrap();
    runtime.run(|| {
        limit_address_space(256 << 20);
        let go = Arc::new(AtomicBool::new(false));
        let alive = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..2000)
            .map(|i| {
                let (go, alive) = (go.clone(), alive.clone());
                marcel::spawn(move || {
                    alive.fetch_add(1, SeqCst);
                    while !go.load(SeqCst) {
                        marcel::park();
                    }
                    i
                })
            })
            .collect();
        // Some are without a stack; those that have one wait, and can be woken and joined.
        while alive.load(SeqCst) + threads.iter().filter(|t| t.is_finished()).count() < 2000 {
            marcel::yield_now();
        }
        go.store(true, SeqCst);
        threads.iter().for_each(|thread| thread.thread().unpark());
        let (mut good, mut bad) = (0, 0);
        for (i, thread) in threads.into_iter().enumerate() {
            match thread.join() {
                Ok(value) => {
                    assert_eq!(value, i);
                    good += 1;
                }
                Err(payload) => {
                    let why = payload.downcast_ref::<marcel::NoStack>().expect("no stack");
                    assert!(why.to_string().contains("ulimit -v"), "{why}");
                    bad += 1;
                }
            }
        }
        assert!(good > 100 && bad > 100, "{good} had a stack, {bad} had none");
        // And there is memory again.
        assert_eq!(marcel::spawn(|| 7).join().unwrap(), 7);
    });
}

#[test]
fn a_stack_larger_than_any_address_space_is_an_error_of_join() {
    let runtime = Runtime::builder().vps(1).build().unwrap();
    runtime.run(|| {
        for size in [1 << 60, usize::MAX] {
            let thread = marcel::Builder::new().stack_size(size).spawn(|| ()).unwrap();
            let payload = thread.join().unwrap_err();
            let why = payload.downcast_ref::<marcel::NoStack>().expect("no stack").to_string();
            assert!(why.contains("address space"), "{why}");
        }
    });
}

#[test]
fn a_runtime_that_ends_unmaps_its_stacks() {
    if !is_child() {
        // AddressSanitizer keeps address space of its own.
        if !cfg!(feature = "asan") {
            child("a_runtime_that_ends_unmaps_its_stacks");
        }
        return;
    }
    let mapped = || {
        let status = std::fs::read_to_string("/proc/self/statm").unwrap();
        status.split(' ').next().unwrap().parse::<usize>().unwrap() * 4096
    };
    let once = || {
        let runtime = Runtime::builder().vps(2).build().unwrap();
        runtime.run(|| {
            // Ended ones, and ones that are unwound, of two sizes.
            for size in [0, 100_000] {
                let spawn = |f: fn()| marcel::Builder::new().stack_size(size).spawn(f).unwrap();
                let ended: Vec<_> = (0..200).map(|_| spawn(marcel::yield_now)).collect();
                (0..200).for_each(|_| {
                    drop(spawn(|| {
                        loop {
                            marcel::park()
                        }
                    }))
                });
                ended.into_iter().for_each(|thread| thread.join().unwrap());
            }
        });
    };
    once();
    let before = mapped();
    (0..20).for_each(|_| once());
    let more = mapped().saturating_sub(before);
    // 20 times 400 stacks of 256 KiB would be 2 GiB.
    assert!(more < 256 << 20, "{} MiB of address space for 20 runtimes", more >> 20);
}
