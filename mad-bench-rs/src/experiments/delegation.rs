//! What it costs that another thread looks for a thread's message.
//!
//! Source: [Trahay09] 7.2.1.2, figures 7.5 and 7.7 (the library polls: 2.30 µs over InfiniBand; PIOMan does: 2.47). A
//! ping-pong between two green threads on compute virtual processors, which receive by `irecv` and then learn of the
//! message in one of these ways, block by block in turns, in one pair of processes:
//! - `method` caller: the thread itself looks, again and again (`test`);
//! - wait: the thread waits, and the I/O manager has it poll first, then sleep;
//! - idle: the thread is parked at once, and the finder of the message wakes it: an idle virtual processor, its own or
//!   another, or the thread that the policy has chosen instead;
//! - task: the same, but a light task of its own looks for the message.
//!
//! `added_time` is what a way adds to `caller`.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use newmad::{Request, Session};
use pioman::{Progress, TaskBuilder};

use crate::config::Config;
use crate::experiments::latency::HALF_ROUND_TRIP;
use crate::harness::experiment::{BASE, Bench, Work};
use crate::harness::key::{DRIVER, Key, MODE, POLICY, SIZE, Takes};
use crate::harness::results::{ADDED_TIME, Metric};
use crate::harness::turns;
use crate::harness::worker::{Emit, Spec, WorkResult, with_session};

/// The bench.
pub(crate) static BENCH: Bench = Bench {
    name: "delegation",
    about: "what it adds to a small message that others look for it: an idle core, a light task",
    source: "[Trahay09] 7.2.1.2, figures 7.5 and 7.7",
    keys: &[
        DRIVER,
        Key { takes: Takes::Words(&["mono", "smp"]), ..MODE },
        POLICY,
        METHOD,
        Key { default: "4", ..SIZE },
    ],
    metrics: &METRICS,
    iters: 5000,
    work: Work::Process(work),
    derive: Some(|results| results.added("half_round_trip", "method", "caller")),
    ..BASE
};

const METHOD: Key = Key {
    name: "method",
    takes: Takes::Words(&["caller", "wait", "idle", "task"]),
    default: "caller,wait,idle,task",
    help: "the poller: the thread by itself, the thread in the manager's wait, idle virtual processors, a light task",
};
const METRICS: [Metric; 2] = [HALF_ROUND_TRIP, ADDED_TIME];

const DATA: u64 = 1;

fn work(spec: &Spec) -> WorkResult {
    let spec = spec.clone();
    with_session(BENCH.ranks, |session, _| {
        let own = session.clone();
        let player = marcel::spawn(move || measure(&own, &spec));
        player.join().map_err(|_| "a thread panicked")?
    })
}

fn measure(session: &Session, spec: &Spec) -> WorkResult {
    let emit = Emit::of(session.rank());
    turns::sampled(
        session,
        &emit,
        spec,
        &HALF_ROUND_TRIP,
        |_| spec.iters,
        |config, count| {
            let mut player = Player::new(session, config);
            let trips = turns::timed(turns::warm(count), count, || player.trip())?;
            Ok(trips.iter().map(|us| us / 2.0).collect())
        },
    )
}

/// One side of the ping-pong.
struct Player<'a> {
    session: &'a Session,
    receive: fn(&Session, Request) -> WorkResult<Vec<u8>>,
    ball: Vec<u8>,
    /// The receive's buffer, which comes back from it.
    buffer: Vec<u8>,
}

impl<'a> Player<'a> {
    fn new(session: &'a Session, config: &Config) -> Player<'a> {
        let receive = match config.text("method") {
            "caller" => caller,
            "wait" => |_: &Session, request| over(request),
            "idle" => |_: &Session, request| idle(request),
            _ => task,
        };
        let ball = vec![0; config.number("size") as usize];
        Player { session, receive, buffer: ball.clone(), ball }
    }

    fn trip(&mut self) -> WorkResult {
        let other = 1 - self.session.rank();
        let buffer = std::mem::take(&mut self.buffer);
        let request = self.session.irecv(other, DATA, buffer)?;
        let serves = self.session.rank() == 0;
        if serves {
            self.session.send(other, DATA, &self.ball)?;
        }
        self.buffer = (self.receive)(self.session, request)?;
        if !serves {
            self.session.send(other, DATA, &self.ball)?;
        }
        Ok(())
    }
}

fn over(request: Request) -> WorkResult<Vec<u8>> {
    Ok(request.wait()?.0)
}

/// The thread looks by itself.
fn caller(_: &Session, request: Request) -> WorkResult<Vec<u8>> {
    while !request.test() {
        std::hint::spin_loop();
    }
    over(request)
}

/// Wakes a green thread.
struct Unpark(marcel::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The thread is parked until the finder of the message wakes it.
fn idle(mut request: Request) -> WorkResult<Vec<u8>> {
    let waker = Waker::from(Arc::new(Unpark(marcel::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match Pin::new(&mut request).poll(&mut context) {
            Poll::Ready(result) => return Ok(result?.0),
            Poll::Pending => marcel::park(),
        }
    }
}

/// The thread is parked until the light task that tests its request wakes it.
fn task(session: &Session, request: Request) -> WorkResult<Vec<u8>> {
    let shared = Arc::new(Mutex::new(Some(request)));
    let (tested, thread) = (shared.clone(), marcel::current());
    let ended = Arc::new(AtomicBool::new(false));
    let end = ended.clone();
    let task = TaskBuilder::new()
        .name("delegated receive")
        .on_end(move |_| {
            end.store(true, Release);
            thread.unpark();
        })
        .submit(session.manager(), move || {
            match lock(&tested).as_mut().is_none_or(|request| request.test()) {
                true => Progress::Done,
                false => Progress::Again,
            }
        })?;
    task.detach();
    while !ended.load(Acquire) {
        marcel::park();
    }
    let request = lock(&shared).take().ok_or("a light task took its request away")?;
    over(request)
}

/// Never waited for: the task is the only one until it has ended.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
