//! Ends of processes and runtimes with something of every kind pending, and processes that the kernel gives little:
//! descriptors, threads, rings. Each scenario runs in a process of its own, which has to end in time.
//!
//! What goes wrong in callbacks is tested beside what calls them: `server/faults.rs`, `ltask.rs`, `policies.rs`.

use std::io::{Read, Write};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use marcel::Mode;
use pioman::fd::Registered;
use pioman::pipe::pipe;
use pioman::policy::by_name;
use pioman::time::Timer;
use pioman::{
    Completion, Cond, Hint, Hints, Manager, Notifier, Progress, Runtime, Semaphore, TaskBuilder,
    fs, process,
};
use pioman_extras::server::{Outcome, Pending, Server};

const SCENARIO: &str = "PIOMAN_FAULTS_SCENARIO";
/// After so long a process hangs.
const LIMIT: Duration = Duration::from_secs(240);
const FOREVER: Duration = Duration::from_secs(1000);

/// Runs a scenario; how it has ended, and what it has said.
fn run(scenario: &str, knobs: &[(&str, &str)]) -> (ExitStatus, String) {
    // Files, not pipes: grandchildren may keep those open.
    let mut said = tempfile::tempfile().unwrap();
    let to = || Stdio::from(said.try_clone().unwrap());
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(SCENARIO, scenario)
        .envs(knobs.iter().copied())
        .stdin(Stdio::null())
        .stdout(to())
        .stderr(to())
        .spawn()
        .unwrap();
    let limit = Instant::now() + LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if Instant::now() > limit {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut text = Vec::new();
    std::io::Seek::rewind(&mut said).unwrap();
    said.read_to_end(&mut text).unwrap();
    let text = String::from_utf8_lossy(&text).into_owned();
    let Some(status) = status else { panic!("{scenario} hangs: {text}") };
    (status, text)
}

fn succeeds(scenario: &str, knobs: &[(&str, &str)]) -> String {
    let (status, text) = run(scenario, knobs);
    assert!(status.success(), "{scenario} {knobs:?}: {status}\n{text}");
    text
}

/// Runs in the processes that the tests start.
#[test]
fn child() {
    let Ok(scenario) = std::env::var(SCENARIO) else { return };
    let (what, how) = scenario.split_once(' ').unwrap_or((&scenario, ""));
    match what {
        "end" => end(how),
        "rounds" => rounds(),
        "few" => few_descriptors(),
        "threads" => no_threads(how),
        "rings" => no_rings(),
        other => panic!("no scenario {other}"),
    }
}

fn runtime() -> Runtime {
    let threads = marcel::Runtime::builder().vps(2);
    Runtime::build(Manager::builder(), threads).unwrap()
}

/// Blocks the calling thread in one of many ways; `begun` says that it is about to.
fn block(kind: usize, manager: &Arc<Manager>, server: &Server<u32>, begun: &AtomicUsize) {
    let begin = || begun.fetch_add(1, SeqCst);
    match kind {
        0 => {
            let (mut reader, _writer) = pipe().unwrap();
            begin();
            let _ = reader.read(&mut [0; 8]);
        }
        1 => {
            let timer = Timer::after(FOREVER).unwrap();
            begin();
            timer.wait();
        }
        2 => {
            let (reader, _writer) = std::io::pipe().unwrap();
            let file = fs::File::from(std::os::fd::OwnedFd::from(reader));
            if !matches!(manager.file_engine(), pioman::FileEngine::Uring { .. }) {
                begin(); // a kernel thread would make the call, and nobody could end that
                return;
            }
            let transfer = file.start_read(vec![0; 8]);
            begin();
            let _ = transfer.wait();
        }
        3 => {
            // It ends with its standard input, thus with us.
            let mut child = process::Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
            begin();
            let _ = child.wait();
        }
        4 => {
            let request = server.submit(0).unwrap();
            begin();
            request.wait();
        }
        5 => {
            let waits = TaskBuilder::new().blocking_after(Duration::from_millis(1));
            let waits = waits.blocking(|| std::thread::sleep(Duration::from_millis(100)));
            let task = TaskBuilder::new().submit(manager, || Progress::Waiting).unwrap();
            let _other = waits.submit(manager, || Progress::Waiting).unwrap();
            begin();
            let _ = task.wait();
        }
        6 => {
            begin();
            Cond::new().wait(manager, 1);
        }
        7 => {
            begin();
            Semaphore::new(0).acquire(manager);
        }
        8 => {
            let (notifier, done) = (Notifier::new().unwrap(), Completion::new());
            let notifier = Registered::new(notifier).unwrap();
            notifier.get_ref().arm();
            let _watched = notifier.get_ref().watch(&done);
            begin();
            let _ = notifier.wait_readable();
        }
        _ => {
            let timer = Timer::after(FOREVER).unwrap();
            begin();
            manager.wait_any(&[(&Completion::new()).into(), timer.completion().into()]);
        }
    }
}

const KINDS: usize = 10;

/// Threads of both kinds are blocked in every way.
fn block_in_every_way(runtime: &Runtime, on_kernel_threads: bool) {
    let manager = runtime.manager();
    let begun = Arc::new(AtomicUsize::new(0));
    let server = Server::builder(manager, "idle")
        .poll_one(|_: &Pending<u32>| ())
        .block_one_timeout(|_, time| std::thread::sleep(time.min(Duration::from_millis(100))))
        .start();
    let server = Arc::new(server.unwrap());
    let body = |kind: usize| {
        let (manager, server, begun) = (manager.clone(), server.clone(), begun.clone());
        move || block(kind, &manager, &server, &begun)
    };
    let mut all = 0;
    if runtime.threads().mode() != Mode::NoThread {
        (0..KINDS).for_each(|kind| drop(runtime.threads().spawn(body(kind))));
        all += KINDS;
    }
    if on_kernel_threads {
        for kind in 0..KINDS {
            let (manager, body) = (manager.clone(), body(kind));
            std::thread::spawn(move || {
                let _entered = manager.enter();
                body();
            });
        }
        all += KINDS;
    }
    while begun.load(SeqCst) < all {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(20)); // most of them sleep by now
}

/// Forks; the status of the child, which does `f` and exits with what that says.
fn fork(f: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child makes system calls and allocates (glibc's allocator is usable after fork).
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = f();
        // SAFETY: ends the child.
        unsafe { libc::_exit(code) };
    }
    let (mut status, limit) = (0, Instant::now() + LIMIT / 4);
    loop {
        // SAFETY: our child; a writable integer.
        match unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } {
            0 if Instant::now() < limit => std::thread::sleep(Duration::from_millis(2)),
            0 => {
                // SAFETY: our child.
                unsafe { libc::kill(child, libc::SIGKILL) };
                panic!("the child hangs");
            }
            _ => break,
        }
    }
    assert!(libc::WIFEXITED(status), "{status:#x}");
    libc::WEXITSTATUS(status)
}

