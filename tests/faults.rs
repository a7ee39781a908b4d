//! A peer that is killed: the others get an error that names it, the launcher names the dead process, nothing remains.

mod common;

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{eventually, example, mad, processes_with};

/// The process of a job with this mark that is rank `rank`.
fn rank_of(mark: &str, rank: u32) -> Option<u32> {
    let own = format!("PMI_RANK={rank}");
    let ranks = processes_with(&own);
    processes_with(mark).into_iter().find(|pid| ranks.contains(pid))
}

fn kill(pid: u32) {
    // SAFETY: takes no pointers.
    unsafe { libc::kill(pid as i32, libc::SIGKILL) };
}

/// Starts a job, kills rank 1 once both ranks have been up for `after`, and gives what was said and how long
/// the job took to end.
fn kill_rank_1(mark: &str, driver: &str, program: &[&str], after: Duration) -> (String, Duration) {
    let (name, value) = mark.split_once('=').unwrap();
    let mut launcher =
        mad(&["run", "-n", "2", "--grace", "60", "--tag-output", "--driver", driver])
            .args(program)
            .env(name, value)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
    assert!(eventually(|| rank_of(mark, 0).is_some() && rank_of(mark, 1).is_some()));
    std::thread::sleep(after);
    let victim = rank_of(mark, 1).expect("rank 1 still runs");
    let start = Instant::now();
    kill(victim);
    let mut text = String::new();
    launcher.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    let took = start.elapsed();
    assert_eq!(launcher.wait().unwrap().code(), Some(1), "{text}");
    // First, or (its peer may be collected before it) after that peer's exit: "then rank 1 was killed…".
    let said = |line: &str| line.contains("rank 1 ") && line.contains("was killed by SIGKILL");
    assert!(text.lines().any(said), "{text}");
    assert!(
        text.contains("[0] ") && text.contains("rank 1 is gone"),
        "rank 0 names its peer: {text}"
    );
    assert_eq!(processes_with(mark), [], "processes remain");
    (text, took)
}

fn a_waiting_rank_learns_of_a_death(driver: &str) {
    let mark = format!("MAD_TEST_MARK=waiting-{driver}-{}", std::process::id());
    // Rank 0 waits for a message that rank 1 would send in 600 s.
    let spec = r#"{"bench":"idle","points":[[0,{"seconds":600}]],"iters":1}"#;
    let program = [env!("CARGO_BIN_EXE_mad"), "worker", spec];
    let (text, took) = kill_rank_1(&mark, driver, &program, Duration::from_millis(500));
    // Soon; and the launcher's grace of 60 s makes sure that it is the library which told.
    assert!(took < Duration::from_secs(2), "{took:?}: {text}");
}

#[test]
fn a_waiting_rank_learns_of_a_death_over_shm() {
    a_waiting_rank_learns_of_a_death("shm");
}

#[test]
fn a_waiting_rank_learns_of_a_death_over_tcp() {
    a_waiting_rank_learns_of_a_death("tcp");
}

fn green_threads_learn_of_a_death(driver: &str) {
    let mark = format!("MAD_TEST_MARK=stencil-{driver}-{}", std::process::id());
    let stencil = example("stencil");
    let program =
        [stencil.to_str().unwrap(), "--size", "64", "--steps", "10000000", "--threads", "3"];
    let (text, took) = kill_rank_1(&mark, driver, &program, Duration::from_millis(500));
    // Wide: the threads that compute beside the one which gets the error have to notice in turn.
    assert!(took < Duration::from_secs(10), "{took:?}: {text}");
}

#[test]
fn green_threads_learn_of_a_death_over_shm() {
    green_threads_learn_of_a_death("shm");
}

#[test]
fn green_threads_learn_of_a_death_over_tcp() {
    green_threads_learn_of_a_death("tcp");
}

#[test]
fn a_knob_with_a_wrong_value_ends_the_job_and_is_named() {
    for (name, value) in
        [("NMAD_DRIVER", "carrier-pigeon"), ("PIOM_BUSY_WAIT_USEC", "long"), ("MARCEL_NVP", "0")]
    {
        let output =
            mad(&["run", "-n", "2"]).arg(example("hello")).env(name, value).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let text = common::err(&output);
        assert!(
            text.contains(name) && text.contains(value) && !text.contains("panicked"),
            "{text}"
        );
    }
}
