//! What a kernel thread that has to sleep in a wait asks of the kernel for itself.

use std::time::{Duration, Instant};

use marcel::plumbing::lwp::{SHORT_SLICE, prefer_current_thread, slice_of_current_thread};
use pioman::{Completion, Hint, Manager};

/// Sleeps in a wait, until another thread sees that it does.
fn wait(manager: &Manager) {
    let completion = Completion::new();
    let limit = Instant::now() + Duration::from_secs(60);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !completion.has_waiter() && Instant::now() < limit {
                std::thread::sleep(Duration::from_millis(1));
            }
            completion.complete();
        });
        manager.wait(&completion, Hint::Long);
    });
    assert!(Instant::now() < limit, "it did not sleep");
}

#[test]
fn a_kernel_thread_that_sleeps_gets_a_short_slice_unless_its_scheduling_was_chosen() {
    let manager = Manager::builder().mode(marcel::Mode::Smp).build().unwrap();
    let slice = || slice_of_current_thread().unwrap();
    std::thread::scope(|scope| {
        let honoured = scope.spawn(|| prefer_current_thread() && slice() == SHORT_SLICE);
        let honoured = honoured.join().unwrap();
        if !honoured {
            println!("SKIPPED: this kernel knows no time slices of threads");
            return;
        }
        scope.spawn(|| {
            assert_ne!(slice(), SHORT_SLICE);
            wait(&manager);
            assert_eq!(slice(), SHORT_SLICE);
        });
        scope.spawn(|| {
            let param = libc::sched_param { sched_priority: 0 };
            // SAFETY: `param` is valid; 0 is the calling thread.
            assert_eq!(unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &param) }, 0);
            wait(&manager);
            assert_ne!(slice(), SHORT_SLICE);
            // SAFETY: no pointers.
            assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_BATCH);
        });
    });
}