fn end(how: &str) {
    let runtime = runtime();
    block_in_every_way(&runtime, how != "drop");
    match how {
        "return" => std::mem::forget(runtime), // as a static: nobody drops it
        "exit" => std::process::exit(7),
        "abort" => std::process::abort(),
        "drop" => {
            // Nobody but green threads waits, and those are unwound.
            let manager = Arc::downgrade(runtime.manager());
            drop(runtime);
            // A thread of the library may hold it for a moment more.
            assert!(within_a_minute(|| manager.strong_count() == 0), "the manager is kept");
        }
        "fork" => {
            let manager = runtime.manager().clone();
            let (mut reader, mut writer) = pipe().unwrap();
            let mut timer = Timer::with(&manager, Instant::now() + FOREVER).unwrap();
            let code = fork(|| {
                manager.poll(pioman::Point::Library);
                writer.write_all(b"c").unwrap(); // which is the parent's too
                23
            });
            assert_eq!(code, 23);
            let mut byte = [0];
            reader.read_exact(&mut byte).unwrap();
            assert_eq!(&byte, b"c");
            assert!(timer.cancel());
            let soon = Timer::with(&manager, Instant::now() + Duration::from_millis(3)).unwrap();
            soon.wait();
            assert_eq!(fork(|| std::process::exit(24)), 24);
            std::mem::forget(runtime);
        }
        other => panic!("no end {other}"),
    }
}

