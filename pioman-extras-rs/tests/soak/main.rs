//! A soak over all parts of the I/O manager at once: green and kernel threads wait for timers, pipes, light tasks,
//! requests of event servers and of a source, conditions, semaphores, files, children, with random cancellations and
//! time-outs, while policies change and cores begin and cease to compute. At the end every wait has got its outcome,
//! and what was submitted = completed + cancelled + failed, for each part by itself.
//!
//! `PIOM_TEST_SOAK=seconds` has it last longer than it does by default. `MARCEL_MODE`, `PIOM_POLICY` and `MARCEL_NVP`, if
//! they are set, fix what else goes round; `PIOM_TEST_SOAK_SEED` is the seed of the dice.

#[path = "../server/device.rs"]
mod device;
mod mailbox;
mod worker;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use marcel::Mode;
use pioman::policy::{NAMES, by_name};
use pioman::{Manager, Runtime};
use worker::{Dice, Worker};
use world::World;

const GREEN: usize = 6;
const KERNEL: usize = 3;
pub(crate) const WORKERS: usize = GREEN + KERNEL;
/// No single thing that a worker does takes longer than some milliseconds; on a machine that others use, many seconds.
const LIMIT: Duration = Duration::from_secs(120);

/// What every worker is doing, and since when: a thread that is stuck is found here.
pub(crate) struct Watched {
    start: Instant,
    since: [AtomicU64; WORKERS + 1],
    what: [AtomicU64; WORKERS + 1],
    over: AtomicBool,
    round: String,
}

/// The last of the watched is the harness itself.
const HARNESS: usize = WORKERS;

impl Watched {
    fn new(round: String) -> Arc<Watched> {
        Arc::new(Watched {
            start: Instant::now(),
            since: Default::default(),
            what: Default::default(),
            over: AtomicBool::new(false),
            round,
        })
    }

    /// Worker `who` begins with `what`.
    pub(crate) fn begins(&self, who: usize, what: usize) {
        self.what[who].store(what as u64, SeqCst);
        self.since[who].store(self.start.elapsed().as_millis() as u64 + 1, SeqCst);
    }

    /// Worker `who` has no more to do.
    pub(crate) fn ends(&self, who: usize) {
        self.since[who].store(0, SeqCst);
    }

    fn watch(&self, manager: &Manager) {
        while !self.over.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(20));
            let now = self.start.elapsed().as_millis() as u64;
            let late = |since: u64| since != 0 && now > since + LIMIT.as_millis() as u64;
            if self.since.iter().any(|since| late(since.load(SeqCst))) {
                self.tell(manager);
            }
        }
    }

    /// Somebody is stuck: those who are cannot be joined, so the process ends.
    fn tell(&self, manager: &Manager) -> ! {
        eprintln!("stuck for {LIMIT:?} in {}", self.round);
        for who in 0..=WORKERS {
            let (since, what) = (self.since[who].load(SeqCst), self.what[who].load(SeqCst));
            let what = if who == HARNESS { "harness" } else { worker::NAMES[what as usize] };
            eprintln!("  worker {who}: {what} since {since} ms (0: not at all)");
        }
        eprintln!("{:?}\n{}", manager.tasks(), manager.explain());
        let _ = marcel::diagnosis::dump(&mut std::io::stderr());
        std::process::abort();
    }
}

/// Green threads that compute, or do not, as the switch says.
fn computing(world: &World, mut dice: Dice) {
    while !world.is_over() {
        if !world.load.load(SeqCst) {
            marcel::sleep(Duration::from_millis(1));
            continue;
        }
        let until = Instant::now() + Duration::from_micros(dice.roll(3000));
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        marcel::yield_now();
    }
}

/// Changes policies, the number of dedicated kernel threads, and the load.
fn shake(world: &World, end: Instant, dice: &mut Dice) {
    while Instant::now() < end {
        std::thread::sleep(Duration::from_micros(500 + dice.roll(5000)));
        match dice.roll(6) {
            0 => world.load.store(dice.roll(2) == 0, SeqCst),
            1 => {
                let some = dice.roll(8) == 0; // each of them takes a whole core
                world.manager.set_dedicated(usize::from(some)).unwrap();
            }
            _ => {
                let policy = by_name(NAMES[dice.roll(NAMES.len() as u64) as usize]).unwrap();
                world.source.set_policy(policy).unwrap();
            }
        }
    }
    world.manager.set_dedicated(0).unwrap();
}

