//! Chaos: threads that do random things to each other, for a time, and what must hold all the same.
//!
//! `MARCEL_TEST_CHAOS_SECONDS` (default 3): for how long, in all. `MARCEL_TEST_CHAOS_SEED`: what a failure has printed; the same
//! seed gives each thread the same acts, as far as the order in which threads run does not matter.

mod acts;
mod random;
mod world;

use std::sync::Arc;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use marcel::{Mode, Runtime};

use acts::{Census, Planned, live};
use random::Random;
use world::{ENOUGH, World};

/// How long threads may take to come to their end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A panic that was not planned.
static BROKEN: AtomicBool = AtomicBool::new(false);

fn setting<T: std::str::FromStr>(name: &str, default: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")),
        Err(_) => default,
    }
}

/// A seed, which is printed if the test fails.
fn seed() -> u64 {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap();
    setting("MARCEL_TEST_CHAOS_SEED", now.as_nanos() as u64)
}

fn expect_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let scoped = info.payload().downcast_ref::<&str>();
            // What a scope says of a planned panic in it.
            if !info.payload().is::<Planned>() && scoped != Some(&"a scoped thread panicked") {
                BROKEN.store(true, SeqCst);
                usual(info);
            }
        }));
    });
}

fn runtimes() -> [fn() -> Runtime; 6] {
    [
        || Runtime::builder().build().unwrap(),
        || Runtime::builder().mode(Mode::Mono).build().unwrap(),
        || Runtime::builder().mode(Mode::Smp).vps(1).build().unwrap(),
        || Runtime::builder().mode(Mode::Smp).vps(2).build().unwrap(),
        || Runtime::builder().mode(Mode::Smp).vps(8).build().unwrap(),
        || {
            let builder = Runtime::builder().mode(Mode::Smp).vps(4);
            // SAFETY: the acts hold no thread-local's address and nothing of the kernel thread's across a wait.
            unsafe { builder.migrate_started_threads(true) }.build().unwrap()
        },
    ]
}

/// Kernel threads take part.
fn kernel_threads(world: &Arc<World>, random: &mut Random) -> Vec<std::thread::JoinHandle<()>> {
    let start = |_| {
        let (world, mut random) = (world.clone(), random.fork());
        std::thread::spawn(move || {
            while world.goes_on() {
                match random.below(5) {
                    0 => drop(world.section(random.below(3) as usize)),
                    1 => drop(world.semaphore.acquire_timeout(Duration::from_micros(100))),
                    2 => drop(if random.one_in(2) { world.put(1) } else { world.take() }),
                    3 => drop(world.shared.read()),
                    _ => {
                        if world.channels[0]
                            .receiver
                            .recv_timeout(Duration::from_micros(100))
                            .is_ok()
                        {
                            world.channels[0].received.fetch_add(1, SeqCst);
                        }
                    }
                }
                std::thread::sleep(Duration::from_micros(random.below(200)));
            }
        })
    };
    (0..2).map(start).collect()
}

fn start(runtime: &Runtime, world: &Arc<World>, random: &mut Random) {
    for _ in 0..6 {
        let (theirs, census, random) = (world.clone(), Census::new(world), random.fork());
        drop(runtime.spawn(move || live(&theirs, random, 0, census)));
    }
}

/// Waits until every thread has ended, and its thread-local values with it: they are destroyed after its closure has
/// returned, so after the census has counted it.
fn settle(world: &World, seed: u64) {
    let limit = Instant::now() + PATIENCE;
    while world.alive() > 0 || world.values() > 0 {
        if Instant::now() > limit {
            let _ = marcel::diagnosis::dump(&mut std::io::stderr());
            let (threads, values) = (world.alive(), world.values());
            panic!(
                "{threads} threads, {values} values have not ended; MARCEL_TEST_CHAOS_SEED={seed}"
            );
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn check(world: &World, whole: bool, seed: u64) {
    let broken = BROKEN.load(SeqCst)
        || std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.audit(whole))).is_err();
    assert!(!broken, "MARCEL_TEST_CHAOS_SEED={seed}");
}

fn time() -> Duration {
    Duration::from_secs_f64(
        setting("MARCEL_TEST_CHAOS_SECONDS", 3.0) / 2.0 / runtimes().len() as f64,
    )
}

#[test]
fn threads_that_do_random_things_all_end_and_leave_everything_in_order() {
    expect_panics();
    let seed = seed();
    let mut random = Random::new(seed);
    for build in runtimes() {
        let runtime = build();
        let world = Arc::new(World::new(time()));
        let others = kernel_threads(&world, &mut random);
        start(&runtime, &world, &mut random);
        others.into_iter().for_each(|thread| thread.join().unwrap());
        settle(&world, seed);
        check(&world, true, seed);
        let (acts, threads) = (world.acts.load(SeqCst), world.started.load(SeqCst));
        eprintln!("{acts} acts of {threads} threads");
        assert!(acts > ENOUGH.0 && threads > ENOUGH.1, "{acts} acts of {threads} threads");
    }
}

#[test]
fn a_runtime_that_stops_amid_random_things_leaves_everything_in_order() {
    expect_panics();
    let seed = seed();
    let mut random = Random::new(seed ^ 1);
    for build in runtimes() {
        let end = Instant::now() + time();
        while Instant::now() < end {
            let runtime = build();
            let world = Arc::new(World::new(PATIENCE));
            start(&runtime, &world, &mut random);
            std::thread::sleep(Duration::from_micros(random.below(30_000)));
            world.over.store(random.one_in(2), SeqCst);
            world.stopping.store(true, SeqCst);
            let ended = Arc::new(AtomicBool::new(false));
            let theirs = ended.clone();
            let dropping = std::thread::spawn(move || {
                drop(runtime);
                theirs.store(true, SeqCst);
            });
            let limit = Instant::now() + PATIENCE;
            while !ended.load(SeqCst) {
                if Instant::now() > limit {
                    let _ = marcel::diagnosis::dump(&mut std::io::stderr());
                    panic!("the runtime does not end; MARCEL_TEST_CHAOS_SEED={seed}");
                }
                std::thread::sleep(Duration::from_micros(100));
            }
            dropping.join().unwrap();
            check(&world, false, seed);
        }
    }
}
