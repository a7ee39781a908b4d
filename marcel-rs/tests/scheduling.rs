//! In which order threads run, and where: policies, priorities, places, and threads that migrate.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use marcel::policy::{Bubble, Bubbles, Fair, Fresh, Policy, Ready, ReadyList, Source, Why};
use marcel::topology::Object;
use marcel::{Builder, Mode, Priority, Runtime};

mod common;
use common::in_a_child;

type Log = Arc<Mutex<Vec<String>>>;

fn mono() -> Runtime {
    Runtime::builder().mode(Mode::Mono).build().unwrap()
}

fn smp(vps: usize) -> marcel::RuntimeBuilder {
    Runtime::builder().mode(Mode::Smp).vps(vps)
}

/// Runs `f` as a compute thread, which is alone with what it spawns.
fn run<T: Send + 'static>(runtime: &Runtime, f: impl FnOnce() -> T + Send + 'static) -> T {
    runtime.spawn(f).join().unwrap()
}

fn cpu_time(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid timespec.
    assert_eq!(unsafe { libc::clock_gettime(clock, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Gives up after a minute.
fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < limit, "in vain: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn urgent_threads_run_before_others_and_low_ones_after_them() {
    let order = run(&mono(), || {
        let log = Log::default();
        let spawn = |name: &'static str, priority| {
            let log = log.clone();
            let say = move |turn| log.lock().unwrap().push(format!("{name}{turn}"));
            let body = move || {
                say(1);
                marcel::yield_now();
                say(2);
            };
            Builder::new().priority(priority).spawn(body).unwrap()
        };
        let threads = [
            spawn("low", Priority::Low),
            spawn("normal", Priority::Normal),
            spawn("high", Priority::High),
        ];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        log.lock().unwrap().clone()
    });
    assert_eq!(order, ["high1", "high2", "normal1", "normal2", "low1", "low2"]);
}

/// Priorities are also those of threads that were started by other virtual processors or kernel threads.
#[test]
fn urgent_threads_from_outside_come_first() {
    let runtime = smp(1).build().unwrap();
    let (log, go) = (Log::default(), Arc::new(AtomicBool::new(false)));
    let busy = {
        let go = go.clone();
        runtime.spawn(move || while !go.load(SeqCst) {})
    };
    wait_for("a busy virtual processor", || runtime.load().busy_compute_vps() == 1);
    let threads: Vec<_> = runtime.run(|| {
        let spawn = |priority| {
            let log = log.clone();
            let body = move || log.lock().unwrap().push(format!("{priority:?}"));
            Builder::new().priority(priority).spawn(body).unwrap()
        };
        [Priority::Low, Priority::Normal, Priority::High].map(spawn).into()
    });
    go.store(true, SeqCst);
    busy.join().unwrap();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(*log.lock().unwrap(), ["High", "Normal", "Low"]);
}

/// One thread that always yields does not keep those from running that never ran, its own or from outside.
#[test]
fn nobody_starves_beside_threads_that_yield() {
    let runtime = smp(1).build().unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let yielding: Vec<_> = (0..3)
        .map(|_| {
            let over = over.clone();
            runtime.spawn(move || {
                while !over.load(SeqCst) {
                    marcel::yield_now();
                }
            })
        })
        .collect();
    runtime.spawn(|| marcel::spawn(|| ()).join().unwrap()).join().unwrap();
    over.store(true, SeqCst);
    yielding.into_iter().for_each(|thread| thread.join().unwrap());
}

/// The kernel thread of a virtual processor, and its CPU time when it was last looked at.
struct KernelThread {
    id: libc::pid_t,
    clock: libc::clockid_t,
    seen: Mutex<Duration>,
}

impl KernelThread {
    fn current() -> KernelThread {
        let mut clock = 0;
        // SAFETY: the calling thread, and a writable clock's id.
        let refused = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock) };
        assert_eq!(refused, 0);
        // SAFETY: takes nothing.
        KernelThread { id: unsafe { libc::gettid() }, clock, seen: Mutex::default() }
    }

    /// Whether it wants a core and has had none since the last look.
    fn lacks_a_core(&self) -> bool {
        let now = cpu_time(self.clock);
        if std::mem::replace(&mut *self.seen.lock().unwrap(), now) < now {
            return false;
        }
        let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", self.id)).unwrap();
        !stat.rsplit_once(") ").unwrap().1.starts_with('S')
    }
}

