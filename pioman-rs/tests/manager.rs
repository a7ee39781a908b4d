//! The manager with a real source (an eventfd that a kernel thread writes), in every mode and from every kind
//! of thread.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use common::Mailbox;
use marcel::{Mode, Runtime};
use pioman::{
    Completion, Cond, Hint, Manager, Point, Points, Progress, SourceRemoved, TaskBuilder,
};

fn modes() -> [Mode; 3] {
    [Mode::NoThread, Mode::Mono, Mode::Smp]
}

fn spins() -> [Option<Duration>; 3] {
    [Some(Duration::ZERO), Some(Duration::from_micros(50)), Some(Duration::from_millis(20))]
}

/// Delivers `n` events, a moment apart, from a kernel thread.
fn deliver_slowly(mailbox: &Arc<Mailbox>, n: usize) -> std::thread::JoinHandle<()> {
    let mailbox = mailbox.clone();
    std::thread::spawn(move || {
        for i in 0..n {
            if i % 3 == 0 {
                std::thread::sleep(Duration::from_micros(300));
            }
            mailbox.deliver();
        }
    })
}

#[test]
fn waits_end_in_every_mode_with_every_spin_time() {
    for (mode, spin) in modes().into_iter().flat_map(|m| spins().map(|s| (m, s))) {
        let manager = Manager::builder().mode(mode).points(Points::ALL).spin(spin).build().unwrap();
        let runtime = Runtime::builder().mode(mode).hooks(manager.clone()).build().unwrap();
        let mailbox = Mailbox::new(100);
        let source = manager.add_source(mailbox.clone()).unwrap();
        runtime.run(|| {
            let sender = deliver_slowly(&mailbox, 100);
            for request in &mailbox.requests {
                mailbox.submitted.fetch_add(1, SeqCst);
                manager.wait(request, Hint::Short);
            }
            sender.join().unwrap();
        });
        drop(source);
    }
}

/// Green and kernel threads, several on one request; one request is over before.
#[test]
fn who_waits_for_a_removed_source_is_told() {
    for mode in modes() {
        let manager = Manager::builder().mode(mode).build().unwrap();
        let runtime = Runtime::builder().mode(mode).hooks(manager.clone()).build().unwrap();
        let mailbox = Mailbox::new(2);
        let source = manager.add_source(mailbox.clone()).unwrap();
        mailbox.submitted.store(2, SeqCst);
        mailbox.deliver();
        let wait = |request: usize| {
            let (manager, mailbox, removed) = (manager.clone(), mailbox.clone(), source.removed());
            move || manager.wait_unless_removed(&mailbox.requests[request], &removed)
        };
        let kernel: Vec<_> = [0, 1, 1].map(|i| std::thread::spawn(wait(i))).into();
        let green: Vec<_> = match mode {
            Mode::NoThread => Vec::new(),
            _ => [0, 1, 1].map(|i| runtime.spawn(wait(i))).into(),
        };
        while !mailbox.requests[0].is_done() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(5));
        let removed = source.removed();
        assert!(!removed.is_removed());
        drop(source);
        assert!(removed.is_removed());
        let ended = kernel.into_iter().map(|thread| thread.join().unwrap());
        let ended = ended.chain(green.into_iter().map(|thread| thread.join().unwrap()));
        let ended: Vec<_> = ended.collect();
        for three in ended.chunks(3) {
            assert_eq!(three, [Ok(()), Err(SourceRemoved), Err(SourceRemoved)], "{mode}");
        }
        assert_eq!(manager.wait_unless_removed(&mailbox.requests[1], &removed), Err(SourceRemoved));
        assert_eq!(manager.wait_unless_removed(&mailbox.requests[0], &removed), Ok(()));
    }
}

