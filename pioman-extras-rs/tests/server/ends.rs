//! How requests end: by others, by cancellation, by time-outs, with their server, and when they are dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::device::{Device, Kinds};
use crate::{ALL, MODES, POLLS, SETS, check, runtime, settled};
use marcel::Mode;
use pioman::{Manager, Source};
use pioman_extras::server::{DROPPED, Options, Outcome, Pending, Refused, Server};

#[test]
fn an_end_by_somebody_else_wakes_the_waiter_whoever_polls() {
    for (mode, kinds) in MODES.into_iter().flat_map(|mode| [POLLS, ALL].map(|kinds| (mode, kinds)))
    {
        let runtime = runtime(mode);
        let device = Arc::new(Device::default());
        let server = device.builder(runtime.manager(), kinds).start().unwrap();
        runtime.run(|| {
            for event in 0..20 {
                let request = server.submit(event).unwrap();
                let other = request.pending();
                let ending = std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_micros(200 * (*other as u64 % 3)));
                    other.complete(77)
                });
                assert_eq!(request.wait(), Outcome::Completed(77));
                assert!(ending.join().unwrap());
            }
        });
        check(&device, &server, 20);
    }
}

/// A waiter sleeps while another one polls; the poller leaves first by time-out, then by its end.
#[test]
fn the_poller_that_leaves_hands_its_role_on() {
    for mode in [Mode::NoThread, Mode::Smp] {
        let runtime = runtime(mode);
        let device = Arc::new(Device::default());
        let server = device.builder(runtime.manager(), POLLS).start().unwrap();
        let waiting: Vec<_> = (0..8usize)
            .map(|event| {
                let server = server.clone();
                std::thread::spawn(move || {
                    let request = server.submit(event).unwrap();
                    for _ in 0..event {
                        if let Some(outcome) = request.wait_timeout(Duration::from_millis(2)) {
                            return outcome;
                        }
                    }
                    request.wait()
                })
            })
            .collect();
        for event in 0..8 {
            std::thread::sleep(Duration::from_millis(1));
            device.fire(event);
        }
        for (event, thread) in waiting.into_iter().enumerate() {
            assert_eq!(thread.join().unwrap(), Outcome::Completed(event as i32));
        }
        check(&device, &server, 8);
    }
}

#[test]
fn a_cancelled_request_gives_its_code_to_all_its_waiters() {
    for mode in MODES {
        let runtime = runtime(mode);
        let device = Arc::new(Device::default());
        let server = device.builder(runtime.manager(), ALL).start().unwrap();
        let request = Arc::new(server.submit(1).unwrap());
        let waiting: Vec<_> = (0..4)
            .map(|_| {
                let request = request.clone();
                std::thread::spawn(move || request.wait())
            })
            .collect();
        std::thread::sleep(Duration::from_millis(2));
        assert!(request.cancel(-5));
        assert!(!request.cancel(-6) && !request.complete(0));
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), Outcome::Cancelled(-5));
        }
        drop(request);
        check(&device, &server, 1);
    }
}

#[test]
fn a_cancellation_and_a_completion_have_one_outcome() {
    let runtime = runtime(Mode::Smp);
    let device = Arc::new(Device::default());
    let server = device.builder(runtime.manager(), ALL).start().unwrap();
    let mut completed = 0;
    for event in 0..300 {
        let request = server.submit(event).unwrap();
        let theirs = device.clone();
        let firing = std::thread::spawn(move || theirs.fire(event));
        if event % 2 == 0 {
            request.test();
        }
        let cancelled = request.cancel(3);
        let outcome = request.wait();
        let expected = if cancelled { 3 } else { event as i32 };
        let is = |code| if cancelled { Outcome::Cancelled(code) } else { Outcome::Completed(code) };
        assert_eq!(outcome, is(expected));
        completed += u64::from(!cancelled);
        firing.join().unwrap();
    }
    check(&device, &server, 300);
    assert_eq!(server.counters().completed, completed);
}

#[test]
fn a_timed_wait_gives_up_and_the_request_goes_on() {
    for (mode, kinds) in MODES.into_iter().flat_map(|mode| SETS.map(|kinds| (mode, kinds))) {
        let runtime = runtime(mode);
        let device = Arc::new(Device::default());
        let server = device.builder(runtime.manager(), kinds).start().unwrap();
        runtime.run(|| {
            let start = Instant::now();
            let time = Duration::from_millis(3);
            let request = server.wait(4, Options::default(), Some(time)).unwrap();
            assert!(request.outcome().is_none() && start.elapsed() >= time);
            assert_eq!(request.wait_timeout(time), None);
            device.fire(4);
            assert_eq!(request.wait(), Outcome::Completed(4), "{mode} {kinds:?}");
        });
        check(&device, &server, 1);
    }
}

