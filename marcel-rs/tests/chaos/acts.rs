//! What a thread of the chaos test does: one random act after the other.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use marcel::sync::channel::{RecvTimeoutError, SendTimeoutError, select_timeout};
use marcel::sync::{Barrier, Event};
use marcel::{Builder, JoinHandle, Latch};

use crate::random::Random;
use crate::world::{CROWD, PERMITS, Pair, Pipe, World};

/// The payload of panics that are part of the test.
pub(crate) struct Planned;

/// Counts a thread, from its spawn to its end, however it ends.
pub(crate) struct Census(Arc<World>);

impl Census {
    pub(crate) fn new(world: &Arc<World>) -> Census {
        world.started.fetch_add(1, SeqCst);
        Census(world.clone())
    }
}

impl Drop for Census {
    fn drop(&mut self) {
        self.0.finished.fetch_add(1, SeqCst);
    }
}

/// Counts a green-thread-local value until its destructor has ended, which waits now and then.
struct Tracked {
    world: Arc<World>,
    number: usize,
}

impl Tracked {
    fn new(world: &Arc<World>) -> Tracked {
        Tracked { world: world.clone(), number: world.made.fetch_add(1, SeqCst) }
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        /// Counts however the destructor ends: a thread may be unwound in its waits.
        struct Destroyed<'a>(&'a World);
        impl Drop for Destroyed<'_> {
            fn drop(&mut self) {
                self.0.destroyed.fetch_add(1, SeqCst);
            }
        }
        let _destroyed = Destroyed(&self.world);
        if self.number.is_multiple_of(8) {
            marcel::yield_now();
            drop(self.world.section(0));
        }
    }
}

marcel::thread_local! {
    static ACTS: Cell<usize> = const { Cell::new(0) };
    static TRACKED: RefCell<Vec<Tracked>> = const { RefCell::new(Vec::new()) };
}

/// One thread, of this generation.
pub(crate) fn live(world: &Arc<World>, mut random: Random, generation: u32, census: Census) {
    let _census = census;
    know(world);
    let mut done = 0;
    while world.goes_on() && !marcel::is_stopping() && (generation == 0 || !random.one_in(12)) {
        assert_eq!(ACTS.get(), done, "another thread's value");
        done += 1;
        ACTS.set(done);
        world.acts.fetch_add(1, SeqCst);
        let mut act = || act(world, &mut random, generation);
        match generation {
            // Those who go on to the end catch what happens to them.
            0 => match catch_unwind(AssertUnwindSafe(&mut act)) {
                Err(payload) if !payload.is::<Planned>() => resume_unwind(payload),
                _ => {}
            },
            _ => act(),
        }
        if marcel::is_interrupted() && random.one_in(2) {
            marcel::clear_interrupt();
        }
    }
}

fn know(world: &World) {
    let mut known = world.known.lock();
    known.push_back(marcel::current());
    if known.len() > 64 {
        known.pop_front();
    }
}

fn short(random: &mut Random) -> Duration {
    Duration::from_micros(random.below(300))
}

fn act(world: &Arc<World>, random: &mut Random, generation: u32) {
    match random.below(24) {
        0 => marcel::yield_now(),
        1 => marcel::sleep(short(random)),
        2 => marcel::park_timeout(short(random)),
        3 => drop(marcel::sleep_interruptible(short(random))),
        4 | 5 => section(world, random),
        6 => read_or_write(world, random),
        7 | 8 => permits(world, random),
        9 | 10 => drop(if random.one_in(2) { world.put(1) } else { world.take() }),
        11..=13 => channels(world, random),
        14 => events(world, random),
        15 => once(world, random),
        16 => latch(world, random, generation),
        17 => team(world, random, generation),
        18 => disturb(world, random),
        19 => values(world, random),
        20 => marcel::blocking::blocking(|| std::thread::sleep(Duration::from_micros(20))),
        21 => perhaps_panic(random, 3),
        _ => children(world, random, generation),
    }
}

fn perhaps_panic(random: &mut Random, of: u64) {
    if random.one_in(of) {
        panic_any(Planned);
    }
}

/// Lets others run while something is held.
fn dawdle(random: &mut Random) {
    match random.below(6) {
        0 => marcel::yield_now(),
        1 => marcel::sleep(short(random)),
        _ => {}
    }
}

