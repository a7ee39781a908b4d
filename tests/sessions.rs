//! Whole sessions under `mad run`: the protocols by which ranks meet, many of them, jobs inside jobs.

mod common;
#[path = "../newmad-rs/tests/common/managers.rs"]
mod managers;

use std::time::Duration;

use common::{err, example, mad, out};

/// Each rank of `examples/hello` prints one such line.
fn assert_everybody_said_hello(text: &str, ranks: usize, times: usize) {
    for rank in 0..ranks {
        let line = format!("rank {rank} of {ranks}: ten green threads make 385");
        assert_eq!(text.matches(&line).count(), times, "{line}: {text}");
    }
}

#[test]
fn ranks_meet_by_either_version_of_pmi() {
    let hello = example("hello");
    for version in ["pmi1", "pmi2"] {
        let output = mad(&["run", "-n", "3", hello.to_str().unwrap()])
            .env("NMAD_BOOTSTRAP", version)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{version}: {}", err(&output));
        assert_everybody_said_hello(&out(&output), 3, 1);
    }
}

#[test]
fn sixty_four_ranks_meet_on_one_machine() {
    let hello = example("hello");
    for driver in ["shm", "tcp"] {
        // That they meet, however late the last one gets a core.
        let output = mad(&["run", "-n", "64", "--driver", driver, hello.to_str().unwrap()])
            .env("NMAD_CONNECT_TIMEOUT_MS", "600000")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{driver}: {}", err(&output));
        assert_everybody_said_hello(&out(&output), 64, 1);
    }
}

#[test]
fn jobs_inside_the_jobs_of_other_process_managers_are_on_their_own() {
    let slurm = ["pmi2", "pmix", "none"].map(|kind| managers::slurm(2, kind));
    for mut manager in [managers::hydra(2), managers::prrte(2)].into_iter().chain(slurm).flatten() {
        manager.arg(env!("CARGO_BIN_EXE_mad")).args(["run", "-n", "3"]).arg(example("hello"));
        let ended = managers::run(&mut manager, Duration::from_secs(120));
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        assert_everybody_said_hello(&ended.text, 3, 2);
    }
}

#[test]
fn slurm_starts_the_stencil_on_one_node_and_on_two() {
    for kind in ["pmi2", "pmix"] {
        for (driver, nodes) in [("shm", "1"), ("tcp", "2")] {
            let Some(mut manager) = managers::slurm(4, kind) else { return };
            manager
                .args(["-N", nodes])
                .arg(example("stencil"))
                .args(["--size", "64", "--steps", "20"]);
            let ended = managers::run(manager.env("NMAD_DRIVER", driver), Duration::from_secs(120));
            assert_eq!(ended.code, Some(0), "{kind} {driver}: {ended:#?}");
            assert!(
                ended.text.contains("equal to the sequential result in every bit"),
                "{ended:#?}"
            );
        }
    }
}