/// Its value says whether it is alive.
struct Watched {
    dropped: Arc<AtomicUsize>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_dropped_request_is_cancelled_and_nobody_keeps_its_value() {
    for mode in MODES {
        let runtime = runtime(mode);
        let dropped = Arc::new(AtomicUsize::new(0));
        let in_use = Arc::new(AtomicUsize::new(0));
        let using = in_use.clone();
        let server = Server::builder(runtime.manager(), "watched")
            .poll_any(move |group| {
                using.fetch_add(1, SeqCst);
                group.iter().for_each(|request: &Pending<Watched>| drop(request.clone()));
                using.fetch_sub(1, SeqCst);
            })
            .start()
            .unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Somebody polls all the time.
            let other = server.submit(Watched { dropped: Arc::default() }).unwrap();
            scope.spawn(|| {
                while !stop.load(SeqCst) {
                    other.test();
                }
                drop(other);
            });
            for n in 1..200 {
                let request = server.submit(Watched { dropped: dropped.clone() }).unwrap();
                let handle = (n % 4 == 0).then(|| request.pending());
                drop(request);
                if let Some(handle) = handle {
                    assert_eq!(handle.outcome(), Some(Outcome::Cancelled(DROPPED)));
                }
                let limit = Instant::now() + Duration::from_secs(30);
                while dropped.load(SeqCst) < n {
                    assert!(Instant::now() < limit, "somebody keeps the value");
                    std::thread::yield_now();
                }
            }
            stop.store(true, SeqCst);
        });
        assert_eq!(in_use.load(SeqCst), 0);
        assert_eq!(settled(&server).cancelled, 200);
    }
}

#[test]
fn when_a_drop_returns_no_call_blocks_on_the_request() {
    let runtime = runtime(Mode::Smp);
    let sets = [
        Kinds(&["block one", "interrupt"]),
        Kinds(&["block any", "interrupt"]),
        Kinds(&["block one timeout"]),
    ];
    for kinds in sets {
        let device = Arc::new(Device::default());
        let server = device.builder(runtime.manager(), kinds).start().unwrap();
        for event in 0..5 {
            let request = server.submit(event).unwrap();
            let limit = Instant::now() + Duration::from_secs(30);
            while device.blocking.load(SeqCst) == 0 {
                assert!(Instant::now() < limit, "nobody blocks on it");
                std::thread::yield_now();
            }
            drop(request);
            assert_eq!(device.blocking.load(SeqCst), 0, "{kinds:?}");
        }
        check(&device, &server, 5);
    }
}

#[test]
fn a_server_that_stops_wakes_all_who_wait() {
    for (mode, kinds) in MODES.into_iter().flat_map(|mode| SETS.map(|kinds| (mode, kinds))) {
        let runtime = runtime(mode);
        let device = Arc::new(Device::default());
        let server = device.builder(runtime.manager(), kinds).start().unwrap();
        let waiting: Vec<_> = (0..4)
            .map(|event| {
                let server = server.clone();
                let request = server.submit(event).unwrap();
                std::thread::spawn(move || {
                    if event == 3 {
                        assert_eq!(server.wait_any(None).unwrap_err(), Refused::Stopped);
                    }
                    request.wait()
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(1));
        server.stop();
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), Outcome::Stopped, "{mode} {kinds:?}");
        }
        let refused = server.submit(9).unwrap_err();
        assert_eq!((refused.why, refused.value), (Refused::Stopped, 9));
        if !kinds.0.contains(&"block one") || kinds.0.contains(&"interrupt") {
            assert_eq!(device.blocking.load(SeqCst), 0, "{mode} {kinds:?}");
        }
        // Nothing gets a plain blocking call out but its event.
        (0..4).for_each(|event| device.fire(event));
        // And again.
        server.start();
        let request = server.submit(10).unwrap();
        device.fire(10);
        assert_eq!(request.wait(), Outcome::Completed(10));
        drop(request);
        check(&device, &server, 5);
    }
}

#[test]
fn a_server_goes_with_its_last_handle_and_takes_its_callbacks_along() {
    for mode in MODES {
        let runtime = runtime(mode);
        for kinds in [POLLS, ALL] {
            let device = Arc::new(Device::default());
            let server = device.builder(runtime.manager(), kinds).start().unwrap();
            let request = server.submit(1).unwrap();
            std::mem::forget(server.submit(2).unwrap());
            drop(server);
            assert_eq!(request.wait(), Outcome::Stopped);
            drop(request);
            if mode == Mode::NoThread || kinds.0 == POLLS.0 {
                // A forgotten request has leaked what it held: the server, but nobody calls it.
                assert!(Arc::strong_count(&device) >= 1);
            }
        }
    }
}

