//! Programs that survive the deaths of their ranks: agreement, revocation, shrinking, receives from any source, with real
//! processes that kill themselves or are killed.

mod common;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use common::madmpi::{compile, prefix};
use common::programs::timed;
use common::{eventually, mad, processes_with};

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("madmpi-rs/tests/c/faults/ulfm.c");
        compile(&prefix().join("bin/mpicc"), &source, "madmpi")
    })
}

/// Runs a mode of the program; these ranks survive, and each finds everything as it is to be.
fn survives(mode: &[&str], survivors: &[u32]) {
    let binary = program();
    for driver in ["shm", "tcp"] {
        let mut command = mad(&["run", "-n", "4", "--keep-going", "--driver", driver]);
        command.arg(binary).args(mode);
        let output = timed(command);
        let (out, err) = (common::out(&output), common::err(&output));
        let label = format!("{mode:?} over {driver}: {out}{err}");
        assert_eq!(output.status.code(), Some(0), "{label}");
        let mut said: Vec<&str> = out.lines().collect();
        said.sort_unstable();
        let expected: Vec<String> =
            survivors.iter().map(|rank| format!("rank {rank}: ok")).collect();
        assert_eq!(said, expected, "{label}");
        for dead in (0..4).filter(|rank| !survivors.contains(rank)) {
            let named = |line: &str| {
                line.contains(&format!("rank {dead} ")) && line.contains("was killed by SIGKILL")
            };
            assert!(err.lines().any(named), "{label}");
        }
    }
}

#[test]
fn an_operation_with_a_failed_rank_fails_and_others_go_on() {
    survives(&["specific"], &[0, 1, 3]);
}

#[test]
fn receives_from_any_source_wait_again_once_the_failure_is_acknowledged() {
    survives(&["any"], &[0, 1, 2]);
}

#[test]
fn a_revoked_communicator_ends_all_that_waits() {
    survives(&["revoke"], &[0, 1, 2, 3]);
}

#[test]
fn a_revoked_communicator_says_so_in_collectives_of_ranks_that_share_processes() {
    for ranks in ["1", "2", "4"] {
        let mut command = mad(&["run", "-n", "4", "--ranks-per-process", ranks]);
        command.arg(program()).arg("meeting");
        let output = timed(command);
        let label =
            format!("{ranks} in a process: {}{}", common::out(&output), common::err(&output));
        assert_eq!(output.status.code(), Some(0), "{label}");
        assert_eq!(common::out(&output).matches(": ok").count(), 4, "{label}");
    }
}

/// The others go on when a rank fails, and not when it says that the job is over.
#[test]
fn mpi_abort_ends_a_job_that_keeps_going() {
    for protocol in ["pmi1", "pmi2"] {
        let mut command = mad(&["run", "-n", "4", "--keep-going"]);
        command.arg(program()).arg("abort").env("NMAD_BOOTSTRAP", protocol);
        let output = timed(command);
        let said = common::err(&output);
        assert_eq!(output.status.code(), Some(3), "{protocol}: {said}");
        assert!(said.contains("rank 1 aborted the job: MPI_Abort"), "{protocol}: {said}");
    }
}

#[test]
fn a_revocation_reaches_all_although_its_origin_dies() {
    survives(&["revoker"], &[2, 3]);
}

#[test]
fn an_agreement_says_the_same_everywhere() {
    survives(&["agree"], &[2, 3]);
}

#[test]
fn an_agreement_is_uniform_whenever_its_coordinators_die() {
    for micros in ["0", "50", "200", "1000", "5000"] {
        survives(&["coordinators", micros], &[2, 3]);
    }
}

#[test]
fn what_is_left_is_shrunk_and_works() {
    for micros in ["0", "300", "3000"] {
        survives(&["survive", micros], &[1, 3]);
    }
}

/// Two ranks are killed from outside, at any moment.
#[test]
fn ranks_that_are_killed_are_survived() {
    let binary = program();
    for (driver, pause) in [("shm", 0), ("tcp", 0), ("shm", 30)] {
        let mark = format!("MAD_TEST_MARK=ulfm-{driver}-{pause}-{}", std::process::id());
        let (name, value) = mark.split_once('=').unwrap();
        let mut launcher = mad(&["run", "-n", "4", "--keep-going", "--driver", driver])
            .arg(binary)
            .arg("killed")
            .env(name, value)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(launcher.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        for rank in [0, 3] {
            let own = processes_with(&format!("PMI_RANK={rank}"));
            let victim = processes_with(&mark).into_iter().find(|pid| own.contains(pid)).unwrap();
            // SAFETY: takes no pointers; the process is this test's.
            unsafe { libc::kill(victim as i32, libc::SIGKILL) };
            std::thread::sleep(Duration::from_millis(pause));
        }
        let mut said: Vec<String> = lines.map(Result::unwrap).collect();
        said.sort_unstable();
        assert_eq!(said, ["rank 1: ok", "rank 2: ok"], "over {driver}");
        assert_eq!(launcher.wait().unwrap().code(), Some(0));
        assert!(eventually(|| processes_with(&mark).is_empty()), "processes remain");
    }
}
