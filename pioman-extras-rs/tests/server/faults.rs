//! Callbacks that panic or run too long, and a lack of spare kernel threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use crate::device::{Device, Kinds};
use crate::{MODES, check, fire_slowly, runtime, settled};
use marcel::Mode;
use pioman_extras::server::{Options, Outcome, Pending, Server};

#[test]
fn a_panic_over_one_request_fails_that_one_only() {
    for mode in MODES {
        let runtime = runtime(mode);
        let server = Server::builder(runtime.manager(), "touchy")
            .poll_one(|request| match **request {
                13 => panic!("thirteen, on purpose"),
                _ => drop(request.complete(1)),
            })
            .start()
            .unwrap();
        runtime.run(|| {
            let requests: Vec<_> =
                (0..20).map(|n: i32| server.submit_with(n, Options::default()).unwrap()).collect();
            for (n, request) in requests.iter().enumerate() {
                let expected = if n == 13 { Outcome::Failed } else { Outcome::Completed(1) };
                assert_eq!(request.wait(), expected);
            }
        });
        let counters = settled(&server);
        assert_eq!((counters.panics, counters.failed, counters.completed), (1, 1, 19));
    }
}

#[test]
fn when_a_callback_for_several_panics_another_kind_takes_over() {
    let runtime = runtime(Mode::Smp);
    let before = pioman::faults();
    let device = Arc::new(Device::default());
    let server = device
        .builder(runtime.manager(), Kinds(&["poll one"]))
        .poll_any(|_| panic!("any, on purpose"))
        .start()
        .unwrap();
    let requests: Vec<_> = (0..3).map(|event| server.submit(event).unwrap()).collect();
    let firing = fire_slowly(&device, 0..3);
    for (event, request) in requests.iter().enumerate() {
        assert_eq!(request.wait(), Outcome::Completed(event as i32));
    }
    firing.join().unwrap();
    assert_eq!(server.counters().panics, 1);
    assert!(pioman::faults() > before);
    drop(requests);
    check(&device, &server, 3);
}

#[test]
fn when_the_last_callback_panics_everything_has_failed() {
    for mode in MODES {
        let runtime = runtime(mode);
        let server = Server::builder(runtime.manager(), "hopeless")
            .poll_any(|_| panic!("hopeless, on purpose"))
            .start()
            .unwrap();
        runtime.run(|| {
            let one = server.submit(1).unwrap();
            // Alone, each of them fails alone; it takes two for the callback to be given up.
            while let Ok(two) = server.submit(2) {
                let three = server.submit(3);
                assert_eq!(two.wait(), Outcome::Failed);
                drop(three);
            }
            assert_eq!(one.wait(), Outcome::Failed);
        });
        assert_eq!(server.submit(3).unwrap_err().value, 3);
    }
}

#[test]
fn a_blocking_callback_may_panic_on_its_spare_kernel_thread() {
    let runtime = runtime(Mode::Smp);
    let server = Server::builder(runtime.manager(), "blocks")
        .block_one(|request| match **request {
            1 => panic!("one, on purpose"),
            _ => drop(request.complete(0)),
        })
        .start()
        .unwrap();
    let requests: Vec<_> = (0..3).map(|n: i32| server.submit(n).unwrap()).collect();
    let outcomes: Vec<_> = requests.iter().map(|request| request.wait()).collect();
    assert_eq!(outcomes, [Outcome::Completed(0), Outcome::Failed, Outcome::Completed(0)]);
}

/// Runs in the processes of the next test; does nothing otherwise.
#[test]
fn slow_callback() {
    let Ok(expected) = std::env::var("SLOW_CALLBACKS") else { return };
    let runtime = runtime(Mode::NoThread);
    let server = Server::builder(runtime.manager(), "slow")
        .poll_one(|request: &Pending<()>| {
            std::thread::sleep(Duration::from_millis(5));
            request.complete(0);
        })
        .start()
        .unwrap();
    assert_eq!(server.submit(()).unwrap().wait(), Outcome::Completed(0));
    assert_eq!(server.counters().too_long, expected.parse::<u64>().unwrap());
}

#[test]
fn a_callback_that_runs_too_long_is_counted_and_told_of_if_that_is_asked_for() {
    for (knob, expected) in [(None, "0"), (Some("1000"), "1")] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child
            .args(["faults::slow_callback", "--exact", "--nocapture"])
            .env("SLOW_CALLBACKS", expected);
        match knob {
            Some(limit) => child.env("PIOM_LONG_CALLBACK_USEC", limit),
            None => child.env_remove("PIOM_LONG_CALLBACK_USEC"),
        };
        let child = child.output().unwrap();
        let text = String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success(), "{text}");
        assert_eq!(
            text.contains("ran for") && text.contains("a part at a time"),
            knob.is_some(),
            "{text}"
        );
    }
}

/// More requests to block on than there may be spare kernel threads (4): the others are polled meanwhile.
#[test]
fn without_a_spare_kernel_thread_requests_are_polled() {
    let runtime = runtime(Mode::Smp);
    let device = Arc::new(Device::default());
    let kinds = Kinds(&["poll one", "block one"]);
    let server = device.builder(runtime.manager(), kinds).start().unwrap();
    let requests: Vec<_> = (0..12)
        .map(|event| server.submit_with(event, Options::default().block_only()).unwrap())
        .collect();
    while device.blocking.load(SeqCst) < 4 {
        std::thread::yield_now();
    }
    // Those that nobody blocks on, first.
    for event in (0..12).rev() {
        device.fire(event);
        assert_eq!(requests[event].wait(), Outcome::Completed(event as i32));
    }
    let counters = server.counters();
    assert!(counters.no_thread > 0 && counters.blocks > 0, "{counters:?}");
    drop(requests);
    check(&device, &server, 12);
}

/// The value of a request may own the server itself, and go where callbacks run.
#[test]
fn a_server_may_be_dropped_in_its_own_callback() {
    for mode in MODES {
        let runtime = runtime(mode);
        let slot: Arc<std::sync::Mutex<Option<Server<u32>>>> = Arc::default();
        let (theirs, called) = (slot.clone(), Arc::new(AtomicBool::new(false)));
        let mark = called.clone();
        let server = Server::builder(runtime.manager(), "short-lived")
            .poll_one(move |request: &Pending<u32>| {
                let server = theirs.lock().unwrap().take();
                if server.is_some() {
                    mark.store(true, SeqCst);
                    drop(server);
                    request.complete(1);
                }
            })
            .start()
            .unwrap();
        let request = server.submit(1).unwrap();
        *slot.lock().unwrap() = Some(server);
        assert_eq!(request.wait(), Outcome::Stopped);
        assert!(called.load(SeqCst));
    }
}