fn section(world: &World, random: &mut Random) {
    let which = random.below(3) as usize;
    let section = match random.below(5) {
        how @ 0..=2 => world.try_section(which, how),
        _ => Some(world.section(which)),
    };
    if let Some(mut section) = section {
        section.unbalance();
        dawdle(random);
        perhaps_panic(random, 15);
    }
}

fn read_or_write(world: &World, random: &mut Random) {
    if random.one_in(3) {
        let mut numbers = Pair(world.shared.write());
        numbers.unbalance();
        dawdle(random);
    } else {
        let numbers = match random.below(3) {
            0 => world.shared.try_read_timeout(Duration::from_micros(200)),
            1 => world.shared.read_interruptible().ok(),
            _ => Some(world.shared.read()),
        };
        if let Some(numbers) = numbers {
            dawdle(random);
            assert_eq!(numbers[0], numbers[1], "read while written");
            perhaps_panic(random, 15);
        }
    }
}

fn permits(world: &World, random: &mut Random) {
    let permit = match random.below(4) {
        0 => world.semaphore.try_acquire_many(1),
        1 => world.semaphore.acquire_timeout(short(random)),
        2 => world.semaphore.acquire_interruptible().ok(),
        _ => Some(world.semaphore.acquire()),
    };
    if let Some(_permit) = permit {
        struct Inside<'a>(&'a World);
        impl Drop for Inside<'_> {
            fn drop(&mut self) {
                self.0.inside.fetch_sub(1, SeqCst);
            }
        }
        let inside = world.inside.fetch_add(1, SeqCst);
        let _inside = Inside(world);
        // A thread that is unwound takes a permit on credit.
        assert!(world.stopping.load(SeqCst) || inside < PERMITS);
        dawdle(random);
        perhaps_panic(random, 15);
    }
}

fn channels(world: &World, random: &mut Random) {
    let pipe = |random: &mut Random| &world.channels[random.below(3) as usize];
    let (one, other) = (pipe(random), pipe(random));
    // Counted before: who receives may be faster.
    let sent = |pipe: &Pipe| pipe.sent.fetch_add(1, SeqCst);
    let not_sent = |pipe: &Pipe| pipe.sent.fetch_sub(1, SeqCst);
    let received = |pipe: &Pipe| pipe.received.fetch_add(1, SeqCst);
    match random.below(6) {
        0 => {
            sent(one);
            if one.sender.try_send(1).is_err() {
                not_sent(one);
            }
        }
        1 => {
            sent(one);
            match one.sender.send_timeout(1, short(random)) {
                Ok(()) => {}
                Err(SendTimeoutError::Timeout(_)) => drop(not_sent(one)),
                Err(SendTimeoutError::Disconnected(_)) => panic!("there is a receiver"),
            }
        }
        2 => {
            if one.receiver.try_recv().is_ok() {
                received(one);
            }
        }
        3 => match one.receiver.recv_timeout(short(random)) {
            Ok(n) => drop((received(one), assert_eq!(n, 1))),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => panic!("there is a sender"),
        },
        4 => {
            let (mut a, mut b) = (one.receiver.receiving(), other.receiver.receiving());
            let chosen = select_timeout(&mut [&mut a, &mut b], short(random));
            for (at, arm, pipe) in [(0, &mut a, one), (1, &mut b, other)] {
                let result = arm.result();
                assert_eq!(chosen == Some(at), result.is_some());
                if let Some(result) = result {
                    result.expect("there is a sender");
                    received(pipe);
                }
            }
        }
        _ => {
            sent(one);
            let (mut a, mut b) = (one.sender.sending(1), other.receiver.receiving());
            let chosen = select_timeout(&mut [&mut a, &mut b], short(random));
            if chosen != Some(0) {
                not_sent(one);
            }
            if let Some(result) = b.result() {
                result.expect("there is a sender");
                received(other);
            }
            assert_eq!(chosen == Some(0), a.result().is_some_and(|sent| sent.is_ok()));
        }
    }
}

fn events(world: &World, random: &mut Random) {
    match random.below(4) {
        0 => world.event.set(),
        1 => world.event.reset(),
        2 => drop(world.event.wait_timeout(short(random))),
        _ => {
            if !world.event.wait_timeout(short(random)) {
                perhaps_panic(random, 10);
            }
        }
    }
}

