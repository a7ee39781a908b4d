//! Light tasks and tasklets: what is promised of them, in every mode and from every kind of thread.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use marcel::{Mode, Priority};
use pioman::{
    Completion, Hint, Manager, Point, Points, Polling, Progress, Runtime, Task, TaskBuilder,
    TaskError, Tasklet, TaskletBuilder, TaskletType,
};

#[path = "../../marcel-rs/tests/common/mod.rs"]
mod common;
use common::in_a_child;

const MODES: [Mode; 3] = [Mode::NoThread, Mode::Mono, Mode::Smp];
/// After so long something is lost.
const LIMIT: Duration = Duration::from_secs(60);

fn runtime(mode: Mode) -> Runtime {
    Runtime::build(Manager::builder().mode(mode), marcel::Runtime::builder()).unwrap()
}

fn smp(vps: usize) -> Runtime {
    let threads = marcel::Runtime::builder().vps(vps);
    Runtime::build(Manager::builder().mode(Mode::Smp), threads).unwrap()
}

fn until(what: &str, done: impl Fn() -> bool) {
    let limit = Instant::now() + LIMIT;
    while !done() {
        assert!(Instant::now() < limit, "never: {what}");
        marcel::sleep(Duration::from_micros(200));
    }
}

/// Every submission has come to one end.
fn balanced(manager: &Manager) -> bool {
    manager.tasks().outstanding() == 0
}

/// The core that the kernel has given to the calling thread.
fn real_core() -> usize {
    // SAFETY: no arguments.
    unsafe { libc::sched_getcpu() as usize }
}

/// Threads that compute on every compute virtual processor until this is dropped.
struct Busy(Arc<AtomicBool>, Vec<marcel::JoinHandle<()>>);

impl Busy {
    fn all(runtime: &Runtime, vps: usize) -> Busy {
        let stop = Arc::new(AtomicBool::new(false));
        let compute = |_| {
            let stop = stop.clone();
            runtime.threads().spawn(move || {
                marcel::spawn(move || {
                    while !stop.load(SeqCst) {
                        std::hint::spin_loop();
                    }
                })
            })
        };
        let starters: Vec<_> = (0..vps).map(compute).collect();
        let threads = starters.into_iter().map(|starter| starter.join().unwrap()).collect();
        until("every virtual processor computes", || runtime.manager().is_loaded());
        Busy(stop, threads)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
        self.1.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn many_threads_wait_for_one_task_and_learn_the_same() {
    for mode in MODES {
        let runtime = runtime(mode);
        let manager = runtime.manager();
        let (go, runs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (seen, count) = (go.clone(), runs.clone());
        let task = TaskBuilder::new().name("awaited").submit(manager, move || {
            count.fetch_add(1, SeqCst);
            if seen.load(SeqCst) { Progress::Done } else { Progress::Waiting }
        });
        let task = Arc::new(task.unwrap());
        let soon = Instant::now() + Duration::from_millis(5);
        assert_eq!(runtime.run(|| task.wait_until(soon)), None);
        let wait = |task: &Arc<Task>| {
            let task = task.clone();
            move || task.wait()
        };
        let kernel: Vec<_> = (0..4).map(|_| std::thread::spawn(wait(&task))).collect();
        let waits: Vec<_> = (0..4).map(|_| wait(&task)).collect();
        let later = go.clone();
        let starter = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            later.store(true, SeqCst);
        });
        runtime.run(|| {
            if mode == Mode::NoThread {
                return waits.into_iter().for_each(|wait| assert_eq!(wait(), Ok(())));
            }
            let green: Vec<_> = waits.into_iter().map(marcel::spawn).collect();
            green.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), Ok(())));
        });
        kernel.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), Ok(())));
        starter.join().unwrap();
        assert!(task.is_done() && runs.load(SeqCst) > 0);
        assert!(!task.cancel(), "it has ended");
        assert_eq!(task.result(), Some(Ok(())));
    }
}

