//! Interrupts: a peer signals a virtual processor that computes, and its handler looks for events.

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

use marcel::Mode;
use marcel::plumbing::{SignalTarget, signal};
use pioman::{Completion, Hint, Hints, Manager, Point, Points, Runtime, Source, policy};

/// A word in memory. Its raiser rings a sleeper, or signals a thread that computes, once for each time it was asked.
struct Line {
    fd: OwnedFd,
    raised: AtomicU64,
    /// What the raiser is to do: nothing, [`RING`], or the target.
    wanted: AtomicU64,
    signals: AtomicU64,
    request: Completion,
    begun: AtomicBool,
}

const RING: u64 = u64::MAX;

impl Line {
    fn new() -> Arc<Line> {
        // SAFETY: no pointers; the descriptor is ours.
        let fd = unsafe {
            OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC))
        };
        Arc::new(Line {
            fd,
            raised: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            signals: AtomicU64::new(0),
            request: Completion::new(),
            begun: AtomicBool::new(false),
        })
    }

    fn begin(&self) {
        self.begun.store(true, SeqCst);
    }

    fn raise(&self) {
        self.raised.fetch_add(1, SeqCst);
        match self.wanted.swap(0, SeqCst) {
            0 => {}
            RING => {
                // SAFETY: eight readable bytes.
                unsafe { libc::write(self.fd.as_raw_fd(), 1u64.to_ne_bytes().as_ptr().cast(), 8) };
            }
            target => {
                self.signals.fetch_add(1, SeqCst);
                SignalTarget::from_word(target).signal();
            }
        }
    }
}

// SAFETY: atomics, a completion, and a system call that does not block.
unsafe impl Source for Line {
    fn name(&self) -> &str {
        "line"
    }
    fn poll(&self) -> bool {
        let found = self.pending() && self.raised.load(SeqCst) > 0;
        if found && self.begun.swap(false, SeqCst) {
            self.request.complete();
        }
        found
    }
    fn pending(&self) -> bool {
        self.begun.load(SeqCst)
    }
    fn fd(&self) -> Option<RawFd> {
        Some(self.fd.as_raw_fd())
    }
    fn acknowledge(&self) {
        let _errno = signal::KeepErrno::new();
        // SAFETY: eight writable bytes.
        unsafe { libc::read(self.fd.as_raw_fd(), [0u8; 8].as_mut_ptr().cast(), 8) };
    }
    fn arm(&self) -> bool {
        self.wanted.store(RING, SeqCst);
        self.raised.load(SeqCst) == 0
    }
    fn can_interrupt(&self) -> bool {
        true
    }
    fn arm_interrupt(&self, target: SignalTarget) -> bool {
        self.wanted.store(target.to_word(), SeqCst);
        self.raised.load(SeqCst) == 0
    }
    fn disarm(&self) {
        self.wanted.store(0, SeqCst);
    }
}

fn runtime(mode: Mode, name: &str) -> Runtime {
    let policy = policy::by_name(name).unwrap();
    let manager = Manager::builder().mode(mode).policy(policy);
    Runtime::build(manager, marcel::Runtime::builder().vps(2)).unwrap()
}

const LONG: Duration = Duration::from_secs(60);

fn compute_until(over: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !over() && start.elapsed() < LONG {
        std::hint::spin_loop();
    }
    over()
}

#[test]
fn a_request_is_found_by_a_signal_while_its_owner_computes() {
    for (mode, policy) in
        [(Mode::Mono, "load-aware"), (Mode::Mono, "adaptive"), (Mode::Smp, "interrupt")]
    {
        let runtime = runtime(mode, policy);
        let manager = runtime.manager().clone();
        // A tick may find the event first, after a signal that was late, or look just then, and be told by nobody: another one
        // is raised.
        let found = (0..100).any(|_| {
            let line = Line::new();
            let _source = manager.add_source(line.clone()).unwrap();
            runtime.run(|| {
                line.begin();
                manager.ensure_watched();
                let raiser = {
                    let line = line.clone();
                    std::thread::spawn(move || line.raise())
                };
                assert!(compute_until(|| line.request.is_done()), "{mode} {policy}");
                raiser.join().unwrap();
            });
            line.signals.load(SeqCst) > 0 && manager.hits(Point::Interrupt) > 0
        });
        assert!(found, "{mode} {policy}: {}", manager.counters());
    }
}

