//! Programs in C on madmpi: each of `madmpi-rs/tests/c` prints what its `.expected` file says, compiled by our
//! `mpicc` and run by `mad run`; and, with `MAD_TEST_PEERS=1` and where they are installed, on Open MPI and MPICH too,
//! so that the expectation is MPI's and not ours.
//!
//! The first line of a program says how it is run: `/* np: 2 */`; `peers: no`: the other libraries here do not have
//! all of it; `peers: mpich`: only that one has.

mod common;
#[path = "../newmad-rs/tests/common/managers.rs"]
mod managers;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::madmpi::{compile, prefix};
use common::programs::{OTHERS, Program, check, run, timed};

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/madmpi-rs/tests/c");

fn programs() -> Vec<Program> {
    common::programs::programs(PROGRAMS, &["c"])
}

/// The drivers that programs are run over: `NEWMAD_TEST_DRIVERS` (`ci/verbs.sh`), else the usual ones.
fn drivers() -> Vec<String> {
    let drivers = std::env::var("NEWMAD_TEST_DRIVERS").unwrap_or("shm,tcp".into());
    drivers.split(',').map(str::to_owned).collect()
}

/// A program in which something fails, compiled.
fn faulty(name: &str) -> String {
    let source = Path::new(PROGRAMS).join("faults").join(name).with_extension("c");
    let binary = compile(&prefix().join("bin/mpicc"), &source, "madmpi");
    binary.to_str().expect("a path in UTF-8").to_owned()
}

#[test]
fn programs_print_what_mpi_says() {
    for driver in drivers() {
        for program in programs() {
            let binary = compile(&prefix().join("bin/mpicc"), &program.source, "madmpi");
            let binary = binary.to_string_lossy();
            let args = ["run", "-n", &program.processes, "--driver", &driver, &binary];
            let output = run(common::mad(&args), &program, &driver);
            check(&output, &program, &driver);
        }
    }
}

/// The same files, as ranks that share a process: all of them, or two in each of two processes.
#[test]
fn programs_print_the_same_when_ranks_share_processes() {
    for program in programs().iter().filter(|program| program.shares) {
        let binary = compile(&prefix().join("bin/mpicc"), &program.source, "madmpi");
        let binary = binary.to_string_lossy();
        let ranks: u32 = program.processes.parse().expect("a number of processes");
        for each in [2, 4].into_iter().filter(|each| ranks.is_multiple_of(*each)) {
            let label = format!("{each} ranks a process");
            let each = each.to_string();
            let args = ["run", "-n", &program.processes, "--ranks-per-process", &each, &binary];
            let output = run(common::mad(&args), program, &label);
            check(&output, program, &label);
        }
    }
}

#[test]
fn other_libraries_print_the_same() {
    if !common::programs::peers_are_asked_for() {
        return;
    }
    for (label, launcher, options) in OTHERS {
        let compiler = format!("mpicc.{label}");
        // Its commands may be there without its headers: they are another package.
        let includes = ["-include", "mpi.h", "-E", "-x", "c", "/dev/null"];
        if !Command::new(&compiler).args(includes).output().is_ok_and(|made| made.status.success())
        {
            eprintln!("SKIPPED: {label} is not installed");
            continue;
        }
        for program in programs() {
            if !program.runs_on(&[label]) {
                continue;
            }
            let binary = compile(Path::new(&compiler), &program.source, label);
            let mut command = Command::new(launcher);
            command.args(*options).args(["-n", &program.processes]).arg(binary);
            // They poll without end: where cores are short some take minutes, which says nothing about the program.
            command.env("OMPI_MCA_mpi_yield_when_idle", "1");
            let output = timed(command);
            if output.status.code() == Some(124) {
                eprintln!("SKIPPED: {} takes too long on {label} here", program.source.display());
                continue;
            }
            let said = common::err(&output);
            assert!(output.status.success(), "{} on {label}: {said}", program.source.display());
            check(&output, &program, label);
        }
    }
}

/// A program of `tests/bench`, compiled by our `mpicc`.
fn bench(name: &str) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("madmpi-rs/tests/bench").join(name);
    compile(&prefix().join("bin/mpicc"), &source, "bench").to_string_lossy().into_owned()
}

fn words(args: &[&str]) -> Vec<String> {
    let output = common::mad(args).output().expect("mad runs");
    assert!(output.status.success(), "{args:?}: {}{}", common::out(&output), common::err(&output));
    common::out(&output).split_whitespace().map(str::to_owned).collect()
}

