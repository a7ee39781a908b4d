//! Condition variable, semaphore, barrier, event: what `std` documents for those it has.

use std::sync::Arc;
use std::time::{Duration, Instant};

use marcel::sync::{Barrier, Condvar, Event, Mutex, Semaphore};

use super::{Count, crowd, everywhere, spawn, until};

const SHORT: Duration = Duration::from_millis(10);
const LONG: Duration = Duration::from_secs(100);

#[test]
fn a_wait_unlocks_the_mutex_and_locks_it_again() {
    everywhere(|| {
        let pair = Arc::new((Mutex::new(false), Condvar::new()));
        let theirs = pair.clone();
        let guard = pair.0.lock();
        let other = spawn(false, move || {
            *theirs.0.lock() = true; // only possible while we wait
            theirs.1.notify_one();
        });
        let guard = pair.1.wait_while(guard, |ready| !*ready);
        assert!(*guard && pair.0.try_lock().is_none());
        drop(guard);
        other.join();
    });
}

#[test]
fn a_notification_that_nobody_waits_for_is_not_stored() {
    everywhere(|| {
        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
        condvar.notify_one();
        condvar.notify_all();
        let (_guard, result) = condvar.wait_timeout(mutex.lock(), SHORT);
        assert!(result.timed_out());
    });
}

#[test]
fn one_notification_wakes_one_and_all_wake_all() {
    everywhere(|| {
        let pair = Arc::new((Mutex::new((0, 0)), Condvar::new()));
        let threads: Vec<_> = (0..5)
            .map(|i| {
                let pair = pair.clone();
                spawn(i == 4, move || {
                    let mut guard = pair.0.lock();
                    guard.0 += 1; // waits
                    while guard.1 == 0 {
                        guard = pair.1.wait(guard);
                    }
                    guard.1 -= 1;
                    guard.0 -= 1;
                })
            })
            .collect();
        until(|| pair.0.lock().0 == 5);
        pair.0.lock().1 = 1;
        pair.1.notify_one();
        until(|| pair.0.lock().0 == 4);
        assert_eq!(*pair.0.lock(), (4, 0));
        pair.0.lock().1 = 4;
        pair.1.notify_all();
        threads.into_iter().for_each(super::Joiner::join);
        assert_eq!(*pair.0.lock(), (0, 0));
    });
}

#[test]
fn timed_waits_tell_a_notification_from_the_end_of_the_time() {
    everywhere(|| {
        let pair = Arc::new((Mutex::new(false), Condvar::new()));
        let start = Instant::now();
        let (guard, result) = pair.1.wait_timeout_while(pair.0.lock(), SHORT, |ready| !*ready);
        assert!(result.timed_out() && !*guard && start.elapsed() >= SHORT);
        let (guard, result) = pair.1.wait_until(guard, Instant::now() + SHORT);
        assert!(result.timed_out());
        let (guard, result) =
            pair.1.wait_until_while(guard, Instant::now() + SHORT, |ready| !*ready);
        assert!(result.timed_out());
        // A condition that is false already: no wait at all.
        let (guard, result) = pair.1.wait_timeout_while(guard, LONG, |_| false);
        assert!(!result.timed_out());
        let theirs = pair.clone();
        let other = spawn(true, move || {
            *theirs.0.lock() = true;
            theirs.1.notify_all();
        });
        let (guard, result) = pair.1.wait_timeout_while(guard, LONG, |ready| !*ready);
        assert!(!result.timed_out() && *guard);
        drop(guard);
        other.join();
    });
}

#[test]
fn one_condvar_serves_several_mutexes() {
    let condvar = Condvar::new();
    for mutex in [Mutex::new(1), Mutex::new(2)] {
        assert!(condvar.wait_timeout(mutex.lock(), Duration::from_millis(1)).1.timed_out());
    }
}