/// Waits until the waiter, or the virtual processor that it leaves idle, has polled the line or arms its descriptor.
fn until_waited_for(manager: &Manager, line: &Line) {
    let start = Instant::now();
    let polls = |point| manager.counters().source("line").map_or(0, |line| line.at(point).polls);
    while polls(Point::Wait) + polls(Point::Idle) == 0 && line.wanted.load(SeqCst) != RING {
        assert!(start.elapsed() < LONG, "no thread waits");
        std::thread::yield_now();
    }
}

#[test]
fn a_thread_that_waits_is_not_interrupted() {
    for (mode, policy) in [(Mode::Mono, "load-aware"), (Mode::Mono, "interrupt")] {
        let runtime = runtime(mode, policy);
        let manager = runtime.manager().clone();
        for pause in [0, 5] {
            for _ in 0..20 {
                let line = Line::new();
                let source = manager.add_source(line.clone()).unwrap();
                runtime.run(|| {
                    let raiser = {
                        let (line, manager) = (line.clone(), manager.clone());
                        std::thread::spawn(move || {
                            until_waited_for(&manager, &line);
                            std::thread::sleep(Duration::from_millis(pause));
                            line.raise();
                        })
                    };
                    line.begin();
                    manager.wait(&line.request, Hints::new(Hint::Short).on(source.id()));
                    raiser.join().unwrap();
                });
                assert_eq!(line.signals.load(SeqCst), 0, "{mode} {policy}");
            }
        }
    }
}

#[test]
fn without_the_point_or_without_ticks_nobody_is_asked_to_interrupt() {
    let no_interrupt = Points { interrupt: false, ..Points::ALL };
    let no_tick = Points { tick: false, ..Points::ALL };
    for points in [no_interrupt, no_tick] {
        let policy = policy::by_name("interrupt").unwrap();
        let manager = Manager::builder().mode(Mode::Smp).points(points).policy(policy);
        let runtime = Runtime::build(manager, marcel::Runtime::builder().vps(1)).unwrap();
        let manager = runtime.manager().clone();
        let line = Line::new();
        let _source = manager.add_source(line.clone()).unwrap();
        runtime.run(|| {
            line.begin();
            manager.ensure_watched();
            line.raise();
            assert!(compute_until(|| line.request.is_done()), "{points:?}");
        });
        assert_eq!(line.signals.load(SeqCst), 0, "{points:?}");
    }
}

/// A virtual processor that was to be signalled has nothing to run any more; its signal is lost, the event is not.
#[test]
fn an_event_is_found_although_the_virtual_processor_has_become_idle() {
    let runtime = runtime(Mode::Smp, "interrupt");
    let manager = runtime.manager().clone();
    for round in 0..400 {
        let line = Line::new();
        let source = manager.add_source(line.clone()).unwrap();
        // Computes for some microseconds after it has left the request pending, and ends.
        let owner = {
            let (manager, line) = (manager.clone(), line.clone());
            runtime.spawn(move || {
                line.begin();
                manager.ensure_watched();
                for _ in 0..round * 10 {
                    std::hint::spin_loop();
                }
            })
        };
        let raiser = {
            let line = line.clone();
            std::thread::spawn(move || {
                while !line.begun.load(SeqCst) {
                    std::hint::spin_loop();
                }
                for _ in 0..round * 7 {
                    std::hint::spin_loop();
                }
                line.raise();
            })
        };
        let start = Instant::now();
        while !line.request.is_done() {
            assert!(start.elapsed() < LONG, "round {round}: no thread looks");
            std::thread::sleep(Duration::from_micros(50));
        }
        owner.join().unwrap();
        raiser.join().unwrap();
        drop(source);
    }
}

extern "C" fn another(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // A handler of the program's, which is interrupted, too.
    for _ in 0..200 {
        std::hint::spin_loop();
    }
    ANOTHER.fetch_add(1, Relaxed);
}
static ANOTHER: AtomicU64 = AtomicU64::new(0);

