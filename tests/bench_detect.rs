//! `mad bench detect` and `policies`: every source, load and workload with few samples.

mod common;
mod measured;

use common::{err, out, run};
use measured::bench;

#[test]
fn detect() {
    let objects = bench("detect", &["--iters", "3", "--rounds", "1", "--threads", "0,2x"]);
    let cores = objects[0]["config"]["vps"].as_u64().unwrap();
    for source in ["shm", "eventfd"] {
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