#[test]
fn a_task_that_panics_has_failed_and_the_others_go_on() {
    for mode in MODES {
        let runtime = runtime(mode);
        let manager = runtime.manager();
        let faults = pioman::faults();
        runtime.run(|| {
            let bad = |n: usize| {
                let name = format!("bad {n}");
                TaskBuilder::new().name(name).submit_once(manager, move || panic!("number {n}"))
            };
            let good = || TaskBuilder::new().submit_once(manager, || ());
            let tasks: Vec<_> = (0..20).map(|n| (bad(n).unwrap(), good().unwrap())).collect();
            for (n, (bad, good)) in tasks.into_iter().enumerate() {
                let (name, message) = (format!("bad {n}"), format!("number {n}"));
                assert_eq!(bad.wait(), Err(TaskError::Panicked { name, message }));
                assert_eq!(good.wait(), Ok(()));
            }
        });
        let counts = manager.tasks();
        assert_eq!((counts.submitted, counts.completed, counts.failed), (40, 20, 20));
        assert!(pioman::faults() >= faults + 20);
    }
}

/// It would hold up whoever runs it, so the wait panics, which is the task's failure.
#[test]
fn a_wait_inside_a_task_is_an_error_that_names_it() {
    for mode in MODES {
        let runtime = runtime(mode);
        let manager = runtime.manager();
        let waits = manager.clone();
        let on_completion = TaskBuilder::new()
            .name("eager")
            .submit_once(manager, move || waits.wait(&Completion::new(), Hint::Short))
            .unwrap();
        let other = Arc::new(TaskBuilder::new().masked().submit_once(manager, || ()).unwrap());
        let for_other = other.clone();
        let on_task = TaskBuilder::new()
            .name("impatient")
            .submit_once(manager, move || drop(for_other.wait()))
            .unwrap();
        runtime.run(|| {
            for (task, its_name) in [(on_completion, "eager"), (on_task, "impatient")] {
                match task.wait() {
                    Err(TaskError::Panicked { name, message }) => {
                        assert_eq!(name, its_name);
                        assert!(
                            message.contains(its_name) && message.contains("waits"),
                            "{message}"
                        );
                    }
                    wrong => panic!("{wrong:?}"),
                }
            }
            other.unmask();
            assert_eq!(other.wait(), Ok(()), "who waits outside does not mind");
        });
    }
}

#[test]
fn cancelled_or_completed_and_the_waiter_learns_which() {
    let runtime = smp(2);
    let manager = runtime.manager();
    let mut cancelled = 0;
    for round in 0..2000 {
        let runs = Arc::new(AtomicUsize::new(0));
        let ends = Arc::new(Mutex::new(Vec::new()));
        let (count, told) = (runs.clone(), ends.clone());
        let task = TaskBuilder::new()
            .name("raced")
            .on_end(move |result| told.lock().unwrap().push(result.clone()))
            .submit(manager, move || {
                count.fetch_add(1, SeqCst);
                Progress::Done
            })
            .unwrap();
        (0..round % 50).for_each(|_| std::hint::spin_loop());
        task.cancel();
        let result = task.wait();
        // A call that was under way has done the work: completed, although it was cancelled meanwhile.
        assert_eq!(result.is_ok(), runs.load(SeqCst) == 1);
        cancelled += result.is_err() as u64;
        assert_eq!(*ends.lock().unwrap(), [result]);
    }
    let counts = manager.tasks();
    assert_eq!((counts.submitted, counts.cancelled, counts.outstanding()), (2000, cancelled, 0));
}

#[test]
fn a_masked_task_is_not_called_and_misses_nothing() {
    for mode in MODES {
        let runtime = runtime(mode);
        let manager = runtime.manager();
        runtime.run(|| {
            let runs = Arc::new(AtomicUsize::new(0));
            let count = runs.clone();
            let task = TaskBuilder::new().submit(manager, move || {
                count.fetch_add(1, SeqCst);
                Progress::Again
            });
            let task = task.unwrap();
            let moment = || Instant::now() + Duration::from_millis(3);
            for _ in 0..10 {
                assert!(task.mask() && task.mask());
                let before = runs.load(SeqCst);
                assert_eq!(task.wait_until(moment()), None);
                assert_eq!(runs.load(SeqCst), before, "{mode}: masked");
                task.unmask();
                task.unmask();
                let limit = Instant::now() + LIMIT;
                while runs.load(SeqCst) == before {
                    assert!(Instant::now() < limit, "{mode}: unmasked, and never called");
                    assert_eq!(task.wait_until(moment()), None);
                }
            }
            assert!(task.mask() && task.cancel());
            assert_eq!(task.wait(), Err(TaskError::Cancelled { name: "unnamed".into() }));
        });
        assert!(balanced(manager));
    }
}

