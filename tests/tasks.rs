//! The example of tasks between threads: it checks its result itself.

mod common;

use std::process::Command;

use common::{err, example, out};

fn tasks(args: [&str; 2], vps: &str) {
    let output = Command::new(example("tasks")).args(args).env("MARCEL_NVP", vps).output().unwrap();
    let context = format!("{args:?} on {vps}: {} {}", out(&output), err(&output));
    assert!(output.status.success(), "{context}");
    assert!(out(&output).contains("as it should be"), "{context}");
}

#[test]
fn the_sum_is_right_with_one_worker_and_with_many() {
    for args in [["0", "1"], ["8", "1"], ["11", "3"], ["10", "20"]] {
        for vps in ["1", "3"] {
            tasks(args, vps);
        }
    }
}

#[test]
fn wrong_arguments_are_explained() {
    for args in [["x", "1"], ["99", "1"], ["3", "0"]] {
        let output = Command::new(example("tasks")).args(args).output().unwrap();
        assert!(!output.status.success() && err(&output).contains("expected a depth"), "{args:?}");
    }
}