/// A program of `tests/c` that has arguments, compiled by our `mpicc`, run over each driver: what it prints.
fn computing(name: &str, args: &[&str]) -> [(&'static str, Vec<String>); 2] {
    let source = Path::new(PROGRAMS).join(name);
    let program = compile(&prefix().join("bin/mpicc"), &source, "madmpi");
    let program = program.to_string_lossy();
    ["shm", "tcp"].map(|driver| {
        let run = ["run", "-n", "2", "--driver", driver, &program];
        (driver, words(&[&run, args].concat()))
    })
}

/// The receiver, then the sender, computes without a call until the other side's blocking call has returned.
#[test]
fn large_messages_arrive_while_a_side_computes() {
    for (driver, found) in computing("compute_large.c", &["1048576", "3"]) {
        assert_eq!(found, ["send", "3", "recv", "3"], "{driver}");
    }
}

/// One-sided accesses do not wait for their target, which computes without a call until they are over.
#[test]
fn one_sided_accesses_are_over_while_the_target_computes() {
    let kinds = ["put", "get", "accumulate", "fetch", "long_put", "long_get"];
    for (driver, found) in computing("compute_target.c", &["3"]) {
        let all: Vec<&str> =
            [kinds, kinds].concat().into_iter().flat_map(|kind| [kind, "3"]).collect();
        assert_eq!(found, all, "{driver}");
    }
}

/// Four threads of each rank call at once for this time, with each driver.
fn four_threads_call(seconds: &str) {
    let program = bench("threads.c");
    for driver in ["shm", "tcp"] {
        let found = words(&["run", "-n", "2", "--driver", driver, &program, seconds, "4"]);
        assert_eq!(found[2..], ["no", "error"], "{driver}");
    }
}

#[test]
fn four_threads_of_each_rank_call_at_once() {
    four_threads_call("5");
}

#[test]
#[ignore = "two minutes: cargo test -p mad-cli --test mpi -- --ignored four_threads"]
fn four_threads_of_each_rank_call_for_a_minute() {
    four_threads_call("60");
}

/// The same binary under the process managers of others.
#[test]
fn other_launchers_start_the_same_binary() {
    let program =
        programs().into_iter().find(|program| program.source.ends_with("ring.c")).expect("ring.c");
    let binary = compile(&prefix().join("bin/mpicc"), &program.source, "launched");
    let processes = program.processes.parse().expect("a number of processes");
    let slurm = ["pmi2", "pmix"].map(|kind| managers::slurm(processes, kind));
    let others = [managers::hydra(processes), managers::prrte(processes)];
    for mut command in others.into_iter().chain(slurm).flatten() {
        command.arg(&binary);
        let label = format!("{command:?}");
        let output = run(command, &program, &label);
        check(&output, &program, &label);
    }
}

/// Slurm leaves the others alone: they are told, srun names the failed rank, and no rank hangs.
#[test]
fn slurm_says_who_ends_out_of_order() {
    let source = Path::new(PROGRAMS).join("faults/ends.c");
    let binary = compile(&prefix().join("bin/mpicc"), &source, "slurm");
    for kind in ["pmi2", "pmix"] {
        for (mode, status, told, said) in [
            ("abort", 7, "it is gone", "task 1: Exited with exit code 7"),
            ("killed", 128 + 9, "it is gone", "task 1: Killed"),
            ("leave", 0, "it is gone", ""),
            ("finalize", 0, "nothing", ""),
        ] {
            let Some(mut command) = managers::slurm(2, kind) else { return };
            command.arg("--kill-on-bad-exit=0").arg(&binary).arg(mode);
            let output = timed(command);
            let (out, err) = (common::out(&output), common::err(&output));
            assert_eq!(output.status.code(), Some(status), "{mode} by {kind}: {out}{err}");
            assert_eq!(out, format!("told: {told}\n"), "{mode} by {kind}: {err}");
            assert!(err.contains(said), "{mode} by {kind}: {err}");
        }
    }
}

/// Compiled by another library that has the ABI, with its header, against its shared library: run on ours.
#[test]
fn a_binary_made_for_another_library_runs_unchanged() {
    let Some(compiler) = std::env::var_os("MAD_TEST_MPICC_ABI").map(PathBuf::from) else {
        eprintln!(
            "SKIPPED: MAD_TEST_MPICC_ABI does not name the mpicc_abi of another library (ci/abi-wrapper.sh installs one)"
        );
        return;
    };
    for program in programs().into_iter().filter(|program| program.peers.is_empty()) {
        let binary = compile(&compiler, &program.source, "other");
        let binary = binary.to_string_lossy();
        let mut command = common::mad(&["run", "-n", &program.processes, &binary]);
        command.env("LD_LIBRARY_PATH", prefix().join("lib"));
        let output = run(command, &program, "a binary of MPICH's compiler");
        check(&output, &program, "a binary of MPICH's compiler");
    }
}

/// The kernel counts memory that processes share as a file, and ends a process that exceeds the limit. The second limit is
/// below what a copy of the program needs, where ranks share processes.
#[test]
fn a_limit_on_the_size_of_files_is_named() {
    let source = Path::new(PROGRAMS).join("ring.c");
    let binary = compile(&prefix().join("bin/mpicc"), &source, "madmpi");
    let mad = common::mad(&[]).get_program().to_string_lossy().into_owned();
    for (limit, each) in [("100", "1"), ("4", "2")] {
        let script = format!(
            "ulimit -f {limit}; exec {mad} run -n 2 --driver shm --ranks-per-process {each} \"$0\""
        );
        let mut command = common::alone("sh");
        command.args(["-c", &script]).arg(&binary);
        let output = timed(command);
        let err = common::err(&output);
        assert!(!output.status.success() && err.contains("`ulimit -f`"), "{each}: {err}");
        assert!(!err.contains("was killed by"), "{each}: {err}");
    }
}

/// What happens when a process does not come to its end in order: the others are told, or the launcher names it.
#[test]
fn who_ends_out_of_order_is_named_and_nobody_hangs() {
    let binary = faulty("ends");
    let gone = "told: it is gone\n";
    // How, its exit status, what rank 0 says, what the job says of it.
    for (mode, status, told, said) in [
        ("early", 16, "", "MPI_Comm_rank: was called before MPI_Init"),
        ("late", 16, "", "MPI_Comm_rank: was called after MPI_Finalize"),
        ("abort", 7, gone, "rank 1: MPI_Abort: the program ends the job with code 7"),
        ("zero", 1, gone, "rank 1: MPI_Abort: the program ends the job with code 0"),
        ("fatal", 6, "", "rank 1: MPI_Send: argument dest is 1000"),
        ("mute abort", 7, gone, "mad run: rank 1"),
        ("mute fatal", 6, "", "mad run: rank 1"),
        ("unread abort", 7, gone, "mad run: rank 1"),
        ("killed", 1, gone, "mad run: rank 1"),
        ("leave", 0, gone, ""),
        ("any", 0, gone, ""),
        ("collective", 0, gone, ""),
        ("finalize", 0, "told: nothing\n", ""),
    ] {
        for driver in ["shm", "tcp"] {
            let command = common::mad(&["run", "-n", "2", "--driver", driver, &binary, mode]);
            let output = timed(command);
            let (out, err) = (common::out(&output), common::err(&output));
            assert_eq!(output.status.code(), Some(status), "{mode} over {driver}: {out}{err}");
            // The launcher may end rank 0 before it says anything, where the other one has failed.
            assert!(
                out == told || out.is_empty() && status != 0,
                "{mode} over {driver}: {out}{err}"
            );
            assert!(err.contains(said), "{mode} over {driver}: {err}");
        }
    }
}

/// A process ends inside an epoch of a window: the others' calls fail in time, with each synchronisation.
#[test]
fn a_process_that_ends_inside_an_epoch_is_an_error_of_the_others() {
    let binary = faulty("win_ends");
    let modes = [
        "fence",
        "start",
        "complete",
        "post",
        "both",
        "freed",
        "wait",
        "holder",
        "lock_all",
        "unlock_all",
        "flush",
        "again",
        "created",
        "request",
        "accumulate",
        "half",
        "queue",
    ];
    for driver in ["shm", "tcp"] {
        for mode in modes {
            if mode == "queue" && driver == "shm" {
                continue; // whose turn it was is not known where the queue is memory
            }
            for how in ["leave", "killed"] {
                let args = ["run", "-n", "3", "--driver", driver, &binary, mode, how];
                let mut command = common::mad(&args);
                if mode == "half" {
                    // Everything is announced, and asked for.
                    command.env("NMAD_RDV_THRESHOLD", "0");
                }
                let output = timed(command);
                let (out, err) = (common::out(&output), common::err(&output));
                let mut told: Vec<&str> = out.lines().collect();
                told.sort_unstable();
                let label = format!("{mode} over {driver}, {how}: {out}{err}");
                let line = |rank: u32| format!("rank {rank}: it is gone; free: it is gone");
                if how == "leave" {
                    assert_eq!(output.status.code(), Some(0), "{label}");
                    assert_eq!(told, [line(0), line(2)], "{label}");
                } else {
                    // The launcher may end the others before they say anything.
                    assert_eq!(output.status.code(), Some(1), "{label}");
                    let expected = [line(0), line(2)];
                    assert!(told.iter().all(|&said| expected.iter().any(|e| e == said)), "{label}");
                    assert!(err.contains("mad run: rank 1"), "{label}");
                }
            }
        }
    }
}

/// A process of two sides ends: those of both are told, also where they wait for one that lives.
#[test]
fn a_process_that_ends_is_an_error_on_both_sides() {
    let binary = faulty("inter_ends");
    // The process that ends, and the one that has nothing to do beside the root. Late: it ends inside the call.
    let calls = [
        ("dup", "1", None),
        ("merge", "3", None),
        ("split", "1", None),
        ("create", "3", None),
        ("merge", "1 late", None),
        ("create", "1 late", None),
        ("disconnect", "1", None),
        ("bcast", "0", Some('1')),
        ("reduce", "3", Some('1')),
        ("allreduce", "1", None),
        ("reduce_scatter", "3", None),
        ("iallreduce", "1", None),
        ("again", "1", None),
    ];
    for driver in ["shm", "tcp"] {
        for (call, ends, idle) in calls {
            let args = ["run", "-n", "4", "--driver", driver, &binary, call];
            let args: Vec<&str> = args.into_iter().chain(ends.split(' ')).collect();
            let output = timed(common::mad(&args));
            let (out, err) = (common::out(&output), common::err(&output));
            let label = format!("{call} over {driver}, {ends}: {out}{err}");
            assert_eq!(output.status.code(), Some(0), "{label}");
            let mut told: Vec<&str> = out.lines().collect();
            told.sort_unstable();
            if call == "create" || ends.ends_with("late") {
                // It may be made all the same, where its members have what the process that ends had to say: what matters is
                // that no rank waits.
                assert_eq!(told.len(), 3, "{label}");
                continue;
            }
            let says = |rank| if Some(rank) == idle { "nothing" } else { "it is gone" };
            let others = "0123".chars().filter(|&rank| !ends.starts_with(rank));
            let expected: Vec<_> =
                others.map(|rank| format!("rank {rank}: {}", says(rank))).collect();
            assert_eq!(told, expected, "{label}");
        }
    }
}

/// A process ends inside a call on a file that needs all: the others' calls fail in time, what was written before is there,
/// and the file can be closed.
#[test]
fn a_process_that_ends_inside_an_access_to_a_file_is_an_error_of_the_others() {
    let binary = faulty("file_ends");
    let modes = ["open", "before", "inside", "request", "split", "ordered", "view", "close"];
    for driver in ["shm", "tcp"] {
        for mode in modes {
            for how in ["leave", "killed"] {
                let file =
                    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("file-ends-{driver}"));
                let name = file.to_string_lossy();
                let args = ["run", "-n", "3", "--driver", driver, &binary, mode, how, &name];
                let output = timed(common::mad(&args));
                let _ = std::fs::remove_file(&file); // `open` may not have made it
                let (out, err) = (common::out(&output), common::err(&output));
                let mut told: Vec<&str> = out.lines().collect();
                told.sort_unstable();
                let label = format!("{mode} over {driver}, {how}: {out}{err}");
                let rest = if mode == "open" { "" } else { "; before: there; close: it is gone" };
                let line = |rank: u32| format!("rank {rank}: it is gone{rest}");
                let expected = [line(0), line(2)];
                if how == "leave" {
                    assert_eq!(output.status.code(), Some(0), "{label}");
                    assert_eq!(told, expected, "{label}");
                } else {
                    // The launcher may end the others before they say anything.
                    assert_eq!(output.status.code(), Some(1), "{label}");
                    assert!(told.iter().all(|&said| expected.iter().any(|e| e == said)), "{label}");
                    assert!(err.contains("mad run: rank 1"), "{label}");
                }
            }
        }
    }
}

/// With `NMAD_CHECK=1` members that call different collectives hear of it, instead of waiting for ever.
#[test]
fn members_that_call_different_collectives_are_named() {
    let binary = faulty("mismatch");
    for mode in ["function", "root", "later"] {
        let mut command = common::mad(&["run", "-n", "2", &binary, mode]);
        command.env("NMAD_CHECK", "1");
        let output = timed(command);
        let (out, err) = (common::out(&output), common::err(&output));
        assert!(output.status.success(), "{mode}: {out}{err}");
        assert!(out.contains("members call different collectives"), "{mode}: {out}{err}");
    }
}
