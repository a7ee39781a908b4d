//! What a run records, and the picture that `mad trace` makes of it.

mod common;

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::os::fd::FromRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

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
            "t" => assert!(!stack.is_empty() && begun.contains(&id()), "{event}"),
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
    assert!(count(&events, "s", |_| true) >= 2, "a thread was woken");
    let output = run(&["trace", "--summary", text(&dir)]);
    let summary = out(&output);
    for wanted in ["rank 0", "rank 1", "vp0", "reactive vp0", "from wake-up to run"] {
        assert!(summary.contains(wanted), "{wanted} is not in\n{summary}");
    }
    // Without -o a pipe gets the picture, and a terminal the tables.
    let piped = run(&["trace", text(&dir)]);
    assert!(out(&piped).starts_with('{'), "the picture is JSON");
    // Consoles and the terminals of some editors give their width as 0.
    for width in [160, 0] {
        let seen = on_a_terminal(mad(&["trace", text(&dir)]), width);
        for wanted in ["rank 1", "reactive vp0", "from wake-up to run", "-o FILE.json"] {
            assert!(seen.contains(wanted), "{wanted} is not in\n{seen}");
        }
        let row = |line: &str| line.contains("vp0") && line.contains(" %");
        assert!(seen.lines().any(row), "no row of a table is in\n{seen}");
        assert!(!seen.contains("traceEvents") && seen.len() < 20_000, "{} bytes", seen.len());
    }
    // One picture of two runs would be wrong: a second run takes another folder.
    let traces = || std::fs::read_dir(&dir).unwrap().count();
    let before = traces();
    let output = run(&args);
    assert_eq!(output.status.code(), Some(1));
    let said = err(&output);
    assert!(said.contains("traces of an earlier run") && said.contains("rm "), "{said}");
    assert_eq!((out(&output).as_str(), traces()), ("", before), "nothing has run");
    std::fs::remove_dir_all(dir).unwrap();
}

/// What a command writes to its standard output where that is a terminal that gives its width as `columns`.
fn on_a_terminal(mut command: Command, columns: u16) -> String {
    let (mut master, mut slave) = (-1, -1);
    let size = libc::winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the descriptors and the size live through the call; a null name and null attributes are allowed.
    let opened = unsafe {
        libc::openpty(&mut master, &mut slave, std::ptr::null_mut(), std::ptr::null(), &size)
    };
    assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: `openpty` has just given them to this process, which hands them on to one owner each.
    let (master, slave) =
        unsafe { (std::fs::File::from_raw_fd(master), std::fs::File::from_raw_fd(slave)) };
    let mut child = command.stdout(slave).spawn().unwrap();
    // Its copy of the slave is the last one then.
    drop(command);
    let mut seen = Vec::new();
    // Linux ends the reading of a terminal that has no writer with EIO.
    let _ = (&master).read_to_end(&mut seen);
    assert!(child.wait().unwrap().success());
    String::from_utf8(seen).unwrap()
}

/// The value of a slice's argument.
fn arg(event: &Value, name: &str) -> u64 {
    event["args"][name].as_u64().unwrap_or_else(|| panic!("no {name}: {event}"))
}

