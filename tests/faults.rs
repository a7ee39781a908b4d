//! A peer that is killed: the others get an error that names it, the launcher names the dead process, nothing remains.

mod common;

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{example, mad, processes_with};

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

/// Starts a job, kills rank 1 some time after rank 0's first line on standard output, which says that the session is open,
/// and gives what was said and how long it took until rank 0 named its peer.
fn kill_rank_1(mark: &str, driver: &str, program: &[&str]) -> (String, Duration) {
    let (name, value) = mark.split_once('=').unwrap();
    let options = ["--grace", "60", "--timeout", "120", "--tag-output", "--driver", driver];
    let mut launcher = mad(&["run", "-n", "2"])
        .args(options)
        .args(program)
        .env(name, value)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(launcher.stderr.take().unwrap());
    let (mut text, mut first) = (String::new(), String::new());
    // Kept to the end: the launcher ends a job whose output has no reader.
    let mut output = BufReader::new(launcher.stdout.take().unwrap());
    output.read_line(&mut first).unwrap();
    if !first.starts_with("[0] ") {
        errors.read_to_string(&mut text).unwrap();
        panic!("rank 0 said nothing, but {first:?}: {text}");
    }
    // By now rank 0 waits, most likely.
    std::thread::sleep(Duration::from_millis(500));
    let victim = rank_of(mark, 1).expect("rank 1 still runs");
    let start = Instant::now();
    kill(victim);
    let named = |line: &str| line.contains("[0] ") && line.contains("rank 1 is gone");
    let mut took = None;
    loop {
        let begin = text.len();
        if errors.read_line(&mut text).unwrap() == 0 {
            break;
        }
        if took.is_none() && named(&text[begin..]) {
            took = Some(start.elapsed());
        }
    }
    assert_eq!(launcher.wait().unwrap().code(), Some(1), "{text}");
    // First, or (its peer may be collected before it) after that peer's exit: "then rank 1 was killed…".
    let said = |line: &str| line.contains("rank 1 ") && line.contains("was killed by SIGKILL");
    assert!(text.lines().any(said), "{text}");
    let took = took.unwrap_or_else(|| panic!("rank 0 does not name its peer: {text}"));
    assert_eq!(processes_with(mark), [], "processes remain");
    (text, took)
}

fn a_waiting_rank_learns_of_a_death(driver: &str) {
    // Rank 0 waits for a message that rank 1 sends after a second, tells of it, and waits for one that rank 1 would send in 600 s.
    let point = |seconds: u32| {
        format!(
            r#"{{"source":"message","driver":"{driver}","mode":"smp","policy":"auto","progression":1,"library":"newmad","seconds":{seconds}}}"#
        )
    };
    let points = format!("[[0,{}],[1,{}]]", point(1), point(600));
    let spec = format!(r#"{{"bench":"idle","points":{points},"iters":1}}"#);
    let program = [env!("CARGO_BIN_EXE_mad"), "worker", &spec];
    // Soon, in one of three runs: the machine may be busy, and three processes each need a core. The launcher's grace of 60 s
    // makes sure that it is the library which told.
    let mut runs = Vec::new();
    for run in 0..3 {
        let mark = format!("MAD_TEST_MARK=waiting-{driver}-{run}-{}", std::process::id());
        let (text, took) = kill_rank_1(&mark, driver, &program);
        if took < Duration::from_secs(2) {
            return;
        }
        runs.push((took, text));
    }
    panic!("{runs:?}");
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
    let (text, took) = kill_rank_1(&mark, driver, &program);
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
