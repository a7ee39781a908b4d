//! What a program says that cannot end, since a thread that is unwound waits for a message. In child processes, which do
//! not end by themselves.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use marcel::Runtime;
use newmad::{SendOptions, Session};
use pioman::Manager;

/// Runs in the processes that the other tests start; does nothing otherwise.
#[test]
fn child() {
    let Ok(scenario) = std::env::var("SLOW_END") else { return };
    let manager = Manager::builder().build().unwrap();
    let session = Session::local_world(1, &manager).unwrap().pop().unwrap();
    if scenario == "scope" {
        let _ = session.scope(|scope| {
            let _short = scope.isend(0, 7, &[1, 2, 3])?;
            let _unmatched =
                scope.isend_with(0, 9, &[1u8, 2, 3, 4][..], SendOptions::new().sync())?;
            panic!("in the middle");
            #[expect(unreachable_code, reason = "the type of the result")]
            Ok(())
        });
        unreachable!("the scope is over");
    }
    let runtime = Runtime::builder().vps(1).hooks(manager).build().unwrap();
    let (tell, told) = channel();
    let sender = move || {
        tell.send(()).unwrap();
        session.send(0, 5, &vec![1; 1_000_000]).unwrap();
    };
    runtime.run(move || marcel::Builder::new().name("sender").spawn_detached(sender)).unwrap();
    told.recv().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    drop(runtime);
    unreachable!("the runtime has ended");
}

/// Starts a child and ends it when it has written all of `expected` in any order, and two lines with what it waits for.
fn says(scenario: &str, expected: &[&str], waits: &str) {
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
    let tells = |text: &str| {
        let waits =
            |line: &&str| line.contains("is unwound and has waited") && line.contains(waits);
        expected.iter().all(|part| text.contains(part)) && text.lines().filter(waits).count() >= 2
    };
    while !tells(&text) {
        let Ok(line) = lines.recv_timeout(limit.saturating_duration_since(Instant::now())) else {
            child.kill().unwrap();
            panic!("some of {expected:?}, or twice {waits:?}, is missing in:\n{text}");
        };
        text += &line;
        text.push('\n');
    }
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
}

#[test]
fn a_sender_without_a_receiver_is_named_when_its_runtime_stops() {
    let expected =
        ["the end of a runtime has waited", "'sender' waits (I/O)", "thread 'sender' is unwound"];
    says("sender", &expected, " s for its send of 1000000 bytes to rank 0, tag 0x5");
}

#[test]
fn a_panic_in_a_scope_with_an_unmatched_send_says_what_it_waits_for() {
    says("scope", &[], " s for its send of 4 bytes to rank 0, tag 0x9");
}