#[test]
fn tasks_may_submit_tasks_that_nobody_waits_for() {
    fn grow(manager: &Arc<Manager>, depth: usize, leaves: &Arc<AtomicUsize>) {
        let (theirs, count) = (Arc::downgrade(manager), leaves.clone());
        let task = TaskBuilder::new().submit_once(manager, move || {
            let Some(manager) = theirs.upgrade() else { return };
            match depth {
                0 => drop(count.fetch_add(1, SeqCst)),
                _ => (0..2).for_each(|_| grow(&manager, depth - 1, &count)),
            }
        });
        task.unwrap().detach();
    }
    for mode in [Mode::Mono, Mode::Smp] {
        let runtime = runtime(mode);
        let leaves = Arc::new(AtomicUsize::new(0));
        runtime.run(|| {
            grow(runtime.manager(), 8, &leaves);
            until("256 leaves", || leaves.load(SeqCst) == 256);
        });
        until("balance", || balanced(runtime.manager()));
        assert_eq!(runtime.manager().tasks().completed, 511);
    }
}

/// In its set, whether the virtual processors there have nothing to do, compute, or do not exist.
#[test]
fn a_bound_task_runs_on_its_core_whoever_runs_it() {
    let cores = marcel::topology::allowed_cpus();
    let runtime = smp(cores.len().min(2));
    let ran_on = |core: usize| {
        let task = TaskBuilder::new().cpu(core);
        let seen = Arc::new(AtomicUsize::new(usize::MAX));
        let mark = seen.clone();
        let task = task.submit_once(runtime.manager(), move || mark.store(real_core(), SeqCst));
        task.unwrap().wait().unwrap();
        seen.load(SeqCst)
    };
    for busy in [false, true] {
        let _busy = busy.then(|| Busy::all(&runtime, cores.len().min(2)));
        for &core in &cores {
            assert_eq!(ran_on(core), core, "busy: {busy}");
        }
    }
    let nowhere = TaskBuilder::new().cpu(1_000_000).submit_once(runtime.manager(), || ());
    assert!(nowhere.unwrap_err().to_string().contains("1000000"));
}

/// Without a watcher to run it on its core it runs elsewhere rather than never.
#[test]
fn a_task_for_a_core_without_a_virtual_processor_runs_in_every_mode() {
    for mode in MODES {
        let runtime = runtime(mode);
        runtime.run(|| {
            for core in marcel::topology::allowed_cpus() {
                let task = TaskBuilder::new().cpu(core).submit_once(runtime.manager(), || ());
                assert_eq!(task.unwrap().wait(), Ok(()), "{mode}, core {core}");
            }
        });
    }
}

#[test]
fn a_blocking_alternative_is_used_after_its_delay_on_an_idle_machine_too() {
    let runtime = smp(2);
    let manager = runtime.manager();
    let delay = Duration::from_millis(20);
    let start = Instant::now();
    let blocked = Arc::new(OnceLock::new());
    let mark = blocked.clone();
    let task = TaskBuilder::new()
        .blocking(move || mark.set(start.elapsed()).unwrap())
        .blocking_after(delay)
        .submit(manager, || Progress::Waiting)
        .unwrap();
    assert_eq!(task.wait(), Ok(()));
    assert!(*blocked.get().unwrap() >= delay);
    assert_eq!(manager.hits(Point::Block), 1);
    let busy = Busy::all(&runtime, 2);
    let task = TaskBuilder::new()
        .name("blocking")
        .blocking(|| panic!("in the kernel"))
        .submit(manager, || Progress::Waiting)
        .unwrap();
    assert!(
        matches!(task.wait(), Err(TaskError::Panicked { message, .. }) if message == "in the kernel")
    );
    drop(busy);
}

/// There are four spare kernel threads for them.
#[test]
fn a_blocking_alternative_without_a_spare_thread_is_polled() {
    let runtime = smp(1);
    let manager = runtime.manager();
    let busy = Busy::all(&runtime, 1);
    let stop = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (blocks, polls) = (stop.clone(), stop.clone());
            let asleep = move || {
                while !blocks.load(SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            };
            let poll = move || match polls.load(SeqCst) {
                true => Progress::Done,
                false => Progress::Waiting,
            };
            TaskBuilder::new().blocking(asleep).submit(manager, poll).unwrap()
        })
        .collect();
    let quick = TaskBuilder::new().blocking(|| ()).submit(manager, || Progress::Done).unwrap();
    assert_eq!(quick.wait(), Ok(()), "all spare threads sleep");
    stop.store(true, SeqCst);
    tasks.into_iter().for_each(|task| assert_eq!(task.wait(), Ok(())));
    drop(busy);
}