fn once(world: &World, random: &mut Random) {
    let cell = {
        let mut once = world.once.lock();
        if random.one_in(5) {
            *once = Arc::default();
        }
        once.clone()
    };
    let value = cell.get_or_init(|| {
        dawdle(random);
        perhaps_panic(random, 4);
        7
    });
    assert_eq!(*value, 7);
}

/// Waits for another thread that will come for sure.
fn latch(world: &Arc<World>, random: &mut Random, generation: u32) {
    let (latch, event) = (Latch::new(), Event::new());
    if world.alive() >= CROWD || generation > 4 {
        return;
    }
    marcel::scope(|s| {
        let census = Census::new(world);
        let (latch, event) = (&latch, &event);
        let time = short(random);
        s.spawn(move || {
            let _census = census;
            if time.as_micros().is_multiple_of(2) {
                marcel::sleep(time);
            }
            latch.set();
            event.set();
        });
        latch.wait("chaos");
        event.wait();
    });
}

/// Threads that meet at a barrier, and borrow.
fn team(world: &Arc<World>, random: &mut Random, generation: u32) {
    let n = 2 + random.below(3) as usize;
    if world.alive() + n > CROWD || generation > 4 {
        return;
    }
    let (barrier, mut counts) = (Barrier::new(n), vec![0; n]);
    let ending = random.one_in(4);
    let result = catch_unwind(AssertUnwindSafe(|| {
        marcel::scope(|s| {
            for count in &mut counts {
                let (census, barrier, mut random) = (Census::new(world), &barrier, random.fork());
                s.spawn(move || {
                    let _census = census;
                    for _ in 0..3 {
                        dawdle(&mut random);
                        *count += 1;
                        barrier.wait();
                    }
                    if ending {
                        panic_any(Planned);
                    }
                });
            }
        })
    }));
    if world.stopping.load(SeqCst) {
        return result.unwrap_or_else(|payload| resume_unwind(payload));
    }
    assert_eq!(result.is_err(), ending);
    assert!(counts.iter().all(|count| *count == 3), "{counts:?}");
}

/// Wakes somebody for nothing, or asks somebody to stop. That one may have ended.
fn disturb(world: &World, random: &mut Random) {
    let victim = {
        let known = world.known.lock();
        known.get(random.below(known.len().max(1) as u64) as usize).copied()
    };
    if let Some(victim) = victim {
        match random.one_in(3) {
            true => victim.interrupt(),
            false => victim.unpark(),
        }
    }
}

fn values(world: &Arc<World>, random: &mut Random) {
    match random.below(3) {
        0 => drop(TRACKED.take()),
        _ => TRACKED.with_borrow_mut(|list| list.push(Tracked::new(world))),
    }
}

/// Starts threads, and waits for them, or not.
fn children(world: &Arc<World>, random: &mut Random, generation: u32) {
    if world.alive() >= CROWD || generation > 6 {
        return;
    }
    let start = |random: &mut Random| -> JoinHandle<()> {
        let (theirs, census, fork) = (world.clone(), Census::new(world), random.fork());
        let body = move || live(&theirs, fork, generation + 1, census);
        match random.below(4) {
            0 => Builder::new().reactive(true).name("reactive").spawn(body).unwrap(),
            1 => Builder::new().stack_size(128 * 1024).spawn(body).unwrap(),
            _ => marcel::spawn(body),
        }
    };
    let mut handle = start(random);
    know(world);
    match random.below(8) {
        0 => drop(handle),
        1 => handle.thread().interrupt(),
        2 => match handle.join_timeout(short(random)) {
            Ok(result) => judge(world, result),
            Err(handle) => drop(handle),
        },
        3 => match handle.join_interruptible() {
            Ok(result) => judge(world, result),
            Err(handle) => handle.thread().interrupt(),
        },
        4 => {
            while !handle.is_finished() && !marcel::is_stopping() {
                marcel::park_timeout(short(random));
            }
            judge(world, handle.join());
        }
        5 => {
            for _ in 0..random.below(20) {
                if world.alive() < CROWD {
                    drop(std::mem::replace(&mut handle, start(random)));
                }
            }
            judge(world, handle.join());
        }
        _ => judge(world, handle.join()),
    }
}

/// A thread's end: as it should be, or by a panic that was planned.
fn judge(world: &World, result: std::thread::Result<()>) {
    if let Err(payload) = result {
        assert!(payload.is::<Planned>() || world.stopping.load(SeqCst), "not planned");
    }
}