#[test]
fn many_green_and_kernel_threads_wait_at_once() {
    for (mode, spin) in modes().into_iter().flat_map(|m| spins().map(|s| (m, s))) {
        let manager = Manager::builder().mode(mode).points(Points::ALL).spin(spin).build().unwrap();
        let runtime = Runtime::builder().mode(mode).hooks(manager.clone()).build().unwrap();
        let mailbox = Mailbox::new(60);
        let _source = manager.add_source(mailbox.clone()).unwrap();
        mailbox.submitted.store(60, SeqCst);
        let waiter = |i: usize| {
            let (mailbox, manager) = (mailbox.clone(), manager.clone());
            move || {
                for request in mailbox.requests.iter().skip(i).step_by(6) {
                    manager.wait(request, Hint::Long);
                }
            }
        };
        let kernel: Vec<_> = (0..3).map(|i| std::thread::spawn(waiter(i))).collect();
        let sender = deliver_slowly(&mailbox, 60);
        if mode == Mode::NoThread {
            (3..6).for_each(|i| waiter(i)());
        } else {
            let waiters: Vec<_> = (3..6).map(waiter).collect();
            runtime.run(|| {
                let green: Vec<_> = waiters.into_iter().map(marcel::spawn).collect();
                green.into_iter().for_each(|t| t.join().unwrap());
            });
        }
        kernel.into_iter().for_each(|t| t.join().unwrap());
        sender.join().unwrap();
    }
}

#[test]
fn compute_threads_wait_whatever_points_are_on() {
    let only = |idle, block| Points { idle, block, ..Points::NONE };
    for points in [Points::NONE, only(true, false), only(false, true), Points::ALL] {
        for vps in [1, 2] {
            let manager = Manager::builder().mode(Mode::Smp).points(points).build().unwrap();
            let hooks = manager.clone();
            let runtime = Runtime::builder().mode(Mode::Smp).vps(vps).hooks(hooks).build().unwrap();
            let mailbox = Mailbox::new(80);
            let _source = manager.add_source(mailbox.clone()).unwrap();
            mailbox.submitted.store(80, SeqCst);
            let sender = deliver_slowly(&mailbox, 80);
            runtime.run(|| {
                let waiters: Vec<_> = (0..4)
                    .map(|i| {
                        let (mailbox, manager) = (mailbox.clone(), manager.clone());
                        marcel::spawn(move || {
                            for request in mailbox.requests.iter().skip(i).step_by(4) {
                                manager.wait(request, Hint::Short);
                            }
                        })
                    })
                    .collect();
                waiters.into_iter().for_each(|t| t.join().unwrap());
            });
            sender.join().unwrap();
        }
    }
}

/// The only virtual processor for computing threads sits in a call until a thread on its standby has seen all its
/// requests complete. Another one there delivers them, when a kernel thread wakes it.
#[test]
fn threads_on_a_standby_are_woken_by_requests_and_by_others() {
    const N: usize = 30;
    let no_spare = Points { block: false, ..Points::ALL };
    let setups = [(Mode::Mono, Points::ALL), (Mode::Smp, Points::ALL), (Mode::Smp, no_spare)];
    for ((mode, points), spin) in setups.into_iter().flat_map(|s| spins().map(|spin| (s, spin))) {
        let manager = Manager::builder().mode(mode).points(points).spin(spin).build().unwrap();
        let runtime = Runtime::builder().mode(mode).vps(1).hooks(manager.clone()).build().unwrap();
        let mailbox = Mailbox::new(N);
        let source = manager.add_source(mailbox.clone()).unwrap();
        let turn = Arc::new(marcel::sync::Semaphore::new(0));
        let waker = {
            let turn = turn.clone();
            std::thread::spawn(move || {
                for _ in 0..N {
                    std::thread::sleep(Duration::from_micros(300));
                    turn.release();
                }
            })
        };
        let (theirs, to, from) = (manager.clone(), mailbox.clone(), mailbox.clone());
        runtime
            .spawn(move || {
                let (mut reader, writer) = std::io::pipe().unwrap();
                let waiting = marcel::spawn(move || {
                    for request in &from.requests {
                        from.submitted.fetch_add(1, SeqCst);
                        theirs.wait(request, Hint::Short);
                    }
                    drop(writer);
                });
                let delivering = marcel::spawn(move || {
                    for _ in 0..N {
                        turn.acquire().forget();
                        to.deliver();
                    }
                });
                marcel::blocking::standby(|| std::io::Read::read(&mut reader, &mut [0]).unwrap());
                waiting.join().unwrap();
                delivering.join().unwrap();
            })
            .join()
            .unwrap();
        waker.join().unwrap();
        drop(source);
    }
}