#[test]
fn a_manager_that_goes_cancels_what_is_left_and_leaks_nothing() {
    for mode in MODES {
        let held = Arc::new(());
        let ends = Arc::new(Mutex::new(Vec::new()));
        let (unblock, blocked) = std::sync::mpsc::channel::<()>();
        {
            let runtime = runtime(mode);
            let manager = runtime.manager();
            for n in 0..10 {
                let (captured, told) = (held.clone(), ends.clone());
                let task = TaskBuilder::new()
                    .on_end(move |result| told.lock().unwrap().push(result.is_err()))
                    .priority([Priority::Low, Priority::Normal][n % 2])
                    .submit(manager, move || {
                        let _held = &captured;
                        Progress::Waiting
                    });
                task.unwrap().detach();
            }
            let (captured, told) = (held.clone(), ends.clone());
            let asleep = move || {
                let _held = captured;
                let _ = blocked.recv();
            };
            let task = TaskBuilder::new()
                .on_end(move |result| told.lock().unwrap().push(result.is_err()))
                .blocking(asleep)
                .submit(manager, || Progress::Waiting);
            task.unwrap().detach();
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(unblock); // only now does the call return: the manager has not waited for it
        until("every end is told", || ends.lock().unwrap().len() == 11);
        until("everything is dropped", || Arc::strong_count(&held) == 1);
        let cancelled = ends.lock().unwrap().iter().filter(|&&cancelled| cancelled).count();
        assert!(cancelled >= 10, "{mode}: {cancelled}");
    }
}

#[test]
fn a_task_may_drop_its_own_handle_and_those_of_others() {
    let runtime = smp(2);
    let manager = runtime.manager();
    for _ in 0..200 {
        let slot: Arc<Mutex<Vec<Task>>> = Arc::default();
        let (own, done) = (slot.clone(), Arc::new(AtomicBool::new(false)));
        let mark = done.clone();
        let dropping = TaskBuilder::new()
            .masked()
            .submit(manager, move || {
                own.lock().unwrap().clear();
                mark.store(true, SeqCst);
                Progress::Again
            })
            .unwrap();
        let other = TaskBuilder::new().submit(manager, || Progress::Again).unwrap();
        let mut slot = slot.lock().unwrap();
        dropping.unmask();
        slot.extend([dropping, other]);
        drop(slot);
        until("it has run", || done.load(SeqCst));
    }
    until("balance", || balanced(manager));
}

#[test]
fn tasklets_of_a_type_exclude_each_other_and_none_is_forgotten() {
    let runtime = runtime(Mode::Smp);
    let manager = runtime.manager();
    let class = TaskletType::new();
    let inside = Arc::new(AtomicBool::new(false));
    let runs = Arc::new(AtomicUsize::new(0));
    let cores = marcel::topology::allowed_cpus();
    let tasklets: Vec<_> = (0..6)
        .map(|n| {
            let (inside, runs) = (inside.clone(), runs.clone());
            let tasklet = TaskletBuilder::new().name(format!("tasklet {n}")).of(&class);
            let tasklet = if n % 2 == 0 { tasklet } else { tasklet.cpu(cores[n % cores.len()]) };
            let run = move || {
                assert!(!inside.swap(true, SeqCst), "two at once");
                runs.fetch_add(1, SeqCst);
                inside.store(false, SeqCst);
            };
            Arc::new(tasklet.build(manager, run).unwrap())
        })
        .collect();
    let scheduled: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let schedule = |n: usize| tasklets[n % 6].schedule() as usize;
                    (0..3000).map(schedule).sum::<usize>()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    until("each that was not merged has run", || runs.load(SeqCst) == scheduled);
    until("balance", || balanced(manager));
    assert_eq!(manager.tasks().completed, scheduled as u64);
}

#[test]
fn a_disabled_tasklet_runs_when_it_is_enabled_and_a_panic_is_not_its_end() {
    let runtime = smp(1);
    let manager = runtime.manager();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let tasklet = TaskletBuilder::new().name("fragile").build(manager, move || {
        if count.fetch_add(1, SeqCst) == 0 {
            panic!("the first time");
        }
    });
    let tasklet = tasklet.unwrap();
    assert!(tasklet.disable());
    assert!(tasklet.schedule());
    assert!(!tasklet.schedule(), "merged");
    std::thread::sleep(Duration::from_millis(10));
    assert_eq!(runs.load(SeqCst), 0);
    tasklet.enable();
    until("it runs, and fails", || manager.tasks().failed == 1);
    assert!(tasklet.schedule());
    until("it runs once more", || manager.tasks().completed == 1);
    assert!(tasklet.disable() && tasklet.schedule());
    drop(tasklet);
    assert_eq!(manager.tasks().cancelled, 1);
    assert!(balanced(manager));
}

/// The handler interrupts the thread anywhere, its own scheduling of the same tasklet included.
#[test]
fn a_signal_handler_schedules_a_tasklet() {
    static TASKLET: AtomicPtr<Tasklet> = AtomicPtr::new(std::ptr::null_mut());
    static SCHEDULED: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: null, or leaked below.
        if let Some(tasklet) = unsafe { TASKLET.load(SeqCst).as_ref() } {
            SCHEDULED.fetch_add(tasklet.schedule() as usize, SeqCst);
        }
    }
    let runtime = smp(1);
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let tasklet = TaskletBuilder::new().build(runtime.manager(), move || {
        count.fetch_add(1, SeqCst);
    });
    TASKLET.store(Box::leak(Box::new(tasklet.unwrap())), SeqCst);
    // SAFETY: a handler that calls only what may be called in one.
    unsafe { marcel::plumbing::signal::handle(libc::SIGUSR2, handler) }.unwrap();
    // SAFETY: no arguments.
    let me = unsafe { libc::pthread_self() };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let me = me as usize;
        let stop = &stop;
        scope.spawn(move || {
            for _ in 0..2000 {
                // SAFETY: the thread lives, it waits for this one.
                unsafe { libc::pthread_kill(me as libc::pthread_t, libc::SIGUSR2) };
                std::hint::spin_loop();
            }
            stop.store(true, SeqCst);
        });
        while !stop.load(SeqCst) {
            handler(0, std::ptr::null_mut(), std::ptr::null_mut());
        }
    });
    until("each that was not merged has run", || runs.load(SeqCst) == SCHEDULED.load(SeqCst));
    assert!(runs.load(SeqCst) > 0);
}

