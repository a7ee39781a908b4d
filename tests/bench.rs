//! `mad bench`: every experiment runs with few samples, and its JSON has the documented shape.

mod common;
mod measured;

use std::collections::BTreeSet;

use common::{err, out, run};
use measured::bench;
use serde_json::Value;

/// The values that a key of the configuration takes, sorted.
fn values(objects: &[Value], key: &str) -> Vec<String> {
    let set: BTreeSet<String> =
        objects.iter().map(|object| object["config"][key].to_string()).collect();
    set.into_iter().collect()
}

fn metrics(objects: &[Value], which: impl Fn(&Value) -> bool) -> BTreeSet<String> {
    objects
        .iter()
        .filter(|object| which(&object["config"]))
        .map(|object| object["metric"].as_str().unwrap().to_owned())
        .collect()
}

fn names(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn overlap() {
    let objects = bench(
        "overlap",
        &[
            "--size",
            "4,100000",
            "--compute-us",
            "2000",
            "--iters",
            "2",
            "--rounds",
            "2",
            "--side",
            "receiver,sender,both",
        ],
    );
    assert_eq!(values(&objects, "driver"), ["\"shm\"", "\"tcp\""]);
    assert_eq!(values(&objects, "size"), ["0", "100000", "4"]);
    let of = |side: &'static str, compute: u64| {
        metrics(&objects, move |c| c["side"] == side && c["compute_us"] == compute)
    };
    assert_eq!(
        of("receiver", 2000),
        names(&[
            "send_time",
            "recv_time",
            "compute_time",
            "total_time",
            "overlap_ratio",
            "slowdown"
        ])
    );
    assert_eq!(
        of("sender", 2000),
        names(&["recv_time", "compute_time", "total_time", "overlap_ratio", "slowdown"])
    );
    assert_eq!(
        of("both", 2000),
        names(&["compute_time", "total_time", "overlap_ratio", "slowdown"])
    );
    assert_eq!(of("receiver", 0), names(&["send_time", "recv_time", "total_time"]));
    assert_eq!(of("none", 2000), names(&["compute_time"]));
    for object in &objects {
        for key in ["driver", "mode", "policy", "progression", "size", "compute_us", "side"] {
            assert!(!object["config"][key].is_null(), "{key}: {object}");
        }
    }
}

#[test]
fn overlap_in_every_mode() {
    let objects = bench(
        "overlap",
        &[
            "--mode",
            "no-thread,mono,smp",
            "--progression",
            "0,1",
            "--size",
            "100000",
            "--compute-us",
            "2000",
            "--iters",
            "1",
            "--rounds",
            "1",
        ],
    );
    assert_eq!(values(&objects, "mode"), ["\"mono\"", "\"no-thread\"", "\"smp\""]);
    assert_eq!(values(&objects, "progression"), ["0", "1"]);
}

#[test]
fn without_progression_the_sender_waits_for_the_computation() {
    let objects = bench(
        "overlap",
        &[
            "--progression",
            "0",
            "--size",
            "1M",
            "--compute-us",
            "20000",
            "--iters",
            "20",
            "--rounds",
            "1",
        ],
    );
    let mut seen = 0;
    for object in &objects {
        let config = &object["config"];
        if object["metric"] == "send_time" && config["compute_us"] == 20000 {
            seen += 1;
            // The receiver computes for 20 ms, less the head start that it gets: at least 15 on any machine,
            // since the computation can only become longer. This is what figure 3 of [Trahay07] is about.
            // One sample is enough, and each is one only if the receiver computes when the message comes: on a
            // machine that is busy with other things it may still be on its way there.
            assert!(object["max"].as_f64().unwrap() > 15_000.0, "{object}");
        }
    }
    assert_eq!(seen, 2);
}

#[test]
fn reactivity() {
    let objects = bench("reactivity", &["--threads", "0,3", "--iters", "50", "--rounds", "1"]);
    assert_eq!(values(&objects, "threads"), ["0", "3"]);
    assert_eq!(
        metrics(&objects, |c| c["side"] == "both" && c["threads"] == 3),
        names(&[
            "half_round_trip",
            "weighted_trip",
            "compute_time",
            "total_time",
            "cpu_time",
            "slowdown",
            "slowdown_wall"
        ])
    );
    assert_eq!(metrics(&objects, |c| c["side"] == "none"), names(&["compute_time", "total_time"]));
    let trips = objects.iter().find(|o| o["metric"] == "half_round_trip").unwrap();
    assert_eq!((trips["n"].as_u64(), trips["unit"].as_str()), (Some(50), Some("us")));
}