/// The kernel threads of all virtual processors of a runtime.
fn kernel_threads(runtime: &Runtime, vps: usize) -> Vec<KernelThread> {
    let all = Arc::new(Mutex::new(Vec::new()));
    run(runtime, move || {
        let threads: Vec<_> = (0..vps)
            .map(|_| {
                let all = all.clone();
                marcel::spawn(move || {
                    all.lock().unwrap().push(KernelThread::current());
                    // Each keeps its virtual processor until there is one on every other.
                    while all.lock().unwrap().len() < vps {
                        std::hint::spin_loop();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        Arc::into_inner(all).unwrap().into_inner().unwrap()
    })
}

/// A thread that waits for its first turn gets it, although newer ones keep coming: with and without thieves.
#[test]
fn the_oldest_does_not_wait_for_ever() {
    /// Counts the links that start while no thief is without a core: it may be the one that has the oldest.
    fn chain(
        over: Arc<AtomicBool>,
        links: u64,
        started: Arc<AtomicUsize>,
        thieves: Arc<Vec<KernelThread>>,
    ) {
        if !thieves.iter().any(KernelThread::lacks_a_core) {
            started.fetch_add(1, SeqCst);
        }
        if links > 0 && !over.load(SeqCst) {
            drop(marcel::spawn(move || chain(over, links - 1, started, thieves)));
        }
    }
    let policies: [fn() -> Box<dyn Policy>; 2] =
        [|| Box::new(Fair::new()), || Box::new(Bubbles::new(8))];
    for policy in policies {
        for (builder, vps) in [(Runtime::builder().mode(Mode::Mono), 1), (smp(2), 2)] {
            let runtime = builder.policy(move |_| policy()).build().unwrap();
            // A virtual processor alone needs no other to run the oldest: all links count.
            let thieves = if vps == 1 { Vec::new() } else { kernel_threads(&runtime, vps) };
            let thieves = Arc::new(thieves);
            let (over, links) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
            let (ended, started) = (over.clone(), links.clone());
            run(&runtime, move || {
                let seen = ended.clone();
                let oldest = marcel::spawn(move || seen.store(true, SeqCst));
                drop(marcel::spawn(move || chain(ended, 1_000_000, started, thieves)));
                oldest.join().unwrap();
            });
            assert!(links.load(SeqCst) < 100_000, "{links:?} came before it");
        }
    }
}

#[test]
fn a_thread_yields_to_the_one_it_names() {
    let order = run(&mono(), || {
        let log = Log::default();
        let threads: Vec<_> = (0..4)
            .map(|i| {
                let log = log.clone();
                marcel::spawn(move || {
                    marcel::yield_now();
                    log.lock().unwrap().push(i.to_string());
                })
            })
            .collect();
        marcel::yield_now(); // all have started, and can run again
        marcel::yield_to(threads[1].thread());
        log.lock().unwrap().push("back".into());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        log.lock().unwrap().clone()
    });
    assert_eq!(order[0], "1");
    assert_eq!(order.iter().collect::<HashSet<_>>().len(), 5);
}

/// Whether threads of two bubbles that yield to each other alternate (fair) or stay together (bubbles).
fn changes_of_bubble(runtime: &Runtime) -> usize {
    let log = run(runtime, || {
        let log = Arc::new(Mutex::new(Vec::new()));
        let bubbles = [Bubble::new(), Bubble::new()];
        let threads: Vec<_> = (0..4)
            .map(|i| {
                let log = log.clone();
                let body = move || {
                    for _ in 0..32 {
                        log.lock().unwrap().push(i % 2);
                        marcel::yield_now();
                    }
                };
                Builder::new().bubble(bubbles[i % 2]).spawn(body).unwrap()
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        Arc::into_inner(log).unwrap().into_inner().unwrap()
    });
    assert_eq!(log.len(), 4 * 32);
    log.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

#[test]
fn threads_of_a_bubble_run_together() {
    let bubbles = Runtime::builder().mode(Mode::Mono).policy(|_| Box::new(Bubbles::new(16)));
    let (fair, together) =
        (changes_of_bubble(&mono()), changes_of_bubble(&bubbles.build().unwrap()));
    assert!(fair > 64, "{fair} changes");
    assert!(together <= 24, "{together} changes");
}

/// Threads that start one another for ever are a bubble's turns as well: whoever waits beside them has his.
#[test]
fn a_bubble_that_only_starts_threads_gives_way_to_others() {
    /// True when a thread of the chain finds that it is `over`, false when the chain is.
    fn link(over: Arc<AtomicBool>, left: usize, answer: std::sync::mpsc::Sender<bool>) {
        match over.load(SeqCst) {
            false if left > 0 => drop(marcel::spawn(move || link(over, left - 1, answer))),
            seen => answer.send(seen).unwrap(),
        }
    }
    let builder = Runtime::builder().mode(Mode::Mono).policy(|_| Box::new(Bubbles::new(16)));
    let (send, answer) = std::sync::mpsc::channel();
    let runtime = builder.build().unwrap();
    run(&runtime, || {
        let (go, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (goes, sets) = (go.clone(), over.clone());
        let body = move || {
            while !goes.load(SeqCst) {
                marcel::park();
            }
            sets.store(true, SeqCst);
        };
        let other = Builder::new().bubble(Bubble::new()).spawn(body).unwrap();
        marcel::sleep(Duration::from_millis(1)); // it has begun
        go.store(true, SeqCst);
        other.thread().unpark();
        link(over, 20_000, send);
        other.join().unwrap();
    });
    assert!(answer.recv().unwrap(), "nothing was left to start before it had its turn");
}

#[test]
fn a_thread_is_in_the_bubble_of_its_spawner() {
    let seen = Arc::new(Mutex::new(HashSet::new()));
    struct Spy(Fair, Arc<Mutex<HashSet<Bubble>>>);
    // SAFETY: all is passed on.
    unsafe impl Policy for Spy {
        fn put(&mut self, thread: Ready, why: Why) {
            self.1.lock().unwrap().insert(thread.bubble());
            self.0.put(thread, why);
        }
        fn next(&mut self, fresh: &mut dyn Fresh) -> Option<Ready> {
            Policy::next(&mut self.0, fresh)
        }
        fn take(&mut self, thread: marcel::ThreadId) -> Option<Ready> {
            self.0.take(thread)
        }
        fn len(&self) -> usize {
            self.0.len()
        }
    }
    let spied = seen.clone();
    let policy = move |_| -> Box<dyn Policy> { Box::new(Spy(Fair::new(), spied.clone())) };
    let runtime = Runtime::builder().mode(Mode::Mono).policy(policy).build().unwrap();
    let bubble = Bubble::new();
    run(&runtime, move || {
        let family = || marcel::spawn(marcel::yield_now).join().unwrap();
        Builder::new().bubble(bubble).spawn(family).unwrap().join().unwrap();
    });
    assert!(seen.lock().unwrap().contains(&bubble));
}

/// A policy that a user writes: last come, first served; and everything works under it.
#[derive(Default)]
struct LastFirst {
    stack: Vec<ReadyList>,
}

// SAFETY: threads stay in its list until they are returned.
unsafe impl Policy for LastFirst {
    fn put(&mut self, thread: Ready, why: Why) {
        // A new list for each: a stack. Those who yield go to the bottom, or they would come back at once.
        let mut one = ReadyList::default();
        one.push(thread);
        let at = if why == Why::Yielded { 0 } else { self.stack.len() };
        self.stack.insert(at, one);
    }

    fn next(&mut self, fresh: &mut dyn Fresh) -> Option<Ready> {
        fresh
            .take(Priority::Normal, Source::Anywhere)
            .or_else(|| self.stack.pop().and_then(|mut one| one.pop()))
            .or_else(|| fresh.take(Priority::High, Source::Anywhere))
            .or_else(|| fresh.take(Priority::Low, Source::Anywhere))
    }

    fn take(&mut self, _: marcel::ThreadId) -> Option<Ready> {
        None
    }

    fn len(&self) -> usize {
        self.stack.len()
    }
}

#[test]
fn a_policy_of_ones_own_runs_everything() {
    for builder in [Runtime::builder().mode(Mode::Mono), smp(2)] {
        let runtime = builder.policy(|_| Box::<LastFirst>::default()).build().unwrap();
        let sum = run(&runtime, || {
            let threads: Vec<_> = (0..100u64)
                .map(|i| {
                    marcel::spawn(move || {
                        marcel::yield_now();
                        marcel::sleep(Duration::from_micros(i));
                        i
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
        });
        assert_eq!(sum, 4950);
    }
}

/// Cores are taken modulo their number, whatever the number.
#[test]
fn the_first_core_may_be_any_number() {
    let runtime = smp(2).first_cpu(usize::MAX).build().unwrap();
    assert!(run(&runtime, || marcel::current_vp().unwrap().cpu()).is_some());
}

/// Whether this process has two nodes with two cores each; else the test runs in one that has.
fn on_synthetic_machine(test: &str) -> bool {
    const CHILD: &str = "MARCEL_TEST_BOUND";
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args([test, "--exact", "--nocapture"]).env(CHILD, "1");
    child.env("MARCEL_TOPOLOGY", "numa:2 core:2");
    child.env_remove("MARCEL_NVP").env_remove("MARCEL_FIRSTCPU");
    let output = child.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    false
}

#[test]
fn bound_threads_stay_in_their_part_of_the_machine() {
    if !on_synthetic_machine("bound_threads_stay_in_their_part_of_the_machine") {
        return;
    }
    let runtime = Runtime::builder().mode(Mode::Smp).build().unwrap();
    assert_eq!(runtime.load().compute_vps(), 4);
    runtime.run(|| {
        let core = || {
            marcel::yield_now();
            marcel::current_vp().unwrap().cpu().unwrap()
        };
        for (place, cores) in [("numa:1", 2..4), ("numa:0", 0..2), ("core:3", 3..4)] {
            let place: Object = place.parse().unwrap();
            let bound = |_| Builder::new().bind(place).spawn(core).unwrap();
            let threads: Vec<_> = (0..40).map(bound).collect();
            for thread in threads {
                let core = thread.join().unwrap();
                assert!(cores.contains(&core), "{place}: {core}");
            }
        }
        let error = Builder::new().bind("core:9".parse().unwrap()).spawn(|| ()).unwrap_err();
        assert!(error.to_string().contains("core:9"), "{error}");
        let reactive = Builder::new().bind("core:0".parse().unwrap()).reactive(true);
        assert!(reactive.spawn(|| ()).unwrap_err().to_string().contains("reactive"));
    });
    // One virtual processor, on the first core: nobody could run this.
    let alone = smp(1).first_cpu(0).build().unwrap();
    let elsewhere = Builder::new().bind("numa:1".parse().unwrap());
    let error = alone.run(|| elsewhere.spawn(|| ()).unwrap_err().to_string());
    assert!(error.contains("numa:1") && error.contains("MARCEL_NVP"), "{error}");
}

/// A virtual processor of the place is being woken for a thread of its own, which computes: the bound thread is another's.
#[test]
fn a_bound_thread_is_not_left_to_a_virtual_processor_that_wakes_for_something_else() {
    let name = "a_bound_thread_is_not_left_to_a_virtual_processor_that_wakes_for_something_else";
    if !on_synthetic_machine(name) {
        return;
    }
    let place = |text: &str| Builder::new().bind(text.parse().unwrap());
    let runtime = Runtime::builder().mode(Mode::Smp).build().unwrap();
    let rounds = move || {
        for _ in 0..100 {
            let ran = Arc::new(AtomicBool::new(false));
            let computes = {
                let ran = ran.clone();
                let compute = move || {
                    marcel::park();
                    let start = Instant::now();
                    while !ran.load(SeqCst) {
                        assert!(start.elapsed() < Duration::from_secs(20), "it was left alone");
                        std::hint::spin_loop();
                    }
                };
                place("core:2").spawn(compute).unwrap()
            };
            // All others sleep.
            marcel::sleep(Duration::from_millis(5));
            computes.thread().unpark();
            let bound = place("numa:1").spawn(move || ran.store(true, SeqCst)).unwrap();
            computes.join().unwrap();
            bound.join().unwrap();
        }
    };
    runtime.run(|| place("core:0").spawn(rounds).unwrap().join().unwrap());
}

/// One virtual processor is kept busy by a thread that computes: what it has woken or started goes elsewhere.
#[test]
fn threads_migrate_where_the_program_allows_it() {
    // SAFETY: the threads below hold nothing of their kernel thread across a wait.
    let builder = unsafe { smp(2).migrate_started_threads(true) };
    let runtime = builder.build().unwrap();
    let (parked, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (parked, over) = (parked.clone(), over.clone());
            runtime.spawn(move || {
                parked.fetch_add(1, SeqCst);
                while !over.load(SeqCst) {
                    marcel::park();
                }
                marcel::current_vp().map(|vp| vp.index())
            })
        })
        .collect();
    wait_for("threads that wait", || parked.load(SeqCst) == 8);
    std::thread::sleep(Duration::from_millis(5));
    // Whichever virtual processor it is on, those that live there can only end elsewhere.
    let (computes, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let busy = {
        let (computes, stop) = (computes.clone(), stop.clone());
        runtime.spawn(move || {
            computes.store(true, SeqCst);
            while !stop.load(SeqCst) {
                std::hint::spin_loop();
            }
            marcel::current_vp().map(|vp| vp.index())
        })
    };
    wait_for("a busy virtual processor", || computes.load(SeqCst));
    assert!(runtime.load().busy_compute_vps() >= 1);
    over.store(true, SeqCst);
    threads.iter().for_each(|thread| thread.thread().unpark());
    let ended: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    stop.store(true, SeqCst);
    let busy = busy.join().unwrap();
    assert!(ended.iter().all(|at| *at != busy), "{ended:?} beside {busy:?}");
}

/// Everything that waits and wakes, in a runtime whose threads migrate; and it ends.
#[test]
fn migrating_threads_lose_no_wake_up() {
    for round in 0..5 {
        // SAFETY: as above.
        let runtime = unsafe { smp(3).migrate_started_threads(true) }.build().unwrap();
        let total = run(&runtime, move || {
            let lock = Arc::new(marcel::sync::Mutex::new(0u64));
            let threads: Vec<_> = (0..50u64)
                .map(|i| {
                    let lock = lock.clone();
                    marcel::spawn(move || {
                        for turn in 0..40 {
                            *lock.lock() += 1;
                            match (i + turn + round) % 4 {
                                0 => marcel::yield_now(),
                                1 => marcel::sleep(Duration::from_micros(20)),
                                2 => marcel::spawn(|| ()).join().unwrap(),
                                _ => {}
                            }
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            *lock.lock()
        });
        assert_eq!(total, 50 * 40);
        let waiting: Vec<_> = (0..20).map(|_| runtime.spawn(marcel::park)).collect();
        drop(runtime);
        // Those that had not begun to wait may have found a token that was somebody else's.
        waiting.into_iter().for_each(|thread| drop(thread.join()));
    }
}

/// In a runtime whose virtual processor was another one's before, where threads did not migrate.
#[test]
fn where_threads_migrate_they_take_turns() {
    const TURNS: usize = 1000;
    for _ in 0..4 {
        run(&smp(1).build().unwrap(), || ());
        // SAFETY: the threads below hold nothing of their kernel thread across a wait.
        let runtime = unsafe { smp(1).migrate_started_threads(true) }.build().unwrap();
        let turns = run(&runtime, || {
            let turns: Arc<[AtomicUsize; 4]> = Arc::default();
            let over = Arc::new(AtomicBool::new(false));
            let threads: Vec<_> = (0..4)
                .map(|i| {
                    let (turns, over) = (turns.clone(), over.clone());
                    marcel::spawn(move || {
                        while !over.load(SeqCst) {
                            if turns[i].fetch_add(1, SeqCst) == TURNS {
                                over.store(true, SeqCst);
                            }
                            marcel::yield_now();
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            turns.each_ref().map(|n| n.load(SeqCst))
        });
        assert!(turns.iter().all(|n| *n > TURNS / 2), "{turns:?}");
    }
}

#[test]
fn a_thread_that_could_migrate_is_yielded_to() {
    // SAFETY: as above.
    let runtime = unsafe { smp(1).migrate_started_threads(true) }.build().unwrap();
    let order = run(&runtime, || {
        let (log, started) = (Log::default(), Arc::new(AtomicUsize::new(0)));
        let go = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..4)
            .map(|i| {
                let (log, started, go) = (log.clone(), started.clone(), go.clone());
                marcel::spawn(move || {
                    started.fetch_add(1, SeqCst);
                    while !go.load(SeqCst) {
                        marcel::park(); // once more if it found a token that was meant for an ended thread
                    }
                    log.lock().unwrap().push(i.to_string());
                })
            })
            .collect();
        while started.load(SeqCst) < 4 {
            marcel::yield_now(); // on their virtual processor: it runs again when they have parked
        }
        go.store(true, SeqCst);
        threads.iter().for_each(|thread| thread.thread().unpark());
        marcel::yield_to(threads[1].thread());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        log.lock().unwrap().clone()
    });
    assert_eq!(order[0], "1", "{order:?}");
}

/// Two threads of one virtual processor that may run nowhere else: one computes, the other is woken and waits for it.
/// The other virtual processors sleep meanwhile.
#[test]
fn nobody_looks_again_and_again_for_a_thread_that_he_may_not_have() {
    const TEST: &str = "nobody_looks_again_and_again_for_a_thread_that_he_may_not_have";
    in_a_child(TEST, Duration::from_secs(60), || {
        // SAFETY: the threads below hold nothing of their kernel thread across a wait.
        let runtime = unsafe { smp(3).migrate_started_threads(true) }.build().unwrap();
        let first = runtime.spawn(|| marcel::current_vp().unwrap().cpu()).join().unwrap();
        let place: Object = format!("core:{}", first.unwrap()).parse().unwrap();
        let (parked, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (parks, ends) = (parked.clone(), over.clone());
        let bound = move |f: Box<dyn FnOnce() -> Duration + Send>| {
            marcel::spawn(move || Builder::new().bind(place).spawn(f).unwrap()).join().unwrap()
        };
        let (used, computed) = run(&runtime, move || {
            let waits = bound(Box::new(move || {
                while !ends.load(SeqCst) {
                    parks.store(true, SeqCst);
                    marcel::park();
                }
                Duration::ZERO
            }));
            while !parked.load(SeqCst) {
                marcel::sleep(Duration::from_millis(1));
            }
            let waiting = *waits.thread();
            let computes = bound(Box::new(move || {
                let before = cpu_time(libc::CLOCK_THREAD_CPUTIME_ID);
                over.store(true, SeqCst);
                std::thread::scope(|s| {
                    s.spawn(|| waiting.unpark()); // from elsewhere
                });
                while cpu_time(libc::CLOCK_THREAD_CPUTIME_ID) - before < Duration::from_millis(200)
                {
                }
                cpu_time(libc::CLOCK_THREAD_CPUTIME_ID) - before
            }));
            let before = cpu_time(libc::CLOCK_PROCESS_CPUTIME_ID);
            let computed = computes.join().unwrap();
            waits.join().unwrap();
            (cpu_time(libc::CLOCK_PROCESS_CPUTIME_ID) - before, computed)
        });
        assert!(used < computed * 3 / 2, "{used:?} of all processors beside {computed:?}");
    });
}
