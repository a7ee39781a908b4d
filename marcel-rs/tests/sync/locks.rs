//! Mutex and reader-writer lock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use marcel::sync::{Mutex, RwLock, RwLockWriteGuard};

use super::{Count, crowd, everywhere, spawn, until};

const SHORT: Duration = Duration::from_millis(10);

#[test]
fn a_mutex_excludes_green_and_kernel_threads() {
    everywhere(|| {
        let (mutex, inside) = (Arc::new(Mutex::new(0)), Count::default());
        let theirs = mutex.clone();
        crowd(9, move |i| {
            for round in 0..100 {
                let mut sum = theirs.lock();
                assert_eq!(inside.add(), 1);
                if (i + round) % 10 == 0 {
                    marcel::yield_now();
                }
                *sum += 1;
                inside.sub();
            }
        });
        assert_eq!(*mutex.lock(), 900);
    });
}

#[test]
fn a_locked_mutex_is_not_locked_again() {
    everywhere(|| {
        let mutex = Arc::new(Mutex::new(1));
        let guard = mutex.lock();
        assert!(mutex.is_locked() && mutex.try_lock().is_none());
        let theirs = mutex.clone();
        let start = Instant::now();
        spawn(true, move || {
            assert!(theirs.try_lock_timeout(SHORT).is_none());
            assert!(theirs.try_lock_until(Instant::now() + SHORT).is_none());
            assert!(theirs.try_lock_until(Instant::now()).is_none());
        })
        .join();
        assert!(start.elapsed() >= 2 * SHORT);
        drop(guard);
        // No waiter is left behind, and nobody is locked out.
        assert!(mutex.try_lock_timeout(Duration::ZERO).is_some_and(|value| *value == 1));
        assert!(mutex.try_lock_until(Instant::now()).is_some());
        assert!(!mutex.is_locked());
    });
}

#[test]
fn a_timed_lock_that_succeeds_in_time_is_a_lock() {
    everywhere(|| {
        let mutex = Arc::new(Mutex::new(0));
        let guard = mutex.lock();
        let theirs = mutex.clone();
        let other = spawn(false, move || {
            *theirs.try_lock_timeout(Duration::from_secs(100)).expect("in time") += 1;
        });
        marcel::sleep(SHORT);
        drop(guard);
        other.join();
        assert_eq!(*mutex.lock(), 1);
    });
}

#[test]
fn a_panic_of_the_holder_unlocks_and_poisons_nothing() {
    everywhere(|| {
        let mutex = Mutex::new(1);
        let result = catch_unwind(AssertUnwindSafe(|| {
            let mut value = mutex.lock();
            *value = 2;
            panic!("as planned");
        }));
        assert!(result.is_err());
        assert_eq!(*mutex.lock(), 2, "what it left behind is seen");

        let lock = RwLock::new(1);
        for write in [true, false] {
            let result = catch_unwind(AssertUnwindSafe(|| {
                let _writer = write.then(|| lock.write());
                let _reader = (!write).then(|| lock.read());
                panic!("as planned");
            }));
            assert!(result.is_err());
            assert!(lock.try_write().is_some());
        }
    });
}

#[test]
fn the_value_is_the_locks_own() {
    let mut mutex = Mutex::from(String::from("a"));
    mutex.get_mut().push('b');
    assert_eq!(format!("{mutex:?}"), "Mutex(\"ab\")");
    assert_eq!(format!("{} {0:?}", mutex.lock()), "ab \"ab\"");
    let guard = mutex.lock();
    assert_eq!(format!("{mutex:?}"), "Mutex(locked)");
    drop(guard);
    assert_eq!(mutex.into_inner(), "ab");
    assert_eq!(*Mutex::<u8>::default().lock(), 0);

    let mut lock = RwLock::from(String::from("a"));
    lock.get_mut().push('b');
    assert_eq!(format!("{lock:?} {} {}", lock.read(), lock.read()), "RwLock(\"ab\") ab ab");
    let guard = lock.write();
    assert_eq!(format!("{lock:?}"), "RwLock(locked)");
    drop(guard);
    assert_eq!(lock.into_inner(), "ab");

    let unsized_value: &Mutex<[i32]> = &Mutex::new([1, 2]);
    assert_eq!(unsized_value.lock().len(), 2);
}