#[test]
fn everything_of_a_server_is_freed_in_the_end() {
    for (mode, kinds) in MODES.into_iter().flat_map(|mode| SETS.map(|kinds| (mode, kinds))) {
        let device = Arc::new(Device::default());
        {
            let runtime = runtime(mode);
            let server = device.builder(runtime.manager(), kinds).start().unwrap();
            let pending = server.submit(1).unwrap();
            server.post(2, Options::default()).unwrap();
            let late = runtime.manager().clone();
            drop(runtime);
            drop(late);
            drop(server);
            assert_eq!(pending.wait(), Outcome::Stopped);
        }
        // What is left in a plain blocking call comes out now.
        (1..3).for_each(|event| device.fire(event));
        let limit = Instant::now() + Duration::from_secs(30);
        while Arc::strong_count(&device) > 1 {
            assert!(
                Instant::now() < limit,
                "{mode} {kinds:?}: something holds on to the callbacks"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A source without events.
struct Silent;

// SAFETY: nothing is touched.
unsafe impl Source for Silent {
    fn name(&self) -> &str {
        "silent"
    }
    fn poll(&self) -> bool {
        false
    }
    fn pending(&self) -> bool {
        false
    }
    fn fd(&self) -> Option<std::os::fd::RawFd> {
        None
    }
    fn arm(&self) -> bool {
        true
    }
    fn disarm(&self) {}
}

/// A poller that walks the list of servers must not be the one that drops a callback: to remove a source waits for
/// pollers.
#[test]
fn callbacks_of_a_server_that_goes_during_a_round_are_not_dropped_by_the_poller() {
    let manager = Manager::builder().mode(Mode::NoThread).build().unwrap();
    let (polled, is_polled) = std::sync::mpsc::channel();
    let polls = Server::builder(&manager, "polls")
        .poll_any(move |group| {
            let _ = polled.send(());
            std::thread::sleep(Duration::from_millis(200));
            group.iter().for_each(|request: &Pending<()>| _ = request.complete(0));
        })
        .start()
        .unwrap();
    let source = manager.add_source(Arc::new(Silent)).unwrap();
    let goes = Server::builder(&manager, "goes")
        .poll_any(move |_: &pioman_extras::server::Group<'_, ()>| _ = source.id())
        .start()
        .unwrap();
    let request = polls.submit(()).unwrap();
    let (ended, has_ended) = std::sync::mpsc::channel();
    let poller = {
        let manager = manager.clone();
        std::thread::spawn(move || {
            manager.poll(pioman::Point::Library);
            let _ = ended.send(());
        })
    };
    is_polled.recv().unwrap();
    drop(goes);
    let end = has_ended.recv_timeout(Duration::from_secs(30));
    assert!(end.is_ok(), "the poller waits for itself");
    poller.join().unwrap();
    assert!(request.outcome().is_some());
}

/// Completes a server's request from a source, that is from the tick's signal handler as well.
struct Doorbell {
    rung: AtomicBool,
    request: pioman_extras::server::Pending<usize>,
}

// SAFETY: atomics, and a completion, which signal handlers may do.
unsafe impl Source for Doorbell {
    fn name(&self) -> &str {
        "doorbell"
    }
    fn poll(&self) -> bool {
        self.rung.load(SeqCst) && self.request.complete(5)
    }
    fn pending(&self) -> bool {
        !self.request.is_done()
    }
    fn fd(&self) -> Option<std::os::fd::RawFd> {
        None
    }
    fn arm(&self) -> bool {
        !self.rung.load(SeqCst) || self.request.is_done()
    }
    fn disarm(&self) {}
}

#[test]
fn a_tick_s_handler_may_end_a_request() {
    let runtime = runtime(Mode::Mono);
    let device = Arc::new(Device::default());
    let server = device.builder(runtime.manager(), POLLS).start().unwrap();
    let posted = server.post(0, Options::default()).unwrap();
    let bell = Arc::new(Doorbell { rung: AtomicBool::new(false), request: posted.clone() });
    let source = runtime.manager().add_source(bell.clone()).unwrap();
    runtime.run(|| {
        runtime.manager().ensure_watched();
        bell.rung.store(true, SeqCst);
        let limit = Instant::now() + Duration::from_secs(30);
        // Nothing but the tick looks meanwhile.
        while !posted.is_done() {
            assert!(Instant::now() < limit, "no tick has looked");
            std::hint::spin_loop();
        }
        let given = server.wait_any(None).unwrap().unwrap();
        assert_eq!((*given, given.outcome()), (0, Some(Outcome::Completed(5))));
    });
    drop(source);
    check(&device, &server, 1);
}

#[test]
fn a_server_that_cannot_find_an_end_says_so() {
    let manager = Manager::builder().mode(Mode::Smp).build().unwrap();
    let device = Arc::new(Device::default());
    let none = device.builder(&manager, Kinds(&["interrupt"])).start().unwrap();
    assert_eq!(none.submit(1).unwrap_err().why, Refused::NoWay);
    let blocks = device.builder(&manager, Kinds(&["block one"])).start().unwrap();
    let refused = blocks.submit_with(1, Options::default().poll_only()).unwrap_err();
    assert_eq!(refused.why, Refused::NoWay);
}
