//! A program that leaves something pending again and again is not watched by arming each time: the watcher looks every
//! so often, and what the program leaves behind when it calls no more is still found.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use marcel::Mode;
use pioman::{Manager, Source, SourceId};

/// Generous: the machine may be busy with other things.
const LIMIT: Duration = Duration::from_secs(60);

/// Always pending; tells when a poll has found its event.
struct Line {
    fd: OwnedFd,
    sent: AtomicBool,
    found: AtomicBool,
    /// How often the watcher has armed.
    arms: AtomicUsize,
}

impl Line {
    fn ring(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight readable bytes.
        unsafe { libc::write(self.fd.as_raw_fd(), one.as_ptr().cast(), 8) };
    }
}

// SAFETY: reads of an eventfd, and atomics; ticks are not used here.
unsafe impl Source for Line {
    fn name(&self) -> &str {
        "line"
    }
    fn poll(&self) -> bool {
        let mut counter = [0u8; 8];
        // SAFETY: eight writable bytes.
        let n = unsafe { libc::read(self.fd.as_raw_fd(), counter.as_mut_ptr().cast(), 8) };
        if n == 8 && self.sent.load(SeqCst) {
            self.found.store(true, SeqCst);
        }
        n == 8
    }
    fn pending(&self) -> bool {
        true
    }
    fn fd(&self) -> Option<RawFd> {
        Some(self.fd.as_raw_fd())
    }
    fn arm(&self) -> bool {
        if std::thread::current().name() == Some("pioman-watch") {
            self.arms.fetch_add(1, SeqCst);
        }
        true
    }
    fn disarm(&self) {}
    fn disarms_its_descriptor(&self) -> bool {
        false
    }
}

fn line() -> (Arc<Line>, Arc<Manager>) {
    // SAFETY: no pointers; the descriptor is ours.
    let fd = unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_NONBLOCK)) };
    let (sent, found) = (AtomicBool::new(false), AtomicBool::new(false));
    let line = Arc::new(Line { fd, sent, found, arms: AtomicUsize::new(0) });
    (line, Manager::builder().mode(Mode::Smp).build().unwrap())
}

/// How often the watcher has gone to sleep.
fn sleeps(manager: &Manager) -> u64 {
    manager.counters().sleeps[1]
}

/// Calls until the watcher polls along, three times; what is left behind then is found, and the watcher arms again.
fn patrols(call: impl Fn(&Line, &Manager, SourceId)) {
    let (line, manager) = line();
    let source = manager.add_source(line.clone()).unwrap();
    let until = Instant::now() + LIMIT;
    for _ in 0..3 {
        // On patrol it sleeps and looks by turns without arming.
        let seen = || (line.arms.load(SeqCst), sleeps(&manager));
        let (mut arms, mut slept) = seen();
        loop {
            assert!(Instant::now() < until, "the watcher never goes on patrol");
            call(&line, &manager, source.id());
            match seen() {
                (now, more) if now == arms && more >= slept + 3 => break,
                (now, _) if now == arms => {}
                changed => (arms, slept) = changed,
            }
        }
        // No call from here on.
        line.sent.store(true, SeqCst);
        line.ring();
        while !line.found.load(SeqCst) {
            assert!(Instant::now() < until, "an event was left behind");
            std::thread::yield_now();
        }
        // The patrol ends, since nobody calls.
        while line.arms.load(SeqCst) == arms {
            assert!(Instant::now() < until, "the patrol does not end");
            std::thread::yield_now();
        }
        line.sent.store(false, SeqCst);
        line.found.store(false, SeqCst);
    }
    drop(source);
}

#[test]
fn who_calls_all_the_time_is_patrolled_and_what_it_leaves_behind_is_found() {
    patrols(|line, manager, _| {
        line.ring();
        (0..100).for_each(|_| manager.ensure_watched());
    });
}

/// No event comes: nothing but the caller itself makes the watcher look.
#[test]
fn who_polls_again_and_again_is_patrolled_and_what_it_leaves_behind_is_found() {
    patrols(|_, manager, source| {
        manager.ensure_watched();
        (0..100).for_each(|_| drop(manager.looking(source)));
    });
}

/// A wake-up of the watcher for some of its waits would cost more than it saves.
#[test]
fn who_polls_now_and_then_is_left_alone() {
    let (line, manager) = line();
    let source = manager.add_source(line).unwrap();
    manager.ensure_watched();
    let until = Instant::now() + LIMIT;
    while !manager.watches(source.id()) || sleeps(&manager) == 0 {
        assert!(Instant::now() < until, "the watcher does not sleep");
        std::thread::yield_now();
    }
    let before = sleeps(&manager);
    for _ in 0..160 {
        drop(manager.looking(source.id()));
        std::thread::sleep(Duration::from_millis(1));
    }
    let slept = sleeps(&manager) - before;
    assert!(slept <= 2, "the watcher was woken {slept} times");
    drop(source);
}
