//! What may be called on the progress path allocates and frees nothing, whoever waits (but futures: their wakers are
//! foreign code); and neither does a wait for a few things.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};

use pioman::{Completion, Cond, Hint, Manager, Notifier, Semaphore};

std::thread_local! {
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

fn count() {
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
}

// SAFETY: the system's, counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count();
        // SAFETY: passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn calls_of<T>(f: impl FnOnce() -> T) -> (usize, T) {
    let before = CALLS.get();
    let value = f();
    (CALLS.get() - before, value)
}

#[test]
fn to_tell_those_who_wait_allocates_nothing() {
    let manager = Manager::builder().mode(marcel::Mode::NoThread).build().unwrap();
    let notifier = Notifier::new().unwrap();
    assert!(calls_of(|| Box::new(7)).0 > 0, "they are counted");
    for _ in 0..20 {
        let (completion, cond, semaphore) = (Completion::new(), Cond::new(), Semaphore::new(0));
        let watched =
            [notifier.watch(&completion), notifier.watch(cond.all(3)), notifier.watch(cond.any(1))];
        notifier.arm();
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| manager.wait(&completion, Hint::Short));
                s.spawn(|| cond.wait_all(&manager, 3));
                s.spawn(|| manager.wait_all(&[(&completion).into(), semaphore.permit()]));
            }
            std::thread::sleep(Duration::from_millis(2));
            let (calls, ()) = calls_of(|| {
                completion.complete();
                cond.signal(1);
                cond.signal(2);
                semaphore.release_many(3);
            });
            assert_eq!(calls, 0);
        });
        drop(watched);
        assert_eq!(semaphore.available(), 0);
    }
}

#[test]
fn to_wait_for_a_few_things_allocates_nothing() {
    let manager = Manager::builder().mode(marcel::Mode::NoThread).spin(Some(Duration::ZERO));
    let manager = manager.build().unwrap();
    let (completion, cond, semaphore) = (Completion::new(), Cond::new(), Semaphore::new(1));
    let soon = || Instant::now() + Duration::from_millis(2);
    // The first time that a thread sleeps sets the thread up. It has to come to that: on a busy machine a short time
    // is over before.
    let later = Instant::now() + Duration::from_secs(1);
    assert!(!manager.wait_until(&completion, Hint::Short, later));
    let (calls, ()) = calls_of(|| {
        let what = [(&completion).into(), cond.any(1), cond.all(6)];
        assert_eq!(manager.wait_any_until(&what, soon()), None);
        assert!(!manager.wait_all_until(&[semaphore.permit(), cond.any(1)], soon()));
        assert!(semaphore.acquire_until(&manager, soon()));
        assert!(!cond.wait_until(&manager, 1, soon()));
    });
    assert_eq!(calls, 0);
}
