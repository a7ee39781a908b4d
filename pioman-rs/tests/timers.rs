//! Timers in every mode: never early, never forgotten, whoever looks for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use marcel::Mode;
use pioman::time::{Interval, Timer, timeout};
use pioman::{Completion, Hint, Manager, Point, Points, Runtime};

const MS: Duration = Duration::from_millis(1);

fn runtimes() -> impl Iterator<Item = Runtime> {
    let modes = [Mode::NoThread, Mode::Mono, Mode::Smp];
    let spins = [Some(Duration::ZERO), Some(MS)];
    modes.into_iter().flat_map(move |mode| {
        spins.map(|spin| {
            let manager = Manager::builder().mode(mode).points(Points::ALL).spin(spin);
            Runtime::build(manager, marcel::Runtime::builder().vps(2)).unwrap()
        })
    })
}

#[test]
fn a_wait_ends_at_the_deadline_and_not_before() {
    for runtime in runtimes() {
        runtime.run(|| {
            for us in [0, 10, 200, 3000, 20_000] {
                let deadline = Instant::now() + Duration::from_micros(us);
                let timer = Timer::at(deadline).unwrap();
                timer.wait();
                assert!(Instant::now() >= deadline && timer.is_done());
                assert_eq!(timer.deadline(), deadline);
            }
            // Over before it was made.
            Timer::at(Instant::now() - MS.min(MS)).unwrap().wait();
        });
    }
}

/// Hundreds of timers in any order, green and kernel threads, taken back and moved.
#[test]
fn many_timers_end_each_at_its_time() {
    for runtime in runtimes() {
        let early = Arc::new(AtomicUsize::new(0));
        let ended = Arc::new(AtomicUsize::new(0));
        let one = |i: u64| {
            let (early, ended, manager) = (early.clone(), ended.clone(), runtime.manager().clone());
            move || {
                let at =
                    |step: u64| Instant::now() + Duration::from_micros(i * 7919 % 20_000 + step);
                let mut timer = Timer::with(&manager, at(0)).unwrap();
                match i % 4 {
                    0 => timer.reset(at(500)),
                    1 => {
                        if timer.cancel() {
                            assert!(!timer.is_done());
                        } else {
                            assert!(timer.is_done());
                        }
                        timer.reset(at(5000));
                        drop(Timer::with(&manager, at(10)).unwrap());
                    }
                    _ => {}
                }
                timer.wait();
                if Instant::now() < timer.deadline() {
                    early.fetch_add(1, SeqCst);
                }
                ended.fetch_add(1, SeqCst);
            }
        };
        let kernel: Vec<_> = (0..20).map(|i| std::thread::spawn(one(i))).collect();
        if runtime.manager().mode() == Mode::NoThread {
            (20..60).for_each(|i| one(i)());
        } else {
            let jobs: Vec<_> = (20..400).map(one).collect();
            runtime.run(|| {
                let green: Vec<_> = jobs.into_iter().map(marcel::spawn).collect();
                green.into_iter().for_each(|t| t.join().unwrap());
            });
        }
        kernel.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(early.load(SeqCst), 0);
        assert!([60, 400].contains(&ended.load(SeqCst)));
    }
}

/// An earlier deadline that is set while somebody sleeps until a later one, which is very late.
#[test]
fn an_earlier_timer_overtakes_one_that_is_slept_for() {
    for runtime in runtimes() {
        let manager = runtime.manager().clone();
        let far = Instant::now() + Duration::from_secs(24 * 3600);
        let far = Arc::new(Timer::with(&manager, far).unwrap());
        let late = {
            let far = far.clone();
            std::thread::spawn(move || far.wait())
        };
        for i in 0..20 {
            std::thread::sleep(MS * (i % 5));
            Timer::with(&manager, Instant::now() + MS * (i % 3)).unwrap().wait();
        }
        far.completion().complete();
        late.join().unwrap();
    }
}

#[test]
fn an_interval_keeps_its_grid() {
    for runtime in runtimes() {
        runtime.run(|| {
            let start = Instant::now();
            let mut interval = Interval::new(2 * MS).unwrap();
            let first = interval.deadline();
            let mut ended = 0;
            for i in 0..10 {
                if i == 5 {
                    std::thread::sleep(9 * MS);
                }
                ended += interval.tick();
            }
            // Whatever the machine did: every period that has ended was counted, and none that has not.
            assert!(ended >= 13 && start.elapsed() >= ended as u32 * 2 * MS, "{ended}");
            assert_eq!(interval.deadline(), first + ended as u32 * 2 * MS);
            assert!(Interval::new(Duration::ZERO).is_err());
        });
    }
}

#[test]
fn a_time_out_and_an_event_complete_one_thing() {
    for runtime in runtimes() {
        let manager = runtime.manager().clone();
        runtime.run(|| {
            let (mut late, mut in_time) = (0, 0);
            for i in 0..200u64 {
                let completion = Arc::new(Completion::new());
                let limit = timeout(Duration::from_micros(150), completion.clone()).unwrap();
                let event = (i % 3 != 0).then(|| {
                    let completion = completion.clone();
                    std::thread::spawn(move || {
                        std::thread::sleep(Duration::from_micros(i % 120));
                        completion.complete();
                    })
                });
                manager.wait(&completion, Hint::Short);
                match limit.is_over() {
                    true => late += 1,
                    false => in_time += 1,
                }
                event.into_iter().for_each(|e| e.join().unwrap());
            }
            assert_eq!(late + in_time, 200);
            assert!(late >= 67, "those without an event: {late}");
        });
    }
}

