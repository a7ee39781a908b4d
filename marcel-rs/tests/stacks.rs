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
        .env("MALLOC_ARENA_MAX", "1") // an arena for each thread takes address space, too
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
        marcel::blocking(|| ()); // its kernel thread has what it needs
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

/// Default size of a stack in [`failing_child`].
const LARGE_STACK_KIB: u64 = 1 << 20;

/// Runs this test program's test `name` again, in which a thread gets no stack; what it wrote to its standard error.
fn failing_child(name: &str) -> String {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env("MARCEL_TEST_CHILD", "1")
        .env("RUST_BACKTRACE", "0") // takes memory
        .env("MARCEL_STACK_SIZE", LARGE_STACK_KIB.to_string())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{text}");
    text
}

/// A runtime without stacks, which gets none. Its kernel threads, which may still be starting, get theirs.
fn without_stacks() -> Runtime {
    let runtime = Runtime::builder().mode(Mode::Mono).build().unwrap();
    limit_address_space(LARGE_STACK_KIB * 1024 / 2);
    runtime
}

#[test]
fn a_run_that_gets_no_stack_says_why_and_what_to_do() {
    // AddressSanitizer reserves all of the address space.
    if cfg!(feature = "asan") {
        return;
    }
    if is_child() {
        without_stacks().run(|| ());
        return;
    }
    let text = failing_child("a_run_that_gets_no_stack_says_why_and_what_to_do");
    assert!(text.contains("Runtime::run") && text.contains("ulimit -v"), "{text}");
}

#[test]
fn a_thread_of_a_scope_that_gets_no_stack_tells_its_join_as_others_do() {
    let runtime = Runtime::builder().vps(1).build().unwrap();
    runtime.scope(|scope| {
        let thread = marcel::Builder::new().stack_size(1 << 60).spawn_scoped(scope, || ());
        let payload = thread.unwrap().join().unwrap_err();
        let why = payload.downcast_ref::<marcel::NoStack>().expect("no stack").to_string();
        assert!(why.contains("address space"), "{why}");
    });
}

#[test]
fn a_scope_whose_thread_got_no_stack_and_was_not_joined_panics_with_the_cause() {
    let runtime = Runtime::builder().vps(1).build().unwrap();
    let scope = || {
        runtime.scope(|scope| {
            let thread = marcel::Builder::new().stack_size(1 << 60).spawn_scoped(scope, || ());
            drop(thread.unwrap());
        });
    };
    let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(scope)).unwrap_err();
    let why = payload.downcast_ref::<String>().expect("a text");
    assert!(why.contains("address space"), "{why}");
}

#[test]
fn a_detached_thread_that_gets_no_stack_is_named_on_standard_error() {
    if is_child() {
        let runtime = Runtime::builder().vps(1).build().unwrap();
        runtime.run(|| {
            let lost = marcel::Builder::new().name("lost").stack_size(1 << 60);
            lost.spawn_detached(|| ()).unwrap();
            // The handle of an ended thread: its join would have told.
            let ended = marcel::Builder::new().stack_size(1 << 60).spawn(|| ()).unwrap();
            while !ended.is_finished() {
                marcel::yield_now();
            }
        });
        std::process::exit(1);
    }
    let text = failing_child("a_detached_thread_that_gets_no_stack_is_named_on_standard_error");
    assert!(text.contains("'lost'") && text.contains("address space"), "{text}");
}

/// An I/O manager that does nothing but count virtual processors.
#[derive(Default)]
struct Counts {
    started: AtomicUsize,
    ended: AtomicUsize,
}

// SAFETY: the tick does nothing.
unsafe impl marcel::Hooks for Counts {
    fn idle(&self, _: &marcel::Vp, _: std::time::Instant) -> marcel::Idle {
        marcel::Idle::Sleep
    }

    fn switch(&self, _: &marcel::Vp) -> bool {
        false
    }

    fn tick(&self, _: &marcel::Vp) -> bool {
        false
    }

    fn wants_ticks(&self) -> bool {
        false
    }

    fn sleep(
        &self,
        _: &marcel::Vp,
        _: &marcel::plumbing::Sleeper,
        _: Option<std::time::Instant>,
        _: &dyn Fn() -> bool,
    ) -> bool {
        false
    }

    fn busy(&self, _: &marcel::Vp) {}

