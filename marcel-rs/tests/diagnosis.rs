//! What a dump, `SIGQUIT`, the watchdog and the debugger's script tell of threads.
#![cfg(feature = "backtraces")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use marcel::diagnosis::{self, State};
use marcel::sync::{Condvar, Mutex};
use marcel::{Mode, Runtime};

// Functions to be found in backtraces: neither inlined, nor left by a tail call.

#[inline(never)]
fn waits_for_the_mutex(mutex: &Mutex<u32>) -> u32 {
    *std::hint::black_box(mutex.lock())
}

#[inline(never)]
fn waits_for_the_condition(pair: &(Mutex<bool>, Condvar)) -> bool {
    let guard = pair.1.wait_while(pair.0.lock(), |go| !*go);
    *std::hint::black_box(guard)
}

#[inline(never)]
fn sleeps_until(go: &AtomicBool) -> bool {
    while !go.load(SeqCst) {
        marcel::sleep(Duration::from_millis(500));
    }
    std::hint::black_box(true)
}

#[inline(never)]
fn parks_until(go: &AtomicBool) -> bool {
    while !go.load(SeqCst) {
        marcel::park();
    }
    std::hint::black_box(true)
}

#[inline(never)]
fn waits_for_the_end_of(thread: marcel::JoinHandle<bool>) -> bool {
    std::hint::black_box(thread.join().unwrap())
}

#[inline(never)]
fn computes_until(go: &AtomicBool) -> bool {
    while !go.load(SeqCst) {
        std::hint::black_box(go);
    }
    std::hint::black_box(true)
}

/// Allocates and frees without end: most of the time the thread is inside the allocator.
#[inline(never)]
fn allocates_until(go: &AtomicBool) -> bool {
    while !go.load(SeqCst) {
        std::hint::black_box((1..64usize).map(|n| vec![0u8; n * 16]).collect::<Vec<_>>());
    }
    std::hint::black_box(true)
}

fn spawn<T: Send + 'static>(
    name: &str,
    f: impl FnOnce() -> T + Send + 'static,
) -> marcel::JoinHandle<T> {
    marcel::Builder::new().name(name).spawn(f).unwrap()
}

fn dump() -> String {
    let mut text = Vec::new();
    diagnosis::dump(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// The paragraph of a dump that tells of the thread `name`.
fn paragraph<'a>(dump: &'a str, name: &str) -> Option<&'a str> {
    dump.split("\n\n").find(|p| p.contains(&format!("'{name}'")) && p.starts_with("thread "))
}

/// The line of a dump that tells of the thread `name`.
fn line<'a>(dump: &'a str, name: &str) -> Option<&'a str> {
    paragraph(dump, name)?.lines().find(|l| l.contains(&format!("'{name}'")))
}