#[test]
fn rpc() {
    let few = ["--size", "1,70000", "--threads", "0,3", "--iters", "20", "--rounds", "1"];
    let objects = bench("rpc", &few);
    assert_eq!(values(&objects, "op"), ["\"inline\"", "\"thread\""]);
    assert_eq!(values(&objects, "driver"), ["\"shm\"", "\"tcp\""]);
    let of = |window: u64, size: u64| {
        metrics(&objects, move |c| c["window"] == window && c["size"] == size && c["threads"] == 3)
    };
    assert_eq!(of(1, 1), names(&["call_time", "call_rate"]));
    assert_eq!(of(64, 70000), names(&["call_rate", "bandwidth"]));
}

#[test]
fn latency() {
    let objects = bench("latency", &["--size", "1,2K,100000", "--iters", "30", "--rounds", "2"]);
    assert_eq!(values(&objects, "library"), ["\"bare\"", "\"newmad\""]);
    let of = |driver: &'static str, library: &'static str, size: u64| {
        metrics(&objects, move |c| {
            c["driver"] == driver && c["library"] == library && c["size"] == size
        })
    };
    assert_eq!(of("shm", "newmad", 1), names(&["half_round_trip", "latency_ratio"]));
    assert_eq!(
        of("shm", "newmad", 2048),
        names(&["half_round_trip", "bandwidth", "latency_ratio"])
    );
    assert_eq!(of("tcp", "newmad", 1), names(&["half_round_trip", "latency_ratio"]));
    assert_eq!(of("tcp", "bare", 1), names(&["half_round_trip"]));
    assert_eq!(of("shm", "bare", 100_000), names(&["half_round_trip", "bandwidth"]));
}

#[test]
fn locking() {
    let objects = bench(
        "locking",
        &["--mode", "no-thread,smp", "--size", "4,4096", "--iters", "30", "--rounds", "2"],
    );
    assert_eq!(values(&objects, "driver"), ["\"shm\"", "\"tcp\""]);
    assert_eq!(metrics(&objects, |c| c["lock"] == "none"), names(&["half_round_trip"]));
    for lock in ["coarse", "fine"] {
        assert_eq!(
            metrics(&objects, |c| c["lock"] == lock),
            names(&["half_round_trip", "added_time"])
        );
    }
}

#[test]
fn delegation() {
    let objects = bench("delegation", &["--mode", "mono,smp", "--iters", "30", "--rounds", "2"]);
    assert_eq!(values(&objects, "driver"), ["\"shm\"", "\"tcp\""]);
    assert_eq!(values(&objects, "method"), ["\"caller\"", "\"idle\"", "\"task\"", "\"wait\""]);
    assert_eq!(metrics(&objects, |c| c["method"] == "caller"), names(&["half_round_trip"]));
    for method in ["wait", "idle", "task"] {
        assert_eq!(
            metrics(&objects, |c| c["method"] == method),
            names(&["half_round_trip", "added_time"])
        );
    }
}

#[test]
fn events() {
    let few = ["--method", "signal,eventfd,pipe,futex,poll", "--iters", "40", "--rounds", "2"];
    let objects = bench("events", &few);
    assert_eq!(values(&objects, "between"), ["\"processes\"", "\"threads\""]);
    assert_eq!(objects.len(), 10);
    for object in &objects {
        assert_eq!((object["n"].as_u64(), object["unit"].as_str()), (Some(80), Some("ns")));
        // Nothing is told of an event before it is raised, and no kernel call is over at once.
        let least = if object["config"]["method"] == "poll" { 1.0 } else { 100.0 };
        assert!(object["median"].as_f64().unwrap() >= least, "{object}");
    }
}

