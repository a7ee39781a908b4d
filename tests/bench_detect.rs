//! `mad bench detect` and `policies`: every source, load and workload with few samples.

mod common;
mod measured;

use common::{err, out, run};
use measured::bench;

#[test]
fn detect() {
    let objects = bench("detect", &["--iters", "3", "--rounds", "1", "--threads", "0,2x"]);
    let cores = objects[0]["config"]["vps"].as_u64().unwrap();
    for source in ["shm", "eventfd", "tcp", "pipe", "uring", "timer", "child"] {
        for (library, metrics) in [("pioman", 3), ("kernel", 1), ("kernel-short", 1)] {
            for threads in [0, 2 * cores] {
                let found = objects.iter().filter(|o| {
                    let c = &o["config"];
                    c["source"] == source && c["library"] == library && c["threads"] == threads
                });
                let found: Vec<_> = found.collect();
                assert_eq!(found.len(), metrics, "{source} {library} {threads}");
                let time = found.iter().find(|o| o["metric"] == "detect_time").unwrap();
                assert_eq!((time["unit"].as_str(), time["n"].as_u64()), (Some("us"), Some(3)));
                assert!(time["min"].as_f64().unwrap() > 0.0, "{time}");
            }
        }
    }
}

#[test]
fn more_virtual_processors_than_cores() {
    let options = ["--iters", "2", "--rounds", "1", "--vps", "2x", "--threads", "0,4x"];
    let objects = bench("detect", &options);
    for object in &objects {
        assert_eq!(object["config"]["threads"], 2 * object["config"]["vps"].as_u64().unwrap());
    }
}

#[test]
fn people_are_told_how_the_figures_compare() {
    let output = run(&[
        "bench",
        "detect",
        "--iters",
        "2",
        "--rounds",
        "1",
        "--source",
        "shm",
        "--threads",
        "1x,2x",
    ]);
    let text = out(&output);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    for expected in ["bare kernel wake-ups", "by number of computing threads"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let output = run(&["bench", "detect", "--mode", "mono", "--threads", "4"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("none of these combinations"), "{}", err(&output));
}

#[test]
fn policies() {
    let names = "always-poll,always-block,adaptive";
    let options = ["--policy", names, "--workload", "pingpong,bursts,all", "--iters", "1"];
    let objects = bench("policies", &[&options[..], &["--rounds", "1"]].concat());
    for policy in names.split(',') {
        let of = |workload: &str| {
            let mut found: Vec<&str> = objects
                .iter()
                .filter(|o| o["config"]["policy"] == policy && o["config"]["workload"] == workload)
                .map(|o| o["metric"].as_str().unwrap())
                // Threads that get no core in one of two windows have no speed to compare.
                .filter(|metric| !metric.starts_with("slowdown"))
                .collect();
            found.sort_unstable();
            found
        };
        let common = ["burnt_time", "cpu_time", "detect_time"];
        let rest = ["lost_time", "score", "score_ratio"];
        assert_eq!(of("pingpong"), [&common[..], &["half_round_trip"], &rest].concat());
        assert_eq!(of("bursts"), [common.as_slice(), &rest].concat());
        assert_eq!(of("all"), ["score_ratio"]);
    }
    // The best fixed policy is at 1.
    let best = objects.iter().filter(|o| {
        let fixed = o["config"]["policy"] != "adaptive";
        o["metric"] == "score_ratio" && o["config"]["workload"] == "bursts" && fixed
    });
    let best = best.map(|o| o["median"].as_f64().unwrap()).fold(f64::INFINITY, f64::min);
    assert_eq!(best, 1.0);
}

#[test]
fn people_are_told_whether_the_promise_of_the_policies_holds() {
    let output = run(&[
        "bench",
        "policies",
        "--policy",
        "always-block,adaptive",
        "--workload",
        "silence,all",
        "--iters",
        "1",
        "--rounds",
        "1",
    ]);
    let text = out(&output);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    for expected in ["score of an event", "silence: adaptive is at", "over all: adaptive"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn an_idle_wait_for_every_source() {
    let sources = "shm,eventfd,tcp,pipe,uring,timer,child";
    let objects = bench("idle", &["--seconds", "1", "--rounds", "1", "--source", sources]);
    for source in sources.split(',') {
        let of = |metric: &str| {
            let here =
                |o: &&serde_json::Value| o["config"]["source"] == source && o["metric"] == metric;
            objects.iter().find(here).unwrap()["median"].as_f64().unwrap()
        };
        assert!(of("recv_time") > 0.9e6, "{source}");
        // Polling would take the whole second.
        assert!(of("cpu_time") < 0.5e6, "{source}: {}", of("cpu_time"));
    }
}
