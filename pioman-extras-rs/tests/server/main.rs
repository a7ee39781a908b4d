//! Event servers with a device that is really blocked on, every kind of callback alone and together, in every mode and
//! from every kind of thread.

mod chaos;
mod device;
mod ends;
mod faults;
mod methods;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use device::{Device, Event, Kinds};
use marcel::Mode;
use pioman::{Manager, Runtime};
use pioman_extras::server::{Counters, Options, Outcome, Server};

const MODES: [Mode; 3] = [Mode::NoThread, Mode::Mono, Mode::Smp];

const POLLS: Kinds = Kinds(&["poll one", "poll group", "poll any"]);
const ALL: Kinds = Kinds(&[
    "poll one",
    "poll group",
    "poll any",
    "block one",
    "block one timeout",
    "block group",
    "block any",
    "block any timeout",
    "interrupt",
]);

/// Each kind alone, where it can find everything alone, and sets of them.
const SETS: [Kinds; 14] = [
    Kinds(&["poll one"]),
    Kinds(&["poll group"]),
    Kinds(&["poll any"]),
    Kinds(&["block one timeout"]),
    Kinds(&["block any timeout"]),
    Kinds(&["block one"]),
    Kinds(&["block group", "interrupt"]),
    Kinds(&["block any", "interrupt"]),
    Kinds(&["block one", "interrupt"]),
    Kinds(&["poll one", "block one"]),
    Kinds(&["poll one", "block one timeout"]),
    Kinds(&["poll any", "block any", "interrupt"]),
    POLLS,
    ALL,
];

fn runtime(mode: Mode) -> Runtime {
    let threads = marcel::Runtime::builder().vps(2);
    Runtime::build(Manager::builder().mode(mode), threads).unwrap()
}

/// Fires events, a moment apart, from a kernel thread.
fn fire_slowly(
    device: &Arc<Device>,
    events: std::ops::Range<usize>,
) -> std::thread::JoinHandle<()> {
    let device = device.clone();
    std::thread::spawn(move || {
        for event in events {
            if event % 3 == 0 {
                std::thread::sleep(Duration::from_micros(300));
            }
            device.fire(event);
        }
    })
}

/// The counters when all requests have ended: whoever ends one counts it just after others can see it.
fn settled<R: Send + Sync + 'static>(server: &Server<R>) -> Counters {
    let limit = Instant::now() + Duration::from_secs(30);
    while server.counters().pending > 0 && Instant::now() < limit {
        std::thread::yield_now();
    }
    server.counters()
}

/// What has to hold when nothing is pending any more.
fn check(device: &Device, server: &Server<Event>, submitted: u64) {
    let counters = settled(server);
    assert_eq!(counters.submitted, submitted);
    assert_eq!(counters.pending, 0, "{counters:?}");
    let ended = counters.completed + counters.cancelled + counters.failed;
    assert_eq!(ended, counters.submitted, "{counters:?}");
    assert!(device.most_polling.load(SeqCst) <= 1, "two polled at once");
    assert_eq!(device.blocked_twice.load(SeqCst), 0, "two blocked on one request");
}

#[test]
fn every_kind_of_callback_finds_what_one_thread_waits_for() {
    for (mode, kinds) in MODES.into_iter().flat_map(|mode| SETS.map(|kinds| (mode, kinds))) {
        let runtime = runtime(mode);
        let device = Arc::new(Device::default());
        let server = device.builder(runtime.manager(), kinds).start().unwrap();
        runtime.run(|| {
            let firing = fire_slowly(&device, 0..20);
            for event in 0..20 {
                let request = server.submit(event).unwrap();
                assert_eq!(request.wait(), Outcome::Completed(event as i32), "{mode} {kinds:?}");
            }
            firing.join().unwrap();
        });
        check(&device, &server, 20);
    }
}

#[test]
fn every_kind_of_callback_finds_what_many_threads_wait_for() {
    for (mode, kinds) in MODES.into_iter().flat_map(|mode| SETS.map(|kinds| (mode, kinds))) {
        let runtime = runtime(mode);
        let device = Arc::new(Device::default());
        let server = device.builder(runtime.manager(), kinds).start().unwrap();
        let waiter = |i: usize| {
            let server = server.clone();
            move || {
                for event in (i..60).step_by(6) {
                    let options = Options::default().interface(event % 2);
                    let request = server.wait(event, options, None).unwrap();
                    assert_eq!(request.outcome(), Some(Outcome::Completed(event as i32)));
                }
            }
        };
        let kernel: Vec<_> = (0..3).map(|i| std::thread::spawn(waiter(i))).collect();
        let firing = fire_slowly(&device, 0..60);
        if mode == Mode::NoThread {
            (3..6).for_each(|i| waiter(i)());
        } else {
            let waiters: Vec<_> = (3..6).map(waiter).collect();
            runtime.run(|| {
                let green: Vec<_> = waiters.into_iter().map(marcel::spawn).collect();
                green.into_iter().for_each(|thread| thread.join().unwrap());
            });
        }
        kernel.into_iter().for_each(|thread| thread.join().unwrap());
        firing.join().unwrap();
        check(&device, &server, 60);
    }
}

#[test]
fn the_library_s_own_requests_are_given_once_each_by_wait_any() {
    for (mode, kinds) in MODES.into_iter().flat_map(|mode| SETS.map(|kinds| (mode, kinds))) {
        let runtime = runtime(mode);
        let device = Arc::new(Device::default());
        let server = device.builder(runtime.manager(), kinds).start().unwrap();
        runtime.run(|| {
            for event in 0..30 {
                server.post(event, Options::default()).unwrap();
            }
            assert!(server.wait_any(Some(Duration::from_millis(1))).unwrap().is_none());
            let firing = fire_slowly(&device, 0..30);
            let mut given: Vec<Event> = (0..30)
                .map(|_| *server.wait_any(None).unwrap().expect("no time-out was given"))
                .collect();
            given.sort_unstable();
            assert_eq!(given, (0..30).collect::<Vec<_>>());
            assert!(server.test_any().is_none());
            firing.join().unwrap();
        });
        check(&device, &server, 30);
    }
}