    fn started(&self, _: marcel::Load, vps: &[&'static marcel::Vp]) {
        self.started.fetch_add(vps.len(), SeqCst);
        // The stack of the fourth kernel thread or so is refused; what is left is enough for the heap.
        limit_address_space(200 << 20);
    }

    fn ended(&self, _: &marcel::Vp) {
        self.ended.fetch_add(1, SeqCst);
    }
}

#[test]
fn where_a_kernel_thread_is_refused_every_virtual_processor_has_ended_for_the_hooks() {
    let name = "where_a_kernel_thread_is_refused_every_virtual_processor_has_ended_for_the_hooks";
    if cfg!(feature = "asan") {
        return;
    }
    if !is_child() {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture", "--test-threads=1"])
            .env("MARCEL_TEST_CHILD", "1")
            .env("MALLOC_ARENA_MAX", "1") // an arena for each thread takes address space, too
            .env("RUST_MIN_STACK", (64 << 20).to_string())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{text}");
        return;
    }
    let counts = Arc::new(Counts::default());
    let built = Runtime::builder().mode(Mode::Smp).vps(16).hooks(counts.clone()).build();
    let error = built.map(drop).unwrap_err();
    assert!(error.to_string().contains("virtual processor"), "{error}");
    assert_eq!(counts.started.load(SeqCst), 18);
    assert_eq!(counts.ended.load(SeqCst), 18);
}

/// Writes `skip` bytes below the stack pointer, as C does in a function with a large array: without probing what is
/// between.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(never)]
fn writes_without_probing(skip: usize) {
    // SAFETY: none, on purpose: the write hits a guard, and the process ends.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("mov {at}, rsp", "sub {at}, {skip}", "mov byte ptr [{at}], 1",
            at = out(reg) _, skip = in(reg) skip);
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("mov {at}, sp", "sub {at}, {at}, {skip}", "strb wzr, [{at}]",
            at = out(reg) _, skip = in(reg) skip);
    }
}

/// Uses `room` bytes of the stack below `top`, then writes `skip` bytes further down.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(never)]
fn dives(top: usize, room: usize, skip: usize) {
    let own = std::hint::black_box([0u8; 256]);
    if top - (own.as_ptr() as usize) < room {
        dives(top, room, skip);
    } else {
        writes_without_probing(skip);
    }
    std::hint::black_box(&own);
}

/// A runtime with guards of `guard` bytes, or the usual ones, in which a thread skips `skip` bytes at the end of its
/// stack, among neighbours.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn skips(guard: Option<usize>, skip: usize) {
    const SIZE: usize = 128 * 1024;
    let builder = Runtime::builder().mode(Mode::Mono);
    let builder = guard.into_iter().fold(builder, marcel::RuntimeBuilder::stack_guard);
    builder.build().unwrap().run(|| {
        // A slab is filled from below, so there are stacks to write to.
        let neighbours: Vec<_> = (0..16)
            .map(|_| marcel::Builder::new().stack_size(SIZE).spawn(marcel::park).unwrap())
            .collect();
        (0..3).for_each(|_| marcel::yield_now());
        let diver = marcel::Builder::new().name("diver").stack_size(SIZE);
        let diver = diver.spawn(move || {
            let top = std::hint::black_box([0u8; 16]);
            dives(top.as_ptr() as usize, SIZE - 16 * 1024, skip);
        });
        diver.unwrap().join().unwrap();
        neighbours.iter().for_each(|thread| thread.thread().unpark());
    });
    std::process::exit(0);
}

#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(feature = "asan")))]
#[test]
fn a_frame_of_c_that_skips_64_kb_hits_the_guard_and_not_the_neighbour() {
    if is_child() {
        skips(None, 64 << 10);
    }
    let text = failing_child("a_frame_of_c_that_skips_64_kb_hits_the_guard_and_not_the_neighbour");
    assert!(text.contains("'diver' has overflowed its stack of 128 KiB"), "{text}");
}

#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(feature = "asan")))]
#[test]
fn a_wider_guard_catches_frames_that_skip_more() {
    if is_child() {
        skips(Some(1 << 20), 1 << 20);
    }
    let text = failing_child("a_wider_guard_catches_frames_that_skip_more");
    assert!(text.contains("'diver' has overflowed its stack of 128 KiB"), "{text}");
}

#[test]
fn a_guard_that_is_no_guard_is_refused() {
    for bytes in [0, 1000, usize::MAX] {
        let error = Runtime::builder().mode(Mode::Mono).stack_guard(bytes).build().map(drop);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("stack_guard"), "{error}");
    }
}