/// Runs this very test in a process of its own, with what it prints; `None` in that process.
fn alone(name: &str) -> Option<String> {
    const CHILD: &str = "PIOMAN_TEST_LTASK_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return None;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]).env(CHILD, "1");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    Some(text.into_owned())
}

#[test]
fn faults_are_named() {
    if let Some(text) = alone("faults_are_named") {
        let line = |name: &str, what: &str| {
            let told = |line: &str| {
                line.starts_with("pioman: ") && line.contains(name) && line.contains(what)
            };
            assert!(text.lines().any(told), "{name}: {text}");
        };
        line("light task \"boom\"", "the reason");
        line("tasklet \"tiny\"", "also this");
        line("\"called back\"", "in the callback");
        return;
    }
    let runtime = smp(1);
    let manager = runtime.manager();
    let run = |name: &'static str, f: fn()| {
        TaskBuilder::new().name(name).submit_once(manager, f).unwrap().wait()
    };
    assert!(run("boom", || panic!("the reason")).is_err());
    let back = TaskBuilder::new().name("called back").on_end(|_| panic!("in the callback"));
    assert!(back.submit_once(manager, || ()).unwrap().wait().is_ok());
    let tasklet =
        TaskletBuilder::new().name("tiny").build(manager, || panic!("also this")).unwrap();
    tasklet.schedule();
    until("it has failed", || manager.tasks().failed == 2);
}

/// A task that only waits costs no core, whoever is idle.
#[test]
fn a_task_that_waits_burns_no_core() {
    if alone("a_task_that_waits_burns_no_core").is_some() {
        return;
    }
    let runtime = runtime(Mode::Smp);
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let task = TaskBuilder::new().submit(runtime.manager(), move || {
        count.fetch_add(1, SeqCst);
        Progress::Waiting
    });
    let task = task.unwrap();
    let cpu_time = || {
        // SAFETY: an all-zero rusage is valid, and is filled in.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_SELF, &mut usage);
            usage
        };
        let of = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
        of(usage.ru_utime) + of(usage.ru_stime)
    };
    std::thread::sleep(Duration::from_millis(50));
    let (before, runs_before) = (cpu_time(), runs.load(SeqCst));
    std::thread::sleep(Duration::from_secs(1));
    let spent = cpu_time() - before;
    // Visits at the tick's pace take some 10 ms on this many virtual processors; one that polls on takes a second.
    assert!(spent < Duration::from_millis(300), "{spent:?}");
    assert!(runs.load(SeqCst) > runs_before, "but it is called");
    drop(task);
}