#[test]
fn readers_share_and_writers_exclude() {
    everywhere(|| {
        let lock = Arc::new(RwLock::new((0, 0)));
        let (readers, writers) = (Count::default(), Count::default());
        let theirs = lock.clone();
        crowd(9, move |i| {
            for round in 0..60 {
                if (i + round) % 3 == 0 {
                    let mut value = theirs.write();
                    assert_eq!((writers.add(), readers.get()), (1, 0));
                    value.0 += 1;
                    marcel::yield_now();
                    value.1 += 1;
                    writers.sub();
                } else {
                    let value = theirs.read();
                    readers.add();
                    assert_eq!(writers.get(), 0);
                    assert_eq!(value.0, value.1);
                    marcel::yield_now();
                    readers.sub();
                }
            }
        });
        assert_eq!(*lock.read(), (180, 180));
    });
}

#[test]
fn several_readers_are_inside_at_once() {
    everywhere(|| {
        let (lock, inside) = (Arc::new(RwLock::new(())), Count::default());
        crowd(3, move |_| {
            let _guard = lock.read();
            inside.add();
            until(|| inside.get() == 3);
        });
    });
}

#[test]
fn what_a_reader_or_writer_excludes_times_out() {
    everywhere(|| {
        let lock = Arc::new(RwLock::new(0));
        let reader = lock.read();
        assert!(lock.try_read().is_some() && lock.try_write().is_none());
        assert!(lock.try_write_timeout(SHORT).is_none());
        assert!(lock.try_write_until(Instant::now() + SHORT).is_none());
        // The writers that gave up left nothing in the way.
        assert!(lock.try_read_timeout(Duration::ZERO).is_some());
        drop(reader);
        let writer = lock.write();
        assert!(lock.try_read().is_none() && lock.try_write().is_none());
        assert!(lock.try_read_timeout(SHORT).is_none());
        assert!(lock.try_read_until(Instant::now() + SHORT).is_none());
        drop(writer);
        assert!(lock.try_write_until(Instant::now()).is_some());
        assert!(lock.try_read_until(Instant::now()).is_some());
    });
}

#[test]
fn a_writer_that_gives_up_lets_readers_behind_it_in() {
    everywhere(|| {
        let lock = Arc::new(RwLock::new(()));
        let reader = lock.read();
        let mut patience = 5 * SHORT;
        let writer = loop {
            let theirs = lock.clone();
            let writer = spawn(false, move || theirs.try_write_timeout(patience).is_none());
            until(|| lock.try_read().is_none() || writer.is_finished());
            if !writer.is_finished() {
                break writer; // it waits
            }
            assert!(writer.join()); // before the lock was looked at
            patience *= 2;
        };
        let theirs = lock.clone();
        let behind = spawn(false, move || drop(theirs.read()));
        assert!(writer.join());
        behind.join(); // although the first reader is still inside
        drop(reader);
    });
}

#[test]
fn a_writer_becomes_a_reader_without_letting_another_in_between() {
    everywhere(|| {
        let lock = Arc::new(RwLock::new(0));
        let mut guard = lock.write();
        let theirs = lock.clone();
        let writer = spawn(false, move || *theirs.write() += 1);
        let theirs = lock.clone();
        let reader = spawn(false, move || *theirs.read());
        marcel::sleep(SHORT);
        *guard = 5;
        let guard = RwLockWriteGuard::downgrade(guard);
        assert_eq!(*guard, 5);
        marcel::sleep(SHORT);
        assert_eq!(*guard, 5, "a writer got in");
        drop(guard);
        writer.join();
        assert!((5..=6).contains(&reader.join()));
        assert_eq!(*lock.read(), 6);
    });
}