const MODES: [&str; 3] = ["no-thread", "mono", "smp"];

#[test]
fn processes_end_whatever_is_pending() {
    for mode in MODES {
        let end = |how: &str| run(&format!("end {how}"), &[("MARCEL_MODE", mode)]);
        for how in ["return", "drop", "fork"] {
            let (status, text) = end(how);
            assert!(status.success(), "{mode} {how}: {status} {text}");
        }
        let (status, text) = end("exit");
        assert_eq!(status.code(), Some(7), "{mode}: {text}");
        let (status, text) = end("abort");
        assert_eq!(status.code(), None, "{mode}: {text}");
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Waits for what threads of the library do a moment later; whether it has come.
fn within_a_minute(come: impl Fn() -> bool) -> bool {
    let limit = Instant::now() + Duration::from_secs(60);
    while !come() && Instant::now() < limit {
        std::thread::sleep(Duration::from_millis(5));
    }
    come()
}

fn kernel_threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Resident memory, in KiB.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn rounds() {
    let round = || {
        let runtime = runtime();
        block_in_every_way(&runtime, false);
    };
    // Whatever is made once, and kept, is there after some rounds.
    (0..10).for_each(|_| round());
    let before = (descriptors(), kernel_threads(), memory());
    // The allocator takes more from the kernel now and then; what is lost is lost each time.
    let growth = (0..4).map(|_| {
        let start = memory();
        (0..25).for_each(|_| round());
        memory().saturating_sub(start)
    });
    let growth: Vec<usize> = growth.collect();
    // Threads that were in a call of their own end, and let go of what they have, a moment later.
    within_a_minute(|| descriptors() <= before.0 && kernel_threads() <= before.1);
    let after = (descriptors(), kernel_threads(), memory());
    assert!(after.0 <= before.0, "descriptors: {before:?} then {after:?}");
    assert!(after.1 <= before.1, "kernel threads: {before:?} then {after:?}");
    // A stack of a green thread or a ring each round would be more.
    assert!(growth.iter().any(|&grown| grown < 25 * 64), "KiB: {before:?}, then {growth:?} more");
    println!("before {before:?}, after {after:?}");
}

#[test]
fn runtimes_that_come_and_go_leave_nothing() {
    for mode in ["mono", "smp"] {
        succeeds("rounds", &[("MARCEL_MODE", mode)]);
    }
}

fn set_limit(descriptors: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid limit.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = descriptors;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
}

/// A little of everything; what the kernel refuses is an error.
fn a_little_of_everything() -> std::io::Result<()> {
    let runtime = Runtime::build(Manager::builder(), marcel::Runtime::builder().vps(2))?;
    runtime.run(|| -> std::io::Result<()> {
        Timer::after(Duration::from_millis(1))?.wait();
        let (mut reader, mut writer) = pipe()?;
        let mut sends = move || {
            marcel::sleep(Duration::from_millis(1));
            writer.write_all(b"x")
        };
        if marcel::is_green() {
            let sender = marcel::spawn(sends);
            reader.read_exact(&mut [0])?;
            sender.join().unwrap()?;
        } else {
            sends()?;
            reader.read_exact(&mut [0])?;
        }
        let mut file = fs::File::open("/proc/self/status")?;
        file.read_exact(&mut [0; 16])?;
        let notifier = Notifier::new()?;
        notifier.notify();
        Ok(())
    })
}

/// With every number of descriptors it works, or says what is lacking.
fn few_descriptors() {
    let (failed, worked) = with_so_few();
    assert!(failed > 0 && worked > 0, "{failed} failed, {worked} worked");
    // Eventfds are kept for the next runtime; nothing else is.
    a_little_of_everything().unwrap();
    let before = descriptors();
    with_so_few();
    // A kernel thread lets go of its own a moment later.
    assert!(within_a_minute(|| descriptors() <= before), "{before} then {}", descriptors());
}

fn with_so_few() -> (usize, usize) {
    let (used, mut failed, mut worked) = (descriptors() as u64, 0, 0);
    for more in 0..24 {
        set_limit(used + more);
        let result = a_little_of_everything();
        set_limit(1000);
        match result {
            Ok(()) => worked += 1,
            Err(error) => {
                failed += 1;
                let text = error.to_string();
                assert!(text.contains("Too many open files"), "{more}: {text}");
            }
        }
    }
    (failed, worked)
}

#[test]
fn with_few_descriptors_it_works_or_says_what_is_lacking() {
    for mode in MODES {
        let text = succeeds("few", &[("MARCEL_MODE", mode)]);
        // The watcher's descriptor is had with the manager, not when the program has used up the others.
        assert!(!text.contains("no background watcher"), "{mode}: {text}");
    }
}

/// From now on the kernel answers these calls with this error.
fn forbid(calls: &[i64], errno: i32) {
    let statement =
        |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for (i, call) in calls.iter().enumerate() {
        let to_refused = (calls.len() - i) as u8;
        let is = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        filter.push(statement(is, to_refused, 0, *call as u32));
    }
    filter.push(statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW));
    let refused = libc::SECCOMP_RET_ERRNO | errno as u32;
    filter.push(statement(libc::BPF_RET | libc::BPF_K, 0, 0, refused));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: a valid program, which the kernel copies; for all threads of the process.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let all = libc::SECCOMP_FILTER_FLAG_TSYNC;
        let done = libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, all, &program);
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }
}