/// Signals that come anywhere: in the allocator, in the scheduler, in another handler, in system calls.
fn storm(signals: u64) {
    let number = libc::SIGRTMIN() + 12;
    // SAFETY: the handler counts.
    unsafe { signal::handle(number, another) }.unwrap();
    for mode in [Mode::Mono, Mode::Smp] {
        let runtime = runtime(mode, "interrupt");
        let manager = runtime.manager().clone();
        let line = Line::new();
        let _source = manager.add_source(line.clone()).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let hit = Arc::new(AtomicU64::new(0));
        let sent = runtime.run(|| {
            // Something pends all the time, so that each handler looks, and asks again.
            line.begin();
            manager.ensure_watched();
            let targets: Vec<SignalTarget> =
                (0..4).map(|_| marcel::spawn(target).join().unwrap()).chain([target()]).collect();
            let storm = {
                let (over, line, manager) = (over.clone(), line.clone(), manager.clone());
                std::thread::spawn(move || {
                    let (mut sent, mut dice) = (0, 1u64);
                    // Signals that come faster than they are treated all come in the scheduler: no thread gets to run. How
                    // fast that is is the machine's.
                    let looks =
                        || manager.counters().source("line").unwrap().at(Point::Interrupt).polls;
                    let (mut slower, mut seen) = (0, 0);
                    for round in 0.. {
                        if round % 500 == 499 {
                            let looked = looks();
                            slower += u32::from(looked == seen && slower < 6);
                            seen = looked;
                        }
                        // Without a pause the next signal would be there before the handler of the last has returned, and
                        // all would come in the same place.
                        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let next =
                            Instant::now() + Duration::from_nanos(2_000 + (dice >> 50 << slower));
                        while Instant::now() < next {
                            std::hint::spin_loop();
                        }
                        let target = targets[round % targets.len()];
                        sent += u64::from(target.signal());
                        if round % 16 == 0 {
                            SignalTarget { signal: number as u32, ..target }.signal();
                            // And as a peer that sends while it is asked to.
                            let wanted = line.wanted.swap(0, SeqCst);
                            if wanted != 0 && wanted != RING {
                                SignalTarget::from_word(wanted).signal();
                            }
                        }
                        if sent >= signals {
                            break;
                        }
                    }
                    over.store(true, SeqCst);
                    sent
                })
            };
            let works: [fn(u64) -> u64; 5] = [allocates, switches, calls_the_kernel, waits, spawns];
            let threads: Vec<_> = (0..10)
                .map(|number| {
                    let (over, hit) = (over.clone(), hit.clone());
                    marcel::spawn(move || {
                        let (mut sum, mut expected) = (0, 0);
                        for round in 0.. {
                            sum += works[number % works.len()](round);
                            expected += round % 1000;
                            if over.load(Relaxed) {
                                break;
                            }
                            marcel::yield_now();
                        }
                        hit.fetch_add(u64::from(sum == expected), SeqCst);
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            storm.join().unwrap()
        });
        assert!(sent >= signals);
        assert_eq!(hit.load(SeqCst), 10, "{mode}: values are wrong");
        assert!(!line.request.is_done() && line.pending());
        let counters = manager.counters();
        let polls = counters.source("line").unwrap().at(Point::Interrupt).polls;
        assert!(polls > 0 && ANOTHER.load(Relaxed) > 0, "{mode}: {counters}");
    }
}

fn target() -> SignalTarget {
    // SAFETY: no arguments.
    let thread = unsafe { libc::gettid() } as u32;
    SignalTarget { thread, signal: (libc::SIGRTMIN() + 6) as u32, vector: 0 }
}

fn allocates(round: u64) -> u64 {
    let lists: Vec<Vec<u64>> = (0..20).map(|i| vec![round % 1000; 1 + i * 37 % 900]).collect();
    lists.iter().map(|list| list[list.len() / 2]).sum::<u64>() / 20
}

fn switches(round: u64) -> u64 {
    for _ in 0..20 {
        marcel::yield_now();
    }
    round % 1000
}

fn calls_the_kernel(round: u64) -> u64 {
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    let value = (round % 1000).to_ne_bytes();
    writer.write_all(&value).unwrap();
    let mut back = [0; 8];
    reader.read_exact(&mut back).unwrap();
    u64::from_ne_bytes(back)
}

fn waits(round: u64) -> u64 {
    let (mut near, mut far) = pioman::pipe::pipe().unwrap();
    let writer = marcel::spawn(move || far.write_all(&(round % 1000).to_ne_bytes()).unwrap());
    let mut back = [0; 8];
    near.read_exact(&mut back).unwrap();
    writer.join().unwrap();
    u64::from_ne_bytes(back)
}

fn spawns(round: u64) -> u64 {
    let threads: Vec<_> = (0..4).map(|_| marcel::spawn(move || round % 1000)).collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>() / 4
}

#[test]
fn signals_that_come_anywhere_are_harmless() {
    storm(20_000);
}

/// `cargo test --release -p pioman --test interrupts -- --ignored ten_million`
#[test]
#[ignore = "some minutes"]
fn ten_million_signals_that_come_anywhere_are_harmless() {
    storm(5_000_000); // in each of two modes
}