#[test]
fn a_timed_wait_gives_up_and_can_be_repeated() {
    for mode in modes() {
        let manager = Manager::builder().mode(mode).build().unwrap();
        let runtime = Runtime::builder().mode(mode).hooks(manager.clone()).build().unwrap();
        let mailbox = Mailbox::new(1);
        let _source = manager.add_source(mailbox.clone()).unwrap();
        mailbox.submitted.store(1, SeqCst);
        runtime.run(|| {
            let soon = Instant::now() + Duration::from_millis(20);
            assert!(!manager.wait_until(&mailbox.requests[0], Hint::Short, soon));
            assert!(Instant::now() >= soon);
            mailbox.deliver();
            manager.wait(&mailbox.requests[0], Hint::Short);
        });
    }
}

/// CPU time of the process so far.
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
fn a_long_kernel_wait_burns_no_cpu() {
    let policy = pioman::policy::by_name("load-aware").unwrap();
    let manager = Manager::builder().mode(Mode::NoThread).policy(policy).build().unwrap();
    let mailbox = Mailbox::new(1);
    let _source = manager.add_source(mailbox.clone()).unwrap();
    mailbox.submitted.store(1, SeqCst);
    let late = mailbox.clone();
    let sender = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        late.deliver();
    });
    let before = cpu_time();
    manager.wait(&mailbox.requests[0], Hint::Short);
    // The spin is 50 µs; a tenth of the time waited would be a bug.
    assert!(cpu_time() - before < Duration::from_millis(50));
    sender.join().unwrap();
}

/// Computes, without a call into anything, until `stop`.
fn compute_until(stop: &AtomicBool) {
    while !stop.load(SeqCst) {
        std::hint::spin_loop();
    }
}

/// Whether a request completes within `limit` while every virtual processor computes and nobody waits for it.
fn completes_within(limit: Duration, mode: Mode, points: Points) -> bool {
    let policy = pioman::policy::by_name("load-aware").unwrap();
    let manager = Manager::builder().mode(mode).points(points).policy(policy).build().unwrap();
    let runtime = Runtime::builder().mode(mode).vps(1).hooks(manager.clone()).build().unwrap();
    let mailbox = Mailbox::new(1);
    let _source = manager.add_source(mailbox.clone()).unwrap();
    runtime.run(|| {
        mailbox.submitted.store(1, SeqCst);
        manager.ensure_watched();
        mailbox.deliver();
        let start = Instant::now();
        while !mailbox.requests[0].is_done() && start.elapsed() < limit {
            std::hint::spin_loop();
        }
        mailbox.requests[0].is_done()
    })
}

/// For what comes within milliseconds, on a machine that has other things to do.
const LONG: Duration = Duration::from_secs(20);
/// For what never comes.
const SHORT: Duration = Duration::from_millis(500);

#[test]
fn a_request_completes_while_its_owner_computes() {
    assert!(completes_within(LONG, Mode::Smp, Points::ALL), "spare kernel thread");
    assert!(completes_within(LONG, Mode::Mono, Points::ALL), "tick");
    let tick_only = Points { tick: true, ..Points::NONE };
    assert!(completes_within(LONG, Mode::Smp, tick_only), "tick alone, smp");
}

#[test]
fn without_progression_nothing_moves_outside_calls() {
    for mode in [Mode::Mono, Mode::Smp] {
        assert!(!completes_within(SHORT, mode, Points::NONE), "{mode}");
    }
    let no_tick = Points { tick: false, ..Points::ALL };
    assert!(!completes_within(SHORT, Mode::Mono, no_tick));
}

