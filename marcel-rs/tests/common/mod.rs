//! A test in a process of its own: where a failure is an abort or a hang, and where the process is what is measured.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CHILD: &str = "MARCEL_TEST_CHILD";

/// Whether this process was started by [`in_a_child`] for the test `name`.
pub(crate) fn is_child(name: &str) -> bool {
    std::env::var_os(CHILD).is_some_and(|child| child == name)
}

/// Runs `body` in a child process, by starting this test program again for the test `name`; fails if the child does,
/// or takes longer than `limit`. Gives what the child wrote to its standard error.
pub(crate) fn in_a_child(name: &str, limit: Duration, body: impl FnOnce()) -> String {
    if is_child(name) {
        body();
        std::process::exit(0);
    }
    let (success, text) = run(name, limit, |_| ());
    assert!(success, "the child failed:\n{text}");
    text
}

/// Starts this test program again for the test `name`, prepared by `prepare`; whether it succeeded, and what it wrote
/// to its standard error.
pub(crate) fn run(
    name: &str,
    limit: Duration,
    prepare: impl FnOnce(&mut Command),
) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, name)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    prepare(&mut command);
    let mut child = command.spawn().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stderr.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let end = Instant::now() + limit;
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if Instant::now() >= end => {
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let text = reader.join().unwrap();
    match status {
        Some(status) => (status.success(), format!("{text}\n({status})")),
        None => (false, format!("{text}\n(killed after {limit:?}: it hangs)")),
    }
}
