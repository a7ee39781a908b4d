//! Everything at random: ends by callbacks, by others, by cancellation, time-outs, drops, changes of method. What has
//! to hold: every request ends once, in the way that whoever ended it says, and all waits return.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::device::{Device, Event, Kinds};
use crate::{ALL, MODES, check, runtime};
use marcel::Mode;
use pioman::policy::{Choice, Method, Policy, Request, Snapshot};
use pioman_extras::server::{DROPPED, Options, Outcome, Server};

/// A small generator of numbers, good enough to shake things.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) % sides
    }
}

struct Random(AtomicU64);

impl Policy for Random {
    fn name(&self) -> &str {
        "random"
    }

    fn choose(&self, _: &Request<'_>, _: &Snapshot) -> Choice {
        let seed = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, SeqCst) | 1;
        let method = [Method::Poll, Method::Block, Method::Tick][Dice(seed).roll(3) as usize];
        Choice::new(method, "a throw of the dice")
    }
}

/// One thread's requests: the outcomes that the oracle expects are counted in `expected`.
fn shake(
    server: &Server<Event>,
    device: &Device,
    thread: usize,
    rounds: usize,
    completed: &AtomicUsize,
) {
    let mut dice = Dice(0x1234_5678_9abc_def1 ^ (thread as u64 + 1) << 20);
    let interfaces = 2;
    for round in 0..rounds {
        let event = thread * 1_000_000 + round;
        let options = Options::default().interface(event % interfaces);
        let options = match dice.roll(5) {
            0 => options.block_only(),
            1 => options.policy(Arc::new(Random(AtomicU64::new(event as u64)))),
            _ => options,
        };
        let request = server.submit_with(event, options).unwrap();
        match dice.roll(7) {
            0 => {
                device.fire(event);
                assert_eq!(request.wait(), Outcome::Completed(event as i32));
                completed.fetch_add(1, SeqCst);
            }
            1 => {
                let time = Duration::from_micros(dice.roll(300));
                assert_eq!(request.wait_timeout(time), None);
                assert!(request.cancel(9));
                assert_eq!(request.wait(), Outcome::Cancelled(9));
            }
            2 => {
                let other = request.pending();
                let ending = std::thread::spawn(move || other.complete(-1));
                assert_eq!(request.wait(), Outcome::Completed(-1));
                assert!(ending.join().unwrap());
                completed.fetch_add(1, SeqCst);
            }
            3 => {
                // A race of the device with a cancellation.
                device.fire(event);
                let won = request.cancel(8);
                let outcome = request.wait();
                let expected =
                    if won { Outcome::Cancelled(8) } else { Outcome::Completed(event as i32) };
                assert_eq!(outcome, expected);
                completed.fetch_add(usize::from(!won), SeqCst);
            }
            4 => {
                let handle = request.pending();
                drop(request);
                assert_eq!(handle.outcome(), Some(Outcome::Cancelled(DROPPED)));
            }
            5 => {
                let mut polls = 0;
                device.fire(event);
                while request.test().is_none() {
                    polls += 1;
                    if polls % 16 == 0 {
                        marcel::yield_now();
                    }
                }
                completed.fetch_add(1, SeqCst);
            }
            _ => {
                // The event comes while the thread sleeps.
                assert_eq!(request.wait_timeout(Duration::from_micros(dice.roll(100))), None);
                device.fire(event);
                assert_eq!(request.wait(), Outcome::Completed(event as i32));
                completed.fetch_add(1, SeqCst);
            }
        }
    }
}

#[test]
fn every_request_ends_once_whatever_happens() {
    const ROUNDS: usize = 60;
    let sets = [
        ALL,
        Kinds(&["poll one", "block one timeout"]),
        Kinds(&["poll group", "block group", "interrupt"]),
        Kinds(&["poll any", "block any timeout", "block any", "interrupt"]),
        Kinds(&["block any timeout"]),
    ];
    for (mode, kinds) in MODES.into_iter().flat_map(|mode| sets.map(|kinds| (mode, kinds))) {
        let runtime = runtime(mode);
        let device = Arc::new(Device::default());
        let server = device.builder(runtime.manager(), kinds).start().unwrap();
        let completed = AtomicUsize::new(0);
        let (server_, device_, completed_) = (&server, &*device, &completed);
        let work = move |thread| move || shake(server_, device_, thread, ROUNDS, completed_);
        std::thread::scope(|scope| {
            (0..2).for_each(|thread| drop(scope.spawn(work(thread))));
            if mode == Mode::NoThread {
                (2..5).for_each(|thread| work(thread)());
            } else {
                runtime.run(|| {
                    marcel::scope(|scope| (2..5).for_each(|t| drop(scope.spawn(work(t)))));
                });
            }
        });
        check(&device, &server, 5 * ROUNDS as u64);
        assert_eq!(server.counters().completed, completed.load(SeqCst) as u64, "{mode} {kinds:?}");
    }
}