#[test]
fn a_waiter_is_woken_although_every_compute_vp_computes() {
    let manager = Manager::builder().mode(Mode::Smp).build().unwrap();
    let runtime = Runtime::builder().mode(Mode::Smp).vps(2).hooks(manager.clone()).build().unwrap();
    let mailbox = Mailbox::new(50);
    let _source = manager.add_source(mailbox.clone()).unwrap();
    runtime.run(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let computing: Vec<_> = (0..4)
            .map(|_| {
                let stop = stop.clone();
                marcel::spawn(move || compute_until(&stop))
            })
            .collect();
        while !manager.is_loaded() {
            marcel::sleep(Duration::from_millis(1));
        }
        let sender = deliver_slowly(&mailbox, 50);
        for request in &mailbox.requests {
            mailbox.submitted.fetch_add(1, SeqCst);
            manager.wait(request, Hint::Short);
        }
        sender.join().unwrap();
        stop.store(true, SeqCst);
        computing.into_iter().for_each(|t| t.join().unwrap());
    });
}

#[test]
fn idle_cores_are_those_that_run_no_thread() {
    let lone = Manager::builder().mode(Mode::NoThread).build().unwrap();
    assert_eq!(lone.idle_cores(), 0);
    let manager = Manager::builder().mode(Mode::Smp).build().unwrap();
    let runtime = Runtime::builder().mode(Mode::Smp).vps(3).hooks(manager.clone()).build().unwrap();
    let until = |holds: &dyn Fn(usize) -> bool| {
        while !holds(manager.idle_cores()) {
            marcel::sleep(Duration::from_millis(1));
        }
    };
    runtime.run(|| {
        until(&|idle| idle >= 2);
        let stop = Arc::new(AtomicBool::new(false));
        // More than there are virtual processors.
        let computing: Vec<_> = (0..4)
            .map(|_| {
                let stop = stop.clone();
                marcel::spawn(move || compute_until(&stop))
            })
            .collect();
        until(&|idle| idle == 0);
        stop.store(true, SeqCst);
        computing.into_iter().for_each(|t| t.join().unwrap());
        until(&|idle| idle >= 2);
    });
}

#[test]
fn light_tasks_run_once_or_until_they_are_done() {
    for mode in modes() {
        let manager = Manager::builder().mode(mode).build().unwrap();
        let runtime = Runtime::builder().mode(mode).hooks(manager.clone()).build().unwrap();
        runtime.run(|| {
            let runs: Arc<Vec<AtomicUsize>> =
                Arc::new((0..20).map(|_| AtomicUsize::new(0)).collect());
            let tasks: Vec<_> = (0..20)
                .map(|i| {
                    let runs = runs.clone();
                    let inside = AtomicBool::new(false);
                    TaskBuilder::new()
                        .submit(&manager, move || {
                            assert!(!inside.swap(true, SeqCst), "run twice at once");
                            let n = runs[i].fetch_add(1, SeqCst) + 1;
                            inside.store(false, SeqCst);
                            if n > i { Progress::Done } else { Progress::Again }
                        })
                        .unwrap()
                })
                .collect();
            for (i, task) in tasks.into_iter().enumerate() {
                task.wait().unwrap();
                assert_eq!(runs[i].load(SeqCst), i + 1, "{mode}");
            }
        });
    }
}

/// A kernel thread that waits without polling is the only one that can run them. (It ran each once, then slept for
/// ever.)
#[test]
fn tasks_go_on_while_a_lone_kernel_thread_sleeps() {
    let manager =
        Manager::builder().mode(Mode::NoThread).spin(Some(Duration::ZERO)).build().unwrap();
    let left = AtomicUsize::new(5);
    let task = TaskBuilder::new()
        .submit(&manager, move || match left.fetch_sub(1, SeqCst) {
            1 => Progress::Done,
            _ => Progress::Again,
        })
        .unwrap();
    task.wait().unwrap();
}

#[test]
fn a_cancelled_task_is_not_called_any_more() {
    let manager = Manager::builder().mode(Mode::Smp).build().unwrap();
    let runtime = Runtime::builder().mode(Mode::Smp).hooks(manager.clone()).build().unwrap();
    runtime.run(|| {
        for _ in 0..200 {
            let alive = Arc::new(AtomicBool::new(true));
            let seen = alive.clone();
            let task = TaskBuilder::new()
                .submit(&manager, move || {
                    assert!(seen.load(SeqCst));
                    Progress::Again
                })
                .unwrap();
            drop(task);
            alive.store(false, SeqCst);
        }
    });
}

