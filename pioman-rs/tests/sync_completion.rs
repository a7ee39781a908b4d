//! Many threads wait for one completion.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use marcel::Mode;
use pioman::{Completion, Hint, Manager, Runtime};

fn runtime(mode: Mode) -> Runtime {
    Runtime::build(Manager::builder().mode(mode), marcel::Runtime::builder()).unwrap()
}

/// Green and kernel threads; every third one gives up again and again, from everywhere in the list.
#[test]
fn all_who_wait_for_one_completion_are_woken() {
    for mode in [Mode::Mono, Mode::Smp] {
        let runtime = runtime(mode);
        let manager = runtime.manager();
        for round in 0..30u64 {
            let completion = Completion::new();
            let woken = AtomicUsize::new(0);
            let wait = |i: u64| {
                let soon = || Instant::now() + Duration::from_micros(30 * i);
                if i.is_multiple_of(3) {
                    while !manager.wait_until(&completion, Hint::Short, soon()) {
                        marcel::yield_now(); // to who completes it
                    }
                } else {
                    manager.wait(&completion, Hint::Long);
                }
                assert!(completion.is_done());
                woken.fetch_add(1, SeqCst);
            };
            let wait = &wait;
            std::thread::scope(|kernel| {
                (0..4).for_each(|i| drop(kernel.spawn(move || wait(i))));
                runtime.run(|| {
                    marcel::scope(|green| {
                        (0..8).for_each(|i| drop(green.spawn(move || wait(i))));
                        marcel::sleep(Duration::from_micros(50 * (round % 10)));
                        completion.complete();
                    });
                });
            });
            assert_eq!(woken.load(SeqCst), 12, "{mode}");
            assert!(!completion.has_waiter());
        }
    }
}

#[test]
fn who_gives_up_leaves_the_completion_to_the_others() {
    let manager = Manager::builder().mode(Mode::NoThread).build().unwrap();
    let completion = Completion::new();
    let soon = || Instant::now() + Duration::from_millis(5);
    std::thread::scope(|s| {
        s.spawn(|| manager.wait(&completion, Hint::Short));
        while !completion.has_waiter() {
            std::thread::yield_now();
        }
        assert!(!manager.wait_until(&completion, Hint::Short, soon()));
        assert!(completion.has_waiter());
        completion.complete();
    });
    assert!(manager.wait_until(&completion, Hint::Short, soon()));
}

/// The stacks of those that wait go, and with them their places in the list.
#[test]
fn a_runtime_that_stops_takes_its_waiters_off_a_completion() {
    for _ in 0..20 {
        let runtime = runtime(Mode::Mono);
        let completion = Arc::new(Completion::new());
        let handles: Vec<_> = (0..5)
            .map(|_| {
                let (completion, manager) = (completion.clone(), runtime.manager().clone());
                runtime.threads().spawn(move || manager.wait(&completion, Hint::Long))
            })
            .collect();
        while !completion.has_waiter() {
            std::thread::yield_now();
        }
        drop(runtime);
        assert!(!completion.has_waiter());
        completion.complete();
        assert!(handles.into_iter().all(|handle| handle.join().is_err()));
    }
}
