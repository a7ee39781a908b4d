//! What the `mad` command does with what users type, right or wrong.

mod common;

use std::io::Read;
use std::process::{Command, Stdio};

use common::{err, mad, out, run};

#[test]
fn help_of_every_subcommand_has_examples() {
    for sub in ["run", "bench", "demo", "trace", "topo", "knobs", "doctor"] {
        let output = run(&[sub, "--help"]);
        assert_eq!(output.status.code(), Some(0), "{sub}");
        assert!(out(&output).contains("Example"), "{sub}: {}", out(&output));
    }
    assert!(out(&run(&["--help"])).contains("Examples"));
}

#[test]
fn wrong_usage_is_status_2_and_says_what_is_wrong() {
    let cases: &[(&[&str], &str)] = &[
        (&[], "Usage"),
        (&["frobnicate"], "frobnicate"),
        (&["run"], "PROGRAM"),
        (&["run", "-n", "0", "true"], "0"),
        (&["run", "-n", "-1", "true"], "-1"),
        (&["run", "-n", "99999999999999999999", "true"], "99999999999999999999"),
        (&["run", "-n", "two", "true"], "two"),
        (&["run", "--driver", "carrier-pigeon", "true"], "shm"),
        (&["run", "--driver", "local", "-n", "2", "true"], "local"),
        (&["run", "--mode", "quantum", "true"], "no-thread"),
        (&["run", "--timeout", "soon", "true"], "soon"),
        (&["run", "--timeout", "-1", "true"], "-1"),
        (&["run", "--timeout", "NaN", "true"], "NaN"),
        (&["run", "--frobnicate", "true"], "frobnicate"),
        (&["bench"], "NAME"),
        (&["bench", "frobnicate"], "overlap"),
        (&["bench", "overlap", "--driver", "carrier-pigeon"], "shm|tcp"),
        (&["bench", "overlap", "--side", "left"], "receiver"),
        (&["bench", "overlap", "--size", "0"], "--size"),
        (&["bench", "overlap", "--size", "4,,8"], "--size"),
        (&["bench", "overlap", "--size", "9999999999999999999999"], "--size"),
        (&["bench", "overlap", "--mode", "quantum"], "smp"),
        (&["bench", "overlap", "--policy", "clairvoyant"], "auto"),
        (&["bench", "overlap", "--progression", "2"], "--progression"),
        (&["bench", "overlap", "--threads", "2"], "--compute-us"),
        (&["bench", "overlap", "--iters", "0"], "0"),
        (&["bench", "overlap", "--rounds", "many"], "many"),
        (&["bench", "overhead", "--mode", "mono", "--method", "block"], "combinations"),
        (&["bench", "reactivity", "--mode", "no-thread"], "mono|smp"),
        (&["bench", "frobnicate"], "waiting"),
        (&["bench", "overlap", "--frobnicate"], "--compute-us"),
        (&["bench", "waiting", "--workload", "some"], "together"),
        (&["bench", "locking", "--lock", "finest"], "coarse"),
        (&["bench", "locking", "--library", "newmad"], "--lock"),
        (&["bench", "delegation", "--mode", "no-thread"], "mono|smp"),
        (&["bench", "delegation", "--method", "oracle"], "task"),
        (&["bench", "events", "--method", "telepathy"], "eventfd"),
        (&["bench", "events", "--between", "friends"], "processes"),
        (&["bench", "events", "--peers"], "threads"),
        (&["bench", "latency", "--peers", "--library", "newmad"], "not both"),
        (&["bench", "rpc", "--peers-dir", "/"], "latency"),
        (&["bench", "overlap", "--timeout", "soon"], "soon"),
        (&["bench", "overlap", "--iters", "1", "--compare", "/nonexistent"], "/nonexistent"),
        (&["report", "--frobnicate"], "--only"),
        (&["report", "--only", "frobnicate"], "overlap"),
        (&["report", "--from", "/nonexistent"], "/nonexistent"),
        (&["topo", "extra"], "extra"),
        (&["knobs", "--json", "--markdown"], "--markdown"),
        (&["doctor", "--cure"], "--cure"),
        (&["worker", "not json"], "mad bench"),
    ];
    for (args, expected) in cases {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", err(&output));
        assert!(err(&output).contains(expected), "{args:?}: {}", err(&output));
        assert!(!err(&output).contains("panicked"), "{args:?}: {}", err(&output));
        assert_eq!(out(&output), "", "{args:?}");
    }
}