/// Tasks of every kind, and threads of every kind that do anything to them, in a random order. Each task has one end,
/// which is told once, is never called twice at once nor after its end, and the counters balance.
#[test]
fn chaos() {
    struct Record {
        inside: AtomicBool,
        left: AtomicUsize,
        ended: AtomicUsize,
    }
    /// A step of a linear congruential generator.
    fn random(state: &mut u64, below: usize) -> usize {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*state >> 33) as usize % below
    }
    fn submit(manager: &Arc<Manager>, state: &mut u64, cores: &[usize]) -> (Arc<Record>, Task) {
        let record = Arc::new(Record {
            inside: AtomicBool::new(false),
            left: AtomicUsize::new(random(state, 4)),
            ended: AtomicUsize::new(0),
        });
        let (theirs, told) = (record.clone(), record.clone());
        let panics = random(state, 20) == 0;
        let waiting = random(state, 2) == 0;
        let mut task = TaskBuilder::new()
            .name("chaotic")
            .priority([Priority::Low, Priority::Normal, Priority::High][random(state, 3)])
            .polling([Polling::Always, Polling::WhenIdle][random(state, 2)])
            .on_end(move |_| {
                assert_eq!(told.ended.fetch_add(1, SeqCst), 0);
                assert!(!told.inside.load(SeqCst));
            });
        match random(state, 4) {
            0 => task = task.cpu(cores[random(state, cores.len())]),
            1 => {
                let (a, b) = (random(state, cores.len()), random(state, cores.len()));
                task = task.cpus([cores[a], cores[b]]);
            }
            _ => {}
        }
        if random(state, 4) == 0 {
            let naps = Duration::from_micros(random(state, 200) as u64);
            let exported = record.clone();
            task = task.blocking(move || {
                assert!(!exported.inside.swap(true, SeqCst));
                std::thread::sleep(naps);
                exported.inside.store(false, SeqCst);
            });
        }
        if random(state, 6) == 0 {
            task = task.masked();
        }
        let run = move || {
            assert!(!theirs.inside.swap(true, SeqCst), "twice at once");
            assert_eq!(theirs.ended.load(SeqCst), 0, "called after its end");
            let left = theirs.left.load(SeqCst);
            theirs.left.store(left.saturating_sub(1), SeqCst);
            theirs.inside.store(false, SeqCst);
            match left {
                0 if panics => std::panic::resume_unwind(Box::new("as it should")),
                0 => Progress::Done,
                _ if waiting => Progress::Waiting,
                _ => Progress::Again,
            }
        };
        (record, task.submit(manager, run).unwrap())
    }
    fn act(manager: &Arc<Manager>, seed: u64, cores: &[usize]) -> Vec<Arc<Record>> {
        let mut state = seed;
        let (mut records, mut tasks) = (Vec::new(), Vec::<Task>::new());
        for _ in 0..1500 {
            if tasks.len() < 8 || random(&mut state, 3) == 0 {
                let (record, task) = submit(manager, &mut state, cores);
                records.push(record);
                tasks.push(task);
                continue;
            }
            let at = random(&mut state, tasks.len());
            match random(&mut state, 8) {
                0 => drop(tasks[at].cancel()),
                1 => drop(tasks[at].mask()),
                2 | 3 => tasks[at].unmask(),
                4 => {
                    let soon =
                        Instant::now() + Duration::from_micros(random(&mut state, 300) as u64);
                    drop(tasks[at].wait_until(soon));
                }
                5 => tasks.swap_remove(at).detach(),
                6 => {
                    let task = tasks.swap_remove(at);
                    task.unmask();
                    drop(task.wait());
                }
                _ => drop(tasks.swap_remove(at)),
            }
        }
        records
    }
    let cores = marcel::topology::allowed_cpus();
    for mode in [Mode::Mono, Mode::Smp] {
        let points =
            if mode == Mode::Smp { Points::ALL } else { Points { block: false, ..Points::ALL } };
        let manager = Manager::builder().mode(mode).points(points);
        let runtime = Runtime::build(manager, marcel::Runtime::builder()).unwrap();
        let manager = runtime.manager();
        let mut records: Vec<Arc<Record>> = Vec::new();
        std::thread::scope(|scope| {
            let cores = &cores;
            let kernel: Vec<_> =
                (0..2).map(|seed| scope.spawn(move || act(manager, seed + 1, cores))).collect();
            let green: Vec<_> = (0..3)
                .map(|seed| {
                    let (manager, cores) = (manager.clone(), cores.clone());
                    runtime.threads().spawn(move || act(&manager, seed + 100, &cores))
                })
                .collect();
            records.extend(green.into_iter().flat_map(|thread| thread.join().unwrap()));
            records.extend(kernel.into_iter().flat_map(|thread| thread.join().unwrap()));
        });
        until("balance", || balanced(manager));
        let counts = manager.tasks();
        assert_eq!(counts.submitted, records.len() as u64);
        let told = || records.iter().all(|record| record.ended.load(SeqCst) == 1);
        until("each end is told", told);
    }
}