#[test]
fn a_task_that_can_block_is_exported_when_every_vp_computes() {
    let manager = Manager::builder().mode(Mode::Smp).build().unwrap();
    let runtime = Runtime::builder().mode(Mode::Smp).vps(1).hooks(manager.clone()).build().unwrap();
    runtime.run(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let computing = marcel::spawn(move || compute_until(&seen));
        while !manager.is_loaded() {
            marcel::sleep(Duration::from_millis(1));
        }
        let before = manager.hits(Point::Block);
        let blocked = Arc::new(AtomicBool::new(false));
        let mark = blocked.clone();
        let task = TaskBuilder::new()
            .blocking(move || mark.store(true, SeqCst))
            .submit(&manager, || Progress::Again)
            .unwrap();
        task.wait().unwrap();
        assert!(blocked.load(SeqCst));
        assert!(manager.hits(Point::Block) > before);
        stop.store(true, SeqCst);
        computing.join().unwrap();
    });
}

#[test]
fn a_condition_wakes_all_its_waiters_and_only_them() {
    for mode in [Mode::Mono, Mode::Smp] {
        let manager = Manager::builder().mode(mode).build().unwrap();
        let runtime = Runtime::builder().mode(mode).hooks(manager.clone()).build().unwrap();
        runtime.run(|| {
            let cond = Arc::new(Cond::new());
            let woken = Arc::new(AtomicUsize::new(0));
            let waiters: Vec<_> = (0..10)
                .map(|i| {
                    let (cond, woken, manager) = (cond.clone(), woken.clone(), manager.clone());
                    marcel::spawn(move || {
                        cond.wait(&manager, 1 << (i % 2));
                        woken.fetch_add(1, SeqCst);
                    })
                })
                .collect();
            marcel::sleep(Duration::from_millis(5));
            cond.signal(1);
            while woken.load(SeqCst) < 5 {
                marcel::yield_now();
            }
            marcel::sleep(Duration::from_millis(5));
            assert_eq!(woken.load(SeqCst), 5);
            let soon = Instant::now() + Duration::from_millis(5);
            assert!(!cond.wait_until(&manager, 4, soon));
            cond.signal(2);
            waiters.into_iter().for_each(|t| t.join().unwrap());
            assert!(cond.test(2) && !cond.test(4));
        });
    }
}

#[test]
fn a_runtime_that_stops_takes_its_waiters_off_a_condition() {
    let manager = Manager::builder().mode(Mode::Mono).build().unwrap();
    let cond = Arc::new(Cond::new());
    let hooks = manager.clone();
    let runtime = Runtime::builder().mode(Mode::Mono).hooks(hooks).build().unwrap();
    let handles: Vec<_> = (0..5)
        .map(|i| {
            let (cond, manager) = (cond.clone(), manager.clone());
            runtime.spawn(move || cond.wait(&manager, 1 << i))
        })
        .collect();
    std::thread::sleep(Duration::from_millis(50));
    drop(runtime); // unwinds all five, stacks and all
    cond.signal(0b11111); // would walk through them
    assert!(handles.into_iter().all(|handle| handle.join().is_err()));
}