/// All workers for this `time`. How many things they did.
fn round(mode: Mode, policy: &str, vps: usize, time: Duration, seed: u64) -> u64 {
    let name = format!("{mode:?}, {policy}, {vps} virtual processors, seed {seed}");
    let watched = Watched::new(name);
    let mut dice = Dice::new(seed);
    let manager = Manager::builder().mode(mode).policy(by_name(policy).unwrap());
    let runtime = Runtime::build(manager, marcel::Runtime::builder().vps(vps)).unwrap();
    let world = World::new(runtime.manager());
    let dog = {
        let (watched, manager) = (watched.clone(), runtime.manager().clone());
        std::thread::spawn(move || watched.watch(&manager))
    };
    let green = if mode == Mode::NoThread { 0 } else { GREEN };
    let mut workers: Vec<_> =
        (0..WORKERS).map(|who| Worker::new(who, &world, &watched, dice.split())).collect();
    let on_kernel_threads = workers.split_off(green);
    let kernel: Vec<_> = (on_kernel_threads.into_iter())
        .map(|worker| {
            std::thread::spawn(move || {
                let _entered = worker.enter();
                worker.work()
            })
        })
        .collect();
    let green: Vec<_> = (workers.into_iter())
        .map(|worker| runtime.threads().spawn(move || worker.work()))
        .collect();
    let computing: Vec<_> = (0..if green.is_empty() { 0 } else { vps.min(4) })
        .map(|_| {
            let (world, dice) = (world.clone(), dice.split());
            runtime.threads().spawn(move || computing(&world, dice))
        })
        .collect();
    let step = || watched.begins(HARNESS, 0);
    step();
    shake(&world, Instant::now() + time, &mut dice);
    world.end();
    let mut done = 0;
    let mut ended = |did: u64| {
        step();
        done += did;
    };
    kernel.into_iter().for_each(|thread| ended(thread.join().unwrap()));
    green.into_iter().for_each(|thread| ended(thread.join().unwrap()));
    computing.into_iter().for_each(|thread| {
        thread.join().unwrap();
        step();
    });
    world.balances();
    step();
    let manager = Arc::downgrade(runtime.manager());
    drop(world);
    step();
    drop(runtime);
    watched.ends(HARNESS);
    watched.over.store(true, SeqCst);
    dog.join().unwrap();
    // A thread of the library may hold it for a moment more.
    let limit = Instant::now() + LIMIT;
    while manager.strong_count() > 0 {
        assert!(Instant::now() < limit, "the manager is kept");
        std::thread::sleep(Duration::from_millis(1));
    }
    done
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect(name))
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn everything_at_once_balances() {
    let modes = match std::env::var_os("MARCEL_MODE") {
        Some(_) => vec![Mode::from_env().unwrap()],
        None => vec![Mode::NoThread, Mode::Mono, Mode::Smp],
    };
    let policy = std::env::var("PIOM_POLICY").ok();
    let policies = policy.as_deref().map_or(NAMES.to_vec(), |name| vec![name]);
    let vps = number("MARCEL_NVP").map_or(vec![2, 1, 8], |n| vec![n as usize]);
    let mut seed = number("PIOM_TEST_SOAK_SEED").unwrap_or(1);
    let time = Duration::from_secs(number("PIOM_TEST_SOAK").unwrap_or(10));
    let rounds = (modes.len() * policies.len()) as u32;
    // Long ones have longer rounds, but other things go wrong at the ends of rounds.
    let each = (time / rounds).min(Duration::from_secs(3));
    let (end, mut done, mut turn) = (Instant::now() + time, 0, 0);
    let mut before = None;
    while turn == 0 || Instant::now() < end {
        for mode in &modes {
            for (i, policy) in policies.iter().enumerate() {
                let vps = vps[(turn + i) % vps.len()];
                let did = round(*mode, policy, vps, each, seed);
                if time > Duration::from_secs(60) {
                    println!("{mode:?}, {policy}, {vps}: {did}");
                }
                (done, seed) = (done + did, seed + 1);
            }
        }
        turn += 1;
        // What is made once for the process is there after the first turn.
        let now = descriptors();
        assert!(now <= *before.get_or_insert(now), "descriptors: {before:?} then {now}");
    }
    println!("{done} things done, {turn} turns");
}
