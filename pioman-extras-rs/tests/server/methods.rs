//! By which method requests are looked for, and how that changes while they are pending.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::device::{Device, Kinds};
use crate::{ALL, check, runtime};
use marcel::Mode;
use pioman::policy::{Choice, Method, Policy, Request, Snapshot};
use pioman::{Hint, Manager, Points, Priority, Runtime};
use pioman_extras::server::{Options, Outcome, Server};

/// Computes on every virtual processor, without a call into anything, while `f` runs on a kernel thread.
fn under_load(runtime: &Runtime, f: impl FnOnce() + Send) {
    let stop = AtomicBool::new(false);
    let stop = &stop;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            runtime.run(|| {
                marcel::scope(|scope| {
                    for _ in 0..4 {
                        scope.spawn(move || {
                            while !stop.load(SeqCst) {
                                std::hint::spin_loop();
                            }
                        });
                    }
                });
            });
        });
        while !runtime.manager().is_loaded() {
            std::thread::yield_now();
        }
        f();
        stop.store(true, SeqCst);
    });
}

fn until(what: &str, server: &Server<usize>, reached: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !reached() {
        assert!(Instant::now() < limit, "never: {what}: {server:?}");
        std::thread::yield_now();
    }
}

#[test]
fn when_every_core_computes_requests_are_blocked_on() {
    let runtime = runtime(Mode::Smp);
    for kinds in [ALL, Kinds(&["poll one", "block one"]), Kinds(&["poll any", "block any timeout"])]
    {
        let device = Arc::new(Device::default());
        let server = device.builder(runtime.manager(), kinds).start().unwrap();
        under_load(&runtime, || {
            for event in 0..10 {
                let request = server.submit(event).unwrap();
                until("somebody blocks on it", &server, || device.blocking.load(SeqCst) > 0);
                device.fire(event);
                assert_eq!(request.wait(), Outcome::Completed(event as i32), "{kinds:?}");
            }
        });
        assert!(server.counters().blocks > 0);
        check(&device, &server, 10);
    }
}

#[test]
fn a_request_changes_its_method_in_both_directions_while_it_is_pending() {
    let runtime = runtime(Mode::Smp);
    for kinds in [ALL, Kinds(&["poll one", "block one timeout"])] {
        let device = Arc::new(Device::default());
        let server = device.builder(runtime.manager(), kinds).start().unwrap();
        let request = server.submit(1).unwrap();
        for _ in 0..3 {
            // Nobody polls: a spare kernel thread blocks.
            until("somebody blocks on it", &server, || device.blocking.load(SeqCst) > 0);
            // Somebody polls all the time: the spare kernel thread is got out.
            until("nobody blocks on it any more", &server, || {
                request.test();
                device.blocking.load(SeqCst) == 0
            });
            assert_eq!(request.outcome(), None);
            runtime.manager().ensure_watched();
        }
        let counters = server.counters();
        assert!(counters.to_block >= 3 && counters.to_poll >= 3, "{counters:?}");
        device.fire(1);
        assert_eq!(request.wait(), Outcome::Completed(1));
        drop(request);
        check(&device, &server, 1);
    }
}

/// A plain blocking call that nothing gets out: polls find the end first, and it is the only one.
#[test]
fn what_is_polled_beside_a_blocking_call_ends_once() {
    let runtime = runtime(Mode::Smp);
    let device = Arc::new(Device::default());
    let kinds = Kinds(&["poll one", "block one"]);
    let server = device.builder(runtime.manager(), kinds).start().unwrap();
    for event in 0..50 {
        let request = server.submit(event).unwrap();
        until("somebody blocks on it", &server, || device.blocking.load(SeqCst) > 0);
        if event % 2 == 0 {
            // By now it is polled as well.
            let polls = server.counters().polls;
            until("it is polled again", &server, || {
                request.test();
                server.counters().polls > polls
            });
        }
        device.fire(event);
        assert_eq!(request.wait(), Outcome::Completed(event as i32));
        until("the call has returned", &server, || device.blocking.load(SeqCst) == 0);
    }
    check(&device, &server, 50);
}

#[test]
fn hints_are_kept_to() {
    let runtime = runtime(Mode::Smp);
    let device = Arc::new(Device::default());
    let server = device.builder(runtime.manager(), ALL).start().unwrap();
    under_load(&runtime, || {
        let poll_only = server.submit_with(1, Options::default().poll_only()).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(server.counters().blocks, 0, "a request that is only to be polled");
        device.fire(1);
        assert_eq!(poll_only.wait(), Outcome::Completed(1));
    });
    let options = Options::default().block_only().priority(Priority::High).hint(Hint::Long);
    let block_only = server.submit_with(2, options).unwrap();
    until("somebody blocks on it", &server, || device.blocking.load(SeqCst) > 0);
    for _ in 0..1000 {
        block_only.test();
    }
    device.fire(2);
    assert_eq!(block_only.wait(), Outcome::Completed(2));
    drop((block_only, server.counters()));
}

/// Changes its mind all the time.
struct Fickle(AtomicU32);

impl Policy for Fickle {
    fn name(&self) -> &str {
        "fickle"
    }

    fn choose(&self, _: &Request<'_>, _: &Snapshot) -> Choice {
        let n = self.0.fetch_add(1, SeqCst);
        Choice::new(if n.is_multiple_of(2) { Method::Block } else { Method::Poll }, "in turn")
    }
}

#[test]
fn a_request_s_own_policy_goes_before_the_server_s_and_the_manager_s() {
    let manager = Manager::builder().mode(Mode::Smp).points(Points::ALL);
    let runtime = Runtime::build(manager, marcel::Runtime::builder().vps(2)).unwrap();
    let device = Arc::new(Device::default());
    let always_block = pioman::policy::by_name("always-block").unwrap();
    let builder = device.builder(runtime.manager(), ALL);
    let server = builder.policy(always_block).start().unwrap();
    let fickle = Arc::new(Fickle(AtomicU32::new(0)));
    let blocked = server.submit(1).unwrap();
    until("the server's policy has it blocked on", &server, || device.blocking.load(SeqCst) > 0);
    let asked = fickle.0.load(SeqCst);
    let request = server.submit_with(2, Options::default().policy(fickle.clone())).unwrap();
    assert!(fickle.0.load(SeqCst) > asked, "the request's own was not asked");
    device.fire(2);
    assert_eq!(request.wait(), Outcome::Completed(2));
    device.fire(1);
    assert_eq!(blocked.wait(), Outcome::Completed(1));
    drop((blocked, request));
    check(&device, &server, 2);
}

/// CPU time of the calling process so far.
fn cpu_time() -> Duration {
    // SAFETY: an all-zero rusage is valid, and is filled in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    };
    let of = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    of(usage.ru_utime) + of(usage.ru_stime)
}

#[test]
fn a_long_wait_burns_no_cpu_whatever_the_callbacks() {
    for kinds in [ALL, Kinds(&["poll one"]), Kinds(&["block any timeout"])] {
        let runtime = runtime(Mode::NoThread);
        let device = Arc::new(Device::default());
        let server = device.builder(runtime.manager(), kinds).start().unwrap();
        let request = server.submit(1).unwrap();
        let late = device.clone();
        let firing = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(500));
            late.fire(1);
        });
        let before = cpu_time();
        assert_eq!(request.wait(), Outcome::Completed(1));
        // The spin is 50 µs, and a round each 4 ms takes some µs; a tenth of the time waited would be a bug.
        assert!(cpu_time() - before < Duration::from_millis(50), "{kinds:?}");
        firing.join().unwrap();
    }
}
