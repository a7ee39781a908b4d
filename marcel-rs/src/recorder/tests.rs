use super::ring::{self, Rings};
use super::*;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Writers overwrite a small ring while it is read again and again: what is read was written so, in full.
#[test]
fn what_is_read_was_written_so() {
    crate::os::slot::prepare();
    let rings = Rings::new(64).unwrap();
    let stop = AtomicBool::new(false);
    let slots = std::sync::Mutex::new(Vec::new());
    let both = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                slots.lock().unwrap().push(crate::os::slot::current().unwrap());
                both.wait(); // else the second could get the slot of the first
                for i in 0..200_000u64 {
                    ring::put(&rings, i, Kind::Task, 0, i * 3, i * 7);
                }
                stop.store(true, Release);
            });
        }
        let mut seen = 0;
        while !stop.load(Acquire) || seen == 0 {
            for slot in slots.lock().unwrap().clone() {
                for [time, word, a, b] in rings.copy(slot).records {
                    assert_eq!((a, b), (time * 3, time * 7));
                    assert_eq!(Kind::decode(word), (Some(Kind::Task), 0));
                    seen += 1;
                }
            }
        }
    });
    for slot in slots.into_inner().unwrap() {
        let copy = rings.copy(slot);
        assert_eq!(copy.records.len(), 64);
        assert!(copy.records.iter().map(|r| r[0]).eq(200_000 - 64..200_000));
        assert_eq!(copy.lost, 200_000 - 64);
    }
}

/// A handler writes while its thread writes: both sides' records are whole and none is missing.
#[test]
fn a_handler_may_interrupt_a_writer() {
    static RINGS: AtomicPtr<Rings> = AtomicPtr::new(std::ptr::null_mut());
    static HANDLED: AtomicU64 = AtomicU64::new(0);
    extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: leaked before the handler was installed.
        let rings = unsafe { &*RINGS.load(Acquire) };
        let n = HANDLED.fetch_add(1, Relaxed);
        for _ in 0..3 {
            ring::put(rings, n, Kind::Tick, 0, n, n);
        }
    }
    crate::os::slot::prepare();
    RINGS.store(Box::leak(Box::new(Rings::new(1 << 18).unwrap())), Release);
    let signal = libc::SIGRTMIN() + 10;
    // SAFETY: the handler puts records into a ring, as it may.
    unsafe { crate::os::signal::handle(signal, handler) }.unwrap();
    // SAFETY: as above.
    let rings = unsafe { &*RINGS.load(Acquire) };
    // SAFETY: no arguments.
    let me = unsafe { libc::pthread_self() };
    let stop = AtomicBool::new(false);
    let slot = crate::os::slot::current().unwrap();
    let mut own = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..1000 {
                // SAFETY: the thread lives: it is the one that joins us.
                unsafe { libc::pthread_kill(me, signal) };
                std::thread::yield_now();
            }
            stop.store(true, Release);
        });
        while own < 100_000 && !stop.load(Acquire) {
            ring::put(rings, own, Kind::Task, 0, own, own + 1);
            own += 1;
        }
        while !stop.load(Acquire) {
            std::hint::spin_loop();
        }
    });
    let copy = rings.copy(slot);
    let of = |kind| {
        copy.records
            .iter()
            .filter(move |r| Kind::decode(r[1]).0 == Some(kind))
            .map(|r| (r[2], r[3]))
    };
    assert!(of(Kind::Task).eq((0..own).map(|i| (i, i + 1))));
    assert_eq!(of(Kind::Tick).count() as u64, 3 * HANDLED.load(Relaxed));
    assert_eq!(copy.lost, 0);
}
