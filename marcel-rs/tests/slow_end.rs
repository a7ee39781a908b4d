//! What a runtime says that cannot stop: which threads hold it up, where and on what. In child processes, which do not
//! end by themselves.
#![cfg(feature = "backtraces")]

use std::io::{BufRead, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use marcel::Runtime;
use marcel::sync::{Event, Mutex};

#[inline(never)]
fn swallows_the_unwinding(event: &Event) {
    loop {
        let _ = catch_unwind(AssertUnwindSafe(|| event.wait()));
        std::hint::black_box(event);
    }
}

#[inline(never)]
fn never_yields() {
    loop {
        std::hint::black_box(0);
    }
}

struct Closer(Arc<Mutex<()>>);

impl Drop for Closer {
    fn drop(&mut self) {
        waits_for_the_mutex(&self.0);
    }
}

#[inline(never)]
fn waits_for_the_mutex(mutex: &Mutex<()>) {
    let _held = std::hint::black_box(mutex.lock());
}

const HEAD: &str = "the end of a runtime has waited";

/// Runs in the processes that the other tests start; does nothing otherwise.
#[test]
fn child() {
    let Ok(scenario) = std::env::var("SLOW_END") else { return };
    let runtime = Runtime::builder().vps(1).build().unwrap();
    let (tell, told) = channel();
    let name = marcel::Builder::new();
    runtime
        .run(move || match scenario.as_str() {
            "swallows" => name.name("worker").spawn_detached(move || {
                tell.send(()).unwrap();
                swallows_the_unwinding(&Event::new());
            }),
            "closes" => name.name("closer").spawn_detached(move || {
                let mutex = Arc::new(Mutex::new(()));
                std::mem::forget(mutex.lock());
                let _closer = Closer(mutex);
                tell.send(()).unwrap();
                Event::new().wait();
            }),
            _ => name.name("spinner").spawn_detached(move || {
                tell.send(()).unwrap();
                never_yields();
            }),
        })
        .unwrap();
    told.recv().unwrap();
    drop(runtime);
    unreachable!("the runtime has ended");
}

/// Starts a child and ends it when it has written, twice, all of `expected` in this order.
fn says_twice(scenario: &str, expected: &[&str]) {
    let limit = Instant::now() + Duration::from_secs(60);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env("SLOW_END", scenario)
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let (line, lines) = channel();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let reader = std::thread::spawn(move || {
        for text in stderr.lines().map_while(Result::ok) {
            let _ = line.send(text);
        }
    });
    let mut text = String::new();
    for part in expected.iter().chain(expected) {
        loop {
            let left = limit.saturating_duration_since(Instant::now());
            let Ok(line) = lines.recv_timeout(left) else {
                child.kill().unwrap();
                panic!("{part:?} is missing in:\n{text}");
            };
            text += &line;
            text.push('\n');
            if line.contains(part) {
                break;
            }
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
}

#[test]
fn a_thread_that_swallows_the_unwinding_is_named_with_where_it_is() {
    says_twice("swallows", &[HEAD, "'worker'", "swallows_the_unwinding"]);
}

#[test]
fn a_thread_that_never_yields_is_named_with_where_it_is() {
    says_twice("spins", &[HEAD, "'spinner' runs", "never_yields"]);
}

#[test]
fn a_destructor_that_waits_is_named_with_what_it_waits_for() {
    says_twice("closes", &[HEAD, "'closer' waits (mutex)", "waits_for_the_mutex", "Closer"]);
}