/// Looks until `seen` sees what it looks for: threads take their time to get where they wait.
fn eventually<T>(mut seen: impl FnMut(&str) -> Option<T>) -> T {
    let limit = Instant::now() + Duration::from_secs(60);
    loop {
        let text = dump();
        if let Some(found) = seen(&text) {
            return found;
        }
        assert!(Instant::now() < limit, "not seen in a minute; the last dump:\n{text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_dump_tells_what_each_thread_waits_for_and_where() {
    let go = Arc::new(AtomicBool::new(false));
    let pair = Arc::new((Mutex::new(false), Condvar::new()));
    let mutex = Arc::new(Mutex::new(7));
    let runtime = Runtime::builder().build().unwrap();
    std::thread::scope(|scope| {
        let main = scope.spawn(|| {
            runtime.run(|| {
                let held = mutex.lock();
                let (m, p) = (mutex.clone(), pair.clone());
                let (s, q) = (go.clone(), go.clone());
                let parker = spawn("parker", move || parks_until(&q));
                let parked = *parker.thread();
                let threads = [
                    spawn("locker", move || waits_for_the_mutex(&m) == 7),
                    spawn("conditional", move || waits_for_the_condition(&p)),
                    spawn("sleeper", move || sleeps_until(&s)),
                    spawn("joiner", move || waits_for_the_end_of(parker)),
                ];
                sleeps_until(&go);
                drop(held);
                parked.unpark();
                assert!(threads.into_iter().all(|t| t.join().unwrap()));
            })
        });
        for (name, reason, function) in [
            ("locker", "(mutex)", "waits_for_the_mutex"),
            ("conditional", "(condvar)", "waits_for_the_condition"),
            ("sleeper", "(sleep)", "sleeps_until"),
            ("parker", "(park)", "parks_until"),
            ("joiner", "(join)", "waits_for_the_end_of"),
        ] {
            eventually(|text| {
                let told = line(text, name)?;
                let right = told.contains(&format!("waiting {reason} for "))
                    && told.contains("stack ")
                    && told.contains(" KiB, most used ")
                    && paragraph(text, name)?.contains(function);
                right.then_some(())
            });
        }
        go.store(true, SeqCst);
        *pair.0.lock() = true;
        pair.1.notify_all();
        main.join().unwrap();
    });
}

#[test]
fn a_running_thread_is_caught_where_it_is() {
    let go = Arc::new(AtomicBool::new(false));
    let runtime = Runtime::builder().build().unwrap();
    let over = go.clone();
    let _busy = runtime.spawn(move || spawn("computer", move || computes_until(&over)).join());
    let vp = eventually(|text| {
        let told = line(text, "computer")?;
        let right = told.contains(" running for at most ")
            && paragraph(text, "computer")?.contains("computes_until");
        right.then(|| told.split(", ").nth(1).unwrap().to_owned())
    });
    eventually(|text| {
        let about = text.lines().find(|l| l.starts_with(&vp) && l.contains("'computer'"))?;
        about.contains("runs thread ").then_some(())
    });
    go.store(true, SeqCst);
}

#[test]
fn a_green_thread_finds_itself_in_its_own_dump() {
    #[inline(never)]
    fn looks_at_itself() -> String {
        std::hint::black_box(dump())
    }
    let runtime = Runtime::builder().build().unwrap();
    let text = runtime.run(|| spawn("looker", looks_at_itself).join().unwrap());
    let about = paragraph(&text, "looker").expect("it is in the dump");
    assert!(about.contains("running") && about.contains("looks_at_itself"), "{text}");
}

#[test]
fn a_kernel_thread_that_waits_is_shown_as_well() {
    let runtime = Runtime::builder().build().unwrap();
    let go = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let waiter = std::thread::Builder::new().name("plain".into());
        waiter
            .spawn_scoped(scope, || {
                let over = go.clone();
                waits_for_the_end_of(runtime.spawn(move || sleeps_until(&over)))
            })
            .unwrap();
        eventually(|text| {
            let told = line(text, "plain")?;
            let right = told.contains("waiting (join)")
                && told.contains("kernel thread ")
                && paragraph(text, "plain")?.contains("waits_for_the_end_of");
            right.then_some(())
        });
        go.store(true, SeqCst);
    });
}

#[test]
fn a_kernel_thread_that_waits_by_its_own_means_can_say_so() {
    #[inline(never)]
    fn waits_its_own_way(go: &AtomicBool) -> bool {
        let _shown = diagnosis::waiting("the dentist");
        while !go.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
            // A wait within the wait.
            marcel::park_timeout(Duration::from_millis(1));
        }
        std::hint::black_box(true)
    }
    let go = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let waiter = std::thread::Builder::new().name("patient".into());
        let waiter = waiter.spawn_scoped(scope, || {
            waits_its_own_way(&go);
            diagnosis::threads().into_iter().any(|t| t.name.as_deref() == Some("patient"))
        });
        eventually(|text| {
            let right = line(text, "patient")?.contains("waiting (the dentist) for ")
                && paragraph(text, "patient")?.contains("waits_its_own_way");
            right.then_some(())
        });
        go.store(true, SeqCst);
        assert!(!waiter.unwrap().join().unwrap(), "shown as waiting when it does not");
    });
}

#[test]
fn states_follow_a_thread_s_life() {
    let runtime = Runtime::builder().mode(Mode::Mono).build().unwrap();
    runtime.run(|| {
        let state = || {
            let threads = diagnosis::threads();
            threads.iter().find(|t| t.name.as_deref() == Some("subject")).map(|t| t.state)
        };
        let (ran, resume) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, over) = (ran.clone(), resume.clone());
        let subject = spawn("subject", move || {
            count.fetch_add(1, SeqCst);
            marcel::yield_now();
            parks_until(&over);
        });
        assert_eq!(state(), Some(State::New));
        while ran.load(SeqCst) == 0 {
            marcel::yield_now();
        }
        assert_eq!(state(), Some(State::Ready), "it has yielded");
        while state() == Some(State::Ready) {
            marcel::yield_now();
        }
        assert_eq!(state(), Some(State::Waiting));
        resume.store(true, SeqCst);
        subject.thread().unpark();
        assert_eq!(state(), Some(State::Ready), "it is woken");
        while !subject.is_finished() {
            marcel::yield_now();
        }
        assert_eq!(state(), None, "it has ended, though nobody has joined it");
        subject.join().unwrap();
        assert_eq!(state(), None);
        let me = diagnosis::threads().into_iter().find(|t| t.name.as_deref() == Some("main"));
        assert!(me.is_some());
    });
}

