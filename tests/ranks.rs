//! MPI programs whose ranks share processes (`mad run --ranks-per-process`): how they begin and end. That they compute the
//! same is tested in `mpi.rs`.

mod common;

use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use common::madmpi::{compile, prefix};
use common::{alone, err, example, mad, out};

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
    // Of the ranks that went with it they name the one that they waited for.
    let gone = "is gone: its process ended without closing its session";
    let company = "it was in process 0, with ranks 0 to 1";
    let early = "rank 1 has ended, and has not called MPI_Finalize";
    let table: [(&str, i32, &[&str]); 7] = [
        ("exit", 3, &[early, "process 0", "status 3", gone, company]),
        ("mute", 3, &["process 0", "status 3", gone, company]),
        ("return", 1, &[early, "process 0", gone, company]),
        ("MPI_Abort", 7, &["rank 1: MPI_Abort", "code 7"]),
        ("abort", 1, &["rank 1 has called abort()", "SIGABRT", gone, company]),
        ("address", 1, &["SIGSEGV", gone, company]),
        ("stack", 1, &["'rank 1' has overflowed its stack", gone, company]),
    ];
    for (how, status, says) in table {
        let begun = Instant::now();
        let output = mad(&[
            "run",
            "-n",
            "4",
            "--grace",
            "120",
            "--timeout",
            "100",
            "--ranks-per-process",
            "2",
        ])
        .args([ends, how])
        .output()
        .unwrap();
        let said = err(&output);
        assert_eq!(output.status.code(), Some(status), "{how}: {said}");
        for words in says {
            assert!(said.contains(words), "{how}: {words} is missing: {said}");
        }
        // The others have said it by themselves, and ended: the launcher's grace is longer.
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

    // What does not use it at all; and what starts a program that does.
    let output = mad(&["run", "-n", "2", "--ranks-per-process", "2", "hostname"]).output().unwrap();
    assert_eq!((output.status.code(), out(&output)), (Some(1), String::new()));
    assert!(err(&output).contains("hostname cannot be 2 ranks of a process"), "{}", err(&output));
    let args = ["run", "-n", "2", "--ranks-per-process", "2", "env", "NOTHING=1", ends, "before"];
    let output = mad(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", err(&output));
}

/// Two processes of two ranks: each rank has a track of its own, and its process is called by its ranks.
#[test]
fn a_trace_has_a_track_for_each_rank() {
    let dir = std::env::temp_dir().join(format!("mad-trace-ranks-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let folder = dir.to_string_lossy();
    let args = ["run", "-n", "4", "--ranks-per-process", "2", "--trace", &*folder, ends()];
    let output = mad(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", err(&output));
    let output = mad(&["trace", &*folder]).output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let picture: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    let events = picture["traceEvents"].as_array().unwrap();
    let names = |what: &str| -> Vec<(u64, u64, String)> {
        let named = events.iter().filter(|event| event["name"] == what);
        let named = named.map(|event| {
            let number = |key: &str| event[key].as_u64().unwrap();
            (number("pid"), number("tid"), event["args"]["name"].as_str().unwrap().to_owned())
        });
        named.collect()
    };
    let mut processes = names("process_name");
    processes.sort_by(|one, other| one.2.cmp(&other.2));
    assert_eq!(processes.len(), 2, "{processes:?}");
    for (number, (process, _, label)) in processes.iter().enumerate() {
        let ranks = [2 * number, 2 * number + 1];
        assert!(label.starts_with(&format!("ranks {} to {}", ranks[0], ranks[1])), "{label}");
        for rank in ranks {
            let name = format!("rank {rank}");
            let tracks = names("thread_name");
            let track: Vec<_> =
                tracks.iter().filter(|track| track.0 == *process && track.2 == name).collect();
            assert_eq!(track.len(), 1, "{name}: {tracks:?}");
            let runs = events.iter().filter(|event| {
                event["ph"] == "B" && event["name"] == "runs" && event["tid"] == track[0].1
            });
            let on: Vec<_> = runs.map(|run| run["args"]["on"].as_str().unwrap()).collect();
            assert!(!on.is_empty() && on.iter().all(|on| on.contains("vp")), "{name}: {on:?}");
        }
    }
    std::fs::remove_dir_all(dir).unwrap();
}

/// The hybrid examples: over MPI and over newmad, ranks as processes and as threads of fewer, one line.
#[test]
fn hybrid_examples_compute_the_same_wherever_their_ranks_are() {
    let heat = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/heat.c"));
    let c = compile(&prefix().join("bin/mpicc"), heat, "ranks").to_string_lossy().into_owned();
    let rust = example("heat").to_string_lossy().into_owned();
    let ways: [&[&str]; 6] = [
        &["-n", "1", &c, "501", "40", "1"],
        &["-n", "4", &c, "501", "40", "3"],
        &["-n", "4", "--ranks-per-process", "4", &c, "501", "40", "2"],
        &["-n", "6", "--ranks-per-process", "3", &c, "501", "40", "2"],
        &["-n", "1", &rust, "--cells", "501", "--steps", "40", "--ranks", "5"],
        &["-n", "2", &rust, "--cells", "501", "--steps", "40", "--ranks", "3", "--threads", "3"],
    ];
    let mut lines = Vec::new();
    for way in ways {
        let output = mad(&["run", "--timeout", "60"]).args(way).output().unwrap();
        assert!(output.status.success(), "{way:?}: {}", err(&output));
        lines.push(out(&output));
    }
    assert!(lines[0].starts_with("heat 1000.000000, hottest cell "), "{lines:?}");
    assert!(lines.iter().all(|line| *line == lines[0]), "{lines:?}");
}

/// What a process says on SIGQUIT names each of its ranks, what it waits for, and its call of MPI.
#[test]
fn a_dump_shows_ranks_by_number_with_their_calls() {
    let waits = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/waits.c"));
    let waits = compile(&prefix().join("bin/mpicc"), waits, "ranks");
    let args =
        ["run", "-n", "4", "--ranks-per-process", "2", "--timeout", "15", "--dump-on-timeout"];
    let output = mad(&args).arg("--tag-output").arg(waits).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = err(&output);
    // A thread's part of the dump: from its line to the next empty one of its process.
    let part = |process: &str, thread: &str| -> String {
        let lines = said.lines().filter_map(|line| line.strip_prefix(process));
        let mut lines =
            lines.skip_while(|line| !(line.starts_with("thread ") && line.contains(thread)));
        let head = lines.next().unwrap_or_else(|| panic!("{thread} is not shown: {said}"));
        let rest: Vec<&str> = lines.take_while(|line| !line.trim().is_empty()).collect();
        format!("{head}\n{}", rest.join("\n"))
    };
    let table: [(&str, &str, &[&str]); 4] = [
        ("[0] ", "'rank 0'", &["waiting (", "MPI_Recv"]),
        ("[0] ", "'rank 1'", &["waiting (sleep)"]),
        ("[1] ", "'rank 2'", &["waiting (", "MPI_Barrier"]),
        ("[1] ", "'rank 3'", &["running"]),
    ];
    for (process, rank, says) in table {
        let part = part(process, rank);
        for words in says {
            assert!(part.contains(words), "{rank}: {words} is missing: {part}");
        }
    }
}

/// Threads that a shared library makes for a rank, as C++'s does: the process has had the library from its start.
#[test]
fn threads_of_the_cpp_library_belong_to_their_rank() {
    if !has_cpp() {
        return;
    }
    let source = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/threads.cpp"));
    let program = compile(&prefix().join("bin/mpicxx"), source, "ranks");
    let program = program.to_string_lossy();
    for each in ["1", "2", "4"] {
        let args = ["run", "-n", "4", "--timeout", "120", "--ranks-per-process", each, &program];
        let output = mad(&args).output().unwrap();
        let found = (out(&output), output.status.code());
        let expected = ("4 of 4 threads were their ranks'\n".to_owned(), Some(0));
        assert_eq!(found, expected, "{each}: {}", err(&output));
    }
}

/// A rank has the stack that `ulimit -s` would give its process, or more if the knob says so.
#[test]
fn a_rank_has_as_large_a_stack_as_the_limit_or_the_knob_says() {
    let source = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/stack.c"));
    let program = compile(&prefix().join("bin/mpicc"), source, "ranks");
    for (limit, knob) in [("65536", None), ("8192", Some("65536"))] {
        let mut command = alone("sh");
        command.args(["-c", "ulimit -S -s $0 && exec \"$@\"", limit, env!("CARGO_BIN_EXE_mad")]);
        command.args(["run", "-n", "2", "--ranks-per-process", "2", "--timeout", "60"]);
        command.arg(&program).envs(knob.map(|size| ("MARCEL_STACK_SIZE", size)));
        let output = command.output().unwrap();
        let found = (out(&output), output.status.code());
        assert_eq!(found, ("24 MiB\n".to_owned(), Some(0)), "{limit} {knob:?}: {}", err(&output));
    }
}

/// The process has had the library from its start; its thread-locals are the kernel thread's, on which ranks follow each other.
#[test]
fn a_library_that_calls_exit_ends_the_calling_rank_alone() {
    if !has_cpp() {
        return;
    }
    let fixture =
        |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("leaves");
    std::fs::create_dir_all(&folder).unwrap();
    let (library, program) = (folder.join("libleaves.so"), folder.join("leaves"));
    let made = |command: &mut std::process::Command| {
        let made = command.output().unwrap();
        assert!(made.status.success(), "{command:?}: {}", err(&made));
    };
    let mut compiler = std::process::Command::new("c++");
    made(compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(fixture("leaves.cpp")));
    let mut compiler = std::process::Command::new(prefix().join("bin/mpicc"));
    compiler.args(["-Wall", "-Werror", "-o"]).args([&program, &fixture("leaves.c"), &library]);
    made(&mut compiler);
    let program = program.to_string_lossy();
    for each in ["1", "2"] {
        // Rank 1 is not at its end when rank 0 has failed.
        let bounds = ["--timeout", "120", "--grace", "100"];
        let args = [&["run", "-n", "2", "--ranks-per-process", each], &bounds[..], &[&program]];
        let output = mad(&args.concat()).env("MARCEL_NVP", "1").output().unwrap();
        let text = out(&output);
        let mut lines: Vec<_> = text.lines().collect();
        lines.sort_unstable();
        let expected = ["a text that is too long to be a part of its object", "handler", "handler"];
        assert_eq!(lines, expected, "{each}: {}", err(&output));
        assert_eq!(output.status.code(), Some(3), "{each}: {}", err(&output));
    }
}

/// Whether there is a C++ compiler.
fn has_cpp() -> bool {
    let found = std::process::Command::new("c++").arg("--version").output().is_ok();
    if !found {
        eprintln!("SKIPPED: there is no C++ compiler (apt-get install g++)");
    }
    found
}
