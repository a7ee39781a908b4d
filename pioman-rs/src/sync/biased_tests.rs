use super::*;
use std::sync::atomic::AtomicU64 as Counter;

struct Tally {
    here: u64,
    left: u64,
    done: u64,
}

impl Delegated for Tally {
    fn run_delegated(&mut self, bits: u64) {
        self.left |= bits;
        self.done += 1;
    }
}

fn tally() -> BiasedLock<Tally> {
    marcel::plumbing::slot::prepare();
    BiasedLock::new(Tally { here: 0, left: 0, done: 0 })
}

/// Has the bias if the kernel gives it; then tests go on.
fn biased() -> Option<BiasedLock<Tally>> {
    let lock = tally();
    if !lock.set_biasing(true) {
        return None;
    }
    drop(lock.try_lock().unwrap());
    Some(lock)
}

#[test]
fn its_owner_keeps_it_without_a_revocation() {
    let Some(lock) = biased() else { return };
    assert!(lock.is_biased_to(own_slot().unwrap()));
    for _ in 0..100 {
        let guard = lock.try_lock().unwrap();
        assert!(lock.try_lock().is_none());
        assert!(!lock.delegate(4));
        drop(guard);
        assert!(lock.delegate(1));
    }
    assert_eq!((lock.try_lock().unwrap().left, lock.revocations()), (5, 0));
}

#[test]
fn another_revokes_the_bias_and_the_owner_gets_it_again() {
    let Some(lock) = biased() else { return };
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(lock.try_lock().is_some()));
    });
    assert_eq!(lock.revocations(), 1);
    let slot = own_slot().unwrap();
    let tries = (0..2 * MOST).find(|_| {
        drop(lock.try_lock());
        lock.is_biased_to(slot)
    });
    assert!(tries.is_some_and(|tries| tries >= FIRST / 2));
}

#[test]
fn what_another_leaves_inside_is_done_by_the_owner() {
    let Some(lock) = biased() else { return };
    let guard = lock.try_lock().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(lock.try_lock().is_none());
            assert!(!lock.delegate(8));
        });
    });
    assert_eq!(guard.left, 0);
    drop(guard);
    assert_eq!(lock.try_lock().unwrap().left, 8);
}

#[test]
fn without_biases_again_it_is_the_usual_lock() {
    let Some(lock) = biased() else { return };
    assert!(lock.set_biasing(false));
    drop(lock.try_lock().unwrap());
    assert!(!lock.is_held());
    drop(lock.try_lock().unwrap());
    assert!(!lock.is_held());
    assert!(lock.delegate(2));
    assert_eq!(lock.try_lock().unwrap().left, 2);
}

#[test]
fn a_panic_in_it_leaves_it_free() {
    let Some(lock) = biased() else { return };
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _guard = lock.try_lock().unwrap();
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(unwound.is_err());
    assert!(lock.try_lock().is_some());
}

/// The owner counts; others, and its own signal handler, count or leave: nothing is lost, and no two are in it at once.
#[test]
fn owner_handler_and_others_lose_nothing() {
    static LOCK: std::sync::OnceLock<BiasedLock<Tally>> = std::sync::OnceLock::new();
    static ENTERED: Counter = Counter::new(0);
    static DONE: Counter = Counter::new(0);
    fn come() {
        let Some(lock) = LOCK.get() else { return };
        match lock.try_lock() {
            Some(mut guard) => {
                let before = guard.here;
                std::hint::spin_loop();
                guard.here = before + 1;
                ENTERED.fetch_add(1, Relaxed);
            }
            None if lock.delegate(2) => {
                DONE.fetch_add(1, Relaxed);
            }
            None => {}
        }
    }
    extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
        come();
    }
    let lock = LOCK.get_or_init(tally);
    if !lock.set_biasing(true) {
        return;
    }
    // SAFETY: the handler uses atomics only.
    unsafe { marcel::plumbing::signal::handle(libc::SIGRTMIN() + 8, handler) }.unwrap();
    // SAFETY: no arguments.
    let owner = unsafe { libc::pthread_self() };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Until the bias was revoked once: on a machine that is full the owner may come late to it.
            for i in (0..).take_while(|&i| i < 3000 || lock.revocations() == 0) {
                // SAFETY: the thread lives: it waits for `stop`.
                unsafe { libc::pthread_kill(owner, libc::SIGRTMIN() + 8) };
                // Now and then another comes; in between the owner gets its bias again.
                if i % 50 == 0 {
                    come();
                    lock.set_biasing(true);
                }
                std::hint::spin_loop();
            }
            stop.store(true, Release);
        });
        while !stop.load(Acquire) {
            (0..100).for_each(|_| come());
        }
    });
    let guard = lock.try_lock().unwrap();
    assert_eq!(guard.here, ENTERED.load(Relaxed));
    // And what was left with a holder.
    assert!(guard.done >= DONE.load(Relaxed));
    assert!(lock.revocations() > 0);
}