#[test]
fn a_thread_is_shown_where_it_has_migrated_to() {
    // SAFETY: the threads hold nothing of their kernel thread's across a wait.
    let runtime = unsafe { Runtime::builder().vps(2).migrate_started_threads(true) };
    let runtime = runtime.build().unwrap();
    let go = Arc::new(AtomicBool::new(false));
    let over = go.clone();
    let nomads = runtime.spawn(move || {
        let threads: Vec<_> = (0..8)
            .map(|n| {
                let go = over.clone();
                spawn(&format!("nomad{n}"), move || {
                    while !go.load(SeqCst) {
                        (0..1000).for_each(|n| assert!(std::hint::black_box(n) < 1000));
                        marcel::yield_now();
                        marcel::sleep(Duration::from_millis(1));
                    }
                    computes_until(&go)
                })
            })
            .collect();
        threads.into_iter().for_each(|t| assert!(t.join().unwrap()));
    });
    for _ in 0..20 {
        for thread in diagnosis::threads() {
            let here = thread.name.as_deref().is_some_and(|name| name.starts_with("nomad"));
            assert!(!here || thread.vp.is_none_or(|vp| vp == "vp0" || vp == "vp1"));
        }
        assert!(dump().ends_with("== marcel: end\n"));
    }
    go.store(true, SeqCst);
    nomads.join().unwrap();
}

#[test]
fn a_dump_of_threads_that_never_stand_still_ends() {
    let runtime = Runtime::builder().build().unwrap();
    let go = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let main = scope.spawn(|| {
            runtime.run(|| {
                let threads: Vec<_> = (0..200)
                    .map(|n| {
                        let go = go.clone();
                        spawn(&format!("restless{n}"), move || {
                            while !go.load(SeqCst) {
                                // Names come and go as well.
                                spawn("short-lived", marcel::yield_now).join().unwrap();
                            }
                        })
                    })
                    .collect();
                threads.into_iter().for_each(|t| t.join().unwrap());
            })
        });
        for _ in 0..20 {
            let text = dump();
            assert!(text.ends_with("== marcel: end\n"), "{text}");
        }
        go.store(true, SeqCst);
        main.join().unwrap();
    });
}

// In child processes: signals and knobs are a process's.

/// Runs the test `name` of this program again, as a child in which [`is_child`] holds.
fn child(name: &str, settings: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]);
    command.env("MARCEL_TEST_CHILD", "1").envs(settings.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // A shell that starts the tests in the background may have them ignore SIGQUIT, and children inherit that.
    // SAFETY: `signal` is async-signal-safe, and the closure touches no memory.
    unsafe {
        std::os::unix::process::CommandExt::pre_exec(&mut command, || {
            libc::signal(libc::SIGQUIT, libc::SIG_DFL);
            Ok(())
        });
    }
    command
}

fn is_child() -> bool {
    std::env::var_os("MARCEL_TEST_CHILD").is_some()
}