/// A kernel thread waits with one manager, and ends; the next one has its control block, and with it the descriptor
/// by which it is woken, and waits with another manager, while somebody sleeps in the first one's watch. That one
/// must not empty the descriptor in the other's place (it did, and the wake-up was lost).
#[test]
fn a_thread_s_successor_is_woken_with_another_manager() {
    const ROUNDS: usize = 200;
    let sides = [(); 2].map(|()| {
        let manager = Manager::builder().mode(Mode::NoThread).spin(Some(Duration::ZERO));
        (manager.build().unwrap(), Mailbox::new(2 * ROUNDS))
    });
    let add = |(manager, mailbox): &(Arc<Manager>, Arc<Mailbox>)| {
        manager.add_source(mailbox.clone()).unwrap()
    };
    let _sources = [add(&sides[0]), add(&sides[1])];
    // By hand, so not found by the poll of a source: who waits is woken by its own descriptor.
    let complete = |side: usize, request: usize| {
        sides[side].1.done.fetch_add(1, SeqCst);
        sides[side].1.requests[request].complete();
    };
    // Threads of their own, not scoped: one that is not woken must not keep the test from failing.
    let waiting = |side: usize, request: usize, go: Option<std::sync::mpsc::Receiver<()>>| {
        let (manager, mailbox) = sides[side].clone();
        std::thread::spawn(move || {
            if let Some(go) = go {
                let _block_of_its_own = marcel::current();
                go.recv().unwrap();
            }
            mailbox.submitted.fetch_add(1, SeqCst);
            manager.wait(&mailbox.requests[request], Hint::Long);
        })
    };
    let moment = || std::thread::sleep(Duration::from_millis(1));
    for round in 0..ROUNDS {
        let (go, later) = std::sync::mpsc::channel();
        let sleeper = waiting(0, 2 * round + 1, Some(later));
        moment();
        let first = waiting(0, 2 * round, None);
        moment();
        complete(0, 2 * round);
        first.join().unwrap();
        go.send(()).unwrap();
        moment();
        let successor = waiting(1, round, None);
        moment();
        complete(1, round);
        let limit = Instant::now() + Duration::from_secs(30);
        while !successor.is_finished() {
            assert!(Instant::now() < limit, "round {round}: not woken");
            std::thread::yield_now();
        }
        complete(0, 2 * round + 1);
        sleeper.join().unwrap();
    }
}

/// Who offers something again and again, and waits in between, finds somebody awake for it on another core, at last.
#[test]
fn what_is_offered_often_is_taken() {
    if marcel::topology::allowed_cpus().len() < 2 {
        return; // there is no other core
    }
    let manager = Manager::builder().mode(Mode::Smp).points(Points::ALL).build().unwrap();
    let runtime = Runtime::builder().mode(Mode::Smp).vps(2).hooks(manager.clone()).build().unwrap();
    let mailbox = Mailbox::new(1000);
    let source = manager.add_source(mailbox.clone()).unwrap();
    runtime.run(|| {
        let never = Completion::new();
        // A machine under load wakes it too late, most times.
        let deadline = Instant::now() + Duration::from_secs(600);
        let (mut taken, mut missed) = (0, 0);
        while taken < 100 && Instant::now() < deadline {
            if manager.offer() {
                let request = taken;
                mailbox.submitted.fetch_add(1, SeqCst);
                mailbox.deliver();
                manager.ensure_watched();
                // Computes, and does not look by itself.
                while !mailbox.requests[request].is_done() && Instant::now() < deadline {
                    std::hint::spin_loop();
                }
                assert!(mailbox.requests[request].is_done(), "request {request} was left lying");
                taken += 1;
            } else {
                missed += 1;
            }
            manager.wait_until(&never, Hint::Short, Instant::now() + Duration::from_micros(20));
        }
        assert_eq!(taken, 100, "{missed} were missed");
    });
    drop(source);
}

/// In a process that offers nothing any more nobody stays awake.
#[test]
fn who_is_on_call_sleeps_when_nothing_is_offered_any_more() {
    let manager = Manager::builder().mode(Mode::Smp).points(Points::ALL).build().unwrap();
    let runtime = Runtime::builder().mode(Mode::Smp).vps(2).hooks(manager.clone()).build().unwrap();
    let source = manager.add_source(Mailbox::new(1)).unwrap();
    runtime.run(|| {
        let never = Completion::new();
        for _ in 0..100 {
            manager.offer();
            manager.wait_until(&never, Hint::Short, Instant::now() + Duration::from_micros(20));
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        marcel::sleep(Duration::from_millis(50));
        while manager.offer() {
            assert!(Instant::now() < deadline, "it still looks, 50 ms after the last offer");
            marcel::sleep(Duration::from_millis(50));
        }
    });
    drop(source);
}