/// It is called by whoever looks at the timers, who holds nothing that they need.
#[test]
fn a_callback_may_make_the_next_timer_and_drop_another() {
    for runtime in runtimes() {
        let manager = runtime.manager().clone();
        runtime.run(|| {
            let (done, second) = (Arc::new(Completion::new()), Arc::new(Completion::new()));
            let far = Instant::now() + Duration::from_secs(3600);
            let other = Timer::with(&manager, far).unwrap();
            let (next, its) = (second.clone(), manager.clone());
            let _callback = done.on_complete(move || {
                drop(other);
                assert!(Timer::with(&its, far).unwrap().cancel());
                next.complete();
            });
            let _limit = timeout(MS, done.clone()).unwrap();
            manager.wait(&done, Hint::Short);
            manager.wait(&second, Hint::Short);
        });
    }
}

/// Timers pend in threads that are unwound, and in others that are not.
#[test]
fn a_runtime_that_stops_takes_its_timers_back() {
    for _ in 0..20 {
        let runtime =
            Runtime::build(Manager::builder().mode(Mode::Smp), marcel::Runtime::builder().vps(2))
                .unwrap();
        let begun = Arc::new(AtomicUsize::new(0));
        for _ in 0..20 {
            let begun = begun.clone();
            let _detached = runtime.threads().spawn(move || {
                let timer = Timer::after(Duration::from_secs(3600)).unwrap();
                begun.fetch_add(1, SeqCst);
                timer.wait();
                unreachable!("an hour has passed");
            });
        }
        while begun.load(SeqCst) < 20 {
            std::thread::yield_now();
        }
        let manager = runtime.manager().clone();
        drop(runtime);
        // The manager is as good as before.
        Timer::with(&manager, Instant::now() + MS).unwrap().wait();
    }
}

/// A timer of an hour does not keep a processor busy.
#[test]
fn a_far_deadline_costs_nothing() {
    let runtime = Runtime::new().unwrap();
    let cpu = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a writable timespec.
        unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    if std::env::var("PIOMAN_TIMERS_ALONE").is_err() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_far_deadline_costs_nothing"])
            .env("PIOMAN_TIMERS_ALONE", "1")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    runtime.run(|| {
        let _far = Timer::after(Duration::from_secs(3600)).unwrap();
        // A process's first wait reads its debug information (`MARCEL_CHECK`): 0.1 s with a sanitizer.
        Timer::after(MS).unwrap().wait();
        let before = cpu();
        Timer::after(300 * MS).unwrap().wait();
        let used = cpu() - before;
        assert!(used < 100 * MS, "{used:?} of 300 ms");
    });
}

/// The times of detection count from the deadline, not from the poll before.
#[test]
fn how_late_a_timer_is_found_is_known_exactly() {
    let manager = Manager::builder().mode(Mode::NoThread).times(true);
    let runtime = Runtime::build(manager, marcel::Runtime::builder()).unwrap();
    runtime.run(|| {
        let manager = pioman::current().unwrap();
        let deadline = Instant::now() + 300 * MS;
        let timer = Timer::at(deadline).unwrap();
        manager.poll(Point::Library); // in vain
        std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
        manager.poll(Point::Library);
        let late = deadline.elapsed();
        assert!(timer.is_done());
        let found =
            manager.counters().source("timer").unwrap().detect[Point::Library as usize].clone();
        assert_eq!(found.count(), 1);
        // The limit of a histogram's bucket is twice as much at the most. Since the poll before: 300 ms.
        assert!(found.within(1.0).unwrap() <= 2 * late.max(MS), "{found}, and late by {late:?}");
    });
}

/// Where ticks look for events, the watcher does once there are no virtual processors any more.
#[test]
fn a_timer_ends_after_the_runtime_of_its_manager() {
    let policy = pioman::policy::by_name("timer-only").unwrap();
    let manager = Manager::builder().mode(Mode::Smp).policy(policy);
    let runtime = Runtime::build(manager, marcel::Runtime::builder().vps(2)).unwrap();
    let manager = runtime.manager().clone();
    let (tx, rx) = std::sync::mpsc::channel();
    let timer = |ms| Timer::with(&manager, Instant::now() + ms * MS).unwrap();
    let tell = |ms: u32| {
        let tx = tx.clone();
        move || tx.send(ms).unwrap()
    };
    // One begins before the end of the runtime.
    let before = timer(300);
    let _told = before.completion().on_complete(tell(300));
    runtime.run(|| ());
    drop(runtime);
    let after = timer(20);
    let _told = after.completion().on_complete(tell(20));
    let mut ended = [(); 2].map(|()| rx.recv_timeout(Duration::from_secs(30)).unwrap());
    ended.sort_unstable();
    assert_eq!(ended, [20, 300]);
}