/// Who leaves a type queues those that wait for it with its own manager.
#[test]
fn a_type_of_tasklets_is_one_manager_s() {
    let (first, second) = (runtime(Mode::Mono), runtime(Mode::Mono));
    let class = TaskletType::new();
    let tasklet = || TaskletBuilder::new().of(&class);
    let one = tasklet().build(first.manager(), || ()).unwrap();
    assert!(matches!(
        tasklet().build(second.manager(), || ()),
        Err(pioman::Error::OtherManager(_))
    ));
    tasklet().build(first.manager(), || ()).unwrap();
    drop((one, first));
    tasklet().build(second.manager(), || ()).unwrap();
}

#[test]
fn a_blocking_alternative_that_is_for_never_is_not_used() {
    let runtime = smp(1);
    let mut calls = 0;
    let task = TaskBuilder::new()
        .blocking(|| unreachable!("it is never time for it"))
        .blocking_after(Duration::MAX)
        .submit(runtime.manager(), move || {
            calls += 1;
            if calls < 50 { Progress::Waiting } else { Progress::Done }
        });
    assert_eq!(task.unwrap().wait(), Ok(()));
}

/// The runtime stops, a destructor on the unwound stack waits, and calls a task that panics: the end of that task, and
/// of nothing else.
#[test]
fn a_task_that_panics_while_its_caller_is_unwound_has_failed() {
    type End = Arc<Mutex<Option<Result<(), TaskError>>>>;
    struct Waits(Arc<Manager>, End);
    impl Drop for Waits {
        fn drop(&mut self) {
            let late = TaskBuilder::new().name("late");
            let task = late.submit_once(&self.0, || panic!("by itself")).unwrap();
            *self.1.lock().unwrap() = Some(task.wait());
        }
    }
    let runtime = runtime(Mode::Mono);
    let end = End::default();
    let waits = Waits(runtime.manager().clone(), end.clone());
    let there = Arc::new(AtomicBool::new(false));
    let seen = there.clone();
    let _never = runtime.threads().spawn(move || {
        let waits = waits;
        seen.store(true, SeqCst);
        waits.0.wait(&Completion::new(), Hint::Long);
    });
    until("it waits", || there.load(SeqCst));
    drop(runtime);
    let end = end.lock().unwrap().take();
    assert!(matches!(end, Some(Err(TaskError::Panicked { .. }))), "{end:?}");
}

/// Calls what it holds when it is dropped.
struct Finally<F: Fn()>(F);

impl<F: Fn()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// What a task has captured waits in its destructor, which it must not; or its callback waits. The thread that runs the
/// task, or cancels it, is unwound there, once: it ends, and so does its runtime.
#[test]
fn the_end_of_a_task_that_waits_does_not_keep_the_runtime() {
    in_a_child("the_end_of_a_task_that_waits_does_not_keep_the_runtime", LIMIT, || {
        for by_callback in [false, true] {
            for cancels in [false, true] {
                let runtime = runtime(Mode::Mono);
                let manager = runtime.manager().clone();
                let begun = Arc::new(AtomicBool::new(false));
                let begins = begun.clone();
                let waits = Finally(move || {
                    begins.store(true, SeqCst);
                    loop {
                        marcel::park();
                    }
                });
                drop(runtime.threads().spawn(move || {
                    let task = TaskBuilder::new();
                    let task = if cancels { task.masked() } else { task };
                    let task = if by_callback {
                        task.on_end(move |_| drop(waits)).submit_once(&manager, || ())
                    } else {
                        task.submit(&manager, move || {
                            let _waits = &waits;
                            Progress::Done
                        })
                    };
                    let task = task.unwrap();
                    if cancels {
                        task.cancel();
                    }
                    let _ = task.wait();
                    loop {
                        marcel::park();
                    }
                }));
                until("it waits", || begun.load(SeqCst));
                drop(runtime);
            }
        }
    });
}

