//! MPI jobs that connect with each other, and that start others: what they print, and what is left when processes are
//! killed.

mod common;
#[path = "../newmad-rs/tests/common/managers.rs"]
mod managers;

use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use common::madmpi::{compile, prefix};
use common::programs::timed;
use common::{eventually, processes_with};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/madmpi-rs/tests/c/faults/connected.c");

/// Compiled once: a program that runs cannot be written again.
fn program() -> &'static str {
    static BINARY: OnceLock<String> = OnceLock::new();
    BINARY.get_or_init(|| {
        let binary = compile(&prefix().join("bin/mpicc"), Path::new(PROGRAM), "madmpi");
        binary.to_string_lossy().into_owned()
    })
}

/// A file that no other test uses.
fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("connected");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&file);
    let _ = std::fs::remove_file(file.with_extension("killed"));
    file
}

fn start(processes: &str, driver: &str, args: &[&str]) -> Child {
    let mut command = common::mad(&["run", "-n", processes, "--grace", "20", "--driver", driver]);
    command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn lines(output: &Output) -> Vec<String> {
    let mut lines: Vec<String> = common::out(output).lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

fn all_say(processes: u32, what: &str) -> Vec<String> {
    (0..processes).map(|rank| format!("rank {rank}: {what}")).collect()
}

/// Runs two jobs to their ends.
fn two_jobs(driver: &str, accepts: &str, connects: &str) -> (Output, Output) {
    let (program, file) = (program(), file(&format!("{accepts}-{driver}")));
    let file = file.to_string_lossy();
    let one = start("2", driver, &[program, accepts, &file]);
    let other = start("3", driver, &[program, connects, &file]);
    (one.wait_with_output().unwrap(), other.wait_with_output().unwrap())
}

#[test]
fn two_jobs_meet_and_part() {
    for driver in ["shm", "tcp"] {
        let (one, other) = two_jobs(driver, "accept", "connect");
        let said = format!("{driver}: {}{}", common::err(&one), common::err(&other));
        assert!(one.status.success() && other.status.success(), "{said}");
        assert_eq!(lines(&one), all_say(2, "accept: success"), "{said}");
        assert_eq!(lines(&other), all_say(3, "connect: success"), "{said}");
    }
}

#[test]
fn a_job_that_dies_before_it_disconnects_is_an_error_of_the_other() {
    for driver in ["shm", "tcp"] {
        let (one, other) = two_jobs(driver, "accept-then-wait", "connect-then-die");
        let said = format!("{driver}: {}{}", common::err(&one), common::err(&other));
        assert!(one.status.success() && !other.status.success(), "{said}");
        let expected = [all_say(2, "accept: success"), all_say(2, "receive: it is gone")].concat();
        let mut expected: Vec<String> = expected;
        expected.sort_unstable();
        assert_eq!(lines(&one), expected, "{said}");
    }
}

#[test]
fn a_job_that_dies_after_it_has_disconnected_harms_nobody() {
    for driver in ["shm", "tcp"] {
        let (one, other) = two_jobs(driver, "accept-then-go-on", "connect-then-die-late");
        let said = format!("{driver}: {}{}", common::err(&one), common::err(&other));
        assert!(one.status.success() && !other.status.success(), "{said}");
        let mut expected =
            [all_say(2, "accept: success"), all_say(2, "afterwards: success")].concat();
        expected.sort_unstable();
        assert_eq!(lines(&one), expected, "{said}");
    }
}

/// A job of one process has said this, line by line, and nothing else.
fn says_alone(output: &std::process::Output, expected: &[&str]) {
    let expected: String = expected.iter().map(|said| format!("rank 0: {said}\n")).collect();
    assert_eq!(common::out(output), expected, "{}", common::err(output));
}

#[test]
fn wrong_names_and_ports_are_errors_of_their_class() {
    let (program, service) = (program(), format!("test-{}", std::process::id()));
    let output = timed(common::mad(&["run", "-n", "1", program, "names", &service]));
    let expected = [
        "lookup: name",
        "unpublish: service",
        "connect nonsense: port",
        "accept at no port: port",
        "publish: success",
        "publish again: service",
        "unpublish: success",
        "close: success",
        "close again: port",
        "connect closed: port",
    ];
    says_alone(&output, &expected);
}

/// A program that is not there, one that is no program, one that ends at once, and one that never calls `MPI_Init`.
#[test]
fn a_spawn_that_fails_is_an_error_in_time_and_leaves_nothing() {
    let binary = program();
    for (what, own) in
        [("/no/such/program", true), (PROGRAM, true), ("true", true), ("sleep", false)]
    {
        let mark = format!("MAD_TEST_MARK=spawn-{}-{}", what.len(), std::process::id());
        let (name, value) = mark.split_once('=').unwrap();
        let mut command = common::mad(&["run", "-n", "2", binary, "spawn", what]);
        // The parents' own opening and the second spawn have this time, too. Where the launcher tells of the failure, a
        // wait for the time-out would take longer than `timed` allows.
        command.env(name, value);
        command.env("NMAD_CONNECT_TIMEOUT_MS", if own { "600000" } else { "20000" });
        let began = Instant::now();
        let output = timed(command);
        let said = format!("{what}: {}{}", common::out(&output), common::err(&output));
        assert!(began.elapsed() < Duration::from_secs(110), "{said}");
        let mut expected = [
            all_say(2, "afterwards: success"),
            all_say(2, "spawn again: success"),
            all_say(2, "spawn: spawn"),
        ]
        .concat();
        expected.sort_unstable();
        assert_eq!(lines(&output), expected, "{said}");
        assert_eq!(processes_with(&mark), [], "{said}");
    }
}

#[test]
fn hints_that_cannot_be_followed_are_errors() {
    let binary = program();
    let output = timed(common::mad(&["run", "-n", "1", binary, "wrong"]));
    let expected = [
        "no folder: spawn",
        "no host: spawn",
        "no number: spawn",
        "none: argument",
        "some: success",
    ];
    says_alone(&output, &expected);
}

#[test]
fn the_death_of_spawned_processes_is_told_until_they_have_disconnected() {
    let binary = program();
    for driver in ["shm", "tcp"] {
        for when in ["now", "late"] {
            let child = start("2", driver, &[binary, "parent-of-victims", when]);
            let output = child.wait_with_output().unwrap();
            let said =
                format!("{driver}, {when}: {}{}", common::out(&output), common::err(&output));
            let mut expected = all_say(2, "afterwards: success");
            if when == "now" {
                expected.extend(all_say(2, "receive: it is gone"));
            }
            expected.sort_unstable();
            assert_eq!(lines(&output), expected, "{said}");
            assert!(common::err(&output).contains("of spawned job 1"), "{said}");
            assert_eq!(output.status.code(), Some(1), "{said}");
        }
    }
}

#[test]
fn spawned_processes_end_with_the_launcher() {
    let binary = program();
    let mark = format!("MAD_TEST_MARK=launcher-{}", std::process::id());
    let (name, value) = mark.split_once('=').unwrap();
    let mut command = common::mad(&["run", "-n", "2", binary, "parent-of-victims", "sleep"]);
    let mut launcher = command.env(name, value).stdout(Stdio::null()).spawn().unwrap();
    // The launcher, two processes and their two children.
    assert!(eventually(|| processes_with(&mark).len() == 5), "they did not start");
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    assert!(eventually(|| processes_with(&mark).is_empty()), "processes remain");
}

/// Without a launcher no processes are started, and connecting works.
#[test]
fn a_process_without_a_launcher_says_so() {
    let binary = program();
    let mut command = common::alone(binary);
    command.args(["spawn", binary]);
    let output = timed(command);
    assert!(common::out(&output).starts_with("rank 0: spawn: spawn\n"), "{}", common::err(&output));
}

/// A program whose processes start others.
fn spawning() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("madmpi-rs/tests/c/spawn.c");
    compile(&prefix().join("bin/mpicc"), &source, "launched")
}

/// The same program under the process managers of others: they start the new processes.
#[test]
fn other_launchers_start_more_processes() {
    let binary = spawning();
    for mut command in [managers::hydra(2), managers::prrte(2)].into_iter().flatten() {
        command.arg(&binary);
        let output = timed(command);
        assert_eq!(common::out(&output), "started and ended\n", "{}", common::err(&output));
        assert!(output.status.success(), "{}", common::err(&output));
    }
}

/// Slurm starts them in the same allocation, if that has room for them.
#[test]
fn slurm_starts_more_processes() {
    let binary = spawning();
    let Some(mut command) = managers::slurm_with_room(2, 8, "pmi2") else { return };
    command.arg(&binary).arg("no-hints");
    let output = timed(command);
    assert_eq!(common::out(&output), "started and ended\n", "{}", common::err(&output));
    assert!(output.status.success(), "{}", common::err(&output));
    // Where it has none, srun says why, and the program is told.
    let Some(mut command) = managers::slurm(2, "pmi2") else { return };
    command.arg(&binary).env("NMAD_CONNECT_TIMEOUT_MS", "8000");
    let output = timed(command);
    let err = common::err(&output);
    assert!(!output.status.success(), "{err}");
    for words in ["MPI_Comm_spawn: no processes were started", "Unable to create step"] {
        assert!(err.contains(words), "{err}");
    }
}