/// A child, and what it has written to its standard error; killed when dropped. What the test does not take stays in the
/// pipe: a child that writes more than fits there waits for the test.
struct Running {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Running {
    fn start(mut command: Command) -> Running {
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (tx, lines) = std::sync::mpsc::sync_channel(0);
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).try_for_each(|line| tx.send(line).map_err(drop))
        });
        Running { child, lines }
    }

    /// What it writes up to the line that holds `text`.
    fn up_to(&self, text: &str) -> String {
        let mut all = String::new();
        loop {
            let line = self.lines.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|e| {
                panic!("no line with {text:?} ({e}); it wrote:\n{all}");
            });
            all += &line;
            all.push('\n');
            if line.contains(text) {
                return all;
            }
        }
    }

    fn rest(&self) -> String {
        let limit = Instant::now() + Duration::from_secs(60);
        let line = || self.lines.recv_timeout(limit.saturating_duration_since(Instant::now())).ok();
        std::iter::from_fn(line).flat_map(|line| [line, "\n".into()]).collect()
    }

    fn quit(&self) {
        // SAFETY: a signal to our child, which has not been waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, libc::SIGQUIT) }, 0);
    }

    /// Waits until the diagnosis thread sleeps: it has done with the dump whose end was taken.
    fn until_answered(&self) {
        let limit = Instant::now() + Duration::from_secs(60);
        let sleeps = |task: std::fs::DirEntry| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.contains("(marcel-diag) S")
        };
        let tasks = format!("/proc/{}/task", self.child.id());
        while !std::fs::read_dir(&tasks).unwrap().flatten().any(sleeps) {
            assert!(Instant::now() < limit, "the diagnosis thread does not come to rest");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The signal that ended it.
    fn signal(&mut self) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt;
        let limit = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.signal();
            }
            assert!(Instant::now() < limit, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A dump is not a nuisance: the whole of it, again and again, while thousands of threads wait, some compute and some
/// are inside the allocator; the second signal in a second ends the process.
#[test]
fn sigquit_dumps_under_load_and_twice_ends_the_process() {
    const WAITING: usize = 3000;
    if is_child() {
        let runtime = Runtime::builder().build().unwrap();
        let never = Arc::new(AtomicBool::new(false));
        runtime.run(|| {
            let gate = Arc::new((Mutex::new(false), Condvar::new()));
            for _ in 0..WAITING {
                let gate = gate.clone();
                spawn("gated", move || waits_for_the_condition(&gate));
            }
            while diagnosis::threads().iter().filter(|t| t.reason == Some("condvar")).count()
                < WAITING
            {
                marcel::sleep(Duration::from_millis(10));
            }
            let (a, b) = (never.clone(), never.clone());
            spawn("allocator", move || allocates_until(&a));
            spawn("computer", move || computes_until(&b));
            eprintln!("ready");
            sleeps_until(&never);
        });
    }
    let name = "sigquit_dumps_under_load_and_twice_ends_the_process";
    let mut running = Running::start(child(name, &[]));
    running.up_to("ready");
    for _ in 0..3 {
        running.quit();
        let text = running.up_to("== marcel: end");
        assert_eq!(text.matches("'gated' waiting (condvar)").count(), WAITING);
        // The busy ones come and go, if there is one virtual processor for both.
        assert!(line(&text, "allocator").is_some() && line(&text, "computer").is_some(), "{text}");
        assert!(paragraph(&text, "gated").unwrap().contains("waits_for_the_condition"));
        assert!(paragraph(&text, "main").unwrap().contains("sleeps_until"), "{text}");
        assert!(!text.contains("quit::handler"), "not where the signal found it: {text}");
        running.until_answered();
        std::thread::sleep(Duration::from_millis(1100)); // the next one is no second signal
    }
    running.quit();
    running.up_to("== marcel: 3"); // it has been taken, and the dump does not fit into the pipe
    std::thread::sleep(Duration::from_secs(2));
    running.quit();
    assert_eq!(running.signal(), Some(libc::SIGQUIT));
}

/// The diagnosis thread cannot begin the dump: it is stuck in a message of the watchdog's.
#[test]
fn a_second_sigquit_ends_a_process_that_cannot_answer_the_first() {
    let name = "a_second_sigquit_ends_a_process_that_cannot_answer_the_first";
    if is_child() {
        let runtime = Runtime::builder().build().unwrap();
        let writer = std::thread::spawn(|| {
            loop {
                eprintln!("noise");
            }
        });
        let never = AtomicBool::new(false);
        runtime.run(|| computes_until(&never));
        writer.join().unwrap();
    }
    let mut running = Running::start(child(name, &[("MARCEL_STALL_MS", "20")]));
    running.up_to("noise");
    // No thread reads on: soon the pipe is full, and the watchdog waits for room. Should it take longer, the dump will wait.
    std::thread::sleep(Duration::from_secs(1));
    for _ in 0..2 {
        running.quit();
        std::thread::sleep(Duration::from_millis(1500)); // these are no two signals in a second
    }
    assert_eq!(running.signal(), Some(libc::SIGQUIT));
}

#[test]
fn sigquit_is_left_to_who_wants_it() {
    extern "C" fn own(_: i32) {
        // SAFETY: writes static bytes.
        unsafe { libc::write(2, c"own handler\n".as_ptr().cast(), 12) };
    }
    let name = "sigquit_is_left_to_who_wants_it";
    if is_child() {
        let owned = std::env::var_os("MARCEL_TEST_OWN").is_some();
        if owned {
            // SAFETY: a handler that may run at any time.
            unsafe { libc::signal(libc::SIGQUIT, own as *const () as usize) };
        }
        let runtime = Runtime::builder().build().unwrap();
        if std::env::var_os("MARCEL_TEST_OVER").is_some() {
            drop(runtime);
        }
        eprintln!("ready");
        std::thread::sleep(Duration::from_secs(60));
        std::process::exit(3);
    }
    let mut owned = Running::start(child(name, &[("MARCEL_TEST_OWN", "1")]));
    owned.up_to("ready");
    for _ in 0..3 {
        owned.quit();
        owned.up_to("own handler");
    }
    assert!(owned.child.try_wait().unwrap().is_none(), "its own handler does not end it");
    for settings in [("MARCEL_SIGQUIT", "0"), ("MARCEL_TEST_OVER", "1")] {
        let mut default = Running::start(child(name, &[settings]));
        default.up_to("ready");
        default.quit();
        assert_eq!(default.signal(), Some(libc::SIGQUIT), "{settings:?}");
    }
}

#[test]
fn the_watchdog_names_a_thread_that_does_not_yield() {
    let name = "the_watchdog_names_a_thread_that_does_not_yield";
    if is_child() {
        let runtime = Runtime::builder().build().unwrap();
        // Until it is killed, once what the test asks for has been read.
        runtime.run(|| {
            for _ in 0..100 {
                let go = Arc::new(AtomicBool::new(false));
                let over = go.clone();
                let stuck = spawn("stuck", move || {
                    computes_until(&over);
                    marcel::sleep(Duration::from_millis(500));
                });
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_secs(2));
                    go.store(true, SeqCst);
                });
                stuck.join().unwrap();
            }
        });
        std::process::exit(0);
    }
    let running = Running::start(child(name, &[("MARCEL_STALL_MS", "100")]));
    // A thread that is off its core gives no sample in time: then the next one to be stuck has its backtrace.
    let mut text = running.up_to("computes_until");
    loop {
        let more = running.up_to("back after ");
        text += &more;
        if more.lines().next_back().is_some_and(|line| line.contains("'stuck'")) {
            break;
        }
    }
    // A machine that stops for a while may make others look stuck as well, and this one after its sleep.
    let about: Vec<_> = text.split("marcel: ").filter(|p| p.contains("'stuck'")).collect();
    let named = |p: &str| p.contains("has not yielded for ");
    assert!(about.iter().any(|p| named(p) && p.contains("computes_until")), "{text}");
    // Once each time.
    for (i, paragraph) in about.iter().enumerate() {
        assert_eq!(named(paragraph), i % 2 == 0, "{text}");
        assert_eq!(paragraph.contains("back after "), i % 2 == 1, "{text}");
    }
}

