//! The example of blocking calls: others compute meanwhile, on one virtual processor and on several; without
//! `marcel::blocking` they do not.

mod common;

use std::process::{Command, Output};

use common::{err, example, out};

fn blocking(vps: &str, mechanism: &str, args: &[&str]) -> Output {
    Command::new(example("blocking"))
        .args(args)
        .env("MARCEL_NVP", vps)
        .env("MARCEL_BLOCKING", mechanism)
        .env_remove("MARCEL_MODE")
        .output()
        .unwrap()
}

#[test]
fn the_computation_goes_on_while_files_pipes_and_processes_are_waited_for() {
    for (vps, mechanism) in [("1", "auto"), ("1", "export"), ("8", "auto")] {
        let output = blocking(vps, mechanism, &[]);
        let context = format!("{vps} {mechanism}: {} {}", out(&output), err(&output));
        assert!(output.status.success(), "{context}");
        // Calls of these two kinds are made again if the kernel gave no core to the computation meanwhile.
        let count = |what: &str| out(&output).matches(what).count();
        let (pipes, processes) = (count("wait for its writer"), count("run sh -c"));
        assert!((1..=5).contains(&pipes) && (1..=5).contains(&processes), "{context}");
        assert_eq!(count("read a line from a pipe"), 3 * pipes, "{context}");
        assert_eq!(count("units computed"), 4 + 4 * pipes + processes, "{context}");
    }
}

#[test]
fn plain_calls_take_the_only_virtual_processor_away() {
    let output = blocking("1", "auto", &["--plain"]);
    assert!(err(&output).contains("the computation stood still"), "{}", err(&output));
    assert!(!output.status.success());
}