#[test]
fn user_interrupts_are_measured_or_said_to_be_missing() {
    let output = run(&["bench", "events", "--method", "uintr,poll", "--iters", "20", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(err(&output).contains("left out: uintr: this processor has"), "{}", err(&output));
    assert!(!out(&output).contains("uintr") && out(&output).contains("poll"));
}

#[test]
fn names_of_the_sources_stand_for_a_bench_with_options() {
    for (name, workload, size) in [("concurrent", "together", 8), ("waiting", "turns", 4)] {
        let few = ["--driver", "shm", "--library", "newmad", "--threads", "1,2", "--json"];
        let more = ["--iters", "20", "--rounds", "1"];
        let output = run(&[&["bench", name][..], &few, &more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        let lines = out(&output);
        assert!(!lines.is_empty());
        for line in lines.lines() {
            let object: Value = serde_json::from_str(line).unwrap();
            assert_eq!(object["bench"], "mt_latency");
            assert_eq!(object["config"]["workload"], workload);
            assert_eq!(object["config"]["size"], size);
        }
    }
}

#[test]
fn what_was_measured_before_an_interruption_is_printed() {
    let child = common::mad(&["bench", "idle", "--seconds", "1", "--driver", "shm", "--json"])
        .args(["--rounds", "1000"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // The second round's process: what the first one has measured is known then.
    let pid = child.id();
    let mut seen = BTreeSet::new();
    assert!(common::eventually(|| {
        let path = format!("/proc/{pid}/task/{pid}/children");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        seen.extend(text.split_whitespace().map(str::to_owned));
        seen.len() > 2
    }));
    // SAFETY: takes no pointers; the child was not waited for.
    unsafe { libc::kill(pid as i32, libc::SIGINT) };
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("interrupted"), "{said}");
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(lines.lines().count(), 2, "{lines}");
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert!(first["n"].as_u64().unwrap() >= 1, "{first}");
}

#[test]
fn idle() {
    let objects = bench("idle", &["--seconds", "1", "--rounds", "1", "--mode", "mono,smp"]);
    let of = |metric| objects.iter().filter(move |object| object["metric"] == metric);
    for (wait, burnt) in of("recv_time").zip(of("cpu_time")) {
        assert_eq!(wait["config"], burnt["config"]);
        assert_eq!((&wait["unit"], &burnt["unit"]), (&"us".into(), &"us".into()));
        // A receiver that a loaded machine has held up begins to wait late. Polling would take the whole wait.
        let (waited, took) = (wait["min"].as_f64().unwrap(), burnt["max"].as_f64().unwrap());
        assert!(waited > 0.0 && took < 0.5 * waited, "{wait} {burnt}");
    }
    assert_eq!(objects.len(), 8);
}

#[test]
fn people_get_a_table_and_the_machine() {
    let output = run(&[
        "bench", "latency", "--size", "1", "--driver", "shm", "--iters", "30", "--rounds", "1",
    ]);
    let text = out(&output);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    for expected in ["half_round_trip", "median", "cores", "DEBUG BUILD", "driver shm"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn the_list_has_a_line_for_each_experiment_and_details_with_a_name() {
    let list = out(&run(&["bench", "--list"]));
    for name in ["overlap", "reactivity", "latency", "idle", "waiting", "concurrent"] {
        let lines = list.lines().filter(|line| line.split_whitespace().next() == Some(name));
        assert_eq!(lines.count(), 1, "{name}: {list}");
    }
    assert!(!list.contains("--compute-us"), "{list}");
    let details = out(&run(&["bench", "--list", "overlap"]));
    for word in ["overlap:", "--compute-us", "send_time", "[µs]", "[Trahay07]"] {
        assert!(details.contains(word), "{word}: {details}");
    }
    assert!(out(&run(&["bench", "--list", "waiting"])).contains("mad bench mt_latency"));
    let unknown = run(&["bench", "--list", "nothing"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(err(&unknown).contains("overlap"), "{}", err(&unknown));
}

#[test]
fn a_worker_that_fails_ends_the_bench_with_its_reason() {
    let output = common::mad(&["bench", "idle", "--seconds", "1", "--json"])
        .env("PIOM_BUSY_WAIT_USEC", "long")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(out(&output), "");
    assert!(err(&output).contains("PIOM_BUSY_WAIT_USEC"), "{}", err(&output));
    // Until then both have to run: one that has not begun has nothing to say.
    let output = run(&["bench", "idle", "--seconds", "600", "--driver", "shm", "--timeout", "15"]);
    assert_eq!(output.status.code(), Some(1));
    let said = err(&output);
    assert!(said.contains("time limit"), "{said}");
    // What each process waits for: its receive, and the sleep of the other.
    for expected in ["[0]", "[1]", "virtual processor", "mad bench: "] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

/// Over an adapter, where there is one; else a sentence says why not.
#[test]
fn eager_channels() {
    let args = [
        "--pattern",
        "steady",
        "--shape",
        "none,64x1024",
        "--ranks",
        "2",
        "--rounds",
        "1",
        "--json",
    ];
    let output = run(&[&["bench", "eager-channels"][..], &args].concat());
    if err(&output).contains("bench eager-channels cannot run here") {
        assert_eq!(output.status.code(), Some(1));
        assert!(err(&output).contains("adapter") || err(&output).contains("libibverbs"));
        return eprintln!("SKIPPED: {}", err(&output));
    }
    assert!(output.status.success(), "{}", err(&output));
    let lines = out(&output);
    let objects: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |shape: &str, metric: &str| {
        let mut lines = objects.iter().filter(|line| line["config"]["shape"] == shape);
        lines.find(|line| line["metric"] == metric).unwrap()["median"].as_f64().unwrap()
    };
    assert!(of("none", "step_time") > 0.0);
    assert!(of("64x1024", "through") > 0.0 && of("64x1024", "ring_memory") > 64.0);
    let all = ["through", "misses", "longer", "sleeping"].map(|metric| of("64x1024", metric));
    assert!(all.iter().sum::<f64>() < 1.0, "some went before there was a channel");
}

/// As above: messages follow their receiver, and stay where it receives by turns.
#[test]
fn virtual_rails() {
    let args =
        ["--virtual-window", "16", "--each", "200", "--iters", "4", "--rounds", "1", "--json"];
    let output = run(&[&["bench", "virtual-rails"][..], &args].concat());
    if err(&output).contains("bench virtual-rails cannot run here") {
        assert_eq!(output.status.code(), Some(1));
        return eprintln!("SKIPPED: {}", err(&output));
    }
    assert!(output.status.success(), "{}", err(&output));
    let lines = out(&output);
    let objects: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |pattern: &str, metric: &str| {
        let mut lines = objects.iter().filter(|line| line["config"]["pattern"] == pattern);
        lines.find(|line| line["metric"] == metric).unwrap()["median"].as_f64().unwrap()
    };
    assert_eq!([of("moves", "asked"), of("moves", "changed")], [3.0, 3.0]);
    assert!(of("moves", "local") > 0.6 && of("moves", "buffers") > 0.0);
    assert_eq!([of("turns", "asked"), of("turns", "again")], [0.0, 0.0]);
}

/// Real networks, where this machine lets us make any.
#[test]
fn multirail() {
    let args = ["--size", "4,65536", "--workload", "pingpong", "--rounds", "1", "--json"];
    let output = run(&[&["bench", "multirail"][..], &args].concat());
    if err(&output).contains("bench multirail cannot run here") {
        assert_eq!(output.status.code(), Some(1));
        return eprintln!("SKIPPED: {}", err(&output));
    }
    assert!(output.status.success(), "{}", err(&output));
    let lines = out(&output);
    let objects: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(values(&objects, "rails"), ["\"both\"", "\"first\"", "\"second\""]);
    assert_eq!(values(&objects, "library"), ["\"bare\"", "\"newmad\""]);
    for rails in ["first", "second"] {
        assert_eq!(metrics(&objects, |c| c["rails"] == rails), names(&["bandwidth"]));
    }
    let compared = names(&["bandwidth", "of_the_best", "of_the_sum"]);
    assert_eq!(metrics(&objects, |c| c["rails"] == "both"), compared);
    // More than the cable carries would be another network.
    let second = objects.iter().filter(|object| {
        object["config"]["rails"] == "second" && object["config"]["size"] == 65536
    });
    for object in second {
        assert!(object["median"].as_f64().unwrap() < 100.0, "{object}");
    }
}