#[test]
fn a_stack_overflow_says_whose_how_large_and_where() {
    #[inline(never)]
    fn dives(n: u64) -> u64 {
        let room = std::hint::black_box([n; 64]);
        if n == 0 { 0 } else { dives(n - 1) + room[(n % 64) as usize] }
    }
    let name = "a_stack_overflow_says_whose_how_large_and_where";
    if is_child() {
        let runtime = Runtime::builder().build().unwrap();
        let _ = runtime.run(|| {
            let diver = marcel::Builder::new().name("diver").stack_size(128 << 10);
            diver.spawn(|| dives(1 << 40)).unwrap().join()
        });
    }
    let text = Running::start(child(name, &[])).rest();
    let said = text.lines().find(|l| l.contains("has overflowed its stack of 128 KiB"));
    let said = said.unwrap_or_else(|| panic!("not said: {text}"));
    assert!(said.contains("thread 'diver'") && said.contains("on vp"), "{text}");
    assert!(said.contains("Builder::stack_size") && said.contains("MARCEL_STACK_SIZE"), "{text}");
    assert!(text.matches("dives").count() > 3, "no backtrace: {text}");
    // Without the thread that says where, the rest is said all the same.
    let text = Running::start(child(name, &[("MARCEL_SIGQUIT", "0")])).rest();
    assert!(text.contains("thread 'diver' has overflowed its stack"), "{text}");
}