/// Short messages, long ones, to receives that wait and to some that do not, over links that may break and others;
/// several in one packet. Each has one arrow, from its sender's process to the receiver's, which says the same of it.
fn every_message_has_its_arrow(driver: &str, strategy: &str, bench: &[&str]) {
    let dir = fresh(&format!("{driver}-{strategy}-{}", bench[0]));
    let traces = format!("{}/", text(&dir));
    let output = mad(&["bench"])
        .args(bench)
        .args(["--driver", driver, "--library", "newmad", "--rounds", "1", "--json"])
        .env("MARCEL_TRACE", &traces)
        .env("MARCEL_TRACE_RECORDS", "1000000")
        .env("NMAD_STRATEGY", strategy)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let output = run(&["trace", text(&dir)]);
    assert!(output.status.success(), "{}", err(&output));
    let events = events(&out(&output));
    let told = |ph: &str, verbs: &[&str]| -> Vec<Value> {
        let named = |event: &&Value| {
            let name = event["name"].as_str().unwrap();
            event["ph"] == ph
                && event["cat"] == "message"
                && verbs.iter().any(|verb| name.starts_with(verb))
        };
        events.iter().filter(named).cloned().collect()
    };
    let (left, received) = (told("B", &["sends", "announces"]), told("B", &["received"]));
    assert!(left.len() > 20, "{}", left.len());
    if bench[0] == "latency" {
        // How the long ones moved, and why.
        let hows = ["get: ", "put: ", "fragments: "];
        let told = count(&events, "i", |name| hows.iter().any(|how| name.contains(how)));
        assert!(told >= 20, "{told}");
    }
    let sum = |of: &[Value], name: &str| of.iter().map(|event| arg(event, name)).sum::<u64>();
    assert_eq!(left.len(), received.len());
    assert_eq!(sum(&left, "bytes"), sum(&received, "bytes"));
    let (begun, ended) = (told("s", &["message"]), told("f", &["message"]));
    assert_eq!((begun.len(), ended.len()), (left.len(), left.len()));
    let ends: HashMap<_, _> = ended.iter().map(|end| (end["id"].clone(), end)).collect();
    for begin in &begun {
        let end = ends[&begin["id"]];
        assert_ne!(begin["pid"], end["pid"], "{begin} {end}");
    }
    // What is told of a message is told just before its arrow's end.
    let slices: HashMap<_, _> = events
        .windows(2)
        .filter(|pair| pair[1]["cat"] == "message" && pair[1].get("id").is_some())
        .map(|pair| ((pair[1]["id"].clone(), pair[1]["ph"].clone()), &pair[0]))
        .collect();
    let about = |id: &Value, ph: &str| {
        let slice = slices.get(&(id.clone(), ph.into()))?;
        (slice["ph"] == "B" && slice["cat"] == "message")
            .then(|| (arg(slice, "tag"), arg(slice, "bytes")))
    };
    let mut compared = 0;
    for begin in &begun {
        if let (Some(one), Some(other)) = (about(&begin["id"], "s"), about(&begin["id"], "f")) {
            assert_eq!(one, other, "{begin}");
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared} of {}", begun.len());
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn every_message_over_shared_memory_has_its_arrow() {
    every_message_has_its_arrow(
        "shm",
        "default",
        &["latency", "--size", "1,4096,300000", "--iters", "20"],
    );
    every_message_has_its_arrow("shm", "aggreg", &["rate", "--size", "8", "--iters", "2"]);
}

#[test]
fn every_message_over_sockets_has_its_arrow() {
    every_message_has_its_arrow(
        "tcp",
        "aggreg",
        &["latency", "--size", "1,4096,300000", "--iters", "20"],
    );
}

#[test]
fn a_moment_is_one_picture() {
    let dir = fresh("moment");
    let stencil = example("stencil");
    let args = ["run", "-n", "2", "--trace", text(&dir), text(&stencil), "--size", "64"];
    let output = run(&args);
    assert!(output.status.success(), "{}", err(&output));
    let output = run(&["trace", "--svg", text(&dir)]);
    assert!(output.status.success(), "{}", err(&output));
    let svg = out(&output);
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"), "{svg}");
    for wanted in
        ["rank 0", "rank 1", "vp0", "<path class=\"m\" marker-end", "prefers-color-scheme"]
    {
        assert!(svg.contains(wanted), "no {wanted} in\n{svg}");
    }
    let output = run(&["trace", "--svg", "--from", "0", "--to", "0.000001", text(&dir)]);
    assert!(
        !out(&output).contains("<path class=\"m\" marker-end=\"url(#to)\" d=\"M1"),
        "no message then"
    );
    for wrong in
        [["--from", "2", "--to", "1"], ["--from", "x", "--to", "1"], ["--from", "1", "--to", "nan"]]
    {
        let args = [&["trace", "--svg"][..], &wrong[..], &[text(&dir)][..]].concat();
        assert_eq!(run(&args).status.code(), Some(2), "{wrong:?}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn each_process_tells_what_its_manager_did() {
    let stencil = example("stencil");
    let output = run(&["run", "-n", "2", "--stats", text(&stencil), "--size", "64"]);
    assert!(output.status.success(), "{}", err(&output));
    let told = err(&output);
    for wanted in ["pioman: rank 0", "pioman: rank 1", "newmad         wait ", "sleeps:"] {
        assert!(told.contains(wanted), "{wanted} is not in\n{told}");
    }
}

/// One manager in this process: what it runs and calls has its name in the picture.
#[test]
fn light_tasks_callbacks_and_completions_are_seen() {
    use pioman::{Completion, Progress, TaskBuilder, TaskletBuilder};
    use pioman_extras::server::{Outcome, Server};

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
    // Of events that follow each other within nanoseconds some are only counted. After these, which do not, two are recorded.
    let leisurely = || {
        for _ in 0..150 {
            TaskBuilder::new().submit_once(&manager, || ()).unwrap().wait().unwrap();
            std::thread::sleep(Duration::from_micros(20));
        }
    };
    let mut left = 3;
    leisurely();
    let constant = TaskBuilder::new().name("constant").submit(&manager, move || {
        left -= 1;
        if left == 0 { panic!("on purpose") } else { Progress::Again }
    });
    assert!(constant.unwrap().wait().is_err());
    let tasklet = TaskletBuilder::new().name("tasklet").build(&manager, || ()).unwrap();
    for round in 0..100 {
        tasklet.schedule();
        // Its wait visits the tasklet, before this task or after it.
        let task = move || std::thread::sleep(Duration::from_micros(round % 2 * 30));
        TaskBuilder::new().submit_once(&manager, task).unwrap().wait().unwrap();
        std::thread::sleep(Duration::from_micros(20));
    }
    let builder = Server::builder(&manager, "disk").poll_one(|request: &_| {
        let request: &pioman_extras::server::Pending<()> = request;
        request.complete(7);
    });
    let server = builder.start().unwrap();
    leisurely();
    assert_eq!(server.submit(()).unwrap().wait(), Outcome::Completed(7));
    marcel::trace::save(&file).unwrap();
    let output = run(&["trace", text(&file)]);
    assert!(output.status.success(), "{}", err(&output));
    let events = events(&out(&output));
    let begun = |wanted: &str| count(&events, "B", |name| name == wanted);
    assert_eq!(begun("task made up 1"), 1);
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

#[test]
fn a_trace_is_not_overwritten_by_a_picture() {
    let dir = fresh("spared");
    std::fs::create_dir_all(&dir).unwrap();
    for name in ["a.trace", "b.trace"] {
        let mut hello = alone(example("hello"));
        let output = hello.env("MARCEL_TRACE", dir.join(name)).output().unwrap();
        assert!(output.status.success(), "{}", err(&output));
    }
    std::os::unix::fs::symlink("a.trace", dir.join("link")).unwrap();
    let bytes = || ["a.trace", "b.trace"].map(|name| std::fs::read(dir.join(name)).unwrap());
    let before = bytes();
    let in_dir = |args: &[&str]| mad(args).current_dir(&dir).output().unwrap();
    for args in [
        &["trace", "a.trace", "-o", "a.trace"][..],
        &["trace", ".", "-o", "link", "--svg"],
        // What a shell makes of `-o *.trace`.
        &["trace", "-o", "a.trace", "b.trace"],
    ] {
        let output = in_dir(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", err(&output));
        assert!(err(&output).contains("would be overwritten"), "{args:?}: {}", err(&output));
        assert!(bytes() == before, "{args:?}");
    }
    // A picture is.
    for _ in 0..2 {
        let output = in_dir(&["trace", "a.trace", "-o", "picture.json"]);
        assert!(output.status.success(), "{}", err(&output));
    }
    std::fs::remove_dir_all(dir).unwrap();
}