/// Timers, descriptors, servers and light tasks work with the kernel threads that there are.
fn no_threads(how: &str) {
    let runtime = runtime();
    if how == "forbidden" {
        forbid(&[libc::SYS_clone, libc::SYS_clone3], libc::EAGAIN);
    }
    let manager = runtime.manager();
    let green = runtime.threads().mode() != Mode::NoThread;
    let server = Server::builder(manager, "late")
        .poll_one(|request: &Pending<Instant>| {
            if **request <= Instant::now() {
                request.complete(5);
            }
        })
        .block_one_timeout(|_, time| std::thread::sleep(time))
        .start()
        .unwrap();
    let soon = || Instant::now() + Duration::from_millis(3);
    let everything = || {
        for policy in pioman::policy::NAMES {
            let server = Server::builder(manager, "of a policy")
                .poll_one(|request: &Pending<Instant>| {
                    if **request <= Instant::now() {
                        request.complete(6);
                    }
                })
                .policy(by_name(policy).unwrap())
                .start()
                .unwrap();
            assert_eq!(server.submit(soon()).unwrap().wait(), Outcome::Completed(6), "{policy}");
            assert_eq!(server.counters().pending, 0);
        }
        for _ in 0..20 {
            let late = soon();
            Timer::at(late).unwrap().wait();
            assert!(Instant::now() >= late);
            assert_eq!(server.submit(soon()).unwrap().wait(), Outcome::Completed(5));
            let late = soon();
            let task =
                TaskBuilder::new().blocking(move || std::thread::sleep(late - Instant::now()));
            let task = task.submit(manager, move || match Instant::now() >= late {
                true => Progress::Done,
                false => Progress::Waiting,
            });
            assert_eq!(task.unwrap().wait(), Ok(()));
            if green {
                let (mut reader, mut writer) = pipe().unwrap();
                let sender = marcel::spawn(move || {
                    marcel::sleep(Duration::from_millis(1));
                    writer.write_all(b"x").unwrap();
                });
                reader.read_exact(&mut [0]).unwrap();
                sender.join().unwrap();
            }
        }
    };
    runtime.run(everything);
    let _entered = manager.enter();
    everything_of_a_kernel_thread();
}

fn everything_of_a_kernel_thread() {
    Timer::after(Duration::from_millis(3)).unwrap().wait();
    let (mut reader, mut writer) = pipe().unwrap();
    writer.write_all(b"x").unwrap();
    reader.read_exact(&mut [0]).unwrap();
    let soon = Instant::now() + Duration::from_millis(3);
    assert!(!reader.registered().wait_readable_until(soon).unwrap());
}