/// A kernel thread makes the call while a green thread drops the handle. The call ends when the runtime unwinds.
#[test]
fn a_drop_that_is_unwound_waits_for_the_call_all_the_same() {
    let runtime = runtime(Mode::Mono);
    let manager = runtime.manager();
    let (go, called, calls) = <(Arc<AtomicBool>, Arc<AtomicBool>, Arc<AtomicBool>)>::default();
    let caller = Arc::new(OnceLock::new());
    let task = TaskBuilder::new().submit(manager, {
        let (go, called, calls, caller) =
            (go.clone(), called.clone(), calls.clone(), caller.clone());
        move || {
            if caller.get() == Some(&std::thread::current().id()) {
                calls.store(true, SeqCst);
                called.store(true, SeqCst);
                while !go.load(SeqCst) {
                    std::thread::yield_now();
                }
                calls.store(false, SeqCst);
            }
            Progress::Again
        }
    });
    let (task, other) = (task.unwrap(), TaskBuilder::new().masked());
    let other = other.submit_once(manager, || ()).unwrap();
    let kernel = std::thread::spawn({
        let called = called.clone();
        move || {
            caller.get_or_init(|| std::thread::current().id());
            while !called.load(SeqCst) {
                assert_eq!(other.wait_until(Instant::now()), None, "it is masked");
            }
        }
    });
    until("the kernel thread calls it", || called.load(SeqCst));
    let (there, cut_short) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
    let (ready, cut) = (there.clone(), cut_short.clone());
    runtime.threads().spawn(move || {
        let _left = Finally(|| _ = cut.fetch_add(calls.load(SeqCst).into(), SeqCst));
        ready.fetch_add(1, SeqCst);
        drop(task);
    });
    let ready = there.clone();
    runtime.threads().spawn(move || {
        let _go = Finally(|| go.store(true, SeqCst));
        ready.fetch_add(1, SeqCst);
        loop {
            marcel::park();
        }
    });
    until("both run", || there.load(SeqCst) == 2);
    drop(runtime);
    kernel.join().unwrap();
    assert_eq!(cut_short.load(SeqCst), 0, "the drop ended during the call");
}

/// Runs in the processes of the next test; does nothing otherwise.
#[test]
fn slow_task() {
    if std::env::var("SLOW_TASK").is_err() {
        return;
    }
    let runtime = pioman::Runtime::new().unwrap();
    runtime.run(|| {
        let slow = || std::thread::sleep(Duration::from_millis(5));
        let task = TaskBuilder::new().name("slow").submit_once(runtime.manager(), slow).unwrap();
        assert_eq!(task.wait(), Ok(()));
    });
}

#[test]
fn a_task_that_takes_long_is_told_of_if_that_is_asked_for_with_what_to_do() {
    for limit in [None, Some("1000")] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["slow_task", "--exact", "--nocapture"]).env("SLOW_TASK", "1");
        match limit {
            Some(limit) => child.env("PIOM_LONG_CALLBACK_USEC", limit),
            None => child.env_remove("PIOM_LONG_CALLBACK_USEC"),
        };
        let child = child.output().unwrap();
        let text = String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success(), "{text}");
        assert_eq!(text.contains("light task \"slow\" took"), limit.is_some(), "{text}");
        assert_eq!(text.contains("a part at a time"), limit.is_some(), "{text}");
    }
}

/// The watcher runs it: the virtual processors take no more tasks, and one computes.
#[test]
fn a_task_runs_while_its_runtime_waits_for_a_thread_that_computes() {
    let runtime = smp(1);
    let manager = runtime.manager().clone();
    let stop = Arc::new(AtomicBool::new(false));
    let theirs = stop.clone();
    let _thread = runtime.threads().spawn(move || {
        let start = Instant::now();
        while !theirs.load(SeqCst) && start.elapsed() < LIMIT {
            std::hint::spin_loop();
        }
    });
    until("the virtual processor computes", || manager.is_loaded());
    let end = std::thread::spawn(move || drop(runtime));
    std::thread::sleep(Duration::from_millis(20));
    let start = Instant::now();
    let _task = TaskBuilder::new().submit_once(&manager, move || stop.store(true, SeqCst));
    end.join().unwrap();
    assert!(start.elapsed() < LIMIT / 2, "nobody ran it");
}
