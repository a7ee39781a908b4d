//! The examples, alone and under `mad run`: their results are checked by themselves, to the last bit.

mod common;

use common::{err, example, mad, out};

fn stencil(ranks: &str, options: &[&str], driver: &str, mode: &str, args: &[&str]) {
    let output = mad(&["run", "-n", ranks, "--timeout", "60", "--driver", driver, "--mode", mode])
        .args(options)
        .arg(example("stencil"))
        .args(args)
        .output()
        .unwrap();
    let context = format!("{ranks} {driver} {mode} {args:?}: {} {}", out(&output), err(&output));
    assert!(output.status.success(), "{context}");
    assert!(out(&output).contains("equal to the sequential result in every bit"), "{context}");
}

#[test]
fn two_processes_over_both_drivers_and_several_thread_counts() {
    for driver in ["shm", "tcp"] {
        for threads in ["1", "2", "5"] {
            stencil(
                "2",
                &[],
                driver,
                "smp",
                &["--size", "61", "--steps", "37", "--threads", threads],
            );
        }
    }
}

#[test]
fn every_mode() {
    for driver in ["shm", "tcp"] {
        for mode in ["no-thread", "mono", "smp"] {
            stencil("2", &[], driver, mode, &["--size", "40", "--steps", "20", "--threads", "3"]);
        }
    }
}

#[test]
fn rows_that_go_by_rendezvous() {
    for driver in ["shm", "tcp"] {
        let output = mad(&["run", "-n", "2", "--timeout", "60", "--driver", driver])
            .arg(example("stencil"))
            .args(["--size", "200", "--steps", "50", "--threads", "3"])
            .env("NMAD_RDV_THRESHOLD", "1000") // a row has 1600 bytes
            .output()
            .unwrap();
        assert!(output.status.success(), "{driver}: {}", err(&output));
        assert!(out(&output).contains("equal to the sequential result"), "{}", out(&output));
    }
}

#[test]
fn more_processes_than_cores() {
    for driver in ["shm", "tcp"] {
        let args = ["--size", "64", "--steps", "30", "--threads", "4"];
        stencil("4", &["--oversubscribed"], driver, "smp", &args);
    }
}

#[test]
fn blocks_of_a_single_row() {
    stencil("2", &[], "shm", "smp", &["--size", "8", "--steps", "50", "--threads", "4"]);
}

#[test]
fn alone_it_needs_no_launcher() {
    let mut command = std::process::Command::new(example("stencil"));
    let output =
        command.args(["--size", "50", "--steps", "30", "--threads", "4"]).output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    assert!(out(&output).contains("1 processes x 4 green threads over local"), "{}", out(&output));
}

#[test]
fn more_threads_than_rows_is_an_error() {
    let output = mad(&["run", "-n", "2"])
        .arg(example("stencil"))
        .args(["--size", "8", "--threads", "5"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("need 10 rows"), "{}", err(&output));
}

#[test]
fn hello_says_what_the_readme_shows() {
    let output = mad(&["run", "-n", "2"]).arg(example("hello")).output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let text = out(&output);
    for line in [
        "rank 0 got: hello from rank 1",
        "rank 1 got: hello from rank 0",
        "rank 1 of 2: ten green threads make 385",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}: {text}");
    }
}
