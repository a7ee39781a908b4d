//! Blocking calls from green threads: results, panics, borrowing, and that the virtual processor goes on.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use marcel::blocking::export;
use marcel::sync::Semaphore;
use marcel::{Mode, Runtime, blocking};

/// Runs `f` in mono mode, on one compute VP with reactive ones, and on more VPs than cores.
fn everywhere(f: impl Fn() + Send + Sync) {
    for (mode, vps) in [(Mode::Mono, 1), (Mode::Smp, 1), (Mode::Smp, 8)] {
        let runtime = Runtime::builder().mode(mode).vps(vps).build().unwrap();
        runtime.run(&f);
    }
}

fn pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    std::io::pipe().unwrap()
}

fn read_all(mut pipe: &std::io::PipeReader) -> String {
    let mut text = String::new();
    pipe.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn the_result_comes_back_and_the_closure_may_borrow() {
    everywhere(|| {
        let words = ["some", "words"].map(String::from);
        let mut lengths = Vec::new();
        let total = blocking(|| {
            lengths.extend(words.iter().map(String::len));
            lengths.iter().sum::<usize>()
        });
        assert_eq!((total, lengths), (9, vec![4, 5]));
    });
}

#[test]
fn an_exported_call_runs_elsewhere_and_not_as_a_green_thread() {
    everywhere(|| {
        let me = std::thread::current().id();
        let (green, there) = export(|| (marcel::is_green(), std::thread::current().id()));
        assert!(!green);
        assert_ne!(there, me);
        // A call within a call is made where it is.
        assert!(export(|| {
            let there = std::thread::current().id();
            blocking(|| std::thread::current().id()) == there
        }));
    });
}

#[test]
fn a_panic_comes_out_at_the_caller_and_the_pool_goes_on() {
    everywhere(|| {
        let payload =
            catch_unwind(AssertUnwindSafe(|| blocking(|| panic!("as planned")))).unwrap_err();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"as planned"));
        let payload = catch_unwind(AssertUnwindSafe(|| export(|| panic!("again")))).unwrap_err();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"again"));
        assert_eq!(export(|| 3), 3);
    });
}

#[test]
fn outside_green_threads_the_closure_is_called_directly() {
    let me = std::thread::current().id();
    assert_eq!(blocking(|| std::thread::current().id()), me);
    assert_eq!(export(|| std::thread::current().id()), me);
    let runtime = Runtime::builder().mode(Mode::NoThread).build().unwrap();
    assert_eq!(runtime.run(|| blocking(|| std::thread::current().id())), me);
}

/// One virtual processor: were it to block in the read, nobody would write.
#[test]
fn other_threads_run_while_one_sits_in_a_read() {
    for mode in [Mode::Mono, Mode::Smp] {
        let runtime = Runtime::builder().mode(mode).vps(1).build().unwrap();
        let text = runtime.run(|| {
            let (reader, mut writer) = pipe();
            let started = Arc::new(Semaphore::new(0));
            // Started before the read, so that nobody else may run it, and it takes many turns.
            let computing = {
                let started = started.clone();
                marcel::spawn(move || {
                    started.release();
                    (0..1000).for_each(|_| marcel::yield_now());
                    writer.write_all(b"written").unwrap();
                })
            };
            let reading = marcel::spawn(move || {
                started.acquire().forget();
                blocking(|| read_all(&reader))
            });
            computing.join().unwrap();
            reading.join().unwrap()
        });
        assert_eq!(text, "written");
    }
}

#[test]
fn files_and_processes() {
    everywhere(|| {
        let output = blocking(|| std::process::Command::new("echo").arg("hello").output()).unwrap();
        assert_eq!(output.stdout, b"hello\n");
        let name = std::env::temp_dir().join(format!("marcel-blocking-{}", std::process::id()));
        blocking(|| std::fs::write(&name, "text")).unwrap();
        assert_eq!(blocking(|| std::fs::read(&name)).unwrap(), b"text");
        blocking(|| std::fs::remove_file(&name)).unwrap();
    });
}

/// Lives in the frame of a thread that makes a call with a borrow of it.
struct Lent<'a> {
    used: &'a AtomicBool,
    dropped_after_use: Arc<AtomicBool>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.dropped_after_use.store(self.used.load(SeqCst), SeqCst);
    }
}

