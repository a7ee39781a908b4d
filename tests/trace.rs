//! What a run records, and the picture that `mad trace` makes of it.

mod common;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::*;
use serde_json::Value;

/// An empty directory of this test's.
fn fresh(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("mad-trace-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    dir
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Checks what the format demands, and returns the events.
fn events(json: &str) -> Vec<Value> {
    let document: Value = serde_json::from_str(json).unwrap();
    let events = document["traceEvents"].as_array().unwrap().clone();
    let mut stacks: HashMap<(u64, u64), Vec<String>> = HashMap::new();
    let mut last = 0.0;
    let (mut begun, mut ended) = (HashSet::new(), HashSet::new());
    let mut waits: HashMap<String, i32> = HashMap::new();
    for event in &events {
        let ph = event["ph"].as_str().unwrap();
        let ts = event["ts"].as_f64().unwrap();
        let track = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        let name = event["name"].as_str().unwrap().to_owned();
        let id = || event["id"].as_str().unwrap().to_owned();
        assert!(ts >= last, "times run backwards: {event}");
        last = ts;
        let stack = stacks.entry(track).or_default();
        match ph {
            "B" => stack.push(name),
            "E" => assert_eq!(stack.pop(), Some(name), "{event}"),
            "s" => {
                assert!(!stack.is_empty(), "a flow begins outside of a slice: {event}");
                assert!(begun.insert(id()));
            }
            "f" => {
                assert!(begun.contains(&id()), "a flow ends before it begins: {event}");
                assert!(ended.insert(id()));
            }
            "b" => *waits.entry(id()).or_default() += 1,
            "e" => *waits.entry(id()).or_default() -= 1,
            "i" | "C" | "M" => {}
            other => panic!("unknown phase {other}"),
        }
    }
    assert!(stacks.values().all(Vec::is_empty), "slices that do not end: {stacks:?}");
    assert_eq!(begun, ended, "wake-ups without a run");
    assert!(waits.values().all(|open| *open == 0));
    events
}

fn count(events: &[Value], ph: &str, name: impl Fn(&str) -> bool) -> usize {
    events.iter().filter(|e| e["ph"] == ph && name(e["name"].as_str().unwrap())).count()
}

#[test]
fn a_run_of_two_is_one_picture() {
    let dir = fresh("two");
    let stencil = example("stencil");
    let args = ["run", "-n", "2", "--trace", text(&dir), text(&stencil), "--size", "64"];
    let output = run(&args);
    assert!(output.status.success(), "{}", err(&output));
    let json = dir.join("picture.json");
    let output = run(&["trace", text(&dir), "-o", text(&json)]);
    assert!(output.status.success(), "{}", err(&output));
    let events = events(&std::fs::read_to_string(&json).unwrap());
    let processes: HashSet<_> = events.iter().map(|e| e["pid"].as_u64().unwrap()).collect();
    assert_eq!(processes.len(), 2);
    assert_eq!(count(&events, "M", |name| name == "process_name"), 2);
    assert!(count(&events, "B", |name| name.starts_with("main (")) >= 2, "each has a main thread");
    assert!(count(&events, "s", |_| true) >= 2, "somebody was woken");
    let output = run(&["trace", "--summary", text(&dir)]);
    let summary = out(&output);
    for wanted in ["rank 0", "rank 1", "vp0", "reactive vp0", "from wake-up to run"] {
        assert!(summary.contains(wanted), "{wanted} is not in\n{summary}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn each_process_tells_what_its_manager_did() {
    let stencil = example("stencil");
    let output = run(&["run", "-n", "2", "--stats", text(&stencil), "--size", "64"]);
    assert!(output.status.success(), "{}", err(&output));
    let told = err(&output);
    for wanted in ["pioman: rank 0", "pioman: rank 1", "newmad", "library", "sleeps:"] {
        assert!(told.contains(wanted), "{wanted} is not in\n{told}");
    }
}

/// One manager in this process: what it runs and calls has its name in the picture.
#[test]
fn light_tasks_callbacks_and_completions_are_seen() {
    use pioman::server::{Outcome, Server};
    use pioman::{Completion, Progress, TaskBuilder, TaskletBuilder};

    let dir = fresh("tasks");
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("one");
    marcel::trace::start(1 << 16).unwrap();
    let manager = pioman::Manager::builder().mode(marcel::Mode::NoThread).build().unwrap();
    let done = Arc::new(Completion::new());
    let completer = done.clone();
    let name = format!("made up {}", 1); // not a constant
    let task = TaskBuilder::new().name(name).submit_once(&manager, move || completer.complete());
    assert_eq!(task.unwrap().wait(), Ok(()));
    assert!(done.is_done());
    let mut left = 3;
    let constant = TaskBuilder::new().name("constant").submit(&manager, move || {
        left -= 1;
        if left == 0 { panic!("on purpose") } else { Progress::Again }
    });
    assert!(constant.unwrap().wait().is_err());
    let tasklet = TaskletBuilder::new().name("tasklet").build(&manager, || ()).unwrap();
    tasklet.schedule();
    let builder = Server::builder(&manager, "disk").poll_one(|request: &_| {
        let request: &pioman::server::Pending<()> = request;
        request.complete(7);
    });
    let server = builder.start().unwrap();
    assert_eq!(server.submit(()).unwrap().wait(), Outcome::Completed(7));
    TaskBuilder::new().submit_once(&manager, || ()).unwrap().wait().unwrap(); // visits the tasklet
    marcel::trace::save(&file).unwrap();
    let output = run(&["trace", text(&file)]);
    assert!(output.status.success(), "{}", err(&output));
    let events = events(&out(&output));
    let begun = |wanted: &str| count(&events, "B", |name| name == wanted);
    assert_eq!(begun("task made up 1"), 1);
    // Others may follow each other too fast for each to be recorded.
    for wanted in ["task constant", "task tasklet", "server disk: poll one"] {
        assert!(begun(wanted) >= 1, "{wanted}");
    }
    assert!(count(&events, "i", |name| name == "a request completes") >= 1);
    let output = run(&["trace", "--summary", text(&file)]);
    assert!(output.status.success(), "{}", err(&output));
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn the_latest_records_are_kept() {
    let dir = fresh("latest");
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("one");
    let output = std::process::Command::new(example("hello"))
        .env("MARCEL_TRACE", &file)
        .env("MARCEL_TRACE_RECORDS", "16")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let output = run(&["trace", text(&file)]);
    assert!(output.status.success(), "{}", err(&output));
    events(&out(&output));
    assert!(std::fs::metadata(&file).unwrap().len() < 200_000, "16 records for each kernel thread");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_is_not_a_trace_is_refused() {
    let dir = fresh("bad");
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("x.trace");
    std::fs::write(&file, "MADTRACE and then something else").unwrap();
    let missing = dir.join("missing");
    let empty = dir.join("empty");
    std::fs::create_dir(&empty).unwrap();
    for path in [&file, &missing, &empty, &example("hello")] {
        for how in ["--summary", "-o/dev/null"] {
            let output = run(&["trace", how, text(path)]);
            assert_eq!(output.status.code(), Some(1), "{}", path.display());
            assert!(err(&output).contains(text(path)), "{}", err(&output));
        }
    }
    assert_eq!(run(&["trace"]).status.code(), Some(2));
    std::fs::remove_dir_all(dir).unwrap();
}