#[test]
fn a_wrong_limit_is_an_error_that_names_the_knob() {
    let name = "a_wrong_limit_is_an_error_that_names_the_knob";
    if is_child() {
        eprintln!("{}", Runtime::builder().build().unwrap_err());
        std::process::exit(0);
    }
    let text = Running::start(child(name, &[("MARCEL_STALL_MS", "soon")])).rest();
    assert!(text.contains("MARCEL_STALL_MS=\"soon\""), "{text}");
}

/// The script of `tools/gdb`, on a process and on its core file.
#[test]
fn gdb_walks_suspended_threads() {
    let name = "gdb_walks_suspended_threads";
    if is_child() {
        let runtime = Runtime::builder().build().unwrap();
        runtime.run(|| {
            let mutex = Arc::new(Mutex::new(7));
            let _held = mutex.lock();
            let never = Arc::new(AtomicBool::new(false));
            let (m, n) = (mutex.clone(), never.clone());
            spawn("locker", move || waits_for_the_mutex(&m));
            spawn("sleeper", move || sleeps_until(&n));
            let waits = |name: &str| {
                let threads = diagnosis::threads();
                let thread = threads.iter().find(|t| t.name.as_deref() == Some(name));
                thread.is_some_and(|t| t.state == State::Waiting)
            };
            while !waits("locker") || !waits("sleeper") {
                marcel::sleep(Duration::from_millis(5));
            }
            // SAFETY: stops us where the debugger waits.
            unsafe { libc::raise(libc::SIGTRAP) };
        });
    }
    let skipped = |why: &str| {
        use std::io::Write;
        // Past the harness, which swallows what a passing test says.
        let _ = writeln!(std::io::stderr(), "SKIPPED the debugger's script: {why}");
    };
    let about = Command::new("gdb").args(["-nx", "-batch", "-ex", "python print(1 + 1)"]).output();
    if !about.is_ok_and(|o| o.stdout.starts_with(b"2")) {
        return skipped("no gdb with Python");
    }
    let gdb = |before: &[&str], after: &[&str]| {
        let mut command = Command::new("gdb");
        command.args(["-nx", "-batch", "-iex", "set debuginfod enabled off"]);
        for what in [
            concat!("source ", env!("CARGO_MANIFEST_DIR"), "/../tools/gdb/marcel.py"),
            "marcel threads",
            "marcel bt all",
        ] {
            if what.starts_with("marcel threads") {
                command.args(before);
            }
            command.args(["-ex", what]);
        }
        command.args(after).env("MARCEL_TEST_CHILD", "1").stdin(Stdio::null());
        let output = command.output().unwrap();
        let [out, err] = [output.stdout, output.stderr].map(|t| String::from_utf8(t).unwrap());
        (out, err)
    };
    let check = |(out, err): (String, String), time: &str| {
        let told = |name: &str, reason: &str, function: &str| {
            let start = format!("'{name}' waiting ({reason}){time}");
            let both = out.matches(&start).count() == 2;
            let frames = out.rsplit("\n\n").find(|p| p.contains(&start) && p.contains("#0 "));
            both && frames.is_some_and(|p| p.contains(function) && p.contains("park_until"))
        };
        assert!(told("locker", "mutex", "waits_for_the_mutex"), "{out}\n{err}");
        assert!(told("sleeper", "sleep", "sleeps_until"), "{out}\n{err}");
        assert!(out.contains("'main' running"), "{out}\n{err}");
    };

    let program = std::env::current_exe().unwrap();
    let program = program.to_str().unwrap();
    let alive =
        gdb(&["-ex", "run"], &["-ex", "kill", "--args", program, name, "--exact", "--nocapture"]);
    if alive.1.contains("ptrace") {
        return skipped("ptrace is forbidden");
    }
    check(alive, " for ");

    let place = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("marcel-core-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    let mut dying = child(name, &[]);
    dying.current_dir(&place);
    let limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: one system call, which is async-signal-safe, on a valid limit.
    unsafe {
        use std::os::unix::process::CommandExt;
        dying.pre_exec(move || {
            libc::setrlimit(libc::RLIMIT_CORE, &limit);
            Ok(())
        });
    }
    assert_eq!(Running::start(dying).signal(), Some(libc::SIGTRAP));
    let core = std::fs::read_dir(&place).unwrap().find_map(Result::ok).map(|entry| entry.path());
    if let Some(core) = &core {
        check(gdb(&[], &[program, core.to_str().unwrap()]), "");
    }
    std::fs::remove_dir_all(&place).unwrap();
    if core.is_none() {
        skipped("no core file, see /proc/sys/kernel/core_pattern");
    }
}