#[test]
fn no_more_threads_are_inside_than_there_are_permits() {
    everywhere(|| {
        let (semaphore, inside) = (Arc::new(Semaphore::new(3)), Count::default());
        let theirs = semaphore.clone();
        crowd(9, move |i| {
            for round in 0..50 {
                let n = (i + round) % 3 + 1;
                let permit = theirs.acquire_many(n);
                assert_eq!(permit.count(), n);
                for _ in 0..n {
                    assert!(inside.add() <= 3);
                }
                marcel::yield_now();
                (0..n).for_each(|_| {
                    inside.sub();
                });
            }
        });
        assert_eq!(semaphore.available(), 3);
    });
}

#[test]
fn permits_are_lent_forgotten_and_brought_by_others() {
    everywhere(|| {
        let semaphore = Arc::new(Semaphore::new(1));
        semaphore.try_acquire_many(1).expect("one is there").forget();
        assert!(
            semaphore.try_acquire_many(1).is_none() && semaphore.acquire_timeout(SHORT).is_none()
        );
        assert!(semaphore.acquire_timeout(SHORT).is_none());
        assert!(semaphore.acquire_many_until(2, Instant::now() + SHORT).is_none());
        let theirs = semaphore.clone();
        let other = spawn(false, move || {
            marcel::sleep(SHORT);
            theirs.release_many(2);
        });
        assert!(
            semaphore
                .acquire_many_until(2, Instant::now() + LONG)
                .map(marcel::sync::Permit::forget)
                .is_some()
        );
        other.join();
        assert_eq!(semaphore.available(), 0);
    });
}

#[test]
#[should_panic(expected = "isize::MAX")]
fn more_permits_than_can_be_counted_are_refused() {
    let semaphore = Semaphore::new(isize::MAX as usize);
    semaphore.release();
}

#[test]
fn a_panic_gives_permits_back() {
    let semaphore = Semaphore::new(1);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _permit = semaphore.acquire();
        panic!("as planned");
    }));
    assert!(result.is_err());
    assert_eq!(semaphore.available(), 1);
}

#[test]
fn nobody_passes_a_barrier_before_all_have_come() {
    everywhere(|| {
        const N: usize = 6;
        let (barrier, come) = (Arc::new(Barrier::new(N)), Count::default());
        let leaders = crowd(N, move |_| {
            let mut leader = 0;
            for round in 1..=20 {
                come.add();
                leader += usize::from(barrier.wait().is_leader());
                assert!(come.get() >= round * N);
                barrier.wait();
            }
            leader
        });
        assert_eq!(leaders.into_iter().sum::<usize>(), 20);
    });
}

#[test]
fn a_barrier_of_none_or_one_holds_nobody_up() {
    for n in [0, 1] {
        let barrier = Barrier::new(n);
        assert!(barrier.wait().is_leader() && barrier.wait().is_leader());
    }
}

#[test]
fn an_event_lets_all_through_until_it_is_reset() {
    everywhere(|| {
        let (event, through) = (Arc::new(Event::new()), Count::default());
        let threads: Vec<_> = (0..20)
            .map(|i| {
                let (event, through) = (event.clone(), through.clone());
                spawn(i % 7 == 0, move || {
                    event.wait();
                    through.add();
                })
            })
            .collect();
        assert!(!event.is_set() && !event.wait_timeout(SHORT));
        assert!(!event.wait_until(Instant::now() + SHORT));
        assert_eq!(through.get(), 0);
        event.set();
        threads.into_iter().for_each(super::Joiner::join);
        event.wait();
        assert!(event.wait_timeout(LONG) && event.is_set());
        event.reset();
        assert!(!event.wait_timeout(SHORT));
    });
}

#[test]
fn thousands_wait_and_leave_in_any_order() {
    everywhere(|| {
        let event = Arc::new(Event::new());
        let threads: Vec<_> = (0..if marcel::is_green() { 2000 } else { 20 })
            .map(|i: u64| {
                let event = event.clone();
                let time = if i.is_multiple_of(2) { LONG } else { Duration::from_millis(i % 20) };
                spawn(false, move || event.wait_timeout(time))
            })
            .collect();
        marcel::sleep(Duration::from_millis(30));
        event.set();
        for (i, thread) in threads.into_iter().enumerate() {
            assert!(thread.join() || i % 2 == 1);
        }
    });
}
