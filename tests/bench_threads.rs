//! `mad bench threads`: every program runs over our threads and the kernel's, and what is not here is named.

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use common::{err, mad, out};
use serde_json::Value;

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

#[test]
fn every_program_runs_on_one_core_and_on_all() {
    let ops = "createjoin,batch,yield,handoff,mutex,mutex4,channel,fib,memory";
    let arguments = ["--library", "marcel,kernel", "--iters", "1", "--rounds", "1", "--json"];
    let time = ["--timeout", "600"]; // for kernel threads beside load
    let output = mad(&["bench", "threads", "--op", ops, "--threads", "300"])
        .args(arguments)
        .args(time)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let mut seen = BTreeSet::new();
    for object in objects(&out(&output)) {
        let (config, text) = (&object["config"], object.to_string());
        let key = |name: &str| config[name].as_str().expect(&text).to_owned();
        let (metric, unit) = match key("op").as_str() {
            "memory" => ("memory", "bytes"),
            _ => ("op_time", "ns"),
        };
        assert_eq!((&object["metric"], &object["unit"]), (&metric.into(), &unit.into()), "{text}");
        assert_eq!((&object["bench"], &object["n"]), (&"threads".into(), &1.into()), "{text}");
        // A byte or a nanosecond is too little for anything that was really done.
        assert!(object["median"].as_f64().expect(&text) > 1.0, "{text}");
        assert!(config["threads"].as_u64().expect(&text) > 0, "{text}");
        seen.insert((key("op"), key("workers"), key("library")));
    }
    assert_eq!(seen.len(), ops.split(',').count() * 4, "{seen:?}");
}

#[test]
fn libraries_that_are_not_here_are_named_and_the_rest_goes_on() {
    let empty = std::env::temp_dir().join(format!("mad-no-peers-{}", std::process::id()));
    std::fs::create_dir_all(&empty).unwrap();
    let output = mad(&["bench", "threads", "--op", "mutex", "--workers", "1", "--json"])
        .args(["--iters", "1", "--rounds", "1"])
        .env("PATH", &empty)
        .env("XDG_CACHE_HOME", &empty)
        .output()
        .unwrap();
    std::fs::remove_dir_all(&empty).unwrap();
    let said = err(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for library in
        ["argobots", "massivethreads", "state-threads", "boost-fiber", "go", "may", "tokio"]
    {
        let line = said.lines().find(|line| line.contains(&format!("left out: {library}: ")));
        assert!(line.is_some_and(|line| line.contains('(')), "{library}: {said}");
    }
    let libraries: Vec<String> = objects(&out(&output))
        .iter()
        .map(|object| object["config"]["library"].to_string())
        .collect();
    assert_eq!(libraries, ["\"marcel\"", "\"kernel\""]);
}

/// The libraries themselves are rarely installed: headers in `fixtures` stand for them, over kernel threads.
#[test]
fn programs_in_c_are_built_run_and_kept() {
    let here = std::env::temp_dir().join(format!("mad-peers-{}", std::process::id()));
    let cc = std::env::var("CC").unwrap_or("cc".into());
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for (library, header, name) in
        [("argobots", "abt.h", "libabt.so"), ("massivethreads", "myth/myth.h", "libmyth.so")]
    {
        let (from, to) = (fixtures.join(library), here.join(library));
        std::fs::create_dir_all(to.join("include/myth")).unwrap();
        std::fs::create_dir_all(to.join("lib")).unwrap();
        let header = Path::new("include").join(header);
        std::fs::copy(from.join(&header), to.join(&header)).unwrap();
        let mut empty = Command::new(&cc);
        empty.args(["-shared", "-o"]).arg(to.join("lib").join(name)).args(["-xc", "/dev/null"]);
        assert!(empty.status().unwrap().success());
    }
    let bench = |op: &str| {
        let output = mad(&["bench", "threads", "--library", "argobots,massivethreads", "--json"])
            .args(["--op", op, "--threads", "200", "--iters", "2", "--rounds", "1"])
            .args(["--timeout", "600"])
            .env("ARGOBOTS_DIR", here.join("argobots"))
            .env("MASSIVETHREADS_DIR", here.join("massivethreads"))
            .env("XDG_CACHE_HOME", here.join("cache"))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        objects(&out(&output))
    };
    // fib(25) is too much for kernel threads.
    let ops = "createjoin,batch,yield,handoff,mutex,mutex4,channel,memory";
    let found = bench(ops);
    assert_eq!(found.len(), ops.split(',').count() * 4);
    for object in &found {
        let samples = if object["metric"] == "memory" { 1 } else { 2 };
        assert_eq!(object["n"], samples, "{object}");
        assert!(object["min"].as_f64().unwrap() > 1.0, "{object}");
    }
    let built = || std::fs::read_dir(here.join("cache/mad/peers")).unwrap().count();
    assert_eq!(built(), 2);
    bench("mutex");
    assert_eq!(built(), 2, "what is there is not built again");
    std::fs::remove_dir_all(&here).unwrap();
}

#[test]
fn a_run_without_anything_to_measure_fails() {
    let output = mad(&["bench", "threads", "--library", "argobots", "--json"])
        .env("ARGOBOTS_DIR", "/nonexistent")
        .env("CC", "/nonexistent/cc")
        .output()
        .unwrap();
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(1), ""));
    assert!(err(&output).contains("/nonexistent/cc"), "{}", err(&output));
}

#[test]
fn nonsense_is_wrong_usage_and_what_exists_is_listed() {
    for (arguments, expected) in [
        (["--op", "fib,knit"], "createjoin|batch"),
        (["--workers", "3"], "1|all"),
        (["--library", "pth"], "marcel|kernel|argobots"),
        (["--threads", "1000001"], "1 to 1000000"),
        (["--driver", "shm"], "--library"),
    ] {
        let output = mad(&["bench", "threads"]).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(err(&output).contains(expected), "{arguments:?}: {}", err(&output));
    }
    let output = common::run(&["bench", "rpc", "--peers"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("--peers"), "{}", err(&output));
}

#[test]
fn people_get_the_ratio_to_the_best_of_the_others() {
    let output = mad(&["bench", "threads", "--op", "mutex", "--workers", "1"])
        .args(["--library", "marcel,kernel", "--iters", "1", "--rounds", "1"])
        .output()
        .unwrap();
    let text = out(&output);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(text.contains("to best peer"), "{text}");
    let kernel = text.lines().find(|line| line.contains("kernel")).expect("a row of the kernel's");
    assert!(kernel.trim_end().ends_with("1.00"), "{kernel}");
}