#[test]
fn without_spare_kernel_threads_everything_is_polled() {
    for mode in MODES {
        succeeds("threads none", &[("MARCEL_MODE", mode), ("PIOM_SPARE_LWP", "0")]);
        for policy in ["adaptive", "always-block", "dedicated"] {
            let knobs = [("MARCEL_MODE", mode), ("PIOM_POLICY", policy)];
            let text = succeeds("threads forbidden", &knobs);
            // In the other modes nobody wants one.
            assert!(mode != "smp" || text.contains("no background watcher"), "{policy}: {text}");
        }
    }
}

fn no_rings() {
    if std::env::var_os("PIOM_URING").is_none() {
        forbid(&[libc::SYS_io_uring_setup], libc::EPERM);
    }
    let runtime = runtime();
    let pioman::FileEngine::Pool { why } = runtime.manager().file_engine() else {
        panic!("a ring");
    };
    println!("{why}");
    runtime.run(|| {
        let file = fs::File::from(tempfile::tempfile().unwrap());
        let (n, data) = file.start_write_at(b"hello".to_vec(), 3).wait();
        assert_eq!((n.unwrap(), &data[..]), (5, &b"hello"[..]));
        let (n, data) = file.start_read_at(vec![9; 8], 0).wait();
        assert_eq!((n.unwrap(), &data[..]), (8, &b"\0\0\0hello"[..]));
        let transfer = file.start_read_at(vec![0; 8], 0);
        transfer.cancel();
        match transfer.wait() {
            (Ok(n), data) => assert_eq!(data[..n], b"\0\0\0hello"[..n]),
            (Err(error), _) => assert_eq!(error.raw_os_error(), Some(libc::ECANCELED)),
        }
    });
}

#[test]
fn without_a_ring_files_work_and_why_is_told() {
    for mode in MODES {
        let text = succeeds("rings", &[("MARCEL_MODE", mode)]);
        assert!(text.contains("forbidden"), "{text}");
        let text = succeeds("rings", &[("MARCEL_MODE", mode), ("PIOM_URING", "0")]);
        assert!(text.contains("PIOM_URING"), "{text}");
    }
}

/// A wait that names a source which has gone ends as any other: by its completion, or its deadline.
#[test]
fn waits_for_a_source_that_has_gone_end() {
    for mode in [Mode::NoThread, Mode::Mono, Mode::Smp] {
        let manager = Manager::builder().mode(mode).build().unwrap();
        let timer = Timer::with(&manager, Instant::now() + FOREVER).unwrap();
        let hints = Hints::new(Hint::Short).on(timer.source());
        let done = Arc::new(Completion::new());
        let waits = |deadline: Option<Instant>| {
            let (manager, done) = (manager.clone(), done.clone());
            std::thread::spawn(move || match deadline {
                Some(deadline) => manager.wait_until(&done, hints, deadline),
                None => {
                    manager.wait(&done, hints);
                    true
                }
            })
        };
        let soon = Instant::now() + Duration::from_millis(20);
        let (timed, other) = (waits(Some(soon)), waits(None));
        std::thread::sleep(Duration::from_millis(5));
        drop(timer);
        assert!(!timed.join().unwrap());
        done.complete();
        assert!(other.join().unwrap());
    }
}

/// Callbacks and wakers that panic are told of and counted, and the others are called all the same.
#[test]
fn a_callback_that_panics_is_counted_and_stops_nobody() {
    let (done, called) = (Completion::new(), Arc::new(AtomicUsize::new(0)));
    let before = pioman::faults();
    let callbacks: Vec<_> = (0..6)
        .map(|i| {
            let called = called.clone();
            done.on_complete(move || {
                called.fetch_add(1, SeqCst);
                if i < 2 {
                    std::panic::resume_unwind(Box::new("one that panics"));
                }
            })
        })
        .collect();
    done.complete();
    // A thread of the library may have taken them over, and still be at it.
    assert!(within_a_minute(|| called.load(SeqCst) >= 6), "{called:?} of 6 were called");
    assert!(within_a_minute(|| pioman::faults() >= before + 2), "not counted");
    assert_eq!(called.load(SeqCst), 6);
    drop(callbacks);
}
