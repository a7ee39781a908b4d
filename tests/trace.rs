//! What a run records, and the picture that `mad trace` makes of it.

mod common;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

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