/// A runtime is dropped with one call running and another one waiting for the only thread of the pool: the first
/// is waited for, since it borrows from its caller's stack; the second never begins.
#[test]
fn a_runtime_that_stops_waits_for_the_calls_that_run() {
    for mode in [Mode::Mono, Mode::Smp] {
        let runtime = Runtime::builder().mode(mode).vps(1).blocking_max(1).build().unwrap();
        let (reader, mut writer) = pipe();
        let (began, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let dropped_after_use = Arc::new(AtomicBool::new(false));
        let second = Arc::new(AtomicBool::new(false));
        let running = {
            let (began, ended, after) = (began.clone(), ended.clone(), dropped_after_use.clone());
            runtime.spawn(move || {
                let used = AtomicBool::new(false);
                let lent = Lent { used: &used, dropped_after_use: after };
                export(|| {
                    began.store(true, SeqCst);
                    read_all(&reader);
                    lent.used.store(true, SeqCst);
                    ended.store(true, SeqCst);
                });
            })
        };
        while !began.load(SeqCst) {
            std::thread::yield_now();
        }
        let waiting = {
            let second = second.clone();
            runtime.spawn(move || export(|| second.store(true, SeqCst)))
        };
        // The second call is queued once its virtual processor has come back to run this.
        runtime.spawn(|| ()).join().unwrap();
        let dropping = std::thread::spawn(move || drop(runtime));
        // Only the stop ends it: from now on no call begins.
        let limit = Instant::now() + Duration::from_secs(60);
        while !waiting.is_finished() {
            assert!(Instant::now() < limit, "who waits for the pool is not unwound");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(20));
        assert!(!dropping.is_finished() && !ended.load(SeqCst));
        writer.write_all(b"at last").unwrap();
        drop(writer);
        dropping.join().unwrap();
        assert!(ended.load(SeqCst) && dropped_after_use.load(SeqCst));
        assert!(!second.load(SeqCst), "a call that had not begun ran after all");
        assert!(running.join().unwrap_err().is::<marcel::Stopped>());
        assert!(waiting.join().unwrap_err().is::<marcel::Stopped>());
    }
}

/// A destructor that makes a blocking call while its thread is unwound: the call is made directly.
#[test]
fn destructors_may_make_blocking_calls_while_the_runtime_stops() {
    struct Late(Arc<AtomicUsize>);
    impl Drop for Late {
        fn drop(&mut self) {
            blocking(|| self.0.fetch_add(1, SeqCst));
            export(|| self.0.fetch_add(1, SeqCst));
        }
    }
    let calls = Arc::new(AtomicUsize::new(0));
    let runtime = Runtime::builder().vps(1).build().unwrap();
    let (started, theirs) = (Arc::new(AtomicBool::new(false)), calls.clone());
    let seen = started.clone();
    let parked = runtime.spawn(move || {
        let _late = Late(theirs);
        seen.store(true, SeqCst);
        loop {
            marcel::park();
        }
    });
    while !started.load(SeqCst) {
        std::thread::yield_now();
    }
    drop(runtime);
    assert_eq!(calls.load(SeqCst), 2);
    assert!(parked.join().is_err());
}

/// As above, in a destructor that a panic runs, which therefore is not unwound: a call that has not begun when the
/// runtime stops is made by the caller.
#[test]
fn a_call_of_a_destructor_in_a_panic_is_made_although_the_runtime_stops() {
    struct Calls(Arc<AtomicBool>, Arc<AtomicBool>);
    impl Drop for Calls {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
            export(|| self.1.store(true, SeqCst));
        }
    }
    let runtime = Runtime::builder().vps(1).blocking_max(1).build().unwrap();
    let (reader, writer) = pipe();
    let first = runtime.spawn(move || export(|| read_all(&reader)));
    let (queued, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let calls = Calls(queued.clone(), made.clone());
    let second = runtime.spawn(move || {
        let _calls = calls;
        panic!("as planned");
    });
    while !queued.load(SeqCst) {
        std::thread::yield_now();
    }
    runtime.spawn(|| ()).join().unwrap();
    let dropping = std::thread::spawn(move || drop(runtime));
    while !made.load(SeqCst) {
        std::thread::yield_now();
    }
    drop(writer);
    dropping.join().unwrap();
    assert!(first.join().is_err());
    assert!(second.join().is_err());
}

#[test]
fn a_pool_of_no_thread_is_refused_with_a_reason() {
    let error = Runtime::builder().blocking_max(0).build().unwrap_err();
    assert!(error.to_string().contains("blocking_max"), "{error}");
}

/// What a green thread gives away to a call must be able to go to another kernel thread.
#[test]
fn descriptors_can_be_given_away() {
    everywhere(|| {
        let (reader, writer) = pipe();
        let writer: OwnedFd = writer.into();
        export(move || drop(writer));
        assert_eq!(read_all(&reader), "");
    });
}
