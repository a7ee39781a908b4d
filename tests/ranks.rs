//! MPI programs whose ranks share processes (`mad run --ranks-per-process`): how they begin and end. That they compute the
//! same is tested in `mpi.rs`.

mod common;

use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use common::madmpi::{compile, prefix};
use common::{err, mad, out};

const ENDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/ends.c");

fn ends() -> &'static str {
    static BINARY: OnceLock<String> = OnceLock::new();
    BINARY.get_or_init(|| {
        let binary = compile(&prefix().join("bin/mpicc"), Path::new(ENDS), "ranks");
        binary.to_string_lossy().into_owned()
    })
}

/// Two processes of two ranks. Rank 1 ends in some way, and with it its process; those of the other learn that it is gone.
#[test]
fn a_rank_that_ends_early_ends_its_process_and_the_others_are_told() {
    let ends = ends();
    let gone = "rank 1 is gone";
    let early = "rank 1 has ended, and has not called MPI_Finalize";
    let table: [(&str, i32, &[&str]); 6] = [
        ("exit", 3, &[early, "process 0", "status 3", gone]),
        ("return", 1, &[early, "process 0", gone]),
        ("MPI_Abort", 7, &["rank 1: MPI_Abort", "code 7"]),
        ("abort", 1, &["rank 1 has called abort()", "SIGABRT", gone]),
        ("address", 1, &["SIGSEGV", gone]),
        ("stack", 1, &["'rank 1' has overflowed its stack", gone]),
    ];
    for (how, status, says) in table {
        let begun = Instant::now();
        let output =
            mad(&["run", "-n", "4", "--ranks-per-process", "2", ends, how]).output().unwrap();
        let said = err(&output);
        assert_eq!(output.status.code(), Some(status), "{how}: {said}");
        for words in says {
            assert!(said.contains(words), "{how}: {words} is missing: {said}");
        }
        // The launcher's grace is two seconds.
        assert!(begun.elapsed() < Duration::from_secs(60), "{how}: {said}");
    }
}

#[test]
fn a_rank_ends_alone_after_finalizing_and_its_status_is_the_jobs() {
    let ends = ends();
    for each in ["1", "2", "4"] {
        let args = ["run", "-n", "4", "--ranks-per-process", each, ends];
        let output = mad(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(5), "{}", err(&output));
        let output = mad(&args).arg("before").output().unwrap();
        assert_eq!(output.status.code(), Some(4), "no rank has used MPI: {}", err(&output));
    }
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    let ends = ends();
    let output = mad(&["run", "-n", "5", "--ranks-per-process", "2", ends]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("take a multiple of 2"), "{}", err(&output));

    // A position-dependent program.
    let fixed = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c/ends.fixed");
    let made = std::process::Command::new(prefix().join("bin/mpicc"))
        .args(["-no-pie", "-fno-pie", "-o"])
        .args([fixed.as_path(), Path::new(ENDS)])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", err(&made));
    let fixed = fixed.to_string_lossy();
    let output = mad(&["run", "-n", "2", "--ranks-per-process", "2", &fixed]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}{}", out(&output), err(&output));
    assert!(err(&output).contains("compile with -fPIE and link with -pie"), "{}", err(&output));
    let output = mad(&["run", "-n", "2", &fixed, "before"]).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "as processes it runs: {}", err(&output));

    // One that has the library in itself.
    let whole = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c/ends.whole");
    let made = std::process::Command::new(prefix().join("bin/mpicc"))
        .args(["-static-mpi", "-o"])
        .args([whole.as_path(), Path::new(ENDS)])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", err(&made));
    let whole = whole.to_string_lossy();
    let output = mad(&["run", "-n", "2", "--ranks-per-process", "2", &whole]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}{}", out(&output), err(&output));
    assert!(err(&output).contains("as a shared library"), "{}", err(&output));
}