/// Most of these ended in a panic before a worker checked what it is told.
#[test]
fn a_worker_refuses_what_mad_bench_would_not_ask_for() {
    let whole = |bench: &str, points: &str, iters: u64| {
        format!(r#"{{"bench":"{bench}","points":[{points}],"iters":{iters},"peers_dir":null}}"#)
    };
    let size = |size: &str| {
        format!(
            r#"[0,{{"driver":"shm","mode":"smp","policy":"auto","progression":1,"lock":"auto","library":"newmad"{size}}}]"#
        )
    };
    let trips = r#"[7,{"driver":"shm","mode":"smp","policy":"auto","library":"newmad","workload":"turns","threads":0,"size":4}]"#;
    let cases = [
        (whole("latency", &size(""), 1), "point 0 has no \"size\""),
        (whole("latency", &size(r#","size":"4""#), 1), "a number of bytes up to 1 GB"),
        (whole("latency", &size(r#","size":0"#), 1), "has 0 for \"size\""),
        (whole("latency", &size(r#","size":4"#), u64::MAX), "iters is 18446744073709551615"),
        (whole("latency", "", 1), "no point"),
        (whole("mt_latency", trips, 1), "point 7 has 0 for \"threads\""),
        (whole("frobnicate", "", 1), "frobnicate"),
    ];
    for (spec, expected) in &cases {
        let output = run(&["worker", spec]);
        assert_eq!(output.status.code(), Some(2), "{spec}: {}", err(&output));
        assert!(err(&output).contains(expected), "{spec}: {}", err(&output));
        assert!(!err(&output).contains("panicked"), "{spec}: {}", err(&output));
    }
}

#[test]
fn a_worker_names_the_number_of_processes_that_its_bench_takes() {
    let spec = r#"{"bench":"overlap","points":[[0,{"driver":"shm","mode":"smp","policy":"auto","progression":1,"library":"newmad","compute_us":0,"side":"both","size":4}]],"iters":1}"#;
    let output = run(&["run", "-n", "3", env!("CARGO_BIN_EXE_mad"), "worker", spec]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(err(&output).contains("takes 2 processes, and this session has 3"), "{}", err(&output));
    assert!(!err(&output).contains("panicked"), "{}", err(&output));
}

#[test]
fn arguments_that_are_not_text_are_survived() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let bad = OsStr::from_bytes(b"\xff\xfe");
    for before in [&["bench"][..], &["bench", "overlap", "--size"], &["run", "-n"], &["run"], &[]] {
        let output = mad(before).arg(bad).output().unwrap();
        assert!(matches!(output.status.code(), Some(1 | 2)), "{before:?}: {}", err(&output));
        assert!(!err(&output).contains("panicked"), "{before:?}: {}", err(&output));
    }
}

#[test]
fn nobody_reading_is_no_panic() {
    for args in [
        &["knobs"][..],
        &["knobs", "--json"],
        &["topo"],
        &["doctor", "--json"],
        &["bench", "--list"],
        &["--help"],
    ] {
        let mut child = mad(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut text = String::new();
        child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        child.wait().unwrap();
        assert!(!text.contains("panicked"), "{args:?}: {text}");
    }
}

#[test]
fn knobs_are_listed_in_three_ways() {
    let table = out(&run(&["knobs"]));
    let markdown = out(&run(&["knobs", "--markdown"]));
    let json = out(&run(&["knobs", "--json"]));
    for name in ["MARCEL_MODE", "PIOM_TIMER_PERIOD", "PIOM_BUSY_WAIT_USEC", "NMAD_DRIVER"] {
        assert!(table.contains(name), "{name}: {table}");
        assert!(markdown.contains(&format!("| `{name}` |")), "{name}: {markdown}");
        assert!(json.contains(name), "{name}: {json}");
    }
    for line in json.lines() {
        let knob: serde_json::Value = serde_json::from_str(line).unwrap();
        for key in ["crate", "knob", "default", "from", "accepts", "meaning", "unit"] {
            assert!(knob[key].is_string(), "{key}: {line}");
        }
        assert_eq!(knob["from"], "default", "{line}");
    }
}

#[test]
fn a_wrong_knob_is_named_and_status_1() {
    let output = mad(&["knobs"]).env("PIOM_TIMER_PERIOD", "often").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("PIOM_TIMER_PERIOD=\"often\""), "{}", err(&output));
    let output = mad(&["knobs", "--json"]).env("PIOM_TIMER_PERIOD", "1000").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let line = out(&output).lines().find(|l| l.contains("PIOM_TIMER_PERIOD")).unwrap().to_owned();
    let knob: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (knob["from"].as_str(), knob["value"].as_str()),
        (Some("environment"), Some("1000"))
    );
}

#[test]
fn a_misspelt_knob_is_warned_of_once_with_the_nearest_name() {
    let hello = common::example("hello");
    let misspelt = [("NMAD_DRIVERS", "tcp"), ("PIOM_POLICI", "x"), ("MARCEL_XYZZY", "1")];
    // The launcher warns for the processes that it starts, a process without a launcher for itself.
    for mut command in [mad(&["run", "-n", "2", hello.to_str().unwrap()]), common::alone(&hello)] {
        let output = command.envs(misspelt).output().unwrap();
        let text = err(&output);
        assert!(output.status.success(), "{text}");
        for (name, _) in misspelt {
            assert_eq!(text.matches(&format!("{name} in the environment")).count(), 1, "{text}");
        }
        for (name, meant) in [("NMAD_DRIVERS", "NMAD_DRIVER"), ("PIOM_POLICI", "PIOM_POLICY")] {
            let hint = format!("{name} in the environment is ignored");
            let line = text.lines().find(|line| line.contains(&hint)).unwrap();
            assert!(line.contains(&format!("is {meant} meant?")), "{line}");
        }
        let line = text.lines().find(|line| line.contains("MARCEL_XYZZY")).unwrap();
        assert!(!line.contains("meant"), "{line}");
    }
    let output = mad(&["knobs"]).envs(misspelt).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("NMAD_DRIVERS"), "{}", err(&output));
    // A name that a program's shell sets is seen by that program.
    let script = format!("NMAD_LOK=fine {}", hello.display());
    let output = mad(&["run", "-n", "1", "sh", "-c", &script]).envs(misspelt).output().unwrap();
    assert_eq!(err(&output).matches("is NMAD_LOCK meant?").count(), 1, "{}", err(&output));
    assert_eq!(err(&output).matches("is NMAD_DRIVER meant?").count(), 1, "{}", err(&output));
}

#[test]
fn topo_shows_the_cores_that_are_allowed() {
    let topo: serde_json::Value = serde_json::from_str(&out(&run(&["topo", "--json"]))).unwrap();
    let cpus = topo["allowed_cpus"].as_array().unwrap();
    assert!(!cpus.is_empty());
    assert_eq!(topo["nodes"][0]["level"], "machine");
    let text = out(&run(&["topo"]));
    assert!(text.contains("machine") && text.contains("virtual processor"), "{text}");
}

#[test]
fn doctor_says_what_files_go_by_and_the_way_out() {
    let output = mad(&["doctor", "--json"]).env("PIOM_URING", "0").output().unwrap();
    let said = out(&output);
    let line = said.lines().find(|line| line.contains("\"io_uring\"")).unwrap();
    for word in ["lacking", "not in use", "PIOM_URING=0", "kernel.io_uring_disabled=0"] {
        assert!(line.contains(word), "{line}");
    }
}

/// Compiles a program of one function `main`, and a library with variables that it uses.
fn compile(folder: &std::path::Path, flags: &[&str]) -> String {
    let place = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let library =
        "int counter = 1; static int hidden[100]; int next(void) { return hidden[0] += counter; }";
    std::fs::write(place("next.c"), library).unwrap();
    let program = "extern int counter; int next(void); int main(void) { return next() + counter; }";
    std::fs::write(place("main.c"), program).unwrap();
    for arguments in [
        vec!["-fPIC", "-shared", "-o", "libnext.so", "next.c"],
        [&["-o", "main", "main.c", "-L.", "-lnext", "-Wl,-rpath,$ORIGIN"], flags].concat(),
    ] {
        let status = Command::new("cc").args(&arguments).current_dir(folder).status().unwrap();
        assert!(status.success(), "{arguments:?}");
    }
    place("main")
}

#[test]
fn doctor_says_whether_a_program_can_run_as_ranks_and_what_they_would_share() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), &[]);
    let lines = |output: &std::process::Output| -> Vec<serde_json::Value> {
        out(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let output = run(&["doctor", &program, "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let findings = lines(&output);
    let checks: Vec<_> = findings.iter().map(|f| f["check"].as_str().unwrap()).collect();
    assert_eq!(checks, ["ranks_as_threads", "shared_data", "parted_data"]);
    assert_eq!(findings[0]["status"], "ok");
    let shared = findings[1]["found"].as_str().unwrap();
    assert!(shared.contains("libnext.so (") && shared.contains("bytes of variables: counter"));
    assert_eq!(findings[2]["found"], "counter");
    let text = out(&run(&["doctor", &program]));
    assert!(text.contains("it can run several times in one process"), "{text}");
    assert!(!text.contains("timer_signal"), "only of the program: {text}");

    let program = compile(folder.path(), &["-no-pie"]);
    let findings = lines(&run(&["doctor", &program, "--json"]));
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0]["status"], "lacking");
    assert!(findings[0]["found"].as_str().unwrap().contains("fixed addresses"));
    assert!(findings[0]["advice"].as_str().unwrap().contains("link with -pie"));
    // What every refusal recommends is a command that there is.
    assert!(out(&run(&["run", "--help"])).contains("-n"));

    let output = run(&["doctor", "/no/such/program"]);
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("/no/such/program: No such file"), "{errors}");
}

#[test]
fn doctor_gives_a_finding_per_check() {
    let output = run(&["doctor", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let mut checks = Vec::new();
    for line in out(&output).lines() {
        let finding: serde_json::Value = serde_json::from_str(line).unwrap();
        let status = finding["status"].as_str().unwrap();
        assert!(["ok", "limited", "lacking"].contains(&status), "{line}");
        assert_eq!(
            status == "ok",
            finding["advice"].is_null(),
            "each lack says what to do: {line}"
        );
        checks.push(finding["check"].as_str().unwrap().to_owned());
    }
    for check in ["cross_memory_attach", "timer_signal", "memfd", "open_files", "verbs"] {
        assert!(checks.iter().any(|c| c == check), "{check}: {checks:?}");
    }
}
